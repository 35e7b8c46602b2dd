"""Rows of the journal's tables: one function for each read or write that a run needs.

The functions do not start or end transactions; their caller does, and may group several in one.
Each raises its `ChartloopError` before it has written anything, so that a refusal does not affect
the others.

Belongs here: SQL, and events as rows. Never: locks, transactions, threads, errors of SQLite.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from chartloop.adapters.journal import sqlite_leases, sqlite_texts
from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.adapters.journal.sqlite_texts import UNREAD, Stored, blob, read_text, stored_text
from chartloop.core.codec import to_json_fast
from chartloop.core.errors import (
    ChartloopError,
    JournalCorrupt,
    JournalTooNew,
    RunError,
    UnknownRunError,
)
from chartloop.core.facts import EMPTY
from chartloop.core.records import KINDS, Record
from chartloop.run.journal import (
    BY_HAND,
    CHILD_MARK,
    Check,
    Event,
    InboxMessage,
    Move,
    RunRow,
    Snapshot,
    Update,
    duplicate_run_error,
    fenced_error,
    is_own_commit,
    moved_row,
    refuse_damaged,
    refuse_moved,
    refuse_overtaken,
)
from chartloop.run.journal_pages import (
    EventCursors,
    RunFilter,
    RunPage,
    Tail,
    TailEvent,
    read_run_cursor,
    run_cursor,
)
from chartloop.run.journal_records import EVENT_TYPES, MOVED, UNREADABLE
from chartloop.run.lease import Acquired, Claim
from chartloop.run.payload import DEEPEST, is_whole, pack, too_deep, unpack
from chartloop.run.redact import Redactor
from chartloop.run.validate_record import as_row, wrong_with, wrong_with_message


class Line(NamedTuple):
    """An event as the values of a row."""

    type: str
    record: int | None
    at: float
    data: Stored
    blobs: Mapping[str, str]


Columns: TypeAlias = tuple[Any, ...]
"""The values of the columns of a row."""


class Writer:
    """Converts data to redacted text for the journal."""

    def __init__(self, redactor: Redactor | None) -> None:
        self.redactor = redactor
        self._hide: Callable[[str], str] = redactor.json if redactor else str
        self._hide_text: Callable[[str], str] = redactor.text if redactor else str

    def hide(self, values: Iterable[str]) -> None:
        """Hide these secrets too, unless nothing is hidden."""
        if self.redactor is not None:
            self.redactor = self.redactor.also(values)
            self._hide, self._hide_text = self.redactor.json, self.redactor.text

    def document(self, data: Mapping[str, Any] | Record) -> str:
        """Data as JSON text. Raises `RunError` if it is not JSON or nested too deeply."""
        try:
            text = data.to_json() if isinstance(data, Record) else to_json_fast(data)
        except (TypeError, ValueError, RecursionError) as error:
            raise _unfit(str(error)) from error
        if too_deep(text):
            raise _unfit(f"it is nested more than {DEEPEST} levels deep")
        return self._hide(text)

    def text(self, text: str) -> str:
        """Redacted plain text."""
        return self._hide_text(text)

    def row(self, row: RunRow) -> Columns:
        """The columns of a new run."""
        return (*row.to_tuple()[: -len(_STANDING)], *self._standing(row))

    def update(self, update: Update | None) -> Columns | None:
        """The columns that an append updates; None for no update."""
        if update is None:
            return None
        return (*update.to_tuple()[: -len(_STANDING)], *self._standing(update))

    def _standing(self, row: RunRow | Update) -> Columns:
        """The columns for the question of the run and its usage."""
        question = row.question
        text = None if question is None else stored_text(self.document(question.to_mapping()))
        return text, row.tokens, row.cost

    def lines(self, events: Iterable[Event]) -> list[Line]:
        """Convert events to rows."""
        return [self._line(event) for event in events]

    def _line(self, event: Event) -> Line:
        record = event.record
        packed = pack(self.document(event.data if record is None else record))
        number = None if record is None else record.seq
        return Line(event.type, number, event.at, stored_text(packed.text), packed.blobs)


def _unfit(why: str) -> RunError:
    return RunError(
        f"this cannot be kept in a journal: {why}",
        hint="actions, tools and answers give JSON data: text, numbers, lists and mappings",
    )


# -- runs --------------------------------------------------------------------------------------

_NAMES = RunRow.__struct_fields__
_STANDING = ("question", "tokens", "cost")
"""The last columns of a run's row and of its update."""
_RUN_ID, _CREATED, _QUESTION = map(_NAMES.index, ("run_id", "created", "question"))
_COLUMNS = ", ".join(_NAMES)
_MARKS = ", ".join("?" * len(_NAMES))


def create(db: Connection, columns: Columns) -> None:
    """Create a run. Raises `RunError` if the id is taken."""
    sql = f"INSERT INTO run ({_COLUMNS}) VALUES ({_MARKS}) ON CONFLICT (run_id) DO NOTHING"  # noqa: S608
    if db.execute(sql, columns).rowcount == 0:
        raise duplicate_run_error(columns[_RUN_ID])


def row(db: Connection, run_id: str) -> RunRow | None:
    """One run's row, or None."""
    sql = f"SELECT {_COLUMNS} FROM run WHERE run_id = ?"  # noqa: S608
    found = db.execute(sql, (run_id,)).fetchone()
    return _row(found) if found else None


def _row(columns: Columns) -> RunRow:
    """The row of a run. The question is JSON text."""
    stored = columns[_QUESTION]
    if stored is None:
        return as_row(columns)
    question: Any = stored
    with contextlib.suppress(*UNREAD):  # `as_row` reports the invalid value
        question = json.loads(read_text(stored))
    return as_row((*columns[:_QUESTION], question, *columns[_QUESTION + 1 :]))


def require_row(db: Connection, run_id: str) -> RunRow:
    """One run's row. Raises `UnknownRunError` if it is missing, `JournalCorrupt` if damaged."""
    found = row(db, run_id)
    if found is None:
        raise UnknownRunError(f"there is no run `{run_id}` in this journal")
    refuse_damaged(found)
    return found


def rows(
    db: Connection, wanted: Mapping[str, str], prefix: str | None, limit: int | None, *,
    children: bool = True,
) -> list[RunRow]:  # fmt: skip
    """The runs with the `wanted` columns and an id that starts with `prefix`, the newest first.

    For the runs of a parent only its index is used, which contains no other runs; ``+`` excludes
    the other indices.
    """
    tests = [f"{column} = ?" for column in wanted]
    values: list[Any] = list(wanted.values())
    own = "+" if wanted.get("parent") else ""
    if own:
        tests.append("parent != ''")
    if prefix:
        tests.append(f"{own}run_id >= ?")
        values.append(prefix)
        if (beyond := _beyond(prefix)) is not None:
            tests.append(f"{own}run_id < ?")
            values.append(beyond)
    if not children:
        tests.append("instr(run_id, ?) = 0")
        values.append(CHILD_MARK)
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    sql = f"SELECT {_COLUMNS} FROM run {where} ORDER BY created DESC, rowid DESC LIMIT ?"  # noqa: S608
    found = db.execute(sql, (*values, -1 if limit is None else limit))
    return [_row(columns) for columns in found]


def page(db: Connection, filter: RunFilter, cursor: str, limit: int) -> RunPage:
    """A page of the matching runs after a cursor, the newest first.

    For waiting runs only their short index is used; ``+`` excludes the other indices.
    """
    own = "+" if filter.waiting else ""
    tests, values = list[str](), list[Any]()

    def test(sql: str, *arguments: Any) -> None:
        tests.append(sql)
        values.extend(arguments)

    for column, wanted in filter.columns():
        test(f"{own}{column} = ?", wanted)
        if column in _SELDOM and wanted:
            tests.append(f"{own}{column} != ''")
    if filter.prefix:
        test(f"{own}run_id >= ?", filter.prefix)
        if (beyond := _beyond(filter.prefix)) is not None:
            test(f"{own}run_id < ?", beyond)
    if filter.waiting is not None:
        tests.append("question IS NOT NULL" if filter.waiting else "question IS NULL")
    for column, sign, at in (
        ("created", ">=", filter.created_from), ("created", "<", filter.created_to),
        ("updated", ">=", filter.updated_from), ("updated", "<", filter.updated_to),
    ):  # fmt: skip
        if at is not None:
            test(f"{column} {sign} ?", at)
    if not filter.children:
        test("instr(run_id, ?) = 0", CHILD_MARK)
    if cursor:
        test("(created, run_id) < (?, ?)", *read_run_cursor(cursor))
    where = f"WHERE {' AND '.join(tests)}" if tests else ""
    sql = f"SELECT {_COLUMNS} FROM run {where} ORDER BY created DESC, run_id DESC LIMIT ?"  # noqa: S608
    found = db.execute(sql, (*values, limit + 1)).fetchall()
    rows = [_row(columns) for columns in found[:limit]]
    if len(found) <= limit:
        return RunPage(rows)
    last = found[limit - 1]
    return RunPage(rows, run_cursor(last[_CREATED], last[_RUN_ID]))


_SELDOM = ("reason", "parent")
"""The columns that are empty in most rows; their indices omit these rows."""


def _beyond(prefix: str) -> str | None:
    """The first text after all that start with `prefix`, in the order of code points.

    A range needs no escaping, unlike a pattern, and can use the index.
    """
    while prefix:
        following = ord(prefix[-1]) + 1
        prefix = prefix[:-1]
        if following <= 0x10FFFF:
            # the skipped code points are surrogates, which columns cannot contain
            return prefix + chr(0xE000 if following == 0xD800 else following)
    return None


def acquire(db: Connection, run_id: str, claim: Claim, now: float) -> tuple[RunRow, Acquired]:
    """Raise the run's epoch and write the lease of a claim. Raises `Driven` if it gets none."""
    refuse_moved(require_row(db, run_id))
    acquired = sqlite_leases.take(db, run_id, claim, now)
    db.execute("UPDATE run SET epoch = epoch + 1 WHERE run_id = ?", (run_id,))
    return require_row(db, run_id), acquired


def remove(db: Connection, run_ids: Iterable[str]) -> int:
    """Delete runs with their children and unshared payloads; return the number of runs."""
    removed = 0
    for run_id in run_ids:
        children = [row.run_id for row in rows(db, {}, run_id + CHILD_MARK, None)]
        removed += _remove(db, run_id)
        for child in children:
            _remove(db, child)
    return removed


def _remove(db: Connection, run_id: str) -> int:
    newest = db.execute("SELECT number, run_id FROM event ORDER BY number DESC LIMIT 1").fetchone()
    removed = db.execute("DELETE FROM run WHERE run_id = ?", (run_id,)).rowcount
    sql = "SELECT DISTINCT hash FROM event_blob WHERE run_id = ?"
    payloads = db.execute(sql, (run_id,)).fetchall()
    for table in ("event", "event_blob", "inbox", "snapshot", "lease", "request"):
        db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608
    if newest is not None and newest[1] == run_id:
        db.execute(_LAST_NUMBER, newest[:1])
    db.executemany(
        "DELETE FROM blob WHERE hash = ?1 AND NOT kept "
        "AND NOT EXISTS (SELECT 1 FROM event_blob WHERE hash = ?1)",
        payloads,
    )
    return removed


# -- events ------------------------------------------------------------------------------------

_LAST_NUMBER = "INSERT OR REPLACE INTO event VALUES (?, '', -1, 0, 'removed', NULL, 0, '{}')"
"""Keeps the newest number after its event is deleted, because SQLite continues after the highest
existing number, and a number must not be used twice. There is one such row, without a run."""
_HEAD = "UPDATE run SET head = ? WHERE run_id = ? AND head = ? AND epoch = ?"
_STANDS = (
    "UPDATE run SET head = ?, state = ?, steps = ?, wake_at = ?, question = ?, tokens = ?, "
    "cost = ?, updated = coalesce(?, updated) "
    "WHERE run_id = ? AND head = ? AND epoch = ? AND status = ? AND reason = ?"
)
"""Most steps do not change the status, and so need no update of its indices: SQLite writes the
index of every column that a statement sets, even to the same value."""
_CHANGES = (
    "UPDATE run SET head = ?, state = ?, steps = ?, wake_at = ?, question = ?, tokens = ?, "
    "cost = ?, updated = coalesce(?, updated), status = ?, reason = ? "
    "WHERE run_id = ? AND head = ? AND epoch = ?"
)
_EVENT = "run_id, seq, epoch, type, record, at, data"
_INSERT = f"INSERT INTO event ({_EVENT}) VALUES (?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_COPY = (
    f"INSERT INTO event ({_EVENT}) SELECT ?, seq, 0, type, record, at, data FROM event "  # noqa: S608
    "WHERE run_id = ? AND seq < ? ORDER BY seq"
)
_LAST = "SELECT epoch, type, record, at, data FROM event WHERE run_id = ? AND seq >= ? ORDER BY seq"


class Append(NamedTuple):
    """An append of events to a run, at an expected head and epoch."""

    run_id: str
    head: int
    epoch: int
    lines: Sequence[Line]
    update: Columns | None
    """The columns of `Writer.update`."""
    consumed: Sequence[str]


def append(db: Connection, given: Append) -> int:
    """Write events, and return the new head. Raises `Fenced` if another driver has taken over."""
    run_id, head, epoch, lines, update, consumed = given
    after = head + len(lines)
    if update is None:
        moved = db.execute(_HEAD, (after, run_id, head, epoch))
    else:
        status, state, reason, *more = update
        set_ = (after, state, *more, lines[-1].at if lines else None)
        moved = db.execute(_STANDS, (*set_, run_id, head, epoch, status, reason))
        if moved.rowcount == 0:
            moved = db.execute(_CHANGES, (*set_, status, reason, run_id, head, epoch))
    if moved.rowcount == 0:
        return _refuse(db, given)
    _insert(db, run_id, head, epoch, lines)
    for msg_id in consumed:
        sql = "UPDATE inbox SET seq = ? WHERE run_id = ? AND msg_id = ? AND seq IS NULL"
        db.execute(sql, (head, run_id, msg_id))
    return after


def _insert(db: Connection, run_id: str, head: int, epoch: int, lines: Sequence[Line]) -> None:
    for seq, line in enumerate(lines, head):
        db.execute(_INSERT, (run_id, seq, epoch, line.type, line.record, line.at, line.data))
        if line.blobs:
            _keep_payloads(db, run_id, seq, line.blobs)


def _refuse(db: Connection, given: Append) -> int:
    """Handle an append that does not fit: our own commit whose result was lost, else `Fenced`."""
    run_id, head, epoch, lines = given[:4]
    found = require_row(db, run_id)
    if is_own_commit(found, head, epoch, len(lines)):
        written = db.execute(_LAST, (run_id, head)).fetchall()
        if written == [(epoch, line.type, line.record, line.at, line.data) for line in lines]:
            return found.head
    raise fenced_error(found, head, epoch)


def _keep_payloads(db: Connection, run_id: str, seq: int, blobs: Mapping[str, str]) -> None:
    for key, text in blobs.items():
        db.execute(
            "INSERT INTO blob VALUES (?, ?, 0) ON CONFLICT (hash) DO NOTHING",
            (key, stored_text(text)),
        )
        db.execute("INSERT INTO event_blob VALUES (?, ?, ?)", (run_id, seq, key))


class _Sized:
    """Fetches the payloads of events, and counts the bytes of what is read."""

    def __init__(self, db: Connection, size: int | None = None) -> None:
        self._db = db
        self.left = math.inf if size is None else float(size)
        """The bytes after which no event is read."""

    def event(self, run_id: Any, columns: Sequence[Any]) -> Event:
        """The event of a row's `seq, type, at, data, record, epoch`."""

        def fetch(key: str) -> str:
            text = blob(self._db, key)
            if text is None:
                raise JournalCorrupt(f"run `{run_id}` refers to payload {key}, which is not there")
            self.left -= len(text)
            return text

        self.left -= len(columns[3]) if isinstance(columns[3], (str, bytes)) else 0
        return _event(columns, fetch)


def events(
    db: Connection, run_id: str, start: int, limit: int | None = None, *, size: int | None = None
) -> list[Event]:
    """At most `limit` events from number `start` on, in order, until their texts reach `size`."""
    sql = (
        "SELECT seq, type, at, data, record, epoch FROM event "
        "WHERE run_id = ? AND seq >= ? ORDER BY seq LIMIT ?"
    )
    return _read(db, run_id, sql, (run_id, start, -1 if limit is None else limit), _Sized(db, size))


def _read(db: Connection, run_id: str, sql: str, values: Columns, reader: _Sized) -> list[Event]:
    found: list[Event] = []
    try:
        with contextlib.closing(db.execute(sql, values)) as rows:
            for columns in rows:
                found.append(reader.event(run_id, columns))
                if reader.left <= 0:
                    break
    except UNREAD as error:
        raise JournalCorrupt(
            f"an event of run `{run_id}` cannot be read: {_say(error)}",
            hint=f"{BY_HAND}; a fork below it still works",
        ) from error
    if not found:
        require_row(db, run_id)
    return found


def records(db: Connection, run_id: str, start: int, limit: int | None) -> list[Record]:
    """At most `limit` records from number `start` on, in order."""
    sql = (
        "SELECT seq, type, at, data, record, epoch FROM event "
        "WHERE run_id = ? AND record >= ? ORDER BY record LIMIT ?"
    )
    found = _read(db, run_id, sql, (run_id, start, -1 if limit is None else limit), _Sized(db))
    return [event.record for event in found if event.record is not None]


def tail(
    db: Connection, cursor: str, limit: int, *, size: int | None = None, run: str = ""
) -> Tail:  # fmt: skip
    """The events of all runs after a cursor, in the order of their commits.

    SQLite has one writer at a time, which numbers its events from the highest existing number. So
    the order of numbers is the order of commits, and no event appears after a later one.
    """
    found = db.execute("SELECT id FROM journal").fetchone()
    oldest, newest = db.execute(
        "SELECT coalesce((SELECT min(number) FROM event), 1) - 1, "
        "coalesce((SELECT max(number) FROM event), 0)"
    ).fetchone()
    cursors = EventCursors(str(found[0] if found else ""), oldest, newest)
    after = cursors.read(cursor)
    below = run + CHILD_MARK
    # `+`: by the index of runs, which holds the numbers, and not through all other events
    chosen = (
        "number IN (SELECT number FROM event WHERE +number > ? "
        "AND (run_id = ? OR run_id >= ? AND run_id < ?) ORDER BY +number LIMIT ?)"
    )
    where, values = (
        (chosen, (after, run, below, _beyond(below), limit)) if run else ("number > ?", (after,))
    )
    sql = (
        f"SELECT number, run_id, seq, type, at, data, record, epoch FROM event WHERE {where} "  # noqa: S608
        "AND type != 'removed' ORDER BY number LIMIT ?"
    )
    events: list[TailEvent] = []
    reader, at = _Sized(db, size), after
    with contextlib.closing(db.execute(sql, (*values, limit))) as rows:
        for at, run_id, *columns in rows:
            events.append(_tail_event(reader, cursors.write(at), run_id, columns))
            if reader.left <= 0:
                break
        else:
            at = newest if len(events) < limit else at
    return Tail(events, cursors.write(at), cursors.write(newest))


def _tail_event(reader: _Sized, cursor: str, run_id: Any, columns: Sequence[Any]) -> TailEvent:
    problem = ""
    event = None
    try:
        event = reader.event(run_id, columns)
    except ChartloopError as error:
        problem = error.message
    except UNREAD as error:
        problem = f"an event of run `{run_id}` cannot be read: {_say(error)}"
    return TailEvent(cursor, run_id if isinstance(run_id, str) else ascii(run_id), event, problem)


def changed(db: Connection, token: str) -> str | None:
    """A new token if this or another connection has written since `token`, else None."""
    others = db.execute("PRAGMA data_version").fetchone()[0]
    now = f"{others}-{db.total_changes}"
    return None if now == token else now


def _say(error: Exception) -> str:
    return f"{type(error).__name__} {error}"


_KINDS = frozenset(KINDS)


def _event(columns: Sequence[Any], fetch: Callable[[str], str]) -> Event:
    seq, kind, at, stored, number, epoch = columns
    if kind not in EVENT_TYPES:
        raise _too_new(seq, kind)
    if not (type(seq) is int and type(epoch) is int and type(at) in (float, int)):
        raise TypeError("its number, epoch or time is not valid")
    if (kind == "record") != (type(number) is int):
        raise ValueError(f"it is a {kind}, and its number as a record is {number}")
    text = stored if type(stored) is str else read_text(stored)
    if number is None:
        return Event(seq, kind, at, None, unpack(text, fetch), epoch)
    if is_whole(text):
        record = Record.from_json(number, text)
    else:
        record = Record.from_dict(number, unpack(text, fetch))
    if record.kind not in _KINDS:
        raise _too_new(seq, record.kind)
    if wrong := wrong_with(record):
        raise ValueError(f"record {number}: {wrong}")
    return Event(seq, kind, at, record, EMPTY, epoch)


def _too_new(seq: int, kind: object) -> JournalTooNew:
    return JournalTooNew(
        f"event {seq} is of a kind that this version of chartloop does not know: {kind!a}",
        hint="a newer version wrote it: update chartloop to open this run; nothing was written",
    )


def fork(db: Connection, run_id: str, record_seq: int, new: RunRow, write: Writer) -> int:
    """Create a run with a copy of the events before a record, and return its head."""
    require_row(db, run_id)
    sql = "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE run_id = ? AND record < ?"
    head: int = db.execute(sql, (run_id, record_seq)).fetchone()[0]
    create(db, write.row(new.replace(parent=run_id, fork_seq=record_seq, head=head)))
    db.execute(_COPY, (new.run_id, run_id, head))
    db.execute(
        "INSERT INTO event_blob SELECT ?, seq, hash FROM event_blob WHERE run_id = ? AND seq < ?",
        (new.run_id, run_id, head),
    )
    return head


class Filled(NamedTuple):
    """A complete new run with its events, as values of rows."""

    row: Columns
    """The columns of `Writer.row`."""
    lines: Sequence[Line]
    inbox_of: str
    carries: Callable[[InboxMessage], bool] | None


def create_whole(
    db: Connection, runs: Sequence[Filled], moves: Sequence[Move], claim: Claim, now: float
) -> None:
    """Create runs with events and messages. Raises `Fenced` if a moved run has continued."""
    for read, _ in moves:
        found = require_row(db, read.run_id)
        refuse_moved(found)
        sqlite_leases.try_claim(db, read.run_id, claim, now)
        refuse_overtaken(found, read)
    for run in runs:
        if row(db, run.row[_RUN_ID]) is not None:
            raise duplicate_run_error(run.row[_RUN_ID])
    for columns, lines, inbox_of, carries in runs:
        new = columns[_RUN_ID]
        create(db, columns)
        _insert(db, new, 0, 0, lines)
        for message in inbox(db, inbox_of) if inbox_of else ():
            if carries is None or carries(message):
                db.execute(
                    "INSERT INTO inbox (run_id, msg_id, at, data) SELECT ?, msg_id, at, data "
                    "FROM inbox WHERE run_id = ? AND msg_id = ?",
                    (new, inbox_of, message.msg_id),
                )
    for read, to in moves:
        sqlite_leases.take(db, read.run_id, claim._replace(take_over=True), now)
        moved = moved_row(read, to)
        db.execute(
            "UPDATE run SET status = ?, moved_to = ?, epoch = ?, head = ?, question = NULL, "
            "wake_at = NULL WHERE run_id = ?",
            (moved.status, to, moved.epoch, moved.head, read.run_id),
        )
        event = Line(MOVED, None, now, stored_text(json.dumps({"to": to})), {})
        _insert(db, read.run_id, read.head, moved.epoch, (event,))


# -- inbox -------------------------------------------------------------------------------------


def send(
    db: Connection, run_id: str, message: InboxMessage, data: str, check: Check | None = None
) -> bool:
    """Put a message into the inbox, unless `check` raises.

    False if there is already a message with that id.
    """
    found = row(db, run_id)
    if found is None or check is not None:
        found = require_row(db, run_id)
    sql = "SELECT 1 FROM inbox WHERE run_id = ? AND msg_id = ?"
    if db.execute(sql, (run_id, message.msg_id)).fetchone():
        return False
    refuse_moved(found)
    if check is not None:
        check(found, inbox(db, run_id))
    sql = "INSERT INTO inbox (run_id, msg_id, at, data) VALUES (?, ?, ?, ?)"
    db.execute(sql, (run_id, message.msg_id, message.at, stored_text(data)))
    return True


def has_message(db: Connection, run_id: str, msg_id: str) -> bool:
    """Whether the inbox of the run or a child ever had a message with that id."""
    below = run_id + CHILD_MARK
    sql = "SELECT 1 FROM inbox WHERE msg_id = ? AND (run_id = ? OR run_id >= ? AND run_id < ?)"
    return db.execute(sql, (msg_id, run_id, below, _beyond(below))).fetchone() is not None


def inbox(db: Connection, run_id: str) -> list[InboxMessage]:
    """The messages that are not yet consumed, in order of arrival."""
    found = db.execute(
        "SELECT msg_id, at, data FROM run LEFT JOIN inbox "
        "ON inbox.run_id = run.run_id AND inbox.seq IS NULL "
        "WHERE run.run_id = ? ORDER BY inbox.number",
        (run_id,),
    ).fetchall()
    if not found:
        require_row(db, run_id)
    return [_inbox_message(*columns) for columns in found if columns[0] is not None]


def _inbox_message(msg_id: str, at: Any, stored: Stored) -> InboxMessage:
    """A message; an unreadable one becomes a message that the run drops with the reason."""
    data: Any = None
    try:
        data = json.loads(read_text(stored))
        wrong = wrong_with_message(at, data)
    except UNREAD as error:
        wrong = f"{type(error).__name__} {error}"
    if wrong:
        return InboxMessage(msg_id, 0.0, {"kind": UNREADABLE, "why": wrong})
    return InboxMessage(msg_id, at, data)


def put_snapshot(db: Connection, run_id: str, snapshot: Snapshot, data: str) -> None:
    """Replace the snapshot of a run."""
    if not sqlite_texts.put_snapshot(db, run_id, snapshot, data):
        require_row(db, run_id)


def snapshot(db: Connection, run_id: str) -> Snapshot | None:
    """The run's snapshot, or None."""
    found = sqlite_texts.snapshot(db, run_id)
    if found is None:
        require_row(db, run_id)
    return found
