"""A connection to PostgreSQL: opened by URL, called as `rows` calls SQLite's, and its errors.

A transaction is one pipeline: a statement whose result nobody reads costs no round trip. Rows of
events are collected, and inserted with their numbers when the transaction ends.

Belongs here: the URL, one connection, what an error means. Never: transactions, threads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from chartloop.adapters.journal.postgres_dialect import DEFERRED, NUMBERED, Statement, spell
from chartloop.adapters.journal.postgres_tables import Database, check_server
from chartloop.core.errors import (
    ChartloopError,
    JournalCorrupt,
    JournalError,
    JournalLocked,
    JournalUnavailable,
    RunError,
)

SCHEMA = "chartloop"
"""The schema of the tables, unless the URL names one."""
TIMEOUTS = {
    "connect_timeout": "10", "tcp_user_timeout": "15000",
    "keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3",
}  # fmt: skip
"""What libpq does not have of itself: without them a network that swallows packets would hold a
worker for a quarter of an hour."""
SILENCE = "5s"
"""How long others wait for a client that is silent within a transaction."""
_SILENT = f"""
SELECT pg_terminate_backend(pid) FROM pg_stat_activity AS client
WHERE usename = current_user AND pid <> pg_backend_pid() AND state <> 'idle'
AND wait_event = 'ClientRead' AND state_change < clock_timestamp() - interval '{SILENCE}'
AND EXISTS (
    SELECT 1 FROM pg_locks AS lock JOIN pg_class AS class ON class.oid = lock.relation
    WHERE lock.pid = client.pid AND class.relnamespace = to_regnamespace(%s)
)
"""  # noqa: S608  constants
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Address(NamedTuple):
    """Where a journal is."""

    url: str
    """What the server is called by; it may hold a password."""
    schema: str
    name: str
    """The URL without its password, for people."""
    secrets: tuple[str, ...]
    """What must never be shown."""


def address(url: str) -> Address:
    """The address in a URL. `JournalUnavailable`, which shows nothing of it, for others."""
    base, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    schema = dict(pairs).get("schema", SCHEMA)
    rest = [(key, value) for key, value in pairs if key != "schema"]
    named = {key for key, _ in rest}
    rest += [(key, value) for key, value in TIMEOUTS.items() if key not in named]
    plain = f"{base}?{urlencode(rest, quote_via=quote)}"
    try:
        parts: dict[str, Any] = conninfo_to_dict(plain)
    except (psycopg.Error, UnicodeError):
        parts = {"host": "@"}
    host, port, database = (str(parts.get(key, "")) for key in ("host", "port", "dbname"))
    if "@" in host + database or (port and not port.replace(",", "").isdecimal()):
        raise JournalUnavailable(
            "this is not the URL of a PostgreSQL database",
            hint="`postgresql://USER:PASSWORD@HOST:PORT/DATABASE`; in a password write `%40` for "
            "`@`, `%2F` for `/`, `%3A` for `:`, `%25` for `%`",
        ) from None
    if not _NAME.fullmatch(schema):
        raise JournalUnavailable(
            f"`{schema}` is not the name of a schema", hint="use a-z, 0-9 and `_`: `?schema=team_a`"
        )
    user = f"{parts['user']}@" if parts.get("user") else ""
    where = f"{quote(host, safe='/,.:[]')}{':' + port if port else ''}"
    name = f"postgresql://{user}{where}/{database}"
    shown = name if schema == SCHEMA else f"{name}?schema={schema}"
    secrets = tuple(str(parts[key]) for key in ("password", "sslpassword") if parts.get(key))
    return Address(plain, schema, shown, secrets)


class _Answer:
    """The outcome of a statement. Nothing is waited for before it is read."""

    __slots__ = ("_connection", "_cursor")

    def __init__(self, connection: Connection, cursor: psycopg.Cursor[Any]) -> None:
        self._connection, self._cursor = connection, cursor

    @property
    def rowcount(self) -> int:
        self._connection.settle()
        return self._cursor.rowcount

    def fetchone(self) -> Any:
        return self._cursor.fetchone()

    def fetchall(self) -> list[Any]:
        return self._cursor.fetchall()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._cursor.fetchall())

    def close(self) -> None:
        self._cursor.close()


class Connection:
    """An open connection to a server that can hold a journal. One thread at a time uses it."""

    def __init__(self, where: Address) -> None:
        self._schema = where.schema
        self.database: Database = psycopg.connect(
            where.url, autocommit=True, prepare_threshold=1, fallback_application_name="chartloop",
        )  # fmt: skip
        try:
            check_server(self.database, where.name)
            found = self.ask(
                "SELECT current_setting('synchronous_commit'), pg_postmaster_start_time()::text, "
                "pg_backend_pid()"
            )
        except BaseException:
            self.database.close()
            raise
        self.begins = (
            f"SELECT pg_current_xact_id()::text, set_config('lock_timeout', '{SILENCE}', true)"
        )
        """The first statement of a transaction, for its number and settings: behind a pooler those
        of a connection would be others'."""
        if found[0] == "off":  # else a restart of the server would lose what was acknowledged
            self.begins += ", set_config('synchronous_commit', 'on', true)"
        self.born: str = found[1]
        """When the server was started."""
        if found[2] != self.database.info.backend_pid:
            # a pooler: what is prepared may be looked for, or run, by others
            self.database.prepare_threshold = None
        self._deferred: list[Sequence[Any]] = []
        self._ahead: dict[tuple[str, Sequence[Any]], _Answer] = {}

    def ask(self, sql: str, *given: Any) -> Any:
        """The row that a statement of PostgreSQL gives."""
        return self._send(sql, given).fetchone()

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> _Answer:
        """Execute a statement of `rows`."""
        if sql is DEFERRED:
            self._deferred.append(parameters)
            return _Answer(self, self.database.cursor())
        if self._ahead and (answer := self._ahead.pop((sql, parameters), None)) is not None:
            return answer
        statement = _spelled(sql, self._schema)
        if self._deferred and statement.reads_events:
            self.flush()
        if not statement.text:
            return _Answer(self, self.database.cursor())
        given: Any = parameters
        if statement.named:
            given = {str(number): value for number, value in enumerate(parameters, 1)}
        return _Answer(self, self._send(statement.text, given))

    def send_ahead(self, sql: str, parameters: Sequence[Any]) -> None:
        """Execute a statement that will be executed later: its answer then is there already."""
        self._ahead[sql, parameters] = self.execute(sql, parameters)

    def flush(self) -> None:
        """Insert the collected events, with the newest numbers."""
        if rows := self._deferred:
            self._deferred = []
            self.execute(NUMBERED, (len(rows), *map(list, zip(*rows, strict=True))))

    def settle(self) -> None:
        """Wait until all statements are answered. Raises the error of the first that failed."""
        if self.database.info.pipeline_status:
            with self.database.pipeline() as pipeline:
                pipeline.sync()

    def forget(self) -> None:
        """Drop what was collected for a transaction."""
        self._deferred, self._ahead = [], {}

    def end_silent(self) -> None:
        """End the connections of stopped or unreachable clients that hold rows of the journal.

        `idle_in_transaction_session_timeout` does not: amid a pipeline they do not count as idle.
        """
        self._send(_SILENT, (f'"{self._schema}"',))

    def now(self) -> float:
        """The server's clock."""
        return self.ask("SELECT extract(epoch FROM clock_timestamp())::float8")[0]

    def _send(self, sql: str, given: Any) -> psycopg.Cursor[Any]:
        return self.database.cursor(binary=True).execute(sql.encode(), given)


@cache
def _spelled(sql: str, schema: str) -> Statement:
    return spell(sql, schema)


def is_lost(connection: Connection | None, error: Exception) -> bool:
    """Whether the connection has ended, or could not be opened."""
    if not isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return False
    return connection is None or connection.database.closed


CONFLICTS = (errors.DeadlockDetected, errors.SerializationFailure, errors.UniqueViolation)
"""What another transaction may cause, and a repetition settles."""

_CURES = (
    (
        "the server has no connection left: raise `max_connections`, or use a pooler",
        ("too many clients", "too many connections", "remaining connection slots"),
    ),
    (
        "see the URL's `sslrootcert=FILE` and `sslmode`, and what the server offers",
        ("certificate", "SSL"),
    ),
    (
        "check the user, the password and the database",
        ("password authentication failed", "no password supplied", "no pg_hba.conf entry",
         "does not exist"),
    ),
)  # fmt: skip
"""What to do about an unreachable server, by what its message says. The first counts."""


def explain(error: Exception, where: Address) -> Exception:
    """Translate an error of PostgreSQL to one with its cause and cure, and without its password."""
    if isinstance(error, ChartloopError) or not isinstance(
        error, (psycopg.Error, UnicodeEncodeError, OverflowError)
    ):
        return error
    made = _meaning(error, where.name, _message(error, where))
    made.__cause__ = error
    return made


def _message(error: Exception, where: Address) -> str:
    """The line of a message that says why: the last one, those before say which hosts were tried.

    Of certificates the last one is advice.
    """
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    lines = (primary or str(error)).strip().splitlines() or [type(error).__name__]
    said = [line for line in lines if "certificate file" in line] or lines
    text = lines[0] if primary else said[-1].strip()
    for secret in where.secrets:
        text = text.replace(secret, "***")
    return text


def _meaning(error: Exception, name: str, why: str) -> ChartloopError:
    match error:
        case psycopg.DataError() | UnicodeEncodeError() | OverflowError():
            return RunError(
                f"this cannot be kept in a journal: {why}",
                hint="names and ids are text without NUL and lone surrogates, numbers have 64 bits",
            )
        case errors.InsufficientPrivilege():
            return JournalUnavailable(
                f"`{name}`: the role may not do this: {why}",
                hint="name a role that may; docs/postgres.md lists the rights",
            )
        case errors.UndefinedTable() | errors.UndefinedColumn() | errors.UndefinedFunction():
            return JournalCorrupt(
                f"`{name}` is damaged or is not a journal: {why}",
                hint="restore it from a dump, or name another database",
            )
        case errors.DiskFull():
            return JournalError(
                f"`{name}` cannot grow: the server's disk is full",
                hint="nothing was written; free some space there and try again",
            )
        case errors.ReadOnlySqlTransaction():
            return JournalError(
                f"`{name}` takes no writes: its server has become a standby",
                hint="name the primary",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            cures = (cure for cure, parts in _CURES if any(part in why for part in parts))
            hint = next(cures, "start the server, or name another one")
            return JournalLocked(f"`{name}` cannot be reached: {why}", hint=hint)
        case _:
            return JournalError(f"`{name}` cannot do this: {why}", hint="nothing was written")
