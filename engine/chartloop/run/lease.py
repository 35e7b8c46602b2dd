"""Leases: the driver of a run, and until when.

A lease names its driver, for the error that refuses a second one, and lapses unless it is renewed,
so that a dead driver blocks a run only briefly. Leases keep a second driver from starting; they do
not make appends safe, which epochs do.

    acquire ─▶ renew, renew, ... ─▶ release
       └─ refused (`Driven`) while another driver's lease is alive

A lease is alive until `until` on the journal's clock. The lease of an ended process on this machine
ends at once. Within one process it is alive only during a step: a second `Run` object in a notebook
may continue between two steps of the first.

Belongs here: the records, and the rule that every journal applies. Never: threads, tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias
from weakref import WeakValueDictionary

from chartloop.core.errors import Driven
from chartloop.run.journal_records import RunRow
from chartloop.run.processes import Process, is_gone, is_mine
from chartloop.run.tenants import CHILD_MARK

TTL = 30.0
"""Seconds that a lease lasts unless it is renewed."""

Left: TypeAlias = Literal["", "gone", "silent", "alive"]
"""How the previous driver left a run: there was none, its process ended, it stopped renewing its
lease, or it was still driving when the run was taken over."""

NOT_LEFT: Left = ""


class Driver(NamedTuple):
    """The driver of a run."""

    token: str
    """Unique for each driver: two `Run` objects of a process have two."""
    face: str = ""
    """The program that drives, for people: ``chartloop run``, ``python``."""
    process: Process = Process()

    def __str__(self) -> str:
        face = f"`{self.face}`" if self.face.startswith("chartloop") else self.face or "a program"
        return f"{face}, pid {self.process.pid} on {self.process.host or 'an unknown host'}"


class Lease(NamedTuple):
    """A driver's lease of a run. Times are on the journal's clock."""

    driver: Driver
    since: float
    renewed: float
    until: float


class Acquired(NamedTuple):
    """The result of acquiring a run."""

    lease: Lease | None
    """The lease to store; None if an ancestor's covers the run, or the claim has no driver."""
    before: Lease | None = None
    """The lease of the previous driver, if it was another one."""
    left: Left = ""
    """How the previous driver left the run."""
    restored: float = 0.0
    """`Leases.restored`, as of the acquisition."""


class Claim(NamedTuple):
    """A request to drive a run."""

    driver: Driver | None = None
    ttl: float = TTL
    take_over: bool = False


class Driving(Protocol):
    """A driver of this process, as seen by other drivers."""

    run_id: str

    @property
    def busy(self) -> bool:
        """Whether it is driving the run now."""
        ...

    def lose(self, to: Driver | None) -> None:
        """Mark its run as lost to another driver."""
        ...

    def yield_lease(self) -> None:
        """Drop its lease, since another driver of this process drives a child of its run."""
        ...


here: WeakValueDictionary[str, Driving] = WeakValueDictionary()
"""The drivers of this process, by token."""


def grant(run_id: str, held: Mapping[str, Lease], claim: Claim, now: float) -> Acquired:
    """The lease that a claim gets. `held` are the leases of the run and its ancestors, by run.

    Raises `Driven` while another driver's lease is alive, unless `take_over`.
    """
    driver = claim.driver
    token = None if driver is None else driver.token
    others = {of: lease for of, lease in held.items() if lease.driver.token != token}
    ways: dict[str, Left] = {of: how_left(lease, now) for of, lease in others.items()}
    alive = next((of for of in others if ways[of] == "alive"), None)
    if alive is not None and not claim.take_over:
        raise driven(alive, others[alive])
    first = alive or next(iter(others), None)
    before = None if first is None else others[first]
    left: Left = NOT_LEFT if first is None else ways[first]
    mine = held.keys() - others.keys()
    if driver is None or mine - {run_id}:
        return Acquired(None, before, left)
    since = held[run_id].since if mine else now
    return Acquired(Lease(driver, since, now, now + claim.ttl), before, left)


def how_left(lease: Lease, now: float) -> Left:
    """Whether a lease is alive, and if not, how its driver left."""
    process = lease.driver.process
    if is_mine(process):
        driving = here.get(lease.driver.token)
        return "alive" if driving is not None and driving.busy else "gone"
    if is_gone(process):
        return "gone"
    left, lasts = lease.until - now, lease.until - lease.renewed
    # over twice the duration of a lease: the clock was set back, and this would last too long
    return "alive" if 0 < left <= 2 * lasts else "silent"


def living(held: Mapping[str, Lease], now: float) -> tuple[str, Lease] | None:
    """The first lease that is alive, after the id of its run."""
    return next((one for one in held.items() if how_left(one[1], now) == "alive"), None)


def ancestry(run_id: str) -> Iterator[str]:
    """The ids of the run and its ancestors, itself first."""
    while run_id:
        yield run_id
        run_id = run_id.rpartition(CHILD_MARK)[0]


def driven(run_id: str, lease: Lease) -> Driven:
    """The error that names a run's driver, since when and until when."""
    driver, process = lease.driver, lease.driver.process
    whom = "this process, elsewhere" if is_mine(process) else "another process"
    return Driven(
        f"run `{run_id}` is driven by {whom}: {driver}, since {say_time(lease.since)}, at least "
        f"until {say_time(lease.until)}",
        hint="let it, or stop it: Ctrl-C there, `chartloop pause` from here. `--take-over` "
        "(`take_over=True`) drives the run here instead; a call in flight may then be paid twice",
        run_id=run_id, host=process.host, pid=process.pid, face=driver.face, since=lease.since,
        until=lease.until,
    )  # fmt: skip


def holds(row: RunRow | None, epoch: int, grant: Callable[[Claim], object]) -> bool:
    """Whether a driver since an epoch may still speak for a run: no other has had it since.

    `grant` decides a claim for the run. A driver may have released its lease; a run that was
    removed belongs to nobody.
    """
    try:
        grant(Claim())
    except Driven:
        return False
    return row is None or row.epoch == epoch


class Leases(Protocol):
    """The journal's operations on leases, besides `Journal.acquire`."""

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        """Renew the driver's lease for `ttl` seconds. False if it no longer has one."""
        ...

    async def release(self, run_id: str, driver: Driver) -> None:
        """Release the driver's lease, if it has one."""
        ...

    async def lease(self, run_id: str) -> Lease | None:
        """The newest lease of the run, alive or not; None if it was released."""
        ...

    async def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        """The lease that keeps other drivers from the run, after the id of the run that it is for.

        It is for the run itself or an ancestor. None if anyone may drive the run.
        """
        ...

    async def restored(self) -> float:
        """When the journal was marked as restored from a backup; 0 while it is not."""
        ...

    async def mark_restored(self, *, lift: bool = False) -> None:
        """Mark the journal as restored from a backup, or lift the mark.

        No run was created after the time of the mark. The epoch of each run that has not ended
        rises: its driver is fenced.
        """
        ...


class MemoryLeases:
    """The leases of a journal in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._leases: dict[str, Lease] = {}
        self._now = now
        self._restored = 0.0

    def grant(self, run_id: str, claim: Claim) -> Acquired:
        """The result of a claim, without storing it."""
        return grant(run_id, self._held(run_id), claim, self._now())

    def take(self, run_id: str, claim: Claim) -> Acquired:
        """Grant a claim and store its lease in place of the previous one."""
        acquired = self.grant(run_id, claim)._replace(restored=self._restored)
        self._leases.pop(run_id, None)
        if acquired.lease is not None:
            self._leases[run_id] = acquired.lease
        return acquired

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        lease, now = self._leases.get(run_id), self._now()
        if lease is None or lease.driver.token != driver.token:
            return False
        self._leases[run_id] = lease._replace(renewed=now, until=now + ttl)
        return True

    async def release(self, run_id: str, driver: Driver) -> None:
        lease = self._leases.get(run_id)
        if lease is not None and lease.driver.token == driver.token:
            del self._leases[run_id]

    async def lease(self, run_id: str) -> Lease | None:
        return self._leases.get(run_id)

    async def living_lease(self, run_id: str) -> tuple[str, Lease] | None:
        return living(self._held(run_id), self._now())

    async def restored(self) -> float:
        return self._restored

    def _held(self, run_id: str) -> dict[str, Lease]:
        return {of: self._leases[of] for of in ancestry(run_id) if of in self._leases}

    def forget(self, run_id: str) -> None:
        """Delete the leases of a removed run and its children."""
        for of in [of for of in self._leases if run_id in ancestry(of)]:
            del self._leases[of]


MARKED = (
    "until `chartloop journal migrate --go-on`, calls with effects of the runs from before are in "
    "doubt, and schedules rest"
)
"""The effect of that mark, for people."""


def say_restored(at: float) -> str:
    """The mark of a restored journal in words."""
    return f"the journal was restored from a backup, {say_time(at)}"


def say_time(at: float) -> str:
    """A time in the local time zone, for people."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, OSError, ValueError):
        return str(at)
