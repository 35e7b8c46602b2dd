"""A run that goes on under another machine: a fork whose records are that machine's.

The records of a run belong to one machine. What an earlier machine recorded is decided again from
its inputs, and written as this one decides it, under the names that it has: the new run can be
read, replayed and moved once more without knowing what its states were called before.

Belongs here: writing such a fork. Never: whether a run may go on (`studies.upgrade`).

Imported by: api.continuing, cli
Source: design "architecture", section 4 (`fork`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.core.records import Record
from interlock.machine.build import Chart
from interlock.machine.evolve import evolve
from interlock.run.journal import Event, Journal, RunRow, events_below
from interlock.run.renaming import Names, as_now

ORIGIN = "upgraded"
"""In the data of a `start`: the run that it goes on from, and what was said of the change."""


async def fork_under(
    journal: Journal, run_id: str, record_seq: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any],
) -> None:  # fmt: skip
    """A new run `row` of this machine, with the events of `run_id` below record `record_seq`."""
    events = await journal.events(run_id)
    kept = events[: events_below(events, record_seq)]
    made = [*_as_decided(kept, chart, row.run_id, names, origin)]
    await journal.create(row._replace(parent=run_id, fork_seq=record_seq, head=0, epoch=0))
    epoch = (await journal.acquire(row.run_id)).epoch
    await journal.append(row.run_id, 0, epoch, made, durable=True)


def _as_decided(
    events: Sequence[Event], chart: Chart, run_id: str, names: Names, origin: Mapping[str, Any]
) -> Iterator[Event]:
    """The events with each record as this machine decides it."""
    position = chart.position(run_id)
    for event in events:
        if event.record is None:
            state = names.state(str(event.data.get("state", "")))
            yield event._replace(data={**event.data, "state": state} if state else event.data)
            continue
        given = as_now(event.record, *names).input
        if given.kind == "start" and origin:
            given = given._replace(data={**given.data, ORIGIN: dict(origin)})
        before, (position, decision) = position, evolve(chart, position, given)
        record = Record(
            event.record.seq, before.state, given, decision.taken, decision.signals,
            decision.next, decision.status, position.wake_at, decision.warnings,
        )  # fmt: skip
        yield event._replace(record=record)
