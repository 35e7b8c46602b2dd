"""What the cases of document 003 share: runs of its two machines on a simulated clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chartloop import Machine, Outcome, Run, load
from chartloop.testing import ManualClock

BUSY = {"error": {"category": "TRANSIENT", "message": "the service is busy"}}
REFUSED = {"error": {"category": "RECOVERABLE", "message": "the request was refused"}}
BROKEN = {"error": {"category": "CRITICAL", "message": "the key is not valid"}}


def moderated(
    *replies: Any,
    tasks: Sequence[Any] = ("Write the parser.",),
    machine: str | Machine = "moderator",
    **options: Any,
) -> Run:
    """A run with these tasks, whose model says `replies`; not a step is done."""
    made = load(machine) if isinstance(machine, str) else machine
    options.setdefault("clock", ManualClock(1_700_000_000))
    return made.start(options.pop("task", ""), tasks=tasks, script=list(replies), **options)


def reply(text: str = "Done.", *, tokens: int = 100, delay: float = 0) -> dict[str, Any]:
    """A reply, what it took in tokens, and how many seconds it takes."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 0}
    return {"text": text, "usage": usage, "delay": f"{delay}s"}


def late(said: Mapping[str, Any], delay: float) -> dict[str, Any]:
    """The same after so many seconds."""
    return {**said, "delay": f"{delay}s"}


def done_at(run: Run, state: str) -> list[Outcome]:
    """The outcomes of a state's action, in order."""
    found = (r.outcome for r in run.records if r.state == state and r.kind == "step")
    return [outcome for outcome in found if outcome is not None]


def upto(run: Run, state: str) -> Run:
    """The run, stepped until it is at a state: a wait is not waited out."""
    while run.state != state:
        run.advance()
    return run


def visits(run: Run) -> dict[str, int]:
    """How often each state was entered, those that were not left out."""
    return {name: count for name, count in run.facts.run.visits.items() if count}
