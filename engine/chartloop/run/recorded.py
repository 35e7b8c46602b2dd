"""Recorded runs, read for studies of many: row, records, the machine's text.

An unreadable run is no error for the study: it becomes an `Unread` with the reason, and the others
are read all the same. A journal gives the same records as the lines that `chartloop journal
export` writes of it (`run.copies`).

Belongs here: reading. Never: deciding anything again (`run.replay`, `studies`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

from chartloop.core.errors import ChartloopError, JournalCorrupt
from chartloop.core.records import KINDS, Record
from chartloop.run.chain import SIZE, Checked, follow
from chartloop.run.copies import PART, restored, row_of, text_of
from chartloop.run.journal import CHILD_MARK, Event, Journal, RunRow, digest
from chartloop.run.journal_records import DAMAGED
from chartloop.run.payload import references
from chartloop.run.rules_version import is_known, rules_of, say_rules
from chartloop.run.validate_record import UNFIT, wrong_with


class RecordedRun(NamedTuple):
    """A run, ended or in progress."""

    row: RunRow
    records: tuple[Record, ...]
    """At least one: the first is its `start`."""
    machine: str = ""
    """The canonical text of the machine it was started with; empty if it was not stored."""
    pending: tuple[Event, ...] = ()
    """The calls of the action in progress: the events after its last record."""
    children: tuple[RunRow, ...] = ()
    """The children that the current action started, oldest first; empty for an export."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id


class Unread(NamedTuple):
    """An unreadable run: it is reported, and skipped."""

    run_id: str
    why: str

    def __str__(self) -> str:
        return f"run `{self.run_id}` is skipped: {self.why}"


Recorded: TypeAlias = RecordedRun | Unread


async def read_run(journal: Journal, row: RunRow) -> Recorded:
    """Read one run of a journal."""
    if row.status == DAMAGED:
        return Unread(row.run_id, row.reason)
    try:
        events = await journal.events(row.run_id)
        text = await journal.blob(row.machine_hash) or ""
        children = await _at_hand(journal, row, events)
        records = tuple(event.record for event in events if event.record is not None)
        return _sound(RecordedRun(row, records, text, tuple(_pending(events)), children))
    except ChartloopError as error:  # an unreadable record, a missing payload
        return Unread(row.run_id, error.message)
    except UNFIT as error:
        return Unread(row.run_id, f"it is damaged: {type(error).__name__} {error}")


async def _at_hand(journal: Journal, row: RunRow, events: Sequence[Event]) -> tuple[RunRow, ...]:
    """The children of the current action, recorded or not.

    A process may die after a child has started and before the record in which its parent waits.
    """
    newest = next((event.record for event in reversed(events) if event.record is not None), None)
    if newest is None or newest.status in ("completed", "error"):
        return ()
    rows = await journal.rows(prefix=CHILD_MARK.join((row.run_id, newest.next, str(row.steps))))
    return tuple(child for child in reversed(rows) if child.parent == row.run_id and child.head)


def _pending(events: Sequence[Event]) -> list[Event]:
    """The events of the action in progress, which records such as a pause do not end."""
    pending: list[Event] = []
    for event in reversed(events):
        if event.record is None:
            pending.append(event)
        elif not event.record.aside:
            break
    return pending[::-1]


async def read_children(journal: Journal, run_id: str) -> list[Recorded]:
    """The runs of a run's children, and of their children, oldest first."""
    rows = await journal.rows(prefix=run_id + CHILD_MARK)
    return [await read_run(journal, row) for row in reversed(rows)]


async def check_chain(journal: Journal, run_id: str) -> Checked | None:
    """Whether a run is as it was written; None if the journal keeps no hash chain.

    Its stored payloads are hashed again. `UnknownRunError` if there is no such run.
    """
    chain = await journal.chain(run_id)
    if chain is None:
        return None
    fault = chain.first_fault()
    for link in () if fault else chain.links:
        try:
            payloads = await _payloads(journal, text_of(link))
        except ChartloopError as error:
            payloads, fault = {}, f"event {link.event[0]}: {error.message}"
        if any(digest(payload) != key for key, payload in payloads.items()):
            fault = f"a payload of event {link.event[0]} was changed"
        if fault:
            break
    records = sum(link.digest is not None for link in chain.links)
    return Checked(chain.end[:SIZE].hex(), records, fault)


async def _payloads(journal: Journal, text: str) -> dict[str, str]:
    """The payloads that the stored text of an event refers to, by their hashes."""
    found: dict[str, str] = {}
    for key in references(text):
        payload = await journal.blob(key)
        if payload is None:
            raise JournalCorrupt(f"payload {key[:12]} is not there")
        found[key] = payload
    return found


def read_export(text: str, source: str) -> list[Recorded]:
    """The runs in the output of `chartloop journal export`, in order.

    `source` names the text in the reason why a run is unreadable.
    """
    return [_parse_export(lines, source) for lines in _parts(text)]


def _parts(text: str) -> Iterator[list[tuple[int, str]]]:
    """The numbered lines of each run: its row, then its records."""
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
    row = row_of(_mapping(first))
    if row is None:
        hint = "`chartloop journal export RUN --to FILE.jsonl` writes one"
        return Unread(f"{source}:{at}", f"the line is not a run's row: {hint}")
    records: list[Record] = []
    head, changed = _mapping(first), ""
    try:
        now = bytes.fromhex(head.get("origin", ""))
        end = bytes.fromhex(head.get("chain", ""))[:SIZE]
    except (TypeError, ValueError) as error:
        return Unread(row.run_id, f"{source}:{at} has no digest: {error}")
    parts = [_mapping(line) for _, line in rest if line.startswith(PART)]
    machine = next((str(one["data"]) for one in parts if one.get("hash") == row.machine_hash), "")
    for number, line in rest:
        if line.startswith(PART):
            continue
        try:
            data = cast("dict[str, Any]", json.loads(line))
            records.append(Record.from_dict(int(data["seq"]), data))
            if end and not changed:
                now = follow(now + bytes.fromhex(data["notes"]), restored(data, line)[0])
                if now.hex() != data["digest"]:
                    changed = f"{source}:{number}: record {data['seq']} was changed"
        except (
            ArithmeticError,
            AttributeError,
            KeyError,
            RecursionError,
            TypeError,
            ValueError,
            struct.error,
        ) as error:
            return Unread(
                row.run_id, f"{source}:{number} is not a record: {type(error).__name__} {error}"
            )
    if not changed and now != end:
        changed = f"{source}: its end is missing"
    run = _sound(RecordedRun(row, tuple(records), machine))
    return Unread(row.run_id, changed) if changed and isinstance(run, RecordedRun) else run


def _mapping(line: str) -> Mapping[str, Any]:
    try:
        data = json.loads(line)
    except (RecursionError, ValueError):
        return {}
    return cast("Mapping[str, Any]", data) if isinstance(data, dict) else {}


def _sound(run: RecordedRun) -> Recorded:
    """The run if its records are valid, numbered from 0 without a gap, and begin with a start."""
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
