"""Rows of the journal's tables: what each write and read of the port does in a database.

The SQL is SQLite's, and mostly everybody's: `postgres_dialect` respells it, and has a text of its
own for the statements with a public name.

Nothing here starts or ends a transaction; the caller does, and may group several calls in one. Each
raises its `ChartloopError` before it has written anything, so that a refusal does not affect the
others.

Belongs here: SQL, and events as rows. Never: locks, transactions, threads, errors of a database.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from chartloop.adapters.journal.activations import REQUEST, TENANT, read_requests
from chartloop.adapters.journal.cron_rows import CronRows
from chartloop.adapters.journal.leases import LeaseRows
from chartloop.adapters.journal.quotas import HOLD_RUN, FleetRows
from chartloop.adapters.journal.raw_rows import (
    COLUMNS,
    EVENT,
    INSERT,
    INSERT_RUN,
    KEEP_PAYLOAD,
    NAMES,
    REFER,
    RawRows,
)
from chartloop.adapters.journal.run_lists import ListRows, beyond, row_of
from chartloop.adapters.journal.texts import UNREAD, TextRows, read_text
from chartloop.adapters.journal.writes import (
    Acquire,
    Append,
    ClaimRuns,
    Connection,
    Create,
    CreateWhole,
    Enqueue,
    Fork,
    HandBack,
    Keep,
    Line,
    MarkRestored,
    PlaceRequest,
    PutBlob,
    PutCron,
    PutRaw,
    PutSnapshot,
    Release,
    Remove,
    RemoveLimit,
    Renew,
    Reserve,
    Send,
    SetLimit,
    SettleCall,
    SettleRequest,
    Stored,
    Sweep,
    WithdrawRequest,
    Write,
    stored_text,
)
from chartloop.core.errors import (
    ChartloopError,
    JournalCorrupt,
    JournalTooNew,
    UnknownRunError,
)
from chartloop.core.facts import EMPTY
from chartloop.core.records import KINDS, Record
from chartloop.run.chain import SIZE, START, follow
from chartloop.run.journal import (
    BY_HAND,
    CHILD_MARK,
    Event,
    InboxMessage,
    RunRow,
    Snapshot,
    duplicate_run_error,
    fenced_error,
    is_own_commit,
    refuse_damaged,
)
from chartloop.run.journal_pages import (
    EventCursors,
    RunFilter,
    Tail,
    TailEvent,
)
from chartloop.run.journal_records import EVENT_TYPES, MOVED, UNREADABLE, moved_row
from chartloop.run.lease import Acquired, holds
from chartloop.run.payload import is_whole, unpack
from chartloop.run.requests import StoredRequest, refuse_second
from chartloop.run.succession import (
    is_unbegun,
    refuse_followed,
    refuse_move,
    refuse_moved,
    refuse_overtaken,
)
from chartloop.run.tenants import MARK, refuse_stranger
from chartloop.run.validate_record import wrong_with, wrong_with_message

_RUN_ID, _HEAD, _PARENT, _QUESTION = map(NAMES.index, ("run_id", "head", "parent", "question"))
_SUCCESSION = [NAMES.index(name) for name in ("parent", "session", "follows")]
KEEP_NUMBER = (
    "UPDATE OR REPLACE event SET run_id = '', seq = -1, epoch = 0, type = 'removed', "
    "record = NULL, at = 0, digest = NULL, data = '{}' "
    "WHERE run_id = ? AND number = (SELECT max(number) FROM event)"
)
"""Keeps the newest number when its event is deleted, because SQLite continues after the highest
existing number, and a number must not be used twice. There is one such row, without a run."""
PAYLOADS = "SELECT DISTINCT hash FROM event_blob WHERE run_id = ?"
BOUNDS = (
    "SELECT (SELECT id FROM journal), coalesce((SELECT min(number) FROM event), 1) - 1, "
    "coalesce((SELECT max(number) FROM event), 0)"
)
FENCE = (
    "SELECT rowid, CAST(chain AS BLOB), status, reason FROM run "
    "WHERE run_id = ? AND head = ? AND epoch = ?"
)
_STAYS = "UPDATE run SET head = ?, chain = ? WHERE rowid = ?"
_STANDS = (
    "UPDATE run SET head = ?, chain = ?, state = ?, steps = ?, wake_at = ?, question = ?, "
    "tokens = ?, cost = ?, updated = coalesce(?, updated) WHERE rowid = ?"
)
"""Most steps do not change the status, and so need no update of its indices: SQLite writes the
index of every column that a statement sets, even to the same value."""
_CHANGES = (
    "UPDATE run SET head = ?, chain = ?, state = ?, steps = ?, wake_at = ?, question = ?, "
    "tokens = ?, cost = ?, updated = coalesce(?, updated), status = ?, reason = ?, ending = ?, "
    "message = ?, last_state = ? WHERE rowid = ?"
)
COPY = (
    f"INSERT INTO event ({EVENT}) SELECT ?, seq, 0, type, record, at, digest, data "  # noqa: S608
    "FROM event WHERE run_id = ? AND seq < ? ORDER BY seq"
)
_HEAD_OF = "SELECT CAST(chain AS BLOB) FROM run WHERE run_id = ?"
_FORKS = (
    "UPDATE run SET (origin, chain) = (SELECT origin, coalesce((SELECT digest FROM event "
    "WHERE run_id = ?1 AND seq = ?2), origin) FROM run WHERE run_id = ?1) WHERE run_id = ?3"
)
_WRITTEN = (
    "SELECT epoch, type, record, at, CAST(data AS BLOB) FROM event WHERE run_id = ? AND seq >= ? "
    "ORDER BY seq"
)

SPAN = 50_000
"""The most events that are looked through for those of a tenant."""
_READ = "seq, type, at, data, record, epoch"
_KINDS = frozenset(KINDS)


class Rows(ListRows, TextRows, LeaseRows, FleetRows, RawRows, CronRows):
    """The tables of a database. `now` is its clock."""

    def __init__(
        self, db: Connection, now: Callable[[], float],
        stored: Callable[[str], Stored] = stored_text,
    ) -> None:  # fmt: skip
        self.db, self.now, self.stored = db, now, stored

    def time(self) -> float:
        """The time now."""
        return self.now()

    def perform(self, write: Write) -> Any:
        """Perform one write; returns what its method does."""
        return _PERFORM[type(write)](self, write)

    # runs -------------------------------------------------------------------------------------

    def create(self, write: Create) -> bytes:
        """Create a run; returns its chain. Raises `RunError` if the id is taken."""
        run_id, row = write
        refuse_stranger(run_id, row[_PARENT])
        self.refuse_second(write)
        found = self.db.execute(_HEAD_OF, (row[_PARENT],)).fetchone() if row[_PARENT] else None
        origin: bytes = found[0][:SIZE] if found else START
        if self.db.execute(INSERT_RUN, (*row, origin, origin)).rowcount == 0:
            self.refuse_second(write)  # by another connection, since
            raise duplicate_run_error(run_id)
        return origin

    def refuse_second(self, new: Create) -> None:
        """Raise if another run follows what the new one follows, unless it insists."""
        parent, session, follows = (new.row[at] for at in _SUCCESSION)
        if not follows:
            return
        row = RunRow(new.run_id, parent=parent, session=session, follows=follows)
        self.db.execute(HOLD_RUN, (row.parent,))
        if (origin := self.row(row.parent)) is not None:
            refuse_moved(origin)
        while (newest := self.follower(row)) is not None:
            if self.living_lease(newest.run_id) or not is_unbegun(newest, self.now()):
                refuse_followed(row, newest)
                break
            self._remove(newest.run_id)

    def follower(self, row: RunRow) -> RunRow | None:
        """The newest run that follows what a new one follows: as a message, in its session."""
        sql = (
            f"SELECT {COLUMNS} FROM run WHERE parent = ? AND run_id != ? AND follows != '' "  # noqa: S608
            "AND (session = ? OR ?) ORDER BY rowid DESC LIMIT 1"
        )
        given = (row.parent, row.run_id, row.session, row.follows.startswith("attempt"))
        found = self.db.execute(sql, given).fetchone()
        return row_of(found) if found else None

    def row(self, run_id: str) -> RunRow | None:
        """One run's row, or None."""
        sql = f"SELECT {COLUMNS} FROM run WHERE run_id = ?"  # noqa: S608
        found = self.db.execute(sql, (run_id,)).fetchone()
        return row_of(found) if found else None

    def require_row(self, run_id: str) -> RunRow:
        """One run's row. Raises `UnknownRunError` if it is missing, `JournalCorrupt` if damaged."""
        found = self.row(run_id)
        if found is None:
            raise UnknownRunError(f"there is no run `{run_id}` in this journal")
        refuse_damaged(found)
        return found

    def acquire(self, write: Acquire) -> tuple[RunRow, Acquired]:
        """Raise the run's epoch and write the lease of a claim. `Driven` if it gets none."""
        run_id, claim = write
        refuse_moved(self.require_row(run_id))
        acquired = self.take(run_id, claim)
        self.close_reservations(run_id)
        marked = self.db.execute(
            "UPDATE run SET epoch = epoch + 1 WHERE run_id = ? "
            "RETURNING (SELECT restored FROM journal)",
            (run_id,),
        ).fetchone()
        return self.require_row(run_id), acquired._replace(restored=marked[0])

    def check_driver(self, run_id: str, head: int, epoch: int) -> None:
        """Raise `Fenced` if another driver has the run."""
        sql = "SELECT 1 FROM run WHERE run_id = ? AND epoch = ?"
        if self.db.execute(sql, (run_id, epoch)).fetchone() is None:
            raise fenced_error(self.require_row(run_id), head, epoch)

    def create_whole(self, write: CreateWhole) -> None:
        """Create runs with events and messages. `Fenced` if a moved run has continued."""
        _, runs, moves, claim = write
        for read, to in moves:
            refuse_stranger(to, read.run_id)
            found = self.require_row(read.run_id)
            refuse_move(found)
            self.try_claim(read.run_id, claim)
            refuse_overtaken(found, read)
        for run in runs:
            if self.row(run.run_id) is not None:
                raise duplicate_run_error(run.run_id)
        for run_id, columns, lines, inbox_of, carries in runs:
            chain = self._insert(run_id, 0, 0, lines, self.create(Create(run_id, columns)))
            self.db.execute("UPDATE run SET chain = ? WHERE run_id = ?", (chain, run_id))
            for message in self.inbox(inbox_of) if inbox_of else ():
                if carries is None or carries(message):
                    self.db.execute(
                        "INSERT INTO inbox (run_id, msg_id, at, data) SELECT ?, msg_id, at, data "
                        "FROM inbox WHERE run_id = ? AND msg_id = ?",
                        (run_id, inbox_of, message.msg_id),
                    )
        for read, to in moves:
            self.take(read.run_id, claim._replace(take_over=True))
            self.close_reservations(read.run_id)
            moved = moved_row(read, to)
            event = Line(MOVED, None, self.now(), self.stored(json.dumps({"to": to})), {})
            chain: bytes = self.db.execute(_HEAD_OF, (read.run_id,)).fetchone()[0]
            chain = self._insert(read.run_id, read.head, moved.epoch, (event,), chain)
            self.db.execute(
                "UPDATE run SET status = ?, moved_to = ?, epoch = ?, head = ?, chain = ?, "
                "question = NULL, wake_at = NULL WHERE run_id = ?",
                (moved.status, to, moved.epoch, moved.head, chain, read.run_id),
            )
            self.wake(read.run_id)

    def fork(self, write: Fork) -> int:
        """Create a run with a copy of the events before a record, and return its head."""
        run_id, record_seq, (new, columns), notes = write
        self.db.execute(HOLD_RUN, (run_id,))
        self.require_row(run_id)
        sql = "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE run_id = ? AND record < ?"
        head: int = self.db.execute(sql, (run_id, record_seq)).fetchone()[0]
        end = head + len(notes)
        self.create(Create(new, (*columns[:_HEAD], end, *columns[_HEAD + 1 :])))
        self.db.execute(COPY, (new, run_id, head))
        self.db.execute(_FORKS, (run_id, head - 1, new))
        self.db.execute(
            "INSERT INTO event_blob SELECT ?, seq, hash FROM event_blob "
            "WHERE run_id = ? AND seq < ?",
            (new, run_id, head),
        )
        if notes:
            chain: bytes = self.db.execute(_HEAD_OF, (new,)).fetchone()[0]
            chain = self._insert(new, head, 0, notes, chain)
            self.db.execute("UPDATE run SET chain = ? WHERE run_id = ?", (chain, new))
        return end

    def remove(self, write: Remove) -> int:
        """Delete runs with their children and unshared payloads; return the number of runs."""
        removed = 0
        for run_id in write.run_ids:
            children = [
                row.run_id
                for row in self.rows(RunFilter(prefix=run_id + CHILD_MARK, children=True), None)
            ]
            removed += self._remove(run_id)
            for child in children:
                self._remove(child)
        return removed

    def _remove(self, run_id: str) -> int:
        self.db.execute(HOLD_RUN, (run_id,))
        self.close_reservations(run_id, removed=True)
        removed = self.db.execute("DELETE FROM run WHERE run_id = ?", (run_id,)).rowcount
        payloads = self.db.execute(PAYLOADS, (run_id,)).fetchall()
        self.db.execute(KEEP_NUMBER, (run_id,))
        for table in (
            "event",
            "event_blob",
            "inbox",
            "snapshot",
            "lease",
            "request",
        ):
            self.db.execute(f"DELETE FROM {table} WHERE run_id = ?", (run_id,))  # noqa: S608
        for payload in payloads:
            self.db.execute(
                "DELETE FROM blob WHERE hash = ?1 AND NOT kept "
                "AND NOT EXISTS (SELECT 1 FROM event_blob WHERE hash = ?1)",
                payload,
            )
        return removed

    # events -----------------------------------------------------------------------------------

    def append(self, write: Append) -> int:
        """Write events, and return the new head. `Fenced` if another driver has taken over."""
        run_id, head, epoch, lines, update, consumed = write
        expected = self.db.execute(FENCE, (run_id, head, epoch)).fetchone()
        if expected is None:
            found = self.require_row(run_id)
            if is_own_commit(found, head, epoch, len(lines)):
                written = self.db.execute(_WRITTEN, (run_id, head)).fetchall()
                if written == [
                    (epoch, line.type, line.record, line.at, _bytes(line.data)) for line in lines
                ]:
                    return found.head  # our own commit, whose result was lost
            raise fenced_error(found, head, epoch)
        row, chain, *standing = expected
        after, chain = head + len(lines), self._insert(run_id, head, epoch, lines, chain)
        if update is None:
            self.db.execute(_STAYS, (after, chain, row))
        else:
            status, state, reason, steps, wake_at, ending, message, last, *more = update
            at = lines[-1].at if lines else None
            set_ = (after, chain, state, steps, wake_at, *more, at)
            if standing == [status, reason]:
                self.db.execute(_STANDS, (*set_, row))
            else:
                self.db.execute(_CHANGES, (*set_, status, reason, ending, message, last, row))
        for msg_id in consumed:
            sql = "UPDATE inbox SET seq = ? WHERE run_id = ? AND msg_id = ? AND seq IS NULL"
            self.db.execute(sql, (head, run_id, msg_id))
        return after

    def _insert(
        self, run_id: str, head: int, epoch: int, lines: Sequence[Line], chain: bytes
    ) -> bytes:
        """Insert events; returns the run's chain after them."""
        for seq, line in enumerate(lines, head):
            type, number, at, data, _ = line
            text = data.encode() if isinstance(data, str) else data
            chain = follow(chain, (seq, number, at, type.encode(), text))
            digest = None if number is None else chain
            self.db.execute(INSERT, (run_id, seq, epoch, type, number, at, digest, data))
            for key, text in line.blobs.items():
                self.db.execute(KEEP_PAYLOAD, (key, self.stored(text)))
                self.db.execute(REFER, (run_id, seq, key))
        return chain

    def events(
        self, run_id: str, start: int, limit: int | None = None, size: int | None = None
    ) -> list[Event]:
        """At most `limit` events from number `start` on, until their texts reach `size`."""
        return self._read(run_id, "seq >= ? ORDER BY seq", (start, limit), size)

    def records(
        self, run_id: str, start: int, limit: int | None, size: int | None = None
    ) -> list[Record]:
        """At most `limit` records from number `start` on, until their texts reach `size`."""
        found = self._read(run_id, "record >= ? ORDER BY record", (start, limit), size)
        return [event.record for event in found if event.record is not None]

    def _read(
        self, run_id: str, where: str, bounds: tuple[int, int | None], size: int | None = None
    ) -> list[Event]:
        sql = f"SELECT {_READ} FROM event WHERE run_id = ? AND {where} LIMIT ?"  # noqa: S608
        start, limit = bounds
        found: list[Event] = []
        reader = _Sized(self, size)
        try:
            with contextlib.closing(
                self.db.execute(sql, (run_id, start, -1 if limit is None else limit))
            ) as rows:
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
            self.require_row(run_id)
        return found

    def tail(self, cursor: str, limit: int, size: int | None, run: str) -> Tail:
        """The events of all runs after a cursor, in the order of their commits.

        One writer at a time numbers its events, from the highest number. So the order of numbers
        is the order of commits, and no event appears after a later one.
        """
        journal, oldest, newest = self.db.execute(BOUNDS).fetchone()
        cursors = EventCursors(str(journal or ""), oldest, newest)
        after = cursors.read(cursor)
        below = run + CHILD_MARK
        # `+`: by the index of runs, which holds the numbers, and not through all other events
        chosen = (
            "number IN (SELECT number FROM event WHERE +number > ? "
            "AND (run_id = ? OR run_id >= ? AND run_id < ?) ORDER BY +number LIMIT ?)"
        )
        where, values, end = "number > ?", (after,), newest
        if run.endswith(MARK):
            end = min(newest, after + SPAN)
            where = f"number > ? AND number <= ? AND {TENANT} = ?"
            values = (after, end, run[: -len(MARK)])
        elif run:
            where, values = chosen, (after, run, below, beyond(below), limit)
        sql = (
            f"SELECT number, run_id, seq, type, at, data, record, epoch FROM event WHERE {where} "  # noqa: S608
            "AND type != 'removed' ORDER BY number LIMIT ?"
        )
        events: list[TailEvent] = []
        reader, at = _Sized(self, size), after
        with contextlib.closing(self.db.execute(sql, (*values, limit))) as rows:
            for at, run_id, *columns in rows:
                events.append(reader.tail_event(cursors.write(at), run_id, columns))
                if reader.left <= 0:
                    break
            else:
                at = end if len(events) < limit else at
        return Tail(events, cursors.write(at), cursors.write(newest))

    # inbox ------------------------------------------------------------------------------------

    def send(self, write: Send) -> bool:
        """Put a message into the inbox, unless its check raises.

        False if there is already a message with that id.
        """
        run_id, message, data, check = write
        found = self.row(run_id)
        if found is None or check is not None:
            found = self.require_row(run_id)
        sql = "SELECT 1 FROM inbox WHERE run_id = ? AND msg_id = ?"
        if self.db.execute(sql, (run_id, message.msg_id)).fetchone():
            return False
        refuse_moved(found)
        if check is not None:
            check(found, self.inbox(run_id))
        sql = "INSERT INTO inbox (run_id, msg_id, at, data) VALUES (?, ?, ?, ?)"
        self.db.execute(sql, (run_id, message.msg_id, message.at, data))
        self.wake(run_id)
        return True

    def message(self, run_id: str, msg_id: str) -> InboxMessage | None:
        """The message with that id that the inbox of the run or a child ever had."""
        below = run_id + CHILD_MARK
        sql = (
            "SELECT msg_id, at, data FROM inbox "
            "WHERE msg_id = ? AND (run_id = ? OR run_id >= ? AND run_id < ?)"
        )
        found = self.db.execute(sql, (msg_id, run_id, below, beyond(below))).fetchone()
        return None if found is None else _inbox_message(*found)

    def inbox(self, run_id: str) -> list[InboxMessage]:
        """The messages that are not yet consumed, in order of arrival."""
        found = self.db.execute(
            "SELECT msg_id, at, data FROM run LEFT JOIN inbox "
            "ON inbox.run_id = run.run_id AND inbox.seq IS NULL "
            "WHERE run.run_id = ? ORDER BY inbox.number",
            (run_id,),
        ).fetchall()
        if not found:
            self.require_row(run_id)
        return [_inbox_message(*columns) for columns in found if columns[0] is not None]

    def put_snapshot(self, write: PutSnapshot) -> None:
        """Replace the snapshot of a run."""
        if not self.replace_snapshot(write):
            self.require_row(write.run_id)

    def snapshot(self, run_id: str) -> Snapshot | None:
        """The run's snapshot, or None."""
        found = self.read_snapshot(run_id)
        if found is None:
            self.require_row(run_id)
        return found

    # requests ---------------------------------------------------------------------------------

    def place_request(self, write: PlaceRequest) -> StoredRequest:
        """Store a request, and return the one stored under its key."""
        run_id, request, *_ = write
        sql = f"SELECT rowid, {REQUEST} FROM request WHERE key = ?"  # noqa: S608  constants
        for number, *columns in self.db.execute(sql, (request.key,)).fetchall():
            if known := read_requests([columns]):
                return known[0]
            # only the unreadable row that was read: another connection may place the key now
            self.db.execute("DELETE FROM request WHERE rowid = ?", (number,))
        run = self.row(run_id)
        if request.is_open and run is not None:
            refuse_moved(run)
        refuse_second(request, next(iter(self.requests(run_id, open_only=True, limit=1)), None))
        self.insert_request(write, run)
        return request

    def settle_request(self, write: SettleRequest) -> bool:
        """Set the outcome of an open request, unless another driver has had its run since."""
        _, key, outcome, epoch, before = write
        if before is not None:
            sql = "UPDATE request SET outcome = ? WHERE key = ? AND outcome = ?"
            return self.db.execute(sql, (outcome, key, before)).rowcount == 1
        sql = "SELECT run_id FROM request WHERE key = ? AND outcome IS NULL"
        if (found := self.db.execute(sql, (key,)).fetchone()) is None:
            return False
        if not holds(self.row(found[0]), epoch, partial(self.try_claim, found[0])):
            return False
        sql = "UPDATE request SET outcome = ? WHERE key = ? AND outcome IS NULL"
        return self.db.execute(sql, (outcome, key)).rowcount == 1

    def withdraw_request(self, write: WithdrawRequest) -> None:
        """Delete a request."""
        sql, values = "DELETE FROM request WHERE key = ?", (write.key,)
        if write.before is not None:
            sql, values = f"{sql} AND outcome = ?", (*values, write.before)
        self.db.execute(sql, values)

    def requests(
        self, run_id: str | None = None, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        """Requests, the newest first. Damaged ones are skipped."""
        wanted = {"run_id": run_id, "key": key}
        values = [value for value in wanted.values() if value is not None]
        tests = [f"{column} = ?" for column, value in wanted.items() if value is not None]
        tests += ["outcome IS NULL"] if open_only else []
        where = f"WHERE {' AND '.join(tests)}" if tests else ""
        sql = f"SELECT {REQUEST} FROM request {where} ORDER BY rowid DESC LIMIT ?"  # noqa: S608
        rows = self.db.execute(sql, (*values, -1 if limit is None else limit)).fetchall()
        return read_requests(rows)


_PERFORM: dict[type[Write], Callable[[Rows, Any], Any]] = {
    Create: Rows.create, CreateWhole: Rows.create_whole, Acquire: Rows.acquire,
    Renew: Rows.renew, Release: Rows.release, MarkRestored: Rows.mark_restored,
    Append: Rows.append, Send: Rows.send,
    PutBlob: Rows.put_blob, PutSnapshot: Rows.put_snapshot, Fork: Rows.fork, Remove: Rows.remove,
    PutRaw: Rows.put_raw,
    PlaceRequest: Rows.place_request, SettleRequest: Rows.settle_request,
    WithdrawRequest: Rows.withdraw_request, PutCron: Rows.put_cron, Enqueue: Rows.enqueue,
    ClaimRuns: Rows.claim,
    Keep: Rows.keep, HandBack: Rows.hand_back, Sweep: Rows.sweep,
    SetLimit: Rows.set_limit, RemoveLimit: Rows.remove_limit, Reserve: Rows.reserve,
    SettleCall: Rows.settle_call,
}  # fmt: skip
"""The method of each write."""


def _bytes(stored: Stored) -> bytes:
    return stored.encode() if isinstance(stored, str) else stored


class _Sized:
    """Reads events with their payloads, and counts the bytes of what is read."""

    def __init__(self, rows: Rows, size: int | None = None) -> None:
        self._rows = rows
        self.left = math.inf if size is None else float(size)
        """The bytes after which no event is read."""

    def event(self, run_id: Any, columns: Sequence[Any]) -> Event:
        """The event of a row's `seq, type, at, data, record, epoch`."""

        def fetch(key: str) -> str:
            text = self._rows.blob(key)
            if text is None:
                raise JournalCorrupt(f"run `{run_id}` refers to payload {key}, which is not there")
            self.left -= len(text)
            return text

        self.left -= len(columns[3]) if isinstance(columns[3], (str, bytes)) else 0
        return _event(columns, fetch)

    def tail_event(self, cursor: str, run_id: Any, columns: Sequence[Any]) -> TailEvent:
        """The event, or why it cannot be read."""
        problem, event = "", None
        try:
            event = self.event(run_id, columns)
        except ChartloopError as error:
            problem = error.message
        except UNREAD as error:
            problem = f"an event of run `{run_id}` cannot be read: {_say(error)}"
        run = run_id if isinstance(run_id, str) else ascii(run_id)
        return TailEvent(cursor, run, event, problem)


def _say(error: Exception) -> str:
    return f"{type(error).__name__} {error}"


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
