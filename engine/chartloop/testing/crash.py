"""A simulated crash at a chosen write of the journal, for tests of recovery.

    journal = MemoryJournal()
    run = machine.start("Add.", script=replies, journal=CrashAt(journal, 7), run_id="r")
    with pytest.raises(Crashed):
        run.run()
    machine.open("r", journal=journal, script=replies).run()     # as another process would

Source: docs/durability.md: a recorded call is never paid again
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, Unpack

from chartloop.core.durability import Durability
from chartloop.core.records import Record
from chartloop.run.chain import Chain
from chartloop.run.cron import CronSchedule
from chartloop.run.fleet import Doubt, FleetLimit, Per, Reservation, Reserved, What
from chartloop.run.journal import (
    Check,
    Event,
    InboxMessage,
    Journal,
    Move,
    RunRow,
    Snapshot,
    Update,
    WholeRun,
)
from chartloop.run.journal_pages import (
    ALL,
    EVENTS,
    NEWEST_FIRST,
    PAGE,
    RunCount,
    RunFilter,
    RunOrder,
    RunPage,
    Tail,
    Wanted,
)
from chartloop.run.lease import TTL, Acquired, Driver, Lease
from chartloop.run.raw_run import RawRun
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import (
    Activation,
    Backlog,
    Claimed,
    Depth,
    LivingRuns,
    Resting,
    WorkerRow,
)

T = TypeVar("T")


class Crashed(BaseException):
    """The process has crashed. Not an `Exception`, so that no handler catches it."""


class CrashAt:
    """A journal that crashes its user at write `n`, counted from 1.

    With `before` it crashes before the write, which never happens; else after it, so that the
    result is lost. From then on every call raises `Crashed`, as in a dead process. The underlying
    journal is not affected and can be opened again. `writes` counts the attempted writes, without
    renewals of the lease; with an `n` of 0 it never crashes.
    """

    def __init__(self, journal: Journal, n: int = 0, *, before: bool = True) -> None:
        self.journal = journal
        self.n = n
        self.before = before
        self.writes = 0
        self.dead = False

    @property
    def suspends(self) -> bool:
        return self.journal.suspends

    @property
    def name(self) -> str:
        return self.journal.name

    @property
    def path(self) -> Path | None:
        return self.journal.path

    @property
    def durability(self) -> Durability | None:
        return self.journal.durability

    async def _write(self, write: Callable[[], Awaitable[T]]) -> T:
        self._live()
        self.writes += 1
        self.dead = self.writes == self.n
        if self.dead and self.before:
            raise Crashed(f"before write {self.n}")
        result = await write()
        if self.dead:
            raise Crashed(f"after write {self.n}")
        return result

    def _live(self) -> None:
        if self.dead:
            raise Crashed("the process is dead")

    # writes ---------------------------------------------------------------------------------

    async def create(self, row: RunRow) -> None:
        await self._write(lambda: self.journal.create(row))

    async def create_whole(
        self, runs: Sequence[WholeRun], *, moves: Sequence[Move] = (), take_over: bool = False
    ) -> None:
        await self._write(lambda: self.journal.create_whole(runs, moves=moves, take_over=take_over))

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        return await self._write(
            lambda: self.journal.acquire(run_id, driver, ttl=ttl, take_over=take_over)
        )

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        self._live()  # not counted: renewals depend on time and would shift the count
        return await self.journal.renew(run_id, driver, ttl=ttl)

    async def release(self, run_id: str, driver: Driver) -> None:
        await self._write(lambda: self.journal.release(run_id, driver))

    async def mark_restored(self, *, lift: bool = False) -> None:
        await self._write(lambda: self.journal.mark_restored(lift=lift))

    async def restored(self) -> float:
        self._live()
        return await self.journal.restored()

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
        return await self._write(
            lambda: self.journal.append(
                run_id, head, epoch, events, update=update, consumed=consumed
            )
        )

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        return await self._write(lambda: self.journal.place_request(request))

    async def settle_request(
        self, key: str, outcome: Mapping[str, Any], epoch: int = 0, *,
        before: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        return await self._write(
            lambda: self.journal.settle_request(key, outcome, epoch, before=before)
        )

    async def withdraw_request(self, key: str, *, before: Mapping[str, Any] | None = None) -> None:
        await self._write(lambda: self.journal.withdraw_request(key, before=before))

    async def put_cron(
        self, before: CronSchedule | None, after: CronSchedule | None, *,
        runs: Sequence[WholeRun] = (), requests: Sequence[StoredRequest] = (),
    ) -> bool:  # fmt: skip
        return await self._write(
            lambda: self.journal.put_cron(before, after, runs=runs, requests=requests)
        )

    async def enqueue(self, run_id: str) -> bool:
        return await self._write(lambda: self.journal.enqueue(run_id))

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        return await self._write(lambda: self.journal.claim(worker, limit, can, alone=alone))

    async def keep(self, worker: WorkerRow, *, ttl: float = TTL) -> None:
        self._live()  # not counted, as `renew`
        await self.journal.keep(worker, ttl=ttl)

    async def hand_back(self, worker: str, run: Activation, due: float | None) -> None:
        await self._write(lambda: self.journal.hand_back(worker, run, due))

    async def sweep(self, *, lost: bool = False) -> int:
        return await self._write(lambda: self.journal.sweep(lost=lost))

    async def cron_schedules(self, *, due: bool = False) -> list[CronSchedule]:
        self._live()
        return await self.journal.cron_schedules(due=due)

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        return await self._write(lambda: self.journal.set_limit(limit, only_new=only_new))

    async def remove_limit(self, scope: str, what: What, per: Per) -> bool:
        return await self._write(lambda: self.journal.remove_limit(scope, what, per))

    async def reserve(self, reservation: Reservation) -> Reserved:
        return await self._write(lambda: self.journal.reserve(reservation))

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float] | None, *, head: int | None = None
    ) -> bool:
        return await self._write(lambda: self.journal.settle_call(run_id, key, used, head=head))

    async def limits(self) -> list[FleetLimit]:
        self._live()
        return await self.journal.limits()

    async def doubts(self) -> list[Doubt]:
        self._live()
        return await self.journal.doubts()

    async def workers(self) -> list[WorkerRow]:
        self._live()
        return await self.journal.workers()

    async def backlog(self) -> Backlog:
        self._live()
        return await self.journal.backlog()

    async def resting(self, limit: int) -> list[Resting]:
        self._live()
        return await self.journal.resting(limit)

    async def depth(self, of: str = "") -> Depth:
        self._live()
        return await self.journal.depth(of)

    async def living(self, of: str = "") -> list[LivingRuns]:
        self._live()
        return await self.journal.living(of)

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        return await self._write(lambda: self.journal.send(run_id, message, check=check))

    async def put_blob(self, data: str) -> str:
        return await self._write(lambda: self.journal.put_blob(data))

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        await self._write(lambda: self.journal.put_snapshot(run_id, snapshot))

    async def fork(
        self, run_id: str, record_seq: int, row: RunRow, notes: Sequence[Event] = ()
    ) -> int:
        return await self._write(lambda: self.journal.fork(run_id, record_seq, row, notes))

    async def put_raw(self, runs: Sequence[RawRun]) -> None:
        return await self._write(lambda: self.journal.put_raw(runs))

    async def remove(self, run_ids: Iterable[str]) -> int:
        return await self._write(lambda: self.journal.remove(run_ids))

    # reads ----------------------------------------------------------------------------------

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Event]:
        self._live()
        return await self.journal.events(run_id, start, limit, size=size)

    async def records(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Record]:
        self._live()
        return await self.journal.records(run_id, start, limit, size=size)

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        self._live()
        return await self.journal.requests(run_id, key=key, open_only=open_only, limit=limit)

    async def row(self, run_id: str) -> RunRow | None:
        self._live()
        return await self.journal.row(run_id)

    async def rows(self, *, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunRow]:
        self._live()
        return await self.journal.rows(limit=limit, **wanted)

    async def page(
        self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE, *,
        order: RunOrder = NEWEST_FIRST,
    ) -> RunPage:  # fmt: skip
        self._live()
        return await self.journal.page(filter, cursor, limit, order=order)

    async def tally(self, filter: RunFilter, width: float) -> list[RunCount]:
        self._live()
        return await self.journal.tally(filter, width)

    async def tail(
        self, cursor: str = "", limit: int = EVENTS, *, size: int | None = None, run: str = ""
    ) -> Tail:
        self._live()
        return await self.journal.tail(cursor, limit, size=size, run=run)

    async def chain(self, run_id: str) -> Chain | None:
        self._live()
        return await self.journal.chain(run_id)

    async def raw(self, run_id: str) -> RawRun | None:
        self._live()
        return await self.journal.raw(run_id)

    async def chain_ends(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        self._live()
        return await self.journal.chain_ends(run_ids)

    async def changed(self, token: str = "") -> str | None:
        self._live()
        return await self.journal.changed(token)

    async def now(self) -> float:
        self._live()
        return await self.journal.now()

    async def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        self._live()
        return await self.journal.living_lease(run_id)

    async def lease(self, run_id: str) -> Lease | None:
        self._live()
        return await self.journal.lease(run_id)

    async def message(self, run_id: str, msg_id: str) -> InboxMessage | None:
        self._live()
        return await self.journal.message(run_id, msg_id)

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        self._live()
        return await self.journal.inbox(run_id)

    async def blob(self, digest: str) -> str | None:
        self._live()
        return await self.journal.blob(digest)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        self._live()
        return await self.journal.snapshot(run_id)

    async def close(self) -> None:
        await self.journal.close()
