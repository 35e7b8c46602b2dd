"""The journal in one SQLite file: the default of the command line, shared by processes.

The file is in write-ahead mode, so that readers never wait. An append is one transaction, fenced
by the run's head and epoch. Completed writes survive the end of the process; with
``durability="power"`` they are flushed to the disk and survive the loss of power.

A checkpoint of the write-ahead log is made after `COMMITS` transactions. It waits for the disk, as
does the first transaction after it, so neither happens on an event loop.

    journal = SqliteJournal(default_journal_path(Path.cwd()))
    journal            for a run that is driven by hand: no method ever suspends
    journal.grouped    for event loops: the same file, and no call blocks the loop

Belongs here: transactions, the lock between threads, and the path of the file. Their groups are in
`grouped`, the tables in `sqlite_migrations`, their rows in `rows`.
Source: docs/design.md, "The journal".
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, Literal, cast
from weakref import WeakValueDictionary

from chartloop.adapters.journal.face import Call, Done, JournalFace, Read, is_long, is_scan
from chartloop.adapters.journal.grouped import GroupedJournal
from chartloop.adapters.journal.pool import Pool
from chartloop.adapters.journal.rows import Rows
from chartloop.adapters.journal.sqlite_migrations import (
    FOLDER,
    MIGRATIONS,
    Connection,
    Migration,
    explain,
    is_busy,
    open_database,
)
from chartloop.adapters.journal.writes import Writer
from chartloop.core.durability import Durability, known_durability
from chartloop.core.errors import ChartloopError, JournalError, JournalLocked, RunError
from chartloop.run.reader import READER, READERS, Reader
from chartloop.run.redact import Redactor
from chartloop.run.schedule import Claimed

NAME = "journal.db"
COMMITS = 1_000
"""The number of transactions between checkpoints of the write-ahead log."""
LARGEST_LOG = 4_000
"""The size of the write-ahead log, in pages, at which SQLite makes a checkpoint itself."""
TRUSTED = 0.2
"""Seconds for which an unchanged stamp of the log means that nothing was written."""
SETTLED = 0.05
"""The age in seconds of a stamp which another write cannot have too: file times are that coarse."""
STEPS, LOOKS = 10_000, 10
"""A read for a caller of a server counts as a scan after ten times so many steps of SQLite's
machine: some thousand rows that are looked at, or five hundred that are given."""
PROJECT = "pyproject.toml"
"""The file that marks the folder of a project, which keeps its own runs."""


def default_journal_path(start: Path) -> Path:
    """`.chartloop/journal.db` of the project that `start` is in.

    The project is the nearest folder from `start` upward with `.chartloop/` or `pyproject.toml`,
    else `start` itself. Nothing is created here: opening the journal creates the folder, with its
    own `.gitignore`.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        # an unreadable folder counts as empty
        if os.path.isdir(folder / FOLDER) or os.path.isfile(folder / PROJECT):  # noqa: PTH112, PTH113
            return folder / FOLDER / NAME
    return start / FOLDER / NAME


def journals_above(start: Path) -> list[Path]:
    """The journals of all folders from `start` upward, the nearest first."""
    start = start.absolute()
    places = (folder / FOLDER / NAME for folder in (start, *start.parents))
    return [place for place in places if os.path.isfile(place)]  # noqa: PTH113


def shared_journal(path: Path, durability: Durability = "process") -> SqliteJournal:
    """The journal at `path`, shared within this process and opened if necessary.

    It is closed once it is no longer used.
    """
    with _opening:
        known = _open.get(_file(path))
        if known is None or known.closed:
            known = SqliteJournal(path, durability=durability)
            known.close_when_unused()
            _open[_file(path)] = known
        return known


class _SqliteFace(JournalFace):
    """What both faces do in SQLite's way."""

    _now: Callable[[], float]
    _log_path: str
    _quiet: tuple[str, tuple[int, int], float] = "", (0, 0), 0.0
    """The newest token, with the stamp and the time of the look at the log that gave it."""

    async def now(self) -> float:
        return self._now()

    async def changed(self, token: str = "") -> str | None:
        # a stamp is one system call; the exact question takes locks of the file
        stamp, at = _stamp(self._log_path), time.time()
        known, before, looked = self._quiet
        if known == token != "" and stamp == before and 0 <= at - looked < TRUSTED:
            return None
        found = await self._read("", _changed, token)
        if stamp[0] / 1e9 < at - SETTLED:
            self._quiet = found or token, stamp, at
        return found

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        # most news is no due run, and a write would lock the file
        nothing = await self._read("", Rows.nothing_due)
        return nothing or await super().claim(worker, limit, can, alone=alone)


def _stamp(log: str) -> tuple[int, int]:
    """When the write-ahead log was last written, and its size."""
    try:
        stat = os.stat(log)  # noqa: PTH116  asked very often
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size


def _changed(rows: Rows, token: str) -> str | None:
    """A new token if this or another connection has written since `token`, else None."""
    database = cast("Connection", rows.db)
    others = database.execute("PRAGMA data_version").fetchone()[0]
    now = f"{others}-{database.total_changes}"
    return None if now == token else now


class SqliteJournal(_SqliteFace):
    """A journal in the file `path`, which is created if missing and migrated if old.

    `durability` is what a completed write survives: ``"process"`` the end of the process, even by
    ``kill -9``; ``"power"`` the loss of power as well, at the cost of a flush per transaction.
    `wait` is the time in seconds that another process may lock the file before `JournalLocked`.
    `redactor` hides secrets before they are written; by default those of the environment.
    `now` is the clock of leases, in seconds since the epoch.
    Raises `JournalCorrupt`, `JournalTooNew` and `JournalTooOld` without changing the file, and
    `SetupError` for an unknown `durability`.

    Threads may share a journal. A forked process must open its own.
    """

    suspends = False

    def __init__(
        self,
        path: str | Path,
        *,
        durability: Durability = "process",
        wait: float = 30.0,
        redactor: Redactor | Literal["environment"] | None = "environment",
        migrations: Sequence[Migration] = MIGRATIONS,
        now: Callable[[], float] = time.time,
    ) -> None:
        writer = Writer(Redactor() if redactor == "environment" else redactor)
        super().__init__(writer)
        self._now = now
        self.path = Path(path).absolute()
        self._log_path = f"{self.path}-wal"
        self._wait = wait
        self.durability: Durability = known_durability(durability)
        """The failures that a completed write survives."""
        self._database = open_database(
            self.path, wait=wait, durability=durability, migrations=migrations
        )
        self._database.execute(f"PRAGMA wal_autocheckpoint = {LARGEST_LOG}")
        self._database.execute("PRAGMA busy_timeout = 0")
        self._rows = Rows(self._database, now)
        self._process = os.getpid()
        self._lock = Lock()
        self._closed = False
        self._commits = 0
        """Transactions since the last checkpoint. The first one after it waits for the disk."""
        self._worker: Executor | None = None
        self._readers = Pool(READERS, partial(_open_to_read, self.path, wait), Connection.close)
        self.grouped = _Grouped(self, writer, now)
        """The same journal for event loops."""

    @property
    def name(self) -> str:
        return str(self.path)

    def close_when_unused(self) -> None:
        """Close the file once the journal is no longer used."""
        weakref.finalize(self, _close_own, self._database, os.getpid())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def close(self) -> None:
        self.close_file()

    async def _perform(self, call: Call) -> Any:
        return self.perform((call,))[0].get()

    def perform(self, calls: Sequence[Call]) -> list[Done]:
        """Perform calls in one transaction; each has its own outcome.

        If one of them fails, they are performed one by one, so that the others succeed. If the
        file is locked, all fail, because each would wait as long again.
        """
        if (reader := READER.get()) is not None and isinstance(calls[0], Read):
            return [self._read_for(reader, calls[0])]
        with self._lock:
            try:
                return self._patiently(calls)
            except Exception as error:  # noqa: BLE001 - passed to the callers
                failure = self._explain(error)
                if len(calls) == 1 or isinstance(failure, JournalLocked):
                    return [Done(error=failure)] * len(calls)
        return [done for call in calls for done in self.perform((call,))]

    def attempt(self, call: Call) -> Done | None:
        """Perform a short call in this thread; None if it would wait, and then nothing was done."""
        if not isinstance(call, Read) and (
            self.durability == "power" or not 0 < self._commits < COMMITS
        ):
            return None
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._transaction((call,))[0]
        except Exception as error:  # noqa: BLE001 - passed to the caller
            return None if is_busy(error) else Done(error=self._explain(error))
        finally:
            self._lock.release()

    def _read_for(self, reader: Reader, call: Read) -> Done:
        """Perform a read for a caller of a server, over a connection for these.

        A statement that takes too many steps is ended, and performed again as a scan.
        """
        self._check()
        database = self._readers.take()
        try:
            looks = count(1)
            database.set_progress_handler(
                lambda: next(looks) > LOOKS and time.monotonic() > reader.until, STEPS
            )
            reader.interrupt = database.interrupt
            if is_scan(call):
                reader.scan()
            while True:
                try:
                    database.execute("BEGIN")
                    return Done(call.method(Rows(database, self._now), *call.arguments))
                except sqlite3.Error as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                        raise
                    reader.scan()
                finally:
                    if database.in_transaction:
                        database.execute("ROLLBACK")
        except Exception as error:  # noqa: BLE001 - passed to the caller
            return Done(error=self._explain(error))
        finally:
            reader.interrupt = None
            self._readers.give(database)

    def _patiently(self, calls: Sequence[Call]) -> list[Done]:
        """Perform calls in one transaction, waiting while another process locks the file."""
        try:
            return self._transaction(calls)
        except sqlite3.Error as error:
            if not is_busy(error):
                raise
        self._database.execute(f"PRAGMA busy_timeout = {round(self._wait * 1000)}")
        try:
            return self._transaction(calls)
        finally:
            self._database.execute("PRAGMA busy_timeout = 0")

    def _transaction(self, calls: Sequence[Call]) -> list[Done]:
        self._check()
        database, rows = self._database, self._rows
        writes = any(not isinstance(call, Read) for call in calls)
        if writes:
            if self._commits >= COMMITS:
                self._end_log()
            database.execute("BEGIN IMMEDIATE")
        elif any(map(is_long, calls)):
            database.execute("BEGIN")
        outcomes: list[Done] = []
        try:
            for call in calls:
                try:
                    if isinstance(call, Read):
                        value = call.method(rows, *call.arguments)
                    else:
                        value = rows.perform(call)
                    outcomes.append(Done(value))
                except ChartloopError as refusal:
                    outcomes.append(Done(error=refusal))
            if database.in_transaction:
                database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise
        self._commits += writes
        return outcomes

    def _end_log(self) -> None:
        """Make a checkpoint of the write-ahead log, as far as no reader needs it."""
        with contextlib.suppress(sqlite3.Error):  # nothing is lost: the log still has it
            self._database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._commits = 0

    def _check(self) -> None:
        if self._closed:
            raise JournalError(f"the journal `{self.path}` is closed", hint="open it anew")
        if os.getpid() != self._process:
            raise JournalError(
                f"the journal `{self.path}` was opened in another process",
                hint="open it after the fork: two processes must not share an open SQLite file",
            )

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error):
            failure = explain(error, self.path, self._wait)
        elif isinstance(error, (UnicodeEncodeError, OverflowError)):
            failure = RunError(
                f"this cannot be kept in a journal: {error}",
                hint="names and ids are text without lone surrogates, numbers have 64 bits",
            )
        else:
            return error
        failure.__cause__ = error
        return failure

    def worker(self) -> Executor:
        """The executor with one thread. Raises if the journal is closed."""
        with self._lock:
            self._check()
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="chartloop-journal")
            return self._worker

    def close_file(self) -> None:
        """Close the file, once a transaction in progress is finished."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._database.close()
            worker, self._worker = self._worker, None
        self._readers.close()
        if worker is not None:
            worker.shutdown()


class _Grouped(_SqliteFace, GroupedJournal):
    """The journal for event loops, available as `SqliteJournal.grouped`."""

    def __init__(self, direct: SqliteJournal, writer: Writer, now: Callable[[], float]) -> None:
        super().__init__(direct, writer)
        self._now, self._log_path = now, f"{direct.path}-wal"


_opening = Lock()
_open: WeakValueDictionary[tuple[int, ...], SqliteJournal] = WeakValueDictionary()
"""The journals that `shared_journal` has opened, by process and file."""


def _open_to_read(path: Path, wait: float) -> Connection:
    """Another connection to a journal that is open, which writes nothing."""
    database = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA query_only = ON")
    return database


def _close_own(database: Connection, process: int) -> None:
    """Close an unused file, unless it belongs to the parent of this forked process."""
    if process == os.getpid():
        database.close()


def _file(path: Path) -> tuple[int, ...]:
    """The identity of a file, which differs if another file replaces it at the same path."""
    try:
        stat = path.stat()
    except OSError:  # the file does not exist yet
        return ()
    return os.getpid(), stat.st_dev, stat.st_ino
