"""A run that goes on under another machine: a fork whose records are that machine's.

The records of a run belong to one machine. What an earlier machine recorded is decided again from
its inputs, and written as this one decides it, under the names that it has: the new run can be
read, replayed and moved once more without knowing what its states were called before.

Belongs here: writing such a fork. Never: whether a run may go on (`studies.upgrade.judging`).

Imported by: api.continuing, cli
Source: design "architecture", section 4 (`fork`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from interlock.core.position import Position
from interlock.core.records import Record
from interlock.language.dump import canonical
from interlock.machine.build import Chart
from interlock.machine.evolve import evolve
from interlock.run.journal import (
    CHILD_MARK,
    Event,
    Journal,
    RunRow,
    digest,
    events_below,
)
from interlock.run.renaming import Names, as_now

ORIGIN = "upgraded"
"""In the data of a `start`: the run that it goes on from, and what was said of the change."""


async def fork_under(
    journal: Journal, run_id: str, record_seq: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any],
) -> None:  # fmt: skip
    """A new run `row` of this machine, with the events of `run_id` below record `record_seq`.

    With all of them, children of the action at hand come along, as far as this machine has theirs.
    """
    events = await journal.events(run_id)
    kept = events[: events_below(events, record_seq)]
    ids = _Ids(run_id, row.run_id, names)
    made, position = _as_decided(kept, chart, ids, origin)
    whole = not any(event.record is not None for event in events[len(kept) :])
    if whole and chart.spec.machines and not position.ended:
        at_hand = kept[-1].record.next if kept and kept[-1].record is not None else ""
        first = f"{run_id}{CHILD_MARK}{at_hand}{CHILD_MARK}{position.facts.run.steps}"
        hashes = {digest(canonical(spec)) for spec in chart.spec.family()}
        await _children(journal, first, ids, hashes)
    # last: a run that is there has its children
    await _write(journal, row._replace(parent=run_id, fork_seq=record_seq), made)


async def _write(journal: Journal, row: RunRow, events: Sequence[Event]) -> None:
    await journal.create(row._replace(head=0, epoch=0))
    epoch = (await journal.acquire(row.run_id)).epoch
    await journal.append(row.run_id, 0, epoch, events, durable=True)


class _Ids(NamedTuple):
    """Which id a run and its children have in the fork: ``old/go/3`` is ``new/went/3``."""

    old: str
    new: str
    names: Names

    def of(self, id: str) -> str:
        """The id in the fork; that of no run of this family stays."""
        if id == self.old:
            return self.new
        if not id.startswith(f"{self.old}{CHILD_MARK}"):
            return id
        state, mark, rest = id[len(self.old) + 1 :].partition(CHILD_MARK)
        return f"{self.new}{CHILD_MARK}{self.names.state(state)}{mark}{rest}"

    def event(self, event: Event) -> Event:
        """The event with the ids that its child asks under, and that its calls are known by."""
        if event.record is None:
            key = event.data.get("key")
            data = {**event.data, "key": self.of(key)} if isinstance(key, str) else event.data
            return event._replace(data=data)
        given = event.record.input
        asks: Any = given.data.get("asks")
        if not isinstance(asks, Mapping) or "run" not in asks:
            return event
        asked = dict(cast("Mapping[str, Any]", asks))
        asked["run"] = self.of(str(asked["run"]))
        given = given._replace(data={**given.data, "asks": asked})
        return event._replace(record=event.record._replace(input=given))


def _as_decided(
    events: Sequence[Event], chart: Chart, ids: _Ids, origin: Mapping[str, Any]
) -> tuple[list[Event], Position]:
    """The events with each record as this machine decides it, and where that leads."""
    position, made = chart.position(ids.new), list[Event]()
    for event in map(ids.event, events):
        if event.record is None:
            state = ids.names.state(str(event.data.get("state", "")))
            made.append(event._replace(data={**event.data, "state": state}) if state else event)
            continue
        given = as_now(event.record, *ids.names).input
        if given.kind == "start" and origin:
            given = given._replace(data={**given.data, ORIGIN: dict(origin)})
        before, (position, decision) = position, evolve(chart, position, given)
        record = Record(
            event.record.seq, before.state, given, decision.taken, decision.signals,
            decision.next, decision.status, position.wake_at, decision.warnings,
        )  # fmt: skip
        made.append(event._replace(record=record))
    return made, position


async def _children(journal: Journal, first: str, ids: _Ids, known: Collection[str]) -> None:
    """The children that the action at hand has begun, theirs too, with what was sent to them.

    `first` is what their ids begin with. One of a machine that this one has otherwise is left:
    the action begins it anew.
    """
    rows = await journal.rows(prefix=first)
    left: set[str] = set()
    for row in reversed(rows):  # the oldest first: a child after its parent
        if row.run_id != first and not row.run_id.startswith(f"{first}{CHILD_MARK}"):
            continue
        if row.machine_hash not in known or row.parent in left:
            left.add(row.run_id)
            continue
        events = [ids.event(event) for event in await journal.events(row.run_id)]
        made = row._replace(run_id=ids.of(row.run_id), parent=ids.of(row.parent))
        await _write(journal, made, events)
        for letter in await journal.letters(row.run_id):
            await journal.send(made.run_id, letter)
