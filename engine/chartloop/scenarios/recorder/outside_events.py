"""What came to a recorded run from outside, as the events of a scenario.

Answers, pauses, resumes, cancels, added tasks and edits are in their own records. What the run
did by itself, continuing after a back-off or at a deadline, it does again by itself.

Belongs here: one record. Never: when an event is delivered (`scenarios.outside_events`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chartloop.core.facts import Task
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.units import write_duration

SOON = 1.0
"""Seconds. What came sooner after the record before it comes at once in the scenario."""


def event_of(record: Record, before: Position, previous: float) -> dict[str, Any] | None:
    """The event of a scenario that makes this record; None where nothing came from outside.

    `before` is where the run was then, `previous` when the record before it was made.
    """
    what = _what(record, before)
    if what is None:
        return None
    waited = record.input.at - previous
    late = {"delay": write_duration(round(waited))} if waited >= SOON else {}
    return {"after": before.facts.run.steps, **what, **late}


def _what(record: Record, before: Position) -> dict[str, Any] | None:
    given = record.input
    match record.kind:
        case "answer":
            data = {"data": plain(given.data)} if given.data else {}
            return {"at": before.state, "send": given.event, **data}
        case "pause":
            return {"pause": True}
        case "resume" if before.wake_at is None and not before.blocked_on:
            return {"resume": True}
        case "stop":
            return {"cancel": given.event or "user_requested"}
        case "enqueue":
            return {"enqueue": [task_of(task) for task in given.data["tasks"]]}
        case "edit":
            return {"set": plain(given.data)}
        case _:
            return None


def task_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """A task as it was given: what came of it since is not its giver's to say."""
    given = Task(**data).replace(attempts=0, cycle=0)
    unset = Task.defaults()
    return {n: plain(v) for n, v in given.to_mapping().items() if v != unset.get(n, _MISSING)}


_MISSING = object()
