"""The journal's file: its tables, their migrations, and the opening of a file.

A migration has a number and is never edited once it is released: a change of the tables is a new
migration at the end. When a file is opened, all missing ones run in one transaction, after the file
was copied; the table `schema_version` lists the applied ones. A file is checked before it is
written to: one that is not a journal, or that a newer version wrote, is not changed at all.

The tables of runs and events have rowids, for measured reasons: with the rows inside the index
(``WITHOUT ROWID``) events of many runs split each other's pages, and an append takes a third more
CPU and an eighth more bytes.

Belongs here: tables, opening, the meaning of SQLite's errors. Never: the content of the tables.
Source: docs/design.md, "The journal".
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from chartloop.adapters.journal.leases import RESTORED
from chartloop.adapters.journal.quotas import editions
from chartloop.adapters.journal.run_lists import LIST_COLUMNS, RESTING_BY, SUCCESSOR
from chartloop.core.durability import Durability
from chartloop.core.errors import (
    JournalCorrupt,
    JournalError,
    JournalLocked,
    JournalTooNew,
    JournalTooOld,
)

Connection: TypeAlias = sqlite3.Connection
"""An open file in autocommit mode: transactions are started explicitly."""

FOLDER = ".chartloop"
"""The folder of a project's journal; it is created with its own `.gitignore`."""


class Migration(NamedTuple):
    """A change of the tables."""

    number: int
    """1, 2, 3 ... without a gap."""
    title: str
    change: Sequence[str] | Callable[[Connection], None]
    """SQL statements, or a function that executes some and must not commit."""


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "the tables of version 0.1.0",
        (
            "CREATE TABLE journal (id TEXT NOT NULL)",
            "INSERT INTO journal VALUES (lower(hex(randomblob(4))))",
            """
            CREATE TABLE run (
                run_id TEXT PRIMARY KEY, machine TEXT NOT NULL, machine_hash TEXT NOT NULL,
                epoch INTEGER NOT NULL, head INTEGER NOT NULL, status TEXT NOT NULL,
                state TEXT NOT NULL, reason TEXT NOT NULL, steps INTEGER NOT NULL, wake_at REAL,
                agent TEXT NOT NULL, session TEXT NOT NULL, parent TEXT NOT NULL,
                fork_seq INTEGER, moved_to TEXT NOT NULL, priority INTEGER NOT NULL DEFAULT 5,
                created REAL NOT NULL, updated REAL NOT NULL, question, tokens INTEGER, cost REAL,
                origin BLOB NOT NULL, chain BLOB NOT NULL,
                tenant TEXT GENERATED ALWAYS AS (
                    CASE WHEN instr(run_id, ':') BETWEEN 1 AND instr(run_id || '/', '/')
                    THEN substr(run_id, 1, instr(run_id, ':') - 1) ELSE '' END
                ) VIRTUAL
            )
            """,
            "CREATE INDEX run_created ON run (created)",
            "CREATE INDEX run_agent ON run (agent, created)",
            "CREATE INDEX run_session ON run (session, created)",
            "CREATE INDEX run_machine ON run (machine, created)",
            "CREATE INDEX run_status ON run (status, created)",
            "CREATE INDEX run_reason ON run (reason, created) WHERE reason != ''",
            "CREATE INDEX run_parent ON run (parent, created) WHERE parent != ''",
            "CREATE INDEX run_tenant ON run (tenant, created) WHERE tenant != ''",
            "CREATE INDEX run_waiting ON run (created) WHERE question IS NOT NULL",
            """
            CREATE TABLE event (
                number INTEGER PRIMARY KEY, run_id TEXT NOT NULL, seq INTEGER NOT NULL,
                epoch INTEGER NOT NULL, type TEXT NOT NULL, record INTEGER, at REAL NOT NULL,
                digest BLOB, data NOT NULL, UNIQUE (run_id, seq)
            )
            """,
            "CREATE INDEX event_record ON event (run_id, record) WHERE record IS NOT NULL",
            """
            CREATE TABLE inbox (
                number INTEGER PRIMARY KEY, run_id TEXT NOT NULL, msg_id TEXT NOT NULL,
                at REAL NOT NULL, data NOT NULL, seq INTEGER, UNIQUE (run_id, msg_id)
            )
            """,
            "CREATE INDEX inbox_open ON inbox (run_id) WHERE seq IS NULL",
            "CREATE TABLE blob (hash TEXT PRIMARY KEY, data NOT NULL, kept INTEGER NOT NULL)",
            """
            CREATE TABLE event_blob (
                run_id TEXT NOT NULL, seq INTEGER NOT NULL, hash TEXT NOT NULL,
                PRIMARY KEY (run_id, seq, hash)
            ) WITHOUT ROWID
            """,
            "CREATE INDEX event_blob_hash ON event_blob (hash)",
            """
            CREATE TABLE snapshot (
                run_id TEXT PRIMARY KEY, seq INTEGER NOT NULL, record_seq INTEGER NOT NULL,
                data NOT NULL
            )
            """,
            """
            CREATE TABLE lease (
                run_id TEXT PRIMARY KEY, token TEXT NOT NULL, face TEXT NOT NULL,
                host TEXT NOT NULL, pid INTEGER NOT NULL, place TEXT NOT NULL, born TEXT NOT NULL,
                since REAL NOT NULL, renewed REAL NOT NULL, until REAL NOT NULL
            )
            """,
            """
            CREATE TABLE request (
                key TEXT PRIMARY KEY, run_id TEXT NOT NULL, kind TEXT NOT NULL,
                digest TEXT NOT NULL, at REAL NOT NULL, data NOT NULL, outcome,
                needs TEXT NOT NULL DEFAULT '', due REAL, wakes INTEGER NOT NULL DEFAULT 0,
                worker TEXT, since REAL, events INTEGER, lapses TEXT NOT NULL DEFAULT '[]',
                parked INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 5,
                share TEXT NOT NULL DEFAULT '', turn INTEGER
            )
            """,
            "CREATE INDEX request_run ON request (run_id)",
            "CREATE INDEX request_open ON request (run_id) WHERE outcome IS NULL",
            "CREATE INDEX request_due ON request (due) WHERE outcome IS NULL AND worker IS NULL",
            """
            CREATE INDEX request_later ON request (due)
            WHERE outcome IS NULL AND worker IS NULL AND turn IS NULL
            """,
            """
            CREATE INDEX request_turn ON request (priority, turn, due)
            WHERE outcome IS NULL AND worker IS NULL AND turn IS NOT NULL
            """,
            """
            CREATE INDEX request_share ON request (priority, share, turn)
            WHERE outcome IS NULL AND worker IS NULL AND turn IS NOT NULL
            """,
            """
            CREATE INDEX request_held ON request (worker)
            WHERE outcome IS NULL AND worker IS NOT NULL
            """,
            "CREATE INDEX request_parked ON request (run_id) WHERE outcome IS NULL AND parked",
            """
            CREATE TABLE worker (
                id TEXT PRIMARY KEY, face TEXT NOT NULL, host TEXT NOT NULL, pid INTEGER NOT NULL,
                place TEXT NOT NULL, born TEXT NOT NULL, until REAL NOT NULL, room INTEGER NOT NULL,
                lacks TEXT NOT NULL
            )
            """,
            """
            CREATE TABLE cron (
                name TEXT PRIMARY KEY, version INTEGER NOT NULL, due REAL, data NOT NULL
            )
            """,
            """
            CREATE TABLE quota (
                scope TEXT NOT NULL, what TEXT NOT NULL, per TEXT NOT NULL, most REAL NOT NULL,
                used REAL NOT NULL, held REAL NOT NULL, at REAL NOT NULL,
                PRIMARY KEY (scope, what, per)
            )
            """,
            """
            CREATE TABLE reservation (
                run_id TEXT NOT NULL, head INTEGER NOT NULL, key TEXT NOT NULL, scope TEXT NOT NULL,
                what TEXT NOT NULL, per TEXT NOT NULL, amount REAL NOT NULL,
                doubt INTEGER NOT NULL, PRIMARY KEY (run_id, head, key, scope, what, per)
            )
            """,
        ),
    ),
    Migration(2, "what a list of runs shows and sorts by", LIST_COLUMNS),
    Migration(3, "which run follows which", SUCCESSOR),
    Migration(4, "when it was restored from a backup", RESTORED),
    Migration(5, "that what waits is not read", RESTING_BY),
    Migration(6, "the day and the edition of a reservation", editions("CAST({} AS INTEGER)")),
)
"""All migrations, in order.

`event.record` is the number of the record, null for other types; `event.number` is the order of
commits, a column because `VACUUM` may renumber rowids; `event_blob` tells which events refer to
which payloads; `inbox.seq` is the event that consumed the message; `blob.kept` is 1 for a text
stored permanently; `journal.id` distinguishes cursors of this file from those of others.
`run.question` is JSON text, null for no question. `run.origin`, `run.chain` and `event.digest` are
those of `chartloop.run.chain`. `data` is JSON text, or bytes if it has lone surrogates, which
SQLite's text cannot contain. `request.due` to `turn` are the activation of an open request (see
`chartloop.run.schedule`): `wakes` counts its causes, `events` is the newest event's number at the
first claim, `lapses` JSON text, `priority` that of its run, `turn` its place among what is due.
`lease` is a separate table because, with row locks as in PostgreSQL, renewals and appends would
wait for each other.
`quota` holds the limits across runs, and `reservation` what calls in flight may use of them (see
`chartloop.run.fleet`).
"""


def open_database(
    path: Path, *, wait: float, durability: Durability = "process",
    migrations: Sequence[Migration] = MIGRATIONS,
) -> Connection:  # fmt: skip
    """Open the journal at `path`, create it if it is missing, and migrate its tables.

    `wait` is the time in seconds that another process may lock the file. Raises `JournalCorrupt`,
    `JournalTooNew`, `JournalTooOld`, `JournalLocked`, or `JournalError` if no file can be created.
    """
    made = _make_room(path)
    try:
        database = sqlite3.connect(
            path, timeout=wait, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise explain(error, path, wait) from error
    try:
        _prepare(database, path, wait, migrations)
        _keep_through(durability, database, path, made)
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):
            raise explain(error, path, wait) from error
        raise
    return database


def migrate_file(
    path: Path, *, wait: float = 30.0, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[int, int]:
    """Make or update the tables of a journal; returns their version before and after.

    Raises what opening it does.
    """
    before = 0
    if path.is_file():
        try:
            with contextlib.closing(sqlite3.connect(path, timeout=wait)) as database:
                before = _version(database, path, migrations)
        except sqlite3.Error as error:
            raise explain(error, path, wait) from error
    open_database(path, wait=wait, migrations=migrations).close()
    return before, migrations[-1].number


def _keep_through(
    durability: Durability, database: Connection, path: Path, made: Sequence[Path]
) -> None:
    """Configure the flushing of writes: to the operating system, or to the disk.

    New folders are flushed too, because a loss of power may undo their creation and that of files.
    """
    if durability == "process":
        database.execute("PRAGMA synchronous = NORMAL")
        return
    for name, value in (
        ("synchronous", "FULL"),
        ("fullfsync", "ON"),
        ("checkpoint_fullfsync", "ON"),
    ):
        database.execute(f"PRAGMA {name} = {value}")
    if os.name == "nt":  # NTFS logs names itself, and folders cannot be flushed
        return
    try:
        for folder in (path.parent, *(folder.parent for folder in made)):
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
    except OSError as error:
        raise JournalError(
            f"`{path}` cannot be kept through the loss of power: {error}",
            hint="put the journal on a local disk, or open it with the durability `process`",
        ) from error


def _make_room(path: Path) -> list[Path]:
    """Create the folder of the file if necessary, and return the created folders.

    The file itself is not opened, because closing it would release SQLite's locks of every other
    connection in this process.
    """
    try:
        if path.is_dir():
            raise JournalError(
                f"`{path}` is a folder, not a journal", hint=f"name a file: `{path / 'journal.db'}`"
            )
        folder = path.parent
        made = [f for f in (folder, *folder.parents) if not f.is_dir()]
        if made:
            folder.mkdir(parents=True, exist_ok=True)
            if folder.name == FOLDER:
                keep_runs_here(folder.parent)
    except (OSError, ValueError) as error:
        raise JournalError(
            f"no journal can be made at `{path}`: {error}", hint="name a file in a folder of yours"
        ) from error
    return made


def keep_runs_here(project: Path) -> None:
    """Create the folder for a project's runs, which version control ignores."""
    folder = project / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")


def _prepare(
    database: Connection, path: Path, wait: float, migrations: Sequence[Migration]
) -> None:
    newest = migrations[-1].number
    version = _version(database, path, migrations)
    if version > newest:
        raise JournalTooNew(
            f"`{path}` was written by a newer version of chartloop "
            f"(its tables have version {version}, this one knows {newest})",
            hint="update chartloop, or name another journal",
        )
    _share(database, path, wait)
    if version < newest:
        _migrate(database, path, migrations)


def _version(database: Connection, path: Path, migrations: Sequence[Migration]) -> int:
    """The number of the newest applied migration; 0 for an empty file. Does not write."""
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    if not tables:
        return 0
    if not tables.issuperset({"schema_version", "run", "event"}):
        raise JournalCorrupt(
            f"`{path}` is a database of something else, not a journal",
            hint="name another file; this one was left as it is",
        )
    applied = dict(database.execute("SELECT number, title FROM schema_version").fetchall())
    if applied.get(1) != migrations[0].title:
        raise JournalTooOld(
            f"`{path}` was written before the first release of chartloop, which cannot read it",
            hint="name another file, or move this one away; it was left as it is",
        )
    return max(applied)


def _share(database: Connection, path: Path, wait: float) -> None:
    """Turn on the write-ahead log, so that readers and a writer do not wait for each other.

    SQLite does not wait for a lock here, so two processes that create the same file have to retry.
    """
    deadline = time.monotonic() + wait
    while database.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            if database.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise JournalError(
                    f"`{path}` cannot be shared between processes: its file system has no "
                    "write-ahead log",
                    hint="put the journal on a local disk",
                )
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)


def _migrate(database: Connection, path: Path, migrations: Sequence[Migration]) -> None:
    database.execute("BEGIN IMMEDIATE")
    try:
        # checked again, because another process may have migrated it meanwhile
        version = _version(database, path, migrations)
        if 0 < version < migrations[-1].number:
            _copy(path, version)
        if version == 0:
            database.execute(
                "CREATE TABLE schema_version (number INTEGER PRIMARY KEY, title TEXT NOT NULL)"
            )
        for migration in migrations:
            if migration.number > version:
                _apply(database, migration)
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _copy(path: Path, version: int) -> None:
    """Copy the file to ``journal.db.version-1``. Called while no other process can write."""
    copy = path.with_name(f"{path.name}.version-{version}")
    if copy.exists():  # the file was migrated and restored before
        return
    unfinished = path.with_name(f"{copy.name}.{os.getpid()}")
    try:
        with (
            contextlib.closing(sqlite3.connect(path)) as source,
            contextlib.closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
        unfinished.replace(copy)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _apply(database: Connection, migration: Migration) -> None:
    if callable(migration.change):
        migration.change(database)
    else:
        for statement in migration.change:
            database.execute(statement)
    database.execute(
        "INSERT INTO schema_version VALUES (?, ?)", (migration.number, migration.title)
    )


def is_busy(error: Exception) -> bool:
    """Whether the error means that the file is locked at the moment."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: Exception) -> int:
    """SQLite's primary result code; 0 for an error of Python's module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def explain(error: sqlite3.Error, path: Path, wait: float) -> JournalError:
    """Translate an error of SQLite to one with its cause and cure."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return JournalLocked(
                f"another process has held `{path}` for more than {wait:g} s",
                hint="end that process, or open the journal with a longer `wait`",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return JournalCorrupt(
                f"`{path}` is damaged or is not a journal: {error}",
                hint="it was left as it is; restore it from a copy, or name another file",
            )
        case sqlite3.SQLITE_FULL:
            return JournalError(
                f"`{path}` cannot grow: the disk is full",
                hint="nothing was written; free some space and try again",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return JournalError(
                f"`{path}` cannot be written: {error}",
                hint="SQLite writes to the file and next to it: see who owns both and the folder",
            )
        case sqlite3.SQLITE_IOERR:
            return JournalError(
                f"the disk under `{path}` reports an error: {error}",
                hint="nothing was written; see whether the disk or a quota is full",
            )
        case _:
            return JournalError(f"`{path}`: {error}", hint="nothing was written")
