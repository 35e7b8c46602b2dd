"""The journal's port over tables, independent of how its calls are performed.

Each call of the port becomes data: a `Write`, or a `Read` of the rows. A subclass performs them:
each at once (`sqlite.SqliteJournal`) or several together (`grouped.GroupedJournal`). Texts are
made, and secrets hidden, before a call is performed, so outside of any transaction.

Belongs here: the port's methods, once. Never: SQL, locks, threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeAlias, TypeVar, Unpack, cast

from chartloop.adapters.journal.rows import Rows
from chartloop.adapters.journal.writes import (
    Acquire,
    Append,
    ClaimRuns,
    CreateWhole,
    Enqueue,
    Fork,
    HandBack,
    Keep,
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
    Writer,
)
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.run.chain import Chain
from chartloop.run.cron import CronSchedule
from chartloop.run.fleet import Doubt, FleetLimit, Per, Reservation, Reserved, What
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
    NEWEST_FIRST,
    PAGE,
    RunCount,
    RunFilter,
    RunOrder,
    RunPage,
    Tail,
    Wanted,
    check_page,
)
from chartloop.run.lease import TTL, Acquired, Claim, Driver, Lease
from chartloop.run.raw_run import RawRun
from chartloop.run.reader import READER
from chartloop.run.redact import Redactor
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
P = ParamSpec("P")


class Read(NamedTuple):
    """A reading call, of a run if it names one: a method of the rows, with its arguments."""

    run_id: str
    method: Callable[..., Any]
    arguments: tuple[Any, ...]


Call: TypeAlias = Write | Read

_LONG = frozenset((
    Rows.events, Rows.records, Rows.chain, Rows.rows, Rows.page, Rows.tally, Rows.tail, Rows.blob,
    Rows.snapshot, Rows.workers, Rows.backlog, Rows.living, Rows.raw, Rows.chain_ends,
))  # fmt: skip


def is_long(call: Call) -> bool:
    """Whether a call may take long, so that it is not grouped with others."""
    if isinstance(call, Read):
        return call.method in _LONG
    return isinstance(call, (CreateWhole, Fork, Remove, PutRaw, PutCron, MarkRestored))


def is_scan(call: Call) -> bool:
    """Whether a read must look through rows that no index orders, whatever it finds."""
    if not isinstance(call, Read):
        return False
    wanted: Any = call.arguments[0] if call.method in (Rows.page, Rows.rows) else None
    return call.method is Rows.tally or (wanted is not None and bool(wanted.search))


class Done(NamedTuple):
    """The outcome of a call."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


class JournalFace(ABC):
    """The port's methods, as calls."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @property
    def redactor(self) -> Redactor | None:
        """The redactor of everything that is written or sent live; None hides nothing."""
        return self._writer.redactor

    def hide(self, values: Iterable[str]) -> None:
        """Hide these secrets too in everything that is written from now on."""
        self._writer.hide(values)

    @abstractmethod
    async def _perform(self, call: Call) -> Any:
        """Perform a call; returns its value, or raises its error."""

    # writing ----------------------------------------------------------------------------------

    async def create(self, row: RunRow) -> None:
        await self._perform(self._writer.create(row))

    async def create_whole(
        self, runs: Sequence[WholeRun], *, moves: Sequence[Move] = (), take_over: bool = False
    ) -> None:
        filled = [self._writer.whole(run) for run in runs]
        claim = Claim(None, take_over=take_over)
        await self._perform(CreateWhole("", filled, moves, claim))

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        return await self._perform(Acquire(run_id, Claim(driver, ttl, take_over)))

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        return await self._perform(Renew(run_id, driver.token, ttl))

    async def release(self, run_id: str, driver: Driver) -> None:
        await self._perform(Release(run_id, driver.token))

    async def mark_restored(self, *, lift: bool = False) -> None:
        await self._perform(MarkRestored("", lift))

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
        lines, columns = write.lines(events), write.update(update)
        return await self._perform(Append(run_id, head, epoch, lines, columns, consumed))

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        data = self._writer.stored(self._writer.document(message.data))
        return await self._perform(Send(run_id, message, data, check))

    async def put_blob(self, data: str) -> str:
        # the key is the hash of the text before redaction, by which callers look it up
        return await self._perform(PutBlob("", digest(data), data, self._writer.text))

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        data = self._writer.document(snapshot.data)
        await self._perform(PutSnapshot(run_id, snapshot, data))

    async def fork(
        self, run_id: str, record_seq: int, row: RunRow, notes: Sequence[Event] = ()
    ) -> int:
        new = self._writer.create(row.replace(parent=run_id, fork_seq=record_seq))
        lines = self._writer.lines(notes)
        return await self._perform(Fork(run_id, record_seq, new, lines))

    async def remove(self, run_ids: Iterable[str]) -> int:
        return await self._perform(Remove("", tuple(run_ids)))

    async def put_raw(self, runs: Sequence[RawRun]) -> None:
        await self._perform(PutRaw("", runs))

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        return await self._perform(self._order(request))

    def _order(self, request: StoredRequest) -> PlaceRequest:
        data = self._writer.stored(self._writer.document(request.data))
        return PlaceRequest(request.run_id, request, data, self._outcome(request.outcome))

    async def settle_request(
        self, key: str, outcome: Mapping[str, Any], epoch: int = 0, *,
        before: Mapping[str, Any] | None = None,
    ) -> bool:  # fmt: skip
        text = self._writer.stored(self._writer.document(outcome))
        return await self._perform(SettleRequest("", key, text, epoch, self._outcome(before)))

    async def withdraw_request(self, key: str, *, before: Mapping[str, Any] | None = None) -> None:
        await self._perform(WithdrawRequest("", key, self._outcome(before)))

    def _outcome(self, outcome: Mapping[str, Any] | None) -> Stored | None:
        """An outcome as it is stored."""
        return None if outcome is None else self._writer.stored(self._writer.document(outcome))

    async def put_cron(
        self, before: CronSchedule | None, after: CronSchedule | None, *,
        runs: Sequence[WholeRun] = (), requests: Sequence[StoredRequest] = (),
    ) -> bool:  # fmt: skip
        name, columns, first = "" if before is None else before.name, None, 0
        if after is not None:
            text = self._writer.stored(self._writer.document(plain(after)))
            name, first = after.name, after.version
            columns = None if after.paused else after.next, text
        filled = [self._writer.whole(run) for run in runs]
        whole = CreateWhole("", filled, (), Claim(None))
        version = None if before is None else before.version
        orders = [self._order(request) for request in requests]
        return await self._perform(PutCron("", name, version, first, columns, whole, orders))

    async def enqueue(self, run_id: str) -> bool:
        return await self._perform(Enqueue(run_id))

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        return await self._perform(ClaimRuns("", worker, limit, can, alone=alone))

    async def keep(self, worker: WorkerRow, *, ttl: float = TTL) -> None:
        await self._perform(Keep("", worker, ttl))

    async def hand_back(self, worker: str, run: Activation, due: float | None) -> None:
        await self._perform(HandBack(run.request.run_id, worker, run, due))

    async def sweep(self, *, lost: bool = False) -> int:
        return await self._perform(Sweep("", lost))

    async def set_limit(self, limit: FleetLimit, *, only_new: bool = False) -> bool:
        return await self._perform(SetLimit("", limit, only_new))

    async def remove_limit(self, scope: str, what: What, per: Per) -> bool:
        return await self._perform(RemoveLimit("", scope, what, per))

    async def reserve(self, reservation: Reservation) -> Reserved:
        return await self._perform(Reserve(reservation.run_id, reservation))

    async def settle_call(
        self, run_id: str, key: str, used: Mapping[str, float] | None, *, head: int | None = None
    ) -> bool:
        return await self._perform(SettleCall(run_id, key, used, head))

    # reading ----------------------------------------------------------------------------------

    @abstractmethod
    async def now(self) -> float: ...

    async def _read(
        self, run_id: str, method: Callable[Concatenate[Rows, P], T], *given: P.args, **_: P.kwargs
    ) -> T:
        value = await self._perform(Read(run_id, method, given))
        if (reader := READER.get()) is not None:
            rows = getattr(value, "rows", value)
            reader.took(len(cast("list[Any]", rows)) if isinstance(rows, list) else 1)
        return value

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Event]:
        return await self._read(run_id, Rows.events, run_id, start, limit, size)

    async def records(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Record]:
        return await self._read(run_id, Rows.records, run_id, start, limit, size)

    async def chain(self, run_id: str) -> Chain | None:
        return await self._read(run_id, Rows.chain, run_id)

    async def raw(self, run_id: str) -> RawRun | None:
        return await self._read(run_id, Rows.raw, run_id)

    async def chain_ends(self, run_ids: Sequence[str]) -> Mapping[str, bytes]:
        return await self._read("", Rows.chain_ends, run_ids)

    async def row(self, run_id: str) -> RunRow | None:
        return await self._read(run_id, Rows.row, run_id)

    async def rows(self, *, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunRow]:
        wanted.setdefault("children", True)
        return await self._read("", Rows.rows, RunFilter(**wanted), limit)

    async def page(
        self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE, *,
        order: RunOrder = NEWEST_FIRST,
    ) -> RunPage:  # fmt: skip
        check_page(limit)
        return await self._read("", Rows.page, filter, cursor, limit, order)

    async def tally(self, filter: RunFilter, width: float) -> list[RunCount]:
        return await self._read("", Rows.tally, filter, width)

    async def tail(
        self, cursor: str = "", limit: int = EVENTS, *, size: int | None = None, run: str = ""
    ) -> Tail:
        check_page(limit, 0)
        return await self._read("", Rows.tail, cursor, limit, size, run)

    @abstractmethod
    async def changed(self, token: str = "") -> str | None: ...

    async def message(self, run_id: str, msg_id: str) -> InboxMessage | None:
        return await self._read(run_id, Rows.message, run_id, msg_id)

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        return await self._read(run_id, Rows.inbox, run_id)

    async def lease(self, run_id: str) -> Lease | None:
        return await self._read(run_id, Rows.lease, run_id)

    async def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        return await self._read(run_id, Rows.living_lease, run_id)

    async def restored(self) -> float:
        return await self._read("", Rows.restored)

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        return await self._read(run_id or "", Rows.requests, run_id, key, open_only, limit)

    async def cron_schedules(self, *, due: bool = False) -> list[CronSchedule]:
        return await self._read("", Rows.cron_schedules, due)

    async def workers(self) -> list[WorkerRow]:
        return await self._read("", Rows.workers)

    async def backlog(self) -> Backlog:
        return await self._read("", Rows.backlog)

    async def living(self, of: str = "") -> list[LivingRuns]:
        return await self._read("", Rows.living, of)

    async def resting(self, limit: int) -> list[Resting]:
        return await self._read("", Rows.resting, limit)

    async def depth(self, of: str = "") -> Depth:
        return await self._read("", Rows.depth, of)

    async def limits(self) -> list[FleetLimit]:
        return await self._read("", Rows.limits)

    async def doubts(self) -> list[Doubt]:
        return await self._read("", Rows.doubts)

    async def blob(self, digest: str) -> str | None:
        return await self._read("", Rows.blob, digest)

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return await self._read(run_id, Rows.snapshot, run_id)
