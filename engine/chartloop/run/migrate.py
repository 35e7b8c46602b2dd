"""Forks under another machine, and moves: that machine decides the records again.

The records of a run belong to one machine. The new machine decides the recorded inputs again and
writes its own records, with its own names, so that the new run can be read, replayed and moved
again without knowing the earlier names.

A run moves once. The new run, its children, and the mark on the old ones that names their
successors are written in one transaction: a process that dies leaves either the old run or the
new, and two never continue side by side.

Belongs here: writing such runs. Never: whether a run may continue (`versions.migration.judge`).

Source: docs/upgrading.md.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from chartloop.core.errors import MovedError
from chartloop.core.plain import plain
from chartloop.core.position import REMEMBERED, Position
from chartloop.core.records import Record
from chartloop.language.dump import canonical
from chartloop.machine.build import Chart
from chartloop.machine.decision import record_of
from chartloop.run.doubts import has_key
from chartloop.run.journal import (
    CHILD_MARK,
    Event,
    InboxMessage,
    Journal,
    Move,
    RunRow,
    WholeRun,
    digest,
    events_below,
)
from chartloop.run.journal_records import FORKED, OpenQuestion
from chartloop.run.question import update_at
from chartloop.run.refold import refold
from chartloop.run.renaming import Names
from chartloop.run.rules_version import rules_of
from chartloop.run.succession import refuse_moved

ORIGIN = "upgraded"
"""Key in the data of a `start`: the run that it continues, and the verdict on the change."""


def fork_point(chart: Chart, records: Sequence[Record], seq: int) -> int:
    """The number of records that a fork at record `seq` keeps.

    Fewer, if they end with an answer to an approval whose calls have not been executed yet: both
    runs would execute them, and they were accepted once. The fork asks again.
    """
    gate = () if chart.spec.approve is None else chart.spec.approve.made
    for at in range(seq - 1, 0, -1):
        record = records[at]
        if record.kind == "answer" and record.state in gate:
            seq = at
        elif record.kind == "step" and record.state in gate:
            if chart.spec.states[record.state].calls != "none":  # these used the answer up
                break
    return seq


async def fork_under(
    journal: Journal, run_id: str, record_seq: int, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any],
) -> RunRow:  # fmt: skip
    """Create the run `row` of this machine, with the records of `run_id` before `record_seq`.

    It takes no answers, messages and children along, as any fork: what it still has to ask is asked
    again, and children start anew. The original run stays as it is.
    """
    ids = _Ids(run_id, row.run_id, names)
    kept = await _events_below(journal, run_id, record_seq)
    ids = ids._replace(keys=_names_runs(kept))
    forked, made, _ = _as_decided(row, kept, chart, ids, origin)
    seq = fork_point(chart, [e.record for e in made if e.record is not None], record_seq)
    if seq < record_seq:
        kept = kept[: events_below(kept, seq)]
        forked, made, _ = _as_decided(row, kept, chart, ids, origin)
    await journal.create_whole([WholeRun(forked, made)])
    return forked


async def move(
    journal: Journal, read: RunRow, row: RunRow, chart: Chart, *,
    names: Names, origin: Mapping[str, Any], take_over: bool = False,
) -> RunRow:  # fmt: skip
    """Create the run `row` of this machine in place of the run `read`, with all its records.

    One transaction: of two concurrent moves only one succeeds. Returns the row of the run that
    continues `read`: if that was moved to this machine before, its last successor. Messages come
    along; an answer only if this machine asks the same question about the same calls. So do the
    children of the current action whose machines this one has.

    Raises `MovedError` if it was moved to another machine; `Driven`, with nothing written, while
    another driver has the old run, unless `take_over`; `Fenced` if it has continued since it was
    read.
    """
    if read.moved_to:
        return await moved_before(journal, read, row.machine_hash)
    ids = _Ids(read.run_id, row.run_id, names, moves=True)
    kept = await _events_below(journal, read.run_id, None)
    ids = ids._replace(keys=_names_runs(kept))
    row, made, position = _as_decided(row, kept, chart, ids, {"run": read.run_id, **origin})
    asks_the_same = _content(read.question) == _content(row.question) is not None
    if asks_the_same and chart.spec.approve is not None:  # the words of a gate are on the record
        old = await journal.blob(read.machine_hash)
        asks_the_same = old is not None and _gate(old) == _gate(chart.text)

    def carries(message: InboxMessage) -> bool:
        is_answer = message.data.get("kind") == "answer"
        return not is_answer or (asks_the_same and "ahead" not in message.data)

    runs, moves = [WholeRun(row, made, read.run_id, carries)], [Move(read, row.run_id)]
    if chart.spec.machines and not position.ended:
        at_hand = kept[-1].record.next if kept and kept[-1].record is not None else ""
        first = f"{ids.old}{CHILD_MARK}{at_hand}{CHILD_MARK}{position.facts.run.steps}"
        hashes = {digest(canonical(spec)) for spec in chart.spec.family()}
        for child in await _children(journal, first, hashes):
            copy = await _moved_child(journal, child, ids)
            runs.append(copy)
            moves.append(Move(child, copy.row.run_id))
    try:
        await journal.create_whole(runs, moves=moves, take_over=take_over)
    except MovedError:  # by another process, since it was read
        return await moved_before(journal, read, row.machine_hash)
    return row


async def moved_before(journal: Journal, row: RunRow, machine_hash: str) -> RunRow:
    """The last successor of a moved run. `MovedError` if that is of another machine."""
    now = await journal.row(row.run_id) or row
    last = await successor_of(journal, now)
    if last.machine_hash == machine_hash:
        return last
    raise MovedError(
        f"run `{row.run_id}` continues as run `{last.run_id}`, under another file than this one",
        hint=f"`chartloop resume {last.run_id}` continues it; with `--machine FILE --use-new-file` "
        f"it moves on to this file, or back to the one before. `chartloop fork {row.run_id}` "
        "starts another run from the records of the old one",
        run_id=row.run_id, successor=last.run_id,
    )  # fmt: skip


async def successor_of(journal: Journal, row: RunRow) -> RunRow:
    """The row of the run that continues a moved one, the last if that was moved as well.

    `MovedError` if the journal does not hold it.
    """
    seen = {row.run_id}
    while row.moved_to:
        following = await journal.row(row.moved_to)
        if following is None or following.run_id in seen:
            refuse_moved(row)
        assert following is not None
        seen.add(following.run_id)
        row = following
    return row


def _gate(machine: str) -> Any:
    """The key `approve` of a machine's canonical text; None for none, or an unreadable text."""
    try:
        return json.loads(machine).get("approve")
    except (AttributeError, ValueError):
        return None


def _content(question: OpenQuestion | None) -> Any:
    """What a question asks, without where and when; None for none, or an unknown one."""
    if question is None or not question.text:
        return None
    return plain(question.replace(run="", state="", wait="", due=None).to_mapping())


async def _events_below(journal: Journal, run_id: str, record_seq: int | None) -> list[Event]:
    """The events of a run before a record, or up to its last record."""
    events = await journal.events(run_id)
    return events[: events_below(events, len(events) if record_seq is None else record_seq)]


def _names_runs(events: Sequence[Event]) -> bool:
    """Whether the keys of a run's calls name the run that makes them: under the first rules."""
    start = next((event.record for event in events if event.record is not None), None)
    return start is None or (rules_of(start.input) or 1) < 2


def _first_key(
    ids: _Ids, events: Sequence[Event], chart: Chart, position: Position
) -> Iterator[Event]:
    """The note of the key that the next action has in the run that these events are copied from."""
    records = [event.record for event in events if event.record is not None]
    state = chart.spec.states.get(position.state)
    if ids.keys or not records or state is None:
        return
    steps = position.facts.run.steps - position.attempt
    known = any(event.type == FORKED and event.data["steps"] == steps for event in events)
    if not known and has_key(state.action):
        data = {"key": f"{ids.old}/{records[-1].next}/{steps}", "steps": steps}
        yield Event(len(events), FORKED, events[-1].at, None, data)


class _Ids(NamedTuple):
    """Maps the ids of a run and its children to those in the fork: ``old/go/3``, ``new/went/3``."""

    old: str
    new: str
    names: Names
    moves: bool = False
    """Whether the run itself goes on, with the calls that it remembers as approved."""
    keys: bool = False
    """Whether the keys of calls name the run: under the first rules."""

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
            key = event.data.get("key") if self.keys else None
            data = {**event.data, "key": self.of(key)} if isinstance(key, str) else event.data
            return event.replace(data=data)
        given, outcome = event.record.input, event.record.input.outcome
        if self.moves and outcome is not None and REMEMBERED in outcome.kept:
            known = {**outcome.kept[REMEMBERED], "run": self.new}
            outcome = outcome.replace(kept={**outcome.kept, REMEMBERED: known})
        asks: Any = given.data.get("asks")
        if self.moves and isinstance(asks, Mapping) and "run" in asks:
            asked = dict(cast("Mapping[str, Any]", asks))
            asked["run"] = self.of(str(asked["run"]))
            given = given.replace(data={**given.data, "asks": asked})
        return event.replace(record=event.record.replace(input=given.replace(outcome=outcome)))


def _as_decided(
    row: RunRow, events: Sequence[Event], chart: Chart, ids: _Ids, origin: Mapping[str, Any]
) -> tuple[RunRow, list[Event], Position]:
    """The new run's row, its events with the records as this machine decides them, its position."""
    kept, made = [ids.event(event) for event in events], list[Event]()
    records = [event.record for event in kept if event.record is not None]
    if records and origin:  # the first record is the `start`
        begun = records[0].input
        begun = begun.replace(data={**begun.data, ORIGIN: dict(origin)})
        records[0] = records[0].replace(input=begun)
    position, rest, decision = chart.position(ids.new), 0, None
    steps = refold(chart, records, position, names=ids.names)
    for event in kept:
        if event.record is None:
            state = ids.names.state(str(event.data.get("state", "")))
            made.append(event.replace(data={**event.data, "state": state}) if state else event)
            continue
        step = next(steps)
        position, rest, decision = step.after, step.rest, step.decision
        record = record_of(decision, event.record.seq, position.wake_at)
        made.append(event.replace(record=record))
    made += _first_key(ids, events, chart, position)
    update = update_at(chart, ids.new, position, rest, decision).to_mapping()
    row = row.replace(parent=ids.old, fork_seq=len(records), **update)
    return row, made, position


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
    events = await journal.events(row.run_id)
    ids = ids._replace(keys=_names_runs(events))
    events = [ids.event(event) for event in events]
    asks = row.question and row.question.replace(run=ids.of(row.question.run))
    made = row.replace(run_id=ids.of(row.run_id), parent=ids.of(row.parent), question=asks)
    return WholeRun(made, events, row.run_id)
