"""The schedule: which runs are due, and which worker has claimed them.

    place_request, send, release, a wait's time ─▶ due ─▶ claim ─▶ hand back, or settle
                                                    ▲        └─ the worker dies: sweep ─┐
                                                    └───────────────────────────────────┘

A run with an open request has one activation. It becomes due in the transaction of its cause:
the request, a message to the run or a child, another driver's release of the run. Two causes before
one claim are one activation. A run that waits is not due, and costs nothing until it is.

Of the runs that are due, those of the highest priority are claimed first, 1 before 9: as long as
there are any, the others wait. Within a priority submitters take turns. A run that becomes due gets
the turn after the last of its submitter's (`share_of`), or the one that is served now if there is
none; the lowest turn is claimed first. So a submitter with 10,000 runs has one run in each round,
as has one with a single run.

A claim saves work: two workers do not open one run. Leases and epochs keep two from driving it.

When a process ends with runs, one of them may have ended it, and nobody knows which. So each has
*lapsed*, and is from then on claimed to be driven `alone`, until it has a new record. A process
that ends with a run that it had for itself was ended by this run, or by whoever ended the process:
only that counts towards `LAPSES`, and it harms no other run.

Belongs here: the records, the port, and that of a journal in memory. Never: tables, threads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol, Unpack

from chartloop.core.phase import Phase, phase_of
from chartloop.run.fleet import SESSION, TENANT
from chartloop.run.journal_pages import Wanted
from chartloop.run.journal_records import PRIORITY, RunRow
from chartloop.run.lease import TTL, Driver, MemoryLeases, ancestry
from chartloop.run.processes import Process
from chartloop.run.requests import StoredRequest
from chartloop.run.tenants import covers, tenant_of

LAPSES = 5
"""The processes that may end in a row with a run that each had for itself, without a new record.
After them the run is parked."""

RESTS = ("paused", "debugging")
"""The statuses of a run that does not go on by itself."""

STRAY = 10.0
"""Seconds after which a run is due again that was handed back to wait although it does not."""

SOME = 10_000
"""The most runs that a backlog counts of a kind: what it costs is bounded, whatever waits."""


class Activation(NamedTuple):
    """A run that a worker has claimed."""

    request: StoredRequest
    wakes: int
    """How often it had become due when it was claimed: a later cause is not lost."""
    alone: bool = False
    """Whether it has lapsed, and so is to be driven in a process that drives nothing else."""


class Claimed(NamedTuple):
    """The outcome of a claim."""

    runs: list[Activation]
    unjudged: Mapping[str, str]
    """What due runs need that the worker has not judged yet, with a run that needs it."""
    following: float | None
    """When the next run becomes due, on the journal's clock; None for never."""
    waiting: Collection[str] = ()
    """Of the runs that an engine delivered, those that the worker may claim later."""
    lapsed: int = 0
    """The number of due runs that the worker can drive, but only alone."""


class Resting(NamedTuple):
    """A run that is due by itself later."""

    run_id: str
    due: float
    needs: str


class WorkerRow(NamedTuple):
    """A worker, as the journal lists it."""

    id: str
    """Unique: two starts of a process or a pod have two."""
    face: str = ""
    """The program, for people: ``chartloop worker``."""
    process: Process = Process()
    room: int = 0
    """The number of runs that it drives at once."""
    lacks: Mapping[str, str] = {}
    """Why it cannot drive runs, by what these need; empty for those that it can drive."""
    until: float = 0.0
    """When it counts as dead, unless it says before that it lives; set by the journal."""


class Held(NamedTuple):
    """A run that a worker has claimed."""

    worker: str
    run_id: str
    since: float
    priority: int


class Lapse(NamedTuple):
    """A claim whose worker died."""

    worker: str
    since: float
    until: float


class Parked(NamedTuple):
    """A run that no worker claims: processes died with it, or it rests since an import.

    One that rests has no lapses. Else the first is that of a process which may have had other runs;
    `LAPSES` more are of processes that the run had for itself.
    """

    run_id: str
    lapses: tuple[Lapse, ...]


class Backlog(NamedTuple):
    """The schedule at one moment. A count of runs above `SOME` says that there are more."""

    due: int
    """Runs that wait for a worker."""
    oldest: float | None
    """Since when the oldest of them is due."""
    held: int
    """Runs that a worker has claimed."""
    resting: int
    """Runs with an open request that wait for an answer or a time."""
    placed: int
    """Requests that were ever placed; in a database about as many."""
    parked: list[Parked]
    needs: Mapping[str, int]
    """The number of due runs, by what they need."""
    workers: list[WorkerRow]
    holds: list[Held]
    """What they have claimed, the oldest claim first."""


Place = Literal["", "due", "held", "rests", "parked"]
"""Where the open request of a run is; empty if it has none."""


class LivingRuns(NamedTuple):
    """Runs that have not ended, of one tenant and version, that stand alike: one or more."""

    tenant: str
    machine: str
    machine_hash: str
    needs: str
    """The `needs` of their open requests; empty without one."""
    priority: int
    place: Place
    status: str
    asks: bool
    """Whether they have a question."""
    wakes: bool
    """Whether they have a wake-up time."""
    runs: int
    """How many they are."""
    due: float | None
    """The least time at which one of them is or was due; None for none."""
    run_id: str
    """One of them."""

    @property
    def phase(self) -> Phase:
        """How they stand, as far as rows and requests know: without a request one may be driven."""
        driven, queued = self.place == "held" or None, self.place not in ("", "held")
        asks, wakes = bool(self.asks), bool(self.wakes)
        return phase_of(self.status, asks=asks, wakes=wakes, driven=driven, queued=queued)


COUNTED = 20_000
"""The most living runs that are counted by version, those begun longest ago."""


class Depth(NamedTuple):
    """The schedule in four figures, for probes, metrics and autoscalers.

    What it costs grows with the runs that are due, held or parked, not with those that wait.
    """

    due: int
    """Runs that wait for a worker."""
    waited: float
    """Seconds that the oldest of them has waited."""
    held: int
    """Runs that a worker has claimed."""
    parked: int
    """Runs that are not claimed any more."""
    tables: int = 0
    """The version of the journal's tables; 0 for a journal that has none."""


def is_parked(lapses: Sequence[object]) -> bool:
    """Whether no worker claims a run any more that has lapsed like this."""
    return len(lapses) > LAPSES


def share_of(run_id: str, session: str) -> str:
    """The submitter whose runs take one turn after the other: the tenant, else the session.

    All runs without either are one.
    """
    tenant = tenant_of(run_id)
    return TENANT + tenant if tenant else SESSION + session if session else ""


class Schedule(Protocol):
    """The operations of workers."""

    async def enqueue(self, run_id: str) -> bool:
        """Make a run due, even a parked one. False if it has no open request."""
        ...

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        """Claim at most `limit` due runs: by priority, by turn, those due longest first.

        `can` tells, for each `StoredRequest.needs` that the worker has judged, whether it can drive
        such runs. Others are never claimed. With `alone`, only runs that have lapsed are, those
        with the fewest lapses first; without it, only others.
        """
        ...

    async def keep(self, worker: WorkerRow, *, ttl: float = TTL) -> None:
        """List the worker as alive for `ttl` seconds more. A `ttl` of 0 takes it off the list."""
        ...

    async def hand_back(self, worker: str, run: Activation, due: float | None) -> None:
        """Give up a claim. The run is due at `due`, or at once if it was woken since the claim.

        None: when something happens to it. Nothing happens if the request is settled, or if another
        worker has claimed the run since.
        """
        ...

    async def sweep(self, *, lost: bool = False) -> int:
        """Make the runs of dead workers due again, or park them; returns how many.

        With `lost`, runs are due as well whose last driver, not a worker, has died.
        """
        ...

    async def workers(self) -> list[WorkerRow]:
        """The workers that are listed, in the order of their ids."""
        ...

    async def backlog(self) -> Backlog:
        """The schedule as it is now."""
        ...

    async def resting(self, limit: int) -> list[Resting]:
        """The runs that are due by themselves later, the next first."""
        ...

    async def depth(self, of: str = "") -> Depth:
        """Its figures alone. `of` is empty for all runs, or `Reach.name`: of a tenant, or of none.

        That costs as much: what is due, held or parked is looked at.
        """
        ...


class Census(Protocol):
    """The runs of a journal in figures."""

    async def living(self, of: str = "") -> list[LivingRuns]:
        """The runs that have not ended, without children, counted by version: at most `COUNTED`.

        `of` as for `Schedule.depth`. The cost grows with these runs, up to that many.
        """
        ...


class Engine(Schedule, Protocol):
    """A schedule whose runs are delivered to a process by an engine.

    The rows of the journal stay the truth: a delivery is a hint, and the claim decides.
    """

    def start(self, worker: str, room: int, wake: Callable[[], None]) -> None:
        """Take deliveries, of at most `room` runs at once, and `wake` the worker for each."""
        ...

    def stop(self, grace: float) -> None:
        """Take no more, and give back what was not claimed. Held runs have `grace` seconds."""
        ...

    def close(self) -> None:
        """End, once the held runs are handed back."""
        ...


@dataclass(slots=True)
class _Place:
    """The activation of an open request in memory."""

    due: float | None
    wakes: int = 0
    worker: str = ""
    since: float = 0.0
    records: int = 0
    """The run's records when it was claimed."""
    lapses: tuple[Lapse, ...] = ()
    priority: int = PRIORITY
    share: str = ""
    turn: int = 0
    """Its place among what is due; 0 for none yet."""

    @property
    def parked(self) -> bool:
        return is_parked(self.lapses)


class MemorySchedule(MemoryLeases):
    """The schedule of a journal in memory, whose workers are threads of one process."""

    def __init__(self, now: Callable[[], float]) -> None:
        MemoryLeases.__init__(self, now)
        self._requests: dict[str, StoredRequest] = {}
        self._places: dict[str, _Place] = {}
        self._workers: dict[str, tuple[WorkerRow, float]] = {}
        self._stopped: dict[str, list[str]] = {}
        """The requests of each run that were ever parked."""
        self._changes: int = 0

    def row_now(self, run_id: str) -> RunRow | None:
        """The row of a run, or None."""
        raise NotImplementedError

    async def rows(self, *, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunRow]:
        """The matching runs."""
        raise NotImplementedError

    def _count_records(self, run_id: str) -> int:
        """The records of a run and its children."""
        raise NotImplementedError

    def with_parked(self, row: RunRow) -> RunRow:
        """The row with what its request says: `RunRow.parked`."""
        for key in self._stopped.get(row.run_id, ()):
            request, place = self._requests.get(key), self._places.get(key)
            if request is not None and request.is_open and place is not None and place.parked:
                return row.replace(parked=tuple(lapse.until for lapse in place.lapses))
        return row

    def _open(self) -> Iterator[tuple[StoredRequest, _Place]]:
        """The open requests, with their activations."""
        for key, request in [*self._requests.items()]:
            if request.is_open:
                if (place := self._places.get(key)) is None:
                    row = self.row_now(request.run_id)
                    share = share_of(request.run_id, "" if row is None else row.session)
                    priority = PRIORITY if row is None else row.priority
                    place = _Place(request.at, priority=priority, share=share)
                    self._places[key] = place
                yield request, place
            else:
                self._places.pop(key, None)

    def wake(self, run_id: str, *, left: bool = False) -> bool:
        """Make a run and its ancestors due. `left`: by a driver, which takes up parked ones too."""
        found, now, above = False, self._now(), [*ancestry(run_id)]
        for request, place in self._open():
            if request.run_id in above and not (left and place.worker):
                found = True
                if left:
                    place.lapses = () if self._has_new(request, place) else place.lapses[:1]
                place.wakes += 1
                if not place.parked and (place.due is None or place.due > now):
                    place.due = now
                self._changes += 1
        return found

    async def release(self, run_id: str, driver: Driver) -> None:
        await super().release(run_id, driver)
        self.wake(run_id, left=True)

    async def enqueue(self, run_id: str) -> bool:
        return self.wake(run_id, left=True)

    def _has_new(self, request: StoredRequest, place: _Place) -> bool:
        """Whether the run has a record since it was claimed last."""
        return self._count_records(request.run_id) > place.records

    async def claim(
        self, worker: str, limit: int, can: Mapping[str, bool], *, alone: bool = False
    ) -> Claimed:
        now = self._now()
        every = [
            (place.due, request, place) for request, place in self._open()
            if not place.worker and place.due is not None
        ]  # fmt: skip
        free = [one for one in every if bool(one[2].lapses) is alone]
        due = sorted((one for one in free if one[0] <= now), key=itemgetter(0))
        first, last = dict[int, int](), dict[tuple[int, str], int]()
        for _, _, place in due:
            of, turn = place.priority, place.turn
            if turn:
                first[of] = min(turn, first.get(of, turn))
                last[of, place.share] = max(turn, last.get((of, place.share), 0))
        for _, _, place in due:
            if not place.turn:
                of = place.priority, place.share
                place.turn = last[of] = 1 + max(last.get(of, 0), first.setdefault(of[0], 1) - 1)
        due.sort(key=lambda one: (one[2].priority, len(one[2].lapses), one[2].turn))
        runs = list[Activation]()
        for _, request, place in due:
            if len(runs) < limit and (not request.needs or can.get(request.needs)):
                place.worker, place.since = worker, now
                place.records = self._count_records(request.run_id)
                runs.append(Activation(request, place.wakes, alone))
        left = [(r, p) for at, r, p in every if at <= now and not p.worker]
        unjudged = {r.needs: r.run_id for r, _ in left if r.needs and r.needs not in can}
        following = min((at for at, _, _ in every if at > now), default=None)
        lapsed = sum(p.lapses != () and can.get(r.needs, not r.needs) for r, p in left)
        return Claimed(runs, unjudged, following, lapsed=lapsed)

    async def keep(self, worker: WorkerRow, *, ttl: float = TTL) -> None:
        if ttl > 0:
            self._workers[worker.id] = worker, self._now() + ttl
        else:
            self._workers.pop(worker.id, None)

    async def hand_back(self, worker: str, run: Activation, due: float | None) -> None:
        for request, place in self._open():
            if request.key == run.request.key and place.worker == worker:
                place.worker, place.turn = "", 0
                if due is None and (row := self.row_now(request.run_id)) is not None:
                    due = None if row.status in RESTS else self._now() + STRAY
                place.due = due if place.wakes == run.wakes else self._now()
                place.lapses = () if self._has_new(request, place) else place.lapses
                self._changes += 1

    async def sweep(self, *, lost: bool = False) -> int:
        swept, now = 0, self._now()
        self._workers = {id: one for id, one in self._workers.items() if one[1] > now}
        for request, place in self._open():
            if place.worker and place.worker not in self._workers:
                swept += 1
                before = () if self._has_new(request, place) else place.lapses
                place.lapses = (*before, Lapse(place.worker, place.since, now))
                place.worker, place.turn = "", 0
                place.due = None if place.parked else now
                if place.parked:
                    self._stopped.setdefault(request.run_id, []).append(request.key)
                self._changes += 1
            elif lost and not place.worker and place.due is None and not place.parked:
                row, lease = self.row_now(request.run_id), self._leases.get(request.run_id)
                died = lease is not None and lease.until <= now
                if died and row is not None and row.status not in RESTS:
                    place.due = now
                    swept += 1
                    self._changes += 1
        return swept

    async def workers(self) -> list[WorkerRow]:
        return [one._replace(until=until) for _, (one, until) in sorted(self._workers.items())]

    async def backlog(self) -> Backlog:
        now, places = self._now(), [*self._open()]
        free = [(r, p) for r, p in places if not p.worker and not p.parked]
        due = [(p.due, r.needs) for r, p in free if p.due is not None and p.due <= now]
        holds = [Held(p.worker, r.run_id, p.since, p.priority) for r, p in places if p.worker]
        parked = [Parked(r.run_id, p.lapses) for r, p in places if p.parked]
        return Backlog(
            len(due), min((at for at, _ in due), default=None), len(holds),
            len(free) - len(due), len(self._requests), parked,
            Counter(needs for _, needs in due),
            await self.workers(),
            sorted(holds, key=itemgetter(2, 1)),
        )  # fmt: skip

    async def living(self, of: str = "") -> list[LivingRuns]:
        now, every = self._now(), await self.rows(children=False)
        rows = [
            row for row in every
            if not row.ending and row.status != "moved" and covers(of, row.run_id)
        ]  # fmt: skip
        opened = {request.run_id: (request.needs, place) for request, place in self._open()}

        def alone(row: RunRow) -> LivingRuns:
            needs, at = opened.get(row.run_id, ("", None))
            due = None if at is None else at.due
            place: Place = (
                "" if at is None else "held" if at.worker
                else "parked" if len(at.lapses) >= LAPSES
                else "due" if due is not None and due <= now else "rests"
            )  # fmt: skip
            return LivingRuns(
                row.tenant, row.machine, row.machine_hash, needs, row.priority, place, row.status,
                row.question is not None, row.wake_at is not None, 1, due, row.run_id,
            )  # fmt: skip

        return [alone(row) for row in sorted(rows, key=lambda row: row.created)[:COUNTED]]

    async def resting(self, limit: int) -> list[Resting]:
        later = [
            Resting(request.run_id, place.due, request.needs) for request, place in self._open()
            if not place.worker and place.due is not None and place.due > self._now()
        ]  # fmt: skip
        return sorted(later, key=itemgetter(1))[:limit]

    async def depth(self, of: str = "") -> Depth:
        now = self._now()
        places = [place for request, place in self._open() if covers(of, request.run_id)]
        free = [p for p in places if not p.worker and not p.parked]
        due = [p.due for p in free if p.due is not None and p.due <= now]
        return Depth(
            len(due), max((now - at for at in due), default=0.0),
            sum(bool(place.worker) for place in places),
            sum(place.parked for place in places),
        )  # fmt: skip
