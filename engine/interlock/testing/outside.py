"""What comes to a run from outside, by the step after which it comes.

One event comes before each action or wait that is due, in the order of the list:

- `cancel` and `pause` as soon as so many steps are finished,
- `send` when so many steps are finished and the run waits,
- `resume` when the run is paused; a paused run takes no steps, so its number only orders it.

Belongs here: when an event comes. Never: what it does to the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.api import Run
from interlock.testing.scenario_file import OutsideEvent


def play(run: Run, events: Sequence[OutsideEvent] = ()) -> list[OutsideEvent]:
    """Drive a run to where it rests, with these events. Gives those that never came.

    Whatever the run raises passes through: `ScriptError`, `AnswerError` and other `RunError`s.
    """
    left = sorted(events, key=lambda e: e.after)  # stable: equals in the order of the list
    run.step()  # the start: before any step
    while not run.ended:
        due = next((e for e in left if _is_due(run, e)), None)
        if due is not None:
            left.remove(due)
            _deliver(run, due)
        if run.step() is None and due is None:
            break
    return left


def _is_due(run: Run, event: OutsideEvent) -> bool:
    waits = run.state in run.machine.chart.waiting and run.status == "paused"
    if event.kind == "resume":
        return run.status == "paused" and not waits
    if event.kind == "send" and not waits:
        return False
    return run.facts.run.steps >= event.after


def _deliver(run: Run, event: OutsideEvent) -> None:
    match event.kind:
        case "send":
            run.send(event.word, event.data)
        case "cancel":
            run.cancel(event.word)
        case "pause":
            run.pause()
        case "resume":
            run.resume()
