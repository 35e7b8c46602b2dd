"""The schedule on DBOS: its queue delivers the runs that are due in a journal in PostgreSQL.

    a cause ─▶ request.due ──trigger──▶ enqueue_workflow ─▶ DBOS ─▶ delivery ─▶ claim ─▶ drive
               └───────────── one transaction ──────────┘           a hint      the row decides

The rows of `request` stay the truth. A trigger on them enqueues in the transaction that makes a run
due, whoever writes: a program without DBOS too. It stands behind a savepoint: if DBOS refuses, the
append goes on, and `sweep` finds the run. Whether a delivered run is due, and whose it is, says its
row. So a workflow of DBOS holds the id of a run and nothing else, has no steps, and may be lost,
repeated or late.

A workflow ends when its run is handed back. DBOS does not notice dead workers. The journal does,
and its sweep makes their runs due, which enqueues them; what they left in DBOS is cancelled.

Belongs here: the engine in a process. The trigger is in `dbos_tables`. Never: what makes a run due.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from threading import Lock, Thread
from typing import Any

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSPortableJSONSerializer
from dbos import error as refused
from sqlalchemy.exc import SQLAlchemyError

from chartloop.adapters.journal.postgres import PostgresJournal
from chartloop.adapters.journal.postgres_connection import Address
from chartloop.adapters.schedule.dbos_tables import (
    AGAIN,
    FORGOTTEN,
    LATE,
    NEEDED,
    QUEUE,
    deliver_through_dbos,
    engine_schema,
    execute,
    uses_dbos,
)
from chartloop.core.errors import ChartloopError, JournalError, SetupError
from chartloop.run.lease import TTL
from chartloop.run.schedule import Activation, Backlog, Claimed, Depth, Resting, WorkerRow

POLL = 0.2
"""The seconds between two questions of DBOS for its queue, unless its tools set another."""
KEPT = 86_400.0
"""The seconds for which DBOS shows an activation that is over."""
CLEANS = 600.0
"""The seconds between two removals of what DBOS shows no more."""
_OVER = ["SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]


def install(journal: PostgresJournal) -> None:
    """Make or migrate DBOS' tables, and let DBOS deliver the runs of a journal.

    It may be repeated. Runs that are due already are delivered too.
    """
    where = journal.address
    url = sqlalchemy.make_url(where.url).set(drivername="postgresql")
    try:
        DBOS.migrate(url.render_as_string(hide_password=False), schema=engine_schema(where))
    except Exception as error:
        raise _trouble(where, error) from error
    deliver_through_dbos(where)


class DbosSchedule:
    """The schedule of a journal on which DBOS is installed; one in a process.

    DBOS must not be used otherwise in this process. Raises `SetupError` if it is not installed in
    the journal's database.
    """

    def __init__(self, journal: PostgresJournal, *, poll: float = POLL) -> None:
        if not uses_dbos(journal.address):
            raise SetupError(
                f"`{journal.name}` does not deliver its runs through DBOS",
                hint="prepare it: `chartloop journal migrate --schedule dbos`",
            )
        self._journal, self._poll = journal, poll
        self._rows = journal.grouped
        self._engine: sqlalchemy.Engine | None = None
        self._wake: Callable[[], None] = _nothing
        self._lock = Lock()
        self._delivered: dict[str, Future[str]] = {}
        """The workflows whose runs are not claimed, by run."""
        self._held: dict[str, Future[str]] = {}
        """Those of claimed runs."""
        self._able: list[str] = [""]
        """What the worker can drive."""
        self._needed: dict[str, str] = {}
        """What runs need that DBOS may have delivered to others in vain."""
        self._lapsed = 0
        """The runs to drive alone at the last claim."""
        self.working: set[str] = set()
        """The workflows of this process."""
        self._strays: set[str] = set()
        """Those that DBOS takes for its, at the last look: an outage may have parted the two."""
        self._stops = False
        self._end: Thread | None = None
        self._cleaned = -CLEANS

    # the process ----------------------------------------------------------------------------------

    def start(self, worker: str, room: int, wake: Callable[[], None]) -> None:
        """Take deliveries, of at most `room` runs at once, and `wake` the worker for each."""
        where = self._journal.address
        _take_over(self)
        self._wake, self._engine = wake, _engine(where, 5)
        DBOS(
            config={
                "name": QUEUE, "application_version": "1", "executor_id": worker,
                "system_database_engine": self._engine, "dbos_system_schema": engine_schema(where),
                "serializer": DBOSPortableJSONSerializer(),  # so nothing is unpickled
                "run_migrations": False, "log_level": "ERROR",
            }
        )  # fmt: skip
        try:
            DBOS.launch()
            queue = DBOS.register_queue(
                QUEUE, polling_interval_sec=self._poll, on_conflict="never_update"
            )
            queue.set_worker_concurrency(room)
        except Exception as error:
            self.stop()
            self.close()
            raise _trouble(where, error) from error

    def stop(self, grace: float = 0.0) -> None:
        """Take no more, and give back what was not claimed. Held runs have `grace` seconds."""
        with self._lock:
            self._stops = True
            left, self._delivered = self._delivered, {}
        self._end = Thread(
            target=DBOS.destroy, kwargs={"workflow_completion_timeout_sec": int(grace) + 2},
            daemon=True,
        )  # fmt: skip
        self._end.start()
        for run_id, delivery in left.items():
            with suppress(ChartloopError):  # the next sweep finds it
                self._give_back(run_id)
            _finish(delivery, "given back")

    def close(self) -> None:
        """End, once the held runs are handed back."""
        if self._end is not None:
            self._end.join()
        if self._engine is not None:
            self._engine.dispose()
        _take_over(None)

    def deliver(self, run_id: str) -> Future[str]:
        """Take a run that DBOS delivers. What is returned ends its workflow."""
        delivery = Future[str]()
        with self._lock:
            if not self._stops:
                _finish(self._delivered.get(run_id), "delivered again")
                self._delivered[run_id] = delivery
        if self._stops:
            self._give_back(run_id)
            _finish(delivery, "given back")
        self._wake()
        return delivery

    def _give_back(self, run_id: str) -> None:
        """Enqueue a run that was delivered in vain."""
        execute(self._journal.address, AGAIN, run_id)

    @property
    def deliveries(self) -> int:
        """The number of runs that DBOS delivered and that are neither handed nor given back."""
        with self._lock:
            return len(self._delivered) + len(self._held)

    # the schedule ---------------------------------------------------------------------------------

    async def enqueue(self, run_id: str) -> bool:
        return await self._rows.enqueue(run_id)

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        if alone:  # whoever DBOS delivered it to has left it
            return await self._rows.claim(worker, limit, can, alone=True)
        with self._lock:
            delivered = dict(self._delivered)
        able = ["", *(needs for needs, able in can.items() if able)]
        if more := [needs for needs in able if needs not in self._able]:  # in vain to others
            await asyncio.to_thread(execute, self._journal.address, FORGOTTEN, more, 0.0)
        self._able = able
        if not (delivered or self._lapsed):
            needed = {needs: run for needs, run in self._needed.items() if needs not in can}
            return Claimed([], needed, None)
        claimed = await self._rows.claim_of(worker, limit, can, [*delivered])
        self._lapsed = claimed.lapsed
        taken = {run.request.run_id for run in claimed.runs}
        with self._lock:
            for run_id in delivered.keys() - set(claimed.waiting):
                if self._delivered.get(run_id) is delivered[run_id]:
                    del self._delivered[run_id]
                _finish(self._held.pop(run_id, None) if run_id in taken else None, "claimed again")
                if run_id in taken:
                    self._held[run_id] = delivered[run_id]
                else:
                    _finish(delivered[run_id], "not here")
        return claimed

    async def keep(self, worker: WorkerRow, *, ttl: float = TTL) -> None:
        await self._rows.keep(worker, ttl=ttl)

    async def hand_back(self, worker: str, run: Activation, due: float | None) -> None:
        await self._rows.hand_back(worker, run, due)
        with self._lock:
            _finish(self._held.pop(run.request.run_id, None), "handed back")

    async def sweep(self, *, lost: bool = False) -> int:
        swept = await self._rows.sweep(lost=lost)
        if lost:
            alive = {worker.id for worker in await self._rows.workers()}
            now = await self._rows.now()
            try:
                swept += await asyncio.to_thread(self._reconcile, alive, now)
            except (SQLAlchemyError, refused.DBOSException) as error:
                raise _trouble(self._journal.address, error) from error
        return swept

    async def workers(self) -> list[WorkerRow]:
        return await self._rows.workers()

    async def backlog(self) -> Backlog:
        return await self._rows.backlog()

    async def resting(self, limit: int) -> list[Resting]:
        return await self._rows.resting(limit)

    async def depth(self, of: str = "") -> Depth:
        return await self._rows.depth(of)

    def _reconcile(self, alive: set[str], now: float) -> int:
        """End what dead workers left in DBOS, and enqueue what it does not know."""
        if self._engine is None or self._stops:
            return 0
        pending = DBOS.list_workflows(
            status="PENDING", queue_name=QUEUE, load_input=False, load_output=False
        )
        mine = {one.workflow_id for one in pending if one.executor_id == DBOS.executor_id}
        left = {one.workflow_id for one in pending if str(one.executor_id) not in alive} - mine
        strays, self._strays = self._strays, mine - self.working
        if left := left | (strays & self._strays):
            DBOS.cancel_workflows([*left])
        if time.monotonic() - self._cleaned > CLEANS:
            self._cleaned = time.monotonic()
            before = datetime.fromtimestamp(now - KEPT, UTC).isoformat()
            over = DBOS.list_workflows(
                status=_OVER, completed_before=before, limit=10_000,
                load_input=False, load_output=False,
            )  # fmt: skip
            DBOS.delete_workflows([one.workflow_id for one in over])
        self._needed = dict(execute(self._journal.address, NEEDED))
        if self._needed.keys() - self._able:
            self._wake()
        return len(execute(self._journal.address, FORGOTTEN, self._able, LATE))


_receiver: list[DbosSchedule] = []
"""The schedule of this process, which takes what DBOS delivers: DBOS has one instance too."""


def _take_over(schedule: DbosSchedule | None) -> None:
    if schedule is not None and _receiver:
        raise SetupError("DBOS runs in this process already", hint="start another process")
    _receiver[:] = [] if schedule is None else [schedule]


@DBOS.workflow(name=f"{QUEUE}.drive")
async def _drive(run_id: str) -> str:
    """A run that is due. It lasts until the run is handed back."""
    (schedule,) = _receiver
    workflow = DBOS.workflow_id or ""
    schedule.working.add(workflow)
    try:
        return await asyncio.wrap_future(await asyncio.to_thread(schedule.deliver, run_id))
    finally:
        schedule.working.discard(workflow)


def _finish(delivery: Future[str] | None, why: str) -> None:
    """End a workflow of DBOS, unless it has ended."""
    if delivery is not None and not delivery.done():
        delivery.set_result(why)


def _trouble(where: Address, error: Exception) -> JournalError:
    """What DBOS says, without what it may quote of a URL."""
    return JournalError(
        f"DBOS cannot work on `{where.name}`: {type(error).__name__}",
        hint="run `chartloop journal migrate` with a role that may create tables, and see "
        "docs/postgres.md for the rights of workers",
    )


def _nothing() -> None:
    """What is woken before there is a worker."""


def _engine(where: Address, size: int) -> sqlalchemy.Engine:
    """Connections for DBOS, which does not learn the URL with its password."""

    def connect() -> Any:
        return psycopg.connect(where.url, fallback_application_name="chartloop-dbos")

    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=connect, pool_size=size, max_overflow=2 * size,
        pool_pre_ping=True,
    )  # fmt: skip
