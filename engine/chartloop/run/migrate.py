"""A run that continues under another machine: a fork whose records are that machine's.

The records of a run belong to one machine. What an earlier machine recorded is decided again from
its inputs, and written as this one decides it, under the names that it has: the new run can be
read, replayed and moved once more without knowing what its states were called before. The fork
and its children are written in one transaction: a process that dies leaves the old or the new.

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
"""In the data of a `start`: the run that it continues from, and what was said of the change."""
EPOCH = "epoch"
"""In that: the epoch in which the run was left. A fork that leaves it to others has none."""


async def fork_under(
    journal: Journal, run_id: str, record_seq: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any],
) -> None:  # fmt: skip
    """A new run `row` of this machine, with the events of `run_id` below record `record_seq`.

    With all of them come messages, and children of the current action as far as this machine has
    theirs. The run that it is made of is left to whoever drives it.
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
    """The run `row` of this machine, in place of the one that was `read`, with all its `records`.

    All in one transaction: of two that move it one does. With nothing written it raises `Driven`
    while someone drives the old run, unless that is taken over, and `Fenced` when it continued
    since it was read.
    """
    ids = _Ids(read.run_id, row.run_id, names)
    noted = {"run": read.run_id, **origin, EPOCH: read.epoch + 1}
    runs, below = await _fork_with_children(
        journal, row.replace(fork_seq=records), chart, ids, noted
    )
    await journal.create_whole(runs, after=(read, *below), take_over=take_over)


async def refuse_moved(journal: Journal, run_id: str, epoch: int) -> None:
    """`Fenced` where the run continued under another machine after that epoch."""
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
            # a fork of a run that was moved has its start, and the origin of another run
            if origin.get("run") == run_id and origin.get(EPOCH, 0) > epoch:
                return row.run_id
    return ""


async def _fork_with_children(
    journal: Journal, row: RunRow, chart: Chart, ids: _Ids, origin: Mapping[str, Any]
) -> tuple[list[WholeRun], list[RunRow]]:
    """The fork and copies of its children; and the rows of the children, as they were read."""
    events = await journal.events(ids.old)
    kept = events[: events_below(events, row.fork_seq or 0)]
    made, there = _as_decided(kept, chart, ids, origin)
    position = there.position
    row = row.replace(**update_at(chart, row.run_id, position, there.rest).to_mapping())
    whole = not any(event.record is not None for event in events[len(kept) :])
    inbox_of = ids.old if whole else ""  # what was sent to it is for whoever continues with it
    runs, below = [WholeRun(row.replace(parent=ids.old), made, inbox_of)], list[RunRow]()
    if whole and chart.spec.machines and not position.ended:
        at_hand = kept[-1].record.next if kept and kept[-1].record is not None else ""
        first = f"{ids.old}{CHILD_MARK}{at_hand}{CHILD_MARK}{position.facts.run.steps}"
        hashes = {digest(canonical(spec)) for spec in chart.spec.family()}
        below = await _children(journal, first, hashes)
        runs += [await _moved_child(journal, child, ids) for child in below]
    return runs, below


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
    """The events with each record as this machine decides it, and where that leads."""
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
    """The children that the current action has started, theirs too.

    `first` is what their ids start with. One of a machine that this one has otherwise is left:
    the action starts it anew.
    """
    found: list[RunRow] = []
    left: set[str] = set()
    for row in reversed(await journal.rows(prefix=first)):  # a child after its parent
        if row.run_id != first and not row.run_id.startswith(f"{first}{CHILD_MARK}"):
            continue
        if row.machine_hash not in known or row.parent in left:
            left.add(row.run_id)
            continue
        found.append(row)
    return found


async def _moved_child(journal: Journal, row: RunRow, ids: _Ids) -> WholeRun:
    events = [ids.event(event) for event in await journal.events(row.run_id)]
    asks = row.question and row.question.replace(run=ids.of(row.question.run))
    made = row.replace(run_id=ids.of(row.run_id), parent=ids.of(row.parent), question=asks)
    return WholeRun(made, events, row.run_id)
