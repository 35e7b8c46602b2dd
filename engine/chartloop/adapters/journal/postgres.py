"""The journal in a PostgreSQL database, shared by any number of machines.

    journal = PostgresJournal("postgresql://team@db.example.org/runs")
    journal            for threads: no method suspends
    journal.grouped    for event loops: no call blocks the loop

The rows are those of the file (`rows`). What one writer gives for nothing is made here:

* A transaction first locks the rows of its runs, and for a claim those of their ancestors, in the
  order of their ids. So what it reads of them stays true until it commits.
* A conflict with another transaction repeats it. So does a lost connection, for `wait` seconds.
* If the connection is lost between a commit and its answer, the server is asked whether the
  transaction was committed.
* Times are those of the server's clock.

Belongs here: transactions, the pool, news. The tables are in `postgres_tables`.
"""

from __future__ import annotations

import json
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from threading import Event, Lock, Thread
from typing import Any, Literal
from weakref import WeakValueDictionary

import psycopg

from chartloop.adapters.journal.face import Call, Done, JournalFace, Read, is_long, is_scan
from chartloop.adapters.journal.grouped import GroupedJournal
from chartloop.adapters.journal.pool import Pool
from chartloop.adapters.journal.postgres_connection import (
    CONFLICTS,
    Address,
    Connection,
    address,
    explain,
    is_lost,
)
from chartloop.adapters.journal.postgres_tables import (
    MIGRATIONS,
    Migration,
    check_tables,
    migrate,
    version_of,
)
from chartloop.adapters.journal.quotas import LIMITS_OF
from chartloop.adapters.journal.rows import FENCE, Rows
from chartloop.adapters.journal.writes import (
    Acquire,
    Append,
    ClaimRuns,
    CreateWhole,
    Keep,
    PlaceRequest,
    PutBlob,
    PutSnapshot,
    Release,
    RemoveLimit,
    Renew,
    Reserve,
    Send,
    SetLimit,
    SettleCall,
    SettleRequest,
    Stored,
    Sweep,
    Writer,
)
from chartloop.core.durability import Durability
from chartloop.core.errors import (
    ChartloopError,
    JournalError,
)
from chartloop.run.lease import ancestry
from chartloop.run.reader import READER, READERS, Reader
from chartloop.run.redact import Redactor
from chartloop.run.schedule import Claimed

CONNECTIONS = 4
"""The largest number of connections of a journal, besides the one that waits for news, and those
over which a server reads for its callers."""
SHORT = 0.25
"""Seconds after which a statement for a caller of a server counts as a scan."""
TRIES = 10
"""How often a transaction is tried that conflicts with others."""
POLL = 0.5
"""The seconds between two questions for news where the server cannot send them."""
_SILENT = (Read, ClaimRuns, Keep, Sweep, SetLimit, RemoveLimit, Reserve, SettleCall)
"""The calls that make nothing due. Each worker makes them often: if they were news to the others,
an idle fleet would not rest."""
_REPEATABLE = (
    Acquire, Append, PlaceRequest, PutBlob, PutSnapshot, Release, Renew, Reserve, Read,
)  # fmt: skip
"""The calls that may be performed twice: the second time gives what the first one gave."""


def shared_journal(url: str, *, make: bool = True) -> PostgresJournal:
    """The journal at a URL, shared within this process and opened if necessary.

    It is closed once it is no longer used.
    """
    with _opening:
        known = _open.get((os.getpid(), url))
        if known is None or known.closed:
            known = PostgresJournal(url, make=make)
            _open[os.getpid(), url] = known
        return known


def migrate_database(
    url: str, migrations: Sequence[Migration] = MIGRATIONS
) -> tuple[str, int, int]:
    """Make or update the tables of a journal; returns its name, their version before and after.

    Raises what opening the journal does.
    """
    where, connection = address(url), None
    try:
        connection = Connection(where)
        before = version_of(connection.database, where.schema, where.name)
        if before < migrations[-1].number:
            migrate(connection.database, where.schema, where.name, migrations)
        check_tables(
            connection.database, where.schema, where.name, make=False, migrations=migrations
        )
    except Exception as error:
        raise explain(error, where) from error
    finally:
        if connection is not None:
            connection.database.close()
    return where.name, before, migrations[-1].number


class _Face(JournalFace):
    """What both faces do in PostgreSQL's way."""

    _news: _News

    async def claim_of(
        self, worker: str, limit: int, can: Mapping[str, bool], runs: Sequence[str]
    ) -> Claimed:
        """Claim those of these runs that are due, as `claim` does."""
        return await self._perform(ClaimRuns("", worker, limit, can, runs))

    async def now(self) -> float:
        return await self._read("", Rows.time)

    async def changed(self, token: str = "") -> str | None:
        now = self._news.token()
        return None if now == token else now


class PostgresJournal(_Face):
    """A journal in the database of a URL. ``?schema=NAME`` names a schema, `chartloop` by default.

    An empty schema gets its tables, unless `make` is false. `wait` is the time in seconds that the
    server may be away before `JournalLocked`. `redactor` hides secrets before they are written; by
    default those of the environment, and always the password of the URL. `now` replaces the
    server's clock, for tests.
    Raises `JournalError` for what is no such URL, and if the server is down, refuses the role, is a
    standby or too old; `JournalTooOld` or `JournalTooNew` for tables of another version.

    Threads may share a journal. A forked process must open its own.
    """

    suspends = False
    path = None
    durability: Durability = "power"
    """A commit is flushed to the server's disk."""

    def __init__(
        self,
        url: str,
        *,
        make: bool = True,
        wait: float = 30.0,
        redactor: Redactor | Literal["environment"] | None = "environment",
        migrations: Sequence[Migration] = MIGRATIONS,
        now: Callable[[], float] | None = None,
    ) -> None:
        where = address(url)
        writer = Writer(Redactor() if redactor == "environment" else redactor, _encoded)
        super().__init__(writer)
        self.hide(where.secrets)
        self.name = where.name
        self._wait, self._own_now = wait, now
        self.address, self._process = where, os.getpid()
        self._pool, self._readers = _pool(where, CONNECTIONS), _pool(where, READERS)
        self._news = _News(where)
        self._lock = Lock()
        self._worker: Executor | None = None
        try:
            first = self._pool.take()
            try:
                check_tables(
                    first.database, where.schema, where.name, make=make, migrations=migrations
                )
            finally:
                self._pool.give(first)
        except Exception as error:
            self._pool.close()
            raise explain(error, where) from error
        pools = self._pool, self._readers
        weakref.finalize(self, _close, pools, self._news, self._process)
        self.grouped = _Grouped(self, writer, self._news)
        """The same journal for event loops."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._pool.closed

    async def close(self) -> None:
        self.close_file()

    def close_file(self) -> None:
        """Close the connections, once the transactions in progress are finished."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.shutdown()
        self._news.close()
        self._pool.close()
        self._readers.close()

    def worker(self) -> Executor:
        """The executor with one thread. Raises if the journal is closed."""
        with self._lock:
            self._check()
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="chartloop-journal")
            return self._worker

    def attempt(self, call: Call) -> None:
        """None: every call waits for the server."""

    async def _perform(self, call: Call) -> Any:
        return self.perform((call,))[0].get()

    def perform(self, calls: Sequence[Call]) -> list[Done]:
        """Perform calls in one transaction; each has its own outcome.

        If one of them fails, they are performed one by one, so that the others succeed.
        """
        order = sorted(range(len(calls)), key=lambda place: calls[place].run_id)
        try:
            self._check()
            sorted_calls = [calls[place] for place in order]
            reader = READER.get() if isinstance(calls[0], Read) else None
            perform = self._patiently if reader is None else partial(self._read_for, reader)
            found = perform(sorted_calls)
        except Exception as error:  # noqa: BLE001 - passed to the callers
            if len(calls) == 1 or is_lost(None, error):
                return [Done(error=explain(error, self.address))] * len(calls)
            return [done for call in calls for done in self.perform((call,))]
        outcomes = dict(zip(order, found, strict=True))
        return [outcomes[place] for place in range(len(calls))]

    def _read_for(self, reader: Reader, calls: Sequence[Call]) -> list[Done]:
        """Perform reads for a caller of a server: as a scan, if they take long."""
        if any(map(is_scan, calls)):
            reader.scan()
        while True:
            try:
                return self._patiently(calls, reader)
            except psycopg.errors.QueryCanceled:
                reader.scan()
            finally:
                reader.interrupt = None

    def _patiently(self, calls: Sequence[Call], reader: Reader | None = None) -> list[Done]:
        """Perform calls in one transaction: again after a conflict, or when the server is back."""
        end, pause, tries = time.monotonic() + self._wait, 0.005, 1
        pool = self._pool if reader is None else self._readers
        while True:
            connection, transaction = None, _Transaction(calls, reader)
            try:
                connection = pool.take()
                if any(isinstance(call, Sweep) and call.lost for call in calls):
                    connection.end_silent()  # a claim skips the rows that they hold: none waits
                return transaction.perform(connection, self._own_now, self._news)
            except CONFLICTS:
                if tries == TRIES:
                    raise
            except psycopg.errors.LockNotAvailable:
                if connection is None or time.monotonic() > end:
                    raise
                connection.end_silent()
            except psycopg.Error as error:
                if not is_lost(connection, error) or time.monotonic() > end:
                    raise
                if transaction.ending and self._was_committed(transaction, end):
                    return transaction.outcomes
            finally:
                pool.give(connection)
            tries += 1
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _was_committed(self, transaction: _Transaction, end: float) -> bool:
        """Whether a transaction was committed whose answer was lost."""
        while True:
            connection = None
            try:
                connection = self._pool.take()
                status = connection.ask("SELECT pg_xact_status(%s::xid8)", transaction.id)[0]
                if status == "committed" and connection.born != transaction.server:
                    # the server lost its last numbers of transactions, and may have used this again
                    return not all(isinstance(call, _REPEATABLE) for call in transaction.calls)
                if status != "in progress":
                    return status == "committed"
            except psycopg.errors.InvalidParameterValue:
                return False  # a number that the restarted server has not reached
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
            finally:
                self._pool.give(connection)
            time.sleep(0.1)

    def _check(self) -> None:
        if self._pool.closed:
            raise JournalError(f"the journal `{self.name}` is closed", hint="open it anew")
        if os.getpid() != self._process:
            raise JournalError(
                f"the journal `{self.name}` was opened in another process",
                hint="open it after the fork: two processes must not share a connection",
            )


class _Grouped(_Face, GroupedJournal):
    """The journal for event loops, available as `PostgresJournal.grouped`."""

    def __init__(self, direct: PostgresJournal, writer: Writer, news: _News) -> None:
        super().__init__(direct, writer)
        self._news = news


class _Transaction:
    """Calls that are performed together, in the order of their runs."""

    def __init__(self, calls: Sequence[Call], reader: Reader | None) -> None:
        self.calls, self._reader = calls, reader
        self.outcomes: list[Done] = []
        self.id = ""
        """Its number on the server."""
        self.server = ""
        """When the server was started."""
        self.ending = False
        """Whether the commit may have been sent."""

    def perform(
        self, connection: Connection, now: Callable[[], float] | None, news: _News
    ) -> list[Done]:
        """Perform the calls. Raises if nothing was written, or if that is unknown (`ending`)."""
        database = connection.database
        writes = any(not isinstance(call, Read) for call in self.calls)
        rows = Rows(connection, now or connection.now, _encoded)
        if not (writes or self._reader or any(map(is_long, self.calls))):
            self.outcomes = [_outcome(rows, call) for call in self.calls]
            return self.outcomes
        failure: Exception | None = None
        try:
            with database.pipeline():
                try:
                    if writes:
                        self._begin(connection)
                    else:
                        database.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    if (reader := self._reader) is not None:
                        most = reader.until - time.monotonic() if reader.until else SHORT
                        limit = "SELECT set_config('statement_timeout', %s, true)"
                        database.execute(limit, (f"{max(1, round(1000 * most))}",))
                        # in a thread: it asks the server, and a web loop may call it
                        reader.interrupt = Thread(target=database.cancel, daemon=True).start
                    self.outcomes = [_outcome(rows, call) for call in self.calls]
                    self._end(connection, news, writes=writes)
                except Exception as error:  # noqa: BLE001 - the pipeline must be left first
                    failure = error
        except psycopg.Error as error:
            failure = failure or error
        connection.forget()
        if failure is not None or database.info.transaction_status:
            if not database.closed:
                # outside of the pipeline. By its own method psycopg forgets what it has prepared in
                # vain; a statement of this text it only heeds the first time.
                self.ending = False
                database.rollback()
            if failure is not None:
                raise failure
        elif self._is_news:
            news.count()
        return self.outcomes

    @property
    def _is_news(self) -> bool:
        """Whether others should look at the journal."""
        return any(
            not isinstance(call, _SILENT) or (isinstance(call, Sweep) and done.value)
            for call, done in zip(self.calls, self.outcomes, strict=True)
        )

    def _begin(self, connection: Connection) -> None:
        """Begin, lock the runs, and send ahead what the appends will ask."""
        database = connection.database
        database.execute("BEGIN")
        number = database.execute(connection.begins.encode())
        keys = [call.key for call in self.calls if isinstance(call, SettleRequest)]
        found: list[tuple[str]] = []
        if keys:
            sql = "SELECT run_id FROM request WHERE key = ?"
            found = [row for key in keys for row in connection.execute(sql, (key,)).fetchall()]
        claimed = {each for (run_id,) in found for each in ancestry(run_id)}
        for call in self.calls:
            if isinstance(call, Acquire):
                claimed.update(ancestry(call.run_id))
            elif isinstance(call, (Append, Send, PlaceRequest, Reserve)):
                claimed.add(call.run_id)
            elif isinstance(call, CreateWhole):
                claimed.update(each for move in call.moves for each in ancestry(move.read.run_id))
        if claimed:
            sql = "SELECT 1 FROM run WHERE run_id = ANY(?) ORDER BY run_id FOR NO KEY UPDATE"
            connection.execute(sql, (sorted(claimed),))
        if scopes := {
            s for c in self.calls if isinstance(c, Reserve) for s in c.reservation.scopes
        }:
            connection.execute(LIMITS_OF, (json.dumps(sorted(scopes)),))
        seen: set[str] = set()
        for call in self.calls:
            if isinstance(call, Append) and call.run_id not in seen:
                connection.send_ahead(FENCE, (call.run_id, call.head, call.epoch))
            seen.add(call.run_id)
        row = number.fetchone()
        self.id, self.server = row[0] if row else "", connection.born

    def _end(self, connection: Connection, news: _News, *, writes: bool) -> None:
        if is_long(self.calls[0]) and self.outcomes[0].error is not None:
            return  # another transaction may have come between its checks and its writes
        connection.flush()
        if self._is_news:
            news.tell(connection.database)
        if writes:
            self.ending = True
        connection.database.execute("COMMIT")


def _outcome(rows: Rows, call: Call) -> Done:
    try:
        if isinstance(call, Read):
            return Done(call.method(rows, *call.arguments))
        return Done(rows.perform(call))
    except ChartloopError as refusal:
        return Done(error=refusal)


def _encoded(text: str) -> Stored:
    """A text as bytes, for a column that takes every text."""
    return text.encode("utf-8", "surrogatepass")


class _News:
    """Counts the commits of this journal, and those of others once somebody asks.

    The server sends notices. Behind a pooler they do not arrive: then it is asked every `POLL`
    seconds. A lost connection counts as news.
    """

    def __init__(self, where: Address) -> None:
        self._where = where
        self._mine = secrets.token_hex(4)
        self._count = 0
        self._lock = Lock()
        self._listener: Thread | None = None
        self._listening, self._closed = Event(), Event()

    def token(self) -> str:
        """The token of what was written until now."""
        with self._lock:
            if self._listener is None:
                name = "chartloop-journal-news"
                self._listener = Thread(target=self._listen, name=name, daemon=True)
                self._listener.start()
        self._listening.wait(10)
        return f"{self._mine}-{self._count}"

    def count(self) -> None:
        """Count a commit."""
        with self._lock:
            self._count += 1

    def tell(self, database: psycopg.Connection[Any]) -> None:
        """Tell others of a transaction, once it is committed."""
        database.execute("SELECT pg_notify(%s, %s)", (self._channel, self._mine))

    @property
    def _channel(self) -> str:
        return f"chartloop_{self._where.schema}"

    def close(self) -> None:
        """Hear no more."""
        self._closed.set()

    def _listen(self) -> None:
        while not self._closed.is_set():
            try:
                with psycopg.connect(self._where.url, autocommit=True) as database:
                    database.execute(f'LISTEN "{self._channel}"'.encode())
                    noticed = self._is_heard(database)
                    self.count()
                    self._listening.set()
                    self._hear(database, by_notice=noticed)
            except psycopg.Error:
                self.count()
                self._listening.set()
                self._closed.wait(POLL)

    def _is_heard(self, database: psycopg.Connection[Any]) -> bool:
        """Whether the server's notices arrive."""
        with psycopg.connect(self._where.url, autocommit=True) as other:
            self.tell(other)
        heard = database.notifies(timeout=1, stop_after=1)
        return any(note.payload == self._mine for note in heard)

    def _hear(self, database: psycopg.Connection[Any], *, by_notice: bool) -> None:
        before: Any = None
        while not self._closed.is_set():
            for note in database.notifies(timeout=POLL):
                if note.payload != self._mine:
                    self.count()
            if not by_notice:
                now = database.execute("SELECT pg_current_snapshot()::text").fetchone()
                if now != before:
                    self.count()
                before = now


def _pool(where: Address, most: int) -> Pool[Connection]:
    return Pool(
        most, lambda: Connection(where), lambda used: used.database.close(),
        broken=lambda used: used.database.closed,
    )  # fmt: skip


def _close(pools: Iterable[Pool[Connection]], news: _News, process: int) -> None:
    """Close what nobody uses any more, unless it belongs to the parent of this forked process."""
    if process == os.getpid():
        news.close()
        for pool in pools:
            pool.close()


_opening = Lock()
_open: WeakValueDictionary[tuple[int, str], PostgresJournal] = WeakValueDictionary()
"""The journals that `shared_journal` has opened, by process and URL."""
