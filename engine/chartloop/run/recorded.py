"""Recorded runs, as questions about many of them read them: row, records, the machine's text.

A run that cannot be read is not an error of the question: it comes as `Unread`, with the reason,
and the others are read all the same. What a journal holds and what `chartloop runs export` prints
give the same.

Belongs here: reading. Never: deciding anything again (`replay`, the folder `studies`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from chartloop.core.errors import ChartloopError
from chartloop.core.records import KINDS, Record
from chartloop.run.journal import CHILD_MARK, Event, Journal, RunRow
from chartloop.run.journal_records import DAMAGED
from chartloop.run.rules_version import is_known, rules_of, say_rules
from chartloop.run.validate_record import UNFIT, as_row, wrong_with


class RecordedRun(NamedTuple):
    """A run that is over, or as far as it has come."""

    row: RunRow
    records: tuple[Record, ...]
    """At least one: the first is its `start`."""
    machine: str = ""
    """The canonical text of the machine it was started with; empty where no one has kept it."""
    pending: tuple[Event, ...] = ()
    """Calls that were started and have no outcome yet: the events after the last record."""
    children: tuple[RunRow, ...] = ()
    """Those that the current action has started, the oldest first; an export has none."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id


class Unread(NamedTuple):
    """A run that no one can ask: it is reported, and skipped."""

    run_id: str
    why: str

    def __str__(self) -> str:
        return f"run `{self.run_id}` is skipped: {self.why}"


Recorded: TypeAlias = RecordedRun | Unread


async def read_run(journal: Journal, row: RunRow) -> Recorded:
    """One run of a journal."""
    if row.status == DAMAGED:
        return Unread(row.run_id, row.reason)
    try:
        events = await journal.events(row.run_id)
        text = await journal.blob(row.machine_hash) or ""
        children = await _at_hand(journal, row, events)
        records = tuple(event.record for event in events if event.record is not None)
        return _sound(RecordedRun(row, records, text, tuple(_pending(events)), children))
    except ChartloopError as error:  # a record that cannot be read, a payload that is gone
        return Unread(row.run_id, error.message)
    except UNFIT as error:
        return Unread(row.run_id, f"it is damaged: {type(error).__name__} {error}")


async def _at_hand(journal: Journal, row: RunRow, events: Sequence[Event]) -> tuple[RunRow, ...]:
    """The children of the current action, whether or not a record tells of them.

    A process may die between a child's beginning and the record in which its parent waits for it.
    """
    newest = next((event.record for event in reversed(events) if event.record is not None), None)
    if newest is None or newest.status in ("completed", "error"):
        return ()
    found = await journal.rows(prefix=CHILD_MARK.join((row.run_id, newest.next, str(row.steps))))
    return tuple(child for child in reversed(found) if child.parent == row.run_id and child.head)


def _pending(events: Sequence[Event]) -> list[Event]:
    """The events that the newest action has started: a pause, say, does not end it."""
    found: list[Event] = []
    for event in reversed(events):
        if event.record is None:
            found.append(event)
        elif not event.record.aside:
            break
    return found[::-1]


async def read_children(journal: Journal, run_id: str) -> list[Recorded]:
    """The runs of a run's child machines, theirs too, the oldest first."""
    rows = await journal.rows(prefix=run_id + CHILD_MARK)
    return [await read_run(journal, row) for row in reversed(rows)]


def read_export(text: str, source: str) -> list[Recorded]:
    """The runs that a text holds, as `chartloop runs export` prints them, one after another.

    `source` names the text where a run in it cannot be read.
    """
    return [_parse_export(lines, source) for lines in _parts(text)]


def _parts(text: str) -> Iterator[list[tuple[int, str]]]:
    """For each run its lines, numbered: a row first, then records."""
    lines: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if lines and '"run"' in line and "run" in _mapping(line):
            yield lines
            lines = []
        lines.append((number, line))
    if lines:
        yield lines


def _parse_export(lines: Sequence[tuple[int, str]], source: str) -> Recorded:
    (at, first), *rest = lines
    row = _row(_mapping(first))
    if row is None:
        hint = "`chartloop runs export RUN` prints one"
        return Unread(f"{source}:{at}", f"the line is not a run's row: {hint}")
    records: list[Record] = []
    for number, line in rest:
        try:
            data = cast("dict[str, Any]", json.loads(line))
            records.append(Record.from_dict(int(data["seq"]), data))
        except (
            ArithmeticError,
            AttributeError,
            KeyError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            return Unread(
                row.run_id, f"{source}:{number} is not a record: {type(error).__name__} {error}"
            )
    return _sound(RecordedRun(row, tuple(records)))


def _row(data: Mapping[str, Any]) -> RunRow | None:
    """The row, or None for what is none: a column of another type, or no id."""
    columns = {"run_id": "", **RunRow.defaults(), **data}
    row = as_row(columns[name] for name in RunRow.__struct_fields__)
    return row if row.run_id and row.status != DAMAGED else None


def _mapping(line: str) -> Mapping[str, Any]:
    try:
        found = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


def _sound(run: RecordedRun) -> Recorded:
    """The run, if its records are a run's: sound, numbered from 0 without a gap, a start first."""
    if not run.records:
        return Unread(run.run_id, "it has no record yet")
    for number, record in enumerate(run.records):
        if record.kind not in KINDS:
            return Unread(run.run_id, f"record {number} is a `{record.kind}`: update chartloop")
        if record.seq != number:
            return Unread(run.run_id, f"record {number} is missing")
        if (record.kind == "start") != (number == 0):
            what = f"starts with a record of `{record.kind}`" if number == 0 else "starts twice"
            return Unread(run.run_id, f"it {what}")
        if wrong := wrong_with(record):
            return Unread(run.run_id, f"record {number} is damaged: {wrong}")
    if not is_known(rules_of(run.records[0].input)):
        rules = say_rules(run.records[0].input)
        return Unread(run.run_id, f"it was decided by {rules}, which this version does not have")
    return run
