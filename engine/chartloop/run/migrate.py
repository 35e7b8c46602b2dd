"""Moving a run to another machine: a fork whose records that machine decides again.

The records of a run belong to one machine. The new machine decides the recorded inputs again and
writes its own records, with its own names, so that the new run can be read, replayed and moved
again without knowing the earlier names. The fork and its children are written in one transaction:
a process that dies leaves either the old run or the new.

Belongs here: writing such a fork. Never: whether a run may continue (`versions.migration.judge`).

Source: design "architecture", section 4 (`fork`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from chartloop.core.errors import Fenced
from chartloop.core.records import Record
from chartloop.language.dump import canonical
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.run.journal import (
    CHILD_MARK,
    Event,
    Journal,
    RunRow,
    WholeRun,
    digest,
    events_below,
)
from chartloop.run.question import update_at
from chartloop.run.renaming import Names, as_now
from chartloop.run.replay import Moment

ORIGIN = "upgraded"
"""Key in the data of a `start`: the run that it continues, and the verdict on the change."""
EPOCH = "epoch"
"""Key in `ORIGIN`: the epoch in which that run was replaced. Missing for a mere fork."""


async def fork_under(
    journal: Journal, run_id: str, record_seq: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any],
) -> None:  # fmt: skip
    """Create the run `row` of this machine, with the events of `run_id` before `record_seq`.

    If no record is left out, it also gets the messages, and the children of the current action
    whose machines this one has. The original run stays as it is.
    """
    ids = _Ids(run_id, row.run_id, names)
    runs, _ = await _fork_with_children(
        journal, row.replace(fork_seq=record_seq), chart, ids, origin
    )
    await journal.create_whole(runs)


async def move(
    journal: Journal, read: RunRow, records: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any], take_over: bool = False,
) -> None:  # fmt: skip
    """Create the run `row` of this machine in place of the run `read`, with all its `records`.

    One transaction: of two concurrent moves only one succeeds. Raises `Driven`, with nothing
    written, while another driver has the old run, unless `take_over`; `Fenced` if it has
    continued since it was read.
    """
    ids = _Ids(read.run_id, row.run_id, names)
    moved_from = {"run": read.run_id, **origin, EPOCH: read.epoch + 1}
    runs, below = await _fork_with_children(
        journal, row.replace(fork_seq=records), chart, ids, moved_from
    )
    await journal.create_whole(runs, after=(read, *below), take_over=take_over)


async def refuse_moved(journal: Journal, run_id: str, epoch: int) -> None:
    """Raise `Fenced` if the run was moved to another machine after that epoch."""
    if now := await _moved_to(journal, run_id, epoch):
        raise Fenced(
            f"run `{run_id}` continued as run `{now}`, under another machine, meanwhile",
            hint="both would do the same once more; open it again if you want that",
        )


async def _moved_to(journal: Journal, run_id: str, epoch: int) -> str:
    for row in await journal.rows(parent=run_id):
        if row.fork_seq is None or CHILD_MARK in row.run_id:
            continue
        for first in await journal.events(row.run_id, 0, 1):
            origin: Any = {} if first.record is None else first.record.input.data.get(ORIGIN, {})
            # a fork of a moved run has that run's start, and so the origin of another run
            if origin.get("run") == run_id and origin.get(EPOCH, 0) > epoch:
                return row.run_id
    return ""


async def _fork_with_children(
    journal: Journal, row: RunRow, chart: Chart, ids: _Ids, origin: Mapping[str, Any]
) -> tuple[list[WholeRun], list[RunRow]]:
    """The fork with copies of its children, and the rows of the originals of these children."""
    events = await journal.events(ids.old)
    kept = events[: events_below(events, row.fork_seq or 0)]
    made, there = _as_decided(kept, chart, ids, origin)
    position = there.position
    row = row.replace(**update_at(chart, row.run_id, position, there.rest).to_mapping())
    whole = not any(event.record is not None for event in events[len(kept) :])
    inbox_of = ids.old if whole else ""  # its messages go to the run that continues it
    runs, below = [WholeRun(row.replace(parent=ids.old), made, inbox_of)], list[RunRow]()
    if whole and chart.spec.machines and not position.ended:
        at_hand = kept[-1].record.next if kept and kept[-1].record is not None else ""
        first = f"{ids.old}{CHILD_MARK}{at_hand}{CHILD_MARK}{position.facts.run.steps}"
        hashes = {digest(canonical(spec)) for spec in chart.spec.family()}
        below = await _children(journal, first, hashes)
        runs += [await _moved_child(journal, child, ids) for child in below]
    return runs, below


class _Ids(NamedTuple):
    """Maps the ids of a run and its children to those in the fork: ``old/go/3``, ``new/went/3``."""

    old: str
    new: str
    names: Names

    def of(self, id: str) -> str:
        """The id in the fork; that of an unrelated run is unchanged."""
        if id == self.old:
            return self.new
        if not id.startswith(f"{self.old}{CHILD_MARK}"):
            return id
        state, mark, rest = id[len(self.old) + 1 :].partition(CHILD_MARK)
        return f"{self.new}{CHILD_MARK}{self.names.state(state)}{mark}{rest}"

    def event(self, event: Event) -> Event:
        """The event with the new ids of its calls and of a child that asks."""
        if event.record is None:
            key = event.data.get("key")
            data = {**event.data, "key": self.of(key)} if isinstance(key, str) else event.data
            return event.replace(data=data)
        given = event.record.input
        asks: Any = given.data.get("asks")
        if not isinstance(asks, Mapping) or "run" not in asks:
            return event
        asked = dict(cast("Mapping[str, Any]", asks))
        asked["run"] = self.of(str(asked["run"]))
        given = given.replace(data={**given.data, "asks": asked})
        return event.replace(record=event.record.replace(input=given))


def _as_decided(
    events: Sequence[Event], chart: Chart, ids: _Ids, origin: Mapping[str, Any]
) -> tuple[list[Event], Moment]:
    """The events with the records as this machine decides them, and the moment after them."""
    there, made = Moment(0, chart.position(ids.new)), list[Event]()
    for event in map(ids.event, events):
        if event.record is None:
            state = ids.names.state(str(event.data.get("state", "")))
            made.append(event.replace(data={**event.data, "state": state}) if state else event)
            continue
        given = as_now(event.record, *ids.names).input
        if given.kind == "start" and origin:
            given = given.replace(data={**given.data, ORIGIN: dict(origin)})
        before, (position, decision) = there.position, evolve(chart, there.position, given)
        record = Record(
            event.record.seq, before.state, given, decision.taken, decision.signals,
            decision.next, decision.status, position.wake_at, decision.warnings,
        )  # fmt: skip
        there = there.then(record, position, decision)
        made.append(event.replace(record=record))
    return made, there


async def _children(journal: Journal, first: str, known: Collection[str]) -> list[RunRow]:
    """The children of the current action, and their children.

    `first` is the prefix of their ids. A child whose machine differs from this family's, by hash,
    is left out: the action starts it anew.
    """
    children: list[RunRow] = []
    left: set[str] = set()
    for row in reversed(await journal.rows(prefix=first)):  # a child after its parent
        if row.run_id != first and not row.run_id.startswith(f"{first}{CHILD_MARK}"):
            continue
        if row.machine_hash not in known or row.parent in left:
            left.add(row.run_id)
            continue
        children.append(row)
    return children


async def _moved_child(journal: Journal, row: RunRow, ids: _Ids) -> WholeRun:
    events = [ids.event(event) for event in await journal.events(row.run_id)]
    asks = row.question and row.question.replace(run=ids.of(row.question.run))
    made = row.replace(run_id=ids.of(row.run_id), parent=ids.of(row.parent), question=asks)
    return WholeRun(made, events, row.run_id)
