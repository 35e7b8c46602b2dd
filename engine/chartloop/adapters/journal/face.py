"""The journal's port over a SQLite file, independent of how its calls are performed.

Each call of the port becomes a `Job`: work on the open file, and its requirements. A subclass
performs jobs: each at once (`sqlite.SqliteJournal`) or several together
(`sqlite_group.GroupedJournal`). Texts are made, and secrets hidden, before a job is performed, so
outside of any transaction.

Belongs here: the port's methods, once. Never: SQL, locks, threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from chartloop.adapters.journal import (
    sqlite_leases,
    sqlite_requests,
    sqlite_rows,
    sqlite_texts,
)
from chartloop.adapters.journal.sqlite_migrations import Connection
from chartloop.adapters.journal.sqlite_rows import Append, Filled, Writer
from chartloop.core.records import Record
from chartloop.run.journal import (
    Check,
    Event,
    InboxMessage,
    Move,
    RunRow,
    Snapshot,
    Update,
    WholeRun,
    digest,
)
from chartloop.run.journal_pages import (
    ALL,
    EVENTS,
    PAGE,
    RunFilter,
    RunPage,
    Tail,
    check_page,
)
from chartloop.run.lease import TTL, Acquired, Claim, Driver, Lease, ancestry, living
from chartloop.run.redact import Redactor
from chartloop.run.requests import StoredRequest

T = TypeVar("T")


class Job(NamedTuple):
    """One call of the port."""

    work: Callable[[Connection], Any]
    writes: bool = True
    long: bool = False
    """Whether it may take long, so that it is not grouped with others."""


class Done(NamedTuple):
    """The outcome of a job."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class JournalFace(ABC):
    """The port's methods, as jobs."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of everything that is written or sent live; None hides nothing."""
        return self._writer.redactor

    def hide(self, values: Iterable[str]) -> None:
        """Hide these secrets too in everything that is written from now on."""
        self._writer.hide(values)

    @abstractmethod
    async def _perform(
        self,
        run_id: str,
        work: Callable[[Connection], T],
        *,
        writes: bool = True,
        long: bool = False,
    ) -> T:
        """Perform a job for a run; an empty `run_id` means no particular run."""

    async def now(self) -> float:
        return self._now()

    async def create(self, row: RunRow) -> None:
        columns = self._writer.row(row)
        await self._perform(row.run_id, lambda db: sqlite_rows.create(db, columns))

    async def create_whole(
        self, runs: Sequence[WholeRun], *, moves: Sequence[Move] = (), take_over: bool = False
    ) -> None:
        write = self._writer
        given = [
            Filled(
                write.row(run.row.replace(head=len(run.events), epoch=0)),
                write.lines(run.events),
                run.inbox_of,
                run.carries,
            )
            for run in runs
        ]
        claim = Claim(None, take_over=take_over)
        await self._perform(
            "", lambda db: sqlite_rows.create_whole(db, given, moves, claim, self._now()), long=True
        )

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        claim = Claim(driver, ttl, take_over)
        return await self._perform(
            run_id, lambda db: sqlite_rows.acquire(db, run_id, claim, self._now())
        )

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        token = driver.token
        return await self._perform(
            run_id, lambda db: sqlite_leases.renew(db, run_id, token, self._now(), ttl)
        )

    async def release(self, run_id: str, driver: Driver) -> None:
        await self._perform(run_id, lambda db: sqlite_leases.release(db, run_id, driver.token))

    async def lease(self, run_id: str) -> Lease | None:
        return await self._perform(run_id, lambda db: sqlite_leases.lease(db, run_id), writes=False)

    async def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        return await self._perform(
            run_id,
            lambda db: living(sqlite_leases.leases(db, *ancestry(run_id)), self._now()),
            writes=False,
        )

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        outcome = None if request.outcome is None else self._writer.document(request.outcome)
        data = self._writer.document(request.data)
        given = sqlite_requests.RequestText(request, data, outcome)
        return await self._perform(request.run_id, lambda db: sqlite_requests.place(db, given))

    async def settle_request(self, key: str, outcome: Mapping[str, Any], epoch: int) -> bool:
        text = self._writer.document(outcome)
        return await self._perform(
            "", lambda db: sqlite_requests.settle(db, key, text, epoch, self._now())
        )

    async def withdraw_request(self, key: str) -> None:
        await self._perform("", lambda db: sqlite_requests.withdraw(db, key))

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        return await self._perform(
            run_id or "",
            lambda db: sqlite_requests.select(
                db, run_id, key=key, open_only=open_only, limit=limit
            ),
            writes=False,
        )

    async def append(
        self,
        run_id: str,
        head: int,
        epoch: int,
        events: Sequence[Event],
        *,
        update: Update | None = None,
        consumed: Sequence[str] = (),
    ) -> int:
        write = self._writer
        given = Append(run_id, head, epoch, write.lines(events), write.update(update), consumed)
        return await self._perform(run_id, lambda db: sqlite_rows.append(db, given))

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Event]:
        return await self._perform(
            run_id,
            lambda db: sqlite_rows.events(db, run_id, start, limit, size=size),
            writes=False,
            long=True,
        )

    async def records(self, run_id: str, start: int = 0, limit: int | None = None) -> list[Record]:
        return await self._perform(
            run_id,
            lambda db: sqlite_rows.records(db, run_id, start, limit),
            writes=False,
            long=True,
        )

    async def row(self, run_id: str) -> RunRow | None:
        return await self._perform(run_id, lambda db: sqlite_rows.row(db, run_id), writes=False)

    async def rows(
        self,
        *,
        machine: str | None = None,
        status: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        prefix: str | None = None,
        children: bool = True,
        limit: int | None = None,
    ) -> list[RunRow]:
        columns = {
            "machine": machine, "status": status, "agent": agent, "session": session,
            "parent": parent,
        }  # fmt: skip
        wanted = {name: value for name, value in columns.items() if value is not None}
        return await self._perform(
            "",
            lambda db: sqlite_rows.rows(db, wanted, prefix, limit, children=children),
            writes=False,
            long=True,
        )

    async def page(self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE) -> RunPage:
        check_page(limit)
        return await self._perform(
            "", lambda db: sqlite_rows.page(db, filter, cursor, limit), writes=False, long=True
        )

    async def tail(
        self, cursor: str = "", limit: int = EVENTS, *, size: int | None = None, run: str = ""
    ) -> Tail:
        check_page(limit, 0)
        return await self._perform(
            "", lambda db: sqlite_rows.tail(db, cursor, limit, size=size, run=run),
            writes=False, long=True,
        )  # fmt: skip

    async def changed(self, token: str = "") -> str | None:
        return await self._perform("", lambda db: sqlite_rows.changed(db, token), writes=False)

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        data = self._writer.document(message.data)
        return await self._perform(
            run_id, lambda db: sqlite_rows.send(db, run_id, message, data, check)
        )

    async def has_message(self, run_id: str, msg_id: str) -> bool:
        return await self._perform(
            run_id, lambda db: sqlite_rows.has_message(db, run_id, msg_id), writes=False
        )

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        return await self._perform(run_id, lambda db: sqlite_rows.inbox(db, run_id), writes=False)

    async def put_blob(self, data: str) -> str:
        # the key is the hash of the text before redaction, by which callers look it up
        key, hide = digest(data), self._writer.text
        return await self._perform(
            "", lambda db: sqlite_texts.put_blob(db, key, lambda: hide(data))
        )

    async def blob(self, digest: str) -> str | None:
        return await self._perform(
            "", lambda db: sqlite_texts.blob(db, digest), writes=False, long=True
        )

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        data = self._writer.document(snapshot.data)
        await self._perform(run_id, lambda db: sqlite_rows.put_snapshot(db, run_id, snapshot, data))

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return await self._perform(
            run_id, lambda db: sqlite_rows.snapshot(db, run_id), writes=False, long=True
        )

    async def fork(self, run_id: str, record_seq: int, row: RunRow) -> int:
        return await self._perform(
            run_id,
            lambda db: sqlite_rows.fork(db, run_id, record_seq, row, self._writer),
            long=True,
        )

    async def remove(self, run_ids: Iterable[str]) -> int:
        given = tuple(run_ids)
        return await self._perform("", lambda db: sqlite_rows.remove(db, given), long=True)
