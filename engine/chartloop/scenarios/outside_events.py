"""The events from outside that a scenario sends to its run.

At most one event comes before each action or wait, in the order of the list:

- `cancel`, `pause`, `enqueue` and `set` once `after` steps are finished,
- `send` once `after` steps are finished and the run, or a child machine of it, waits,
- `resume` likewise, when the run is paused. A paused run takes no steps: if `after` is not reached,
  it comes when nothing else can happen.

An event with `at` comes only while the run is in that state. A `delay` passes on the simulated
clock before the event.

Belongs here: when an event comes. Never: what it does to the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.api import Run
from chartloop.core.errors import RunError
from chartloop.run.sync import by_hand
from chartloop.scenarios.file import OutsideEvent


def play(
    run: Run, events: Sequence[OutsideEvent] = (), *, most: int | None = None
) -> list[OutsideEvent]:
    """Drive a run with these events until it rests. Returns the events that never came.

    Errors of the run pass through: `ScriptError`, `AnswerError` and other `RunError`s. `RunError`
    if the run takes more than `most` records.
    """
    left = list(events)
    turns = 0
    if run.status == "idle":
        run.advance()  # the start: before any step
    rests = False
    while not run.ended:
        due = next((e for e in left if _is_due(run, e, rests=rests)), None)
        if due is not None:
            left.remove(due)
            if due.delay:
                clock = run.session.ports.clock
                by_hand(clock.sleep(due.delay))
            _deliver(run, due)
        elif rests:
            break
        rests = run.advance() is None
        turns += 1
        if most is not None and turns > most:
            raise RunError(
                f"the run does not end: it has taken {most:,} records",
                hint="give the machine a rule such as {when: run.steps >= limits.steps, stop: ...}",
            )
    return left


def _is_due(run: Run, event: OutsideEvent, *, rests: bool) -> bool:
    position = run.session.position
    question = position.child_question
    state = run.state if question is None else question.state
    asks = question is not None or position.form is not None
    waits = run.status == "paused" and (asks or state in run.machine.chart.waiting)
    reached = run.facts.run.steps >= event.after and event.at in ("", state)
    match event.kind:
        case "send":
            return reached and waits
        case "resume":
            return run.status == "paused" and not waits and (reached or rests)
        case _:
            return reached


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
        case "enqueue":
            run.enqueue(event.tasks)
        case "set":
            for name, value in event.data.items():
                run.set(name, value)
