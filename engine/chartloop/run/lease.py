"""Who drives a run, and until when: its lease.

A lease names its driver so that whoever is refused is told whom to ask, and lapses unless it is
renewed, so that a driver that is gone holds a run up for a moment only. It does not make an
append safe: the epoch does. It keeps a second driver from beginning at all.

    acquire ─▶ renew, renew, ... ─▶ release
       └─ refused (`Driven`) while another driver's lease is alive

A lease is alive until `until` on the journal's clock. One of a process on this machine that has
ended is over at once. Within one process it is alive while that driver's turn is continuing: a
second `Run` object of a notebook may continue between two steps of the first.

Belongs here: the records, and the rule that every journal asks. Never: threads, tables.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias
from weakref import WeakValueDictionary

from chartloop.core.errors import Driven
from chartloop.run.processes import Process, is_gone, is_mine

TTL = 30.0
"""Seconds that a lease lasts without being renewed."""

CHILD_MARK = "/"
"""Stands in the id of a child's run, after its parent's."""

Left: TypeAlias = Literal["", "gone", "silent", "alive"]
"""How an earlier driver left a run: not at all, its process ended, it stopped renewing its lease,
or it was still driving and was overtaken."""

NOT_LEFT: Left = ""


class Driver(NamedTuple):
    """Who drives a run."""

    token: str
    """One driver in one process: another `Run` object has another."""
    face: str = ""
    """What it drives with, for people: ``chartloop run``, ``python``."""
    process: Process = Process()

    def __str__(self) -> str:
        face = f"`{self.face}`" if self.face.startswith("chartloop") else self.face or "a program"
        return f"{face}, pid {self.process.pid} on {self.process.host or 'an unknown host'}"


class Lease(NamedTuple):
    """What a driver has of a run. Times are the journal's clock's."""

    driver: Driver
    since: float
    renewed: float
    until: float


class Acquired(NamedTuple):
    """What taking a run over gave, whatever journal keeps it."""

    lease: Lease | None
    """What is to be kept; None where an ancestor's lease covers the run, or no one asked."""
    before: Lease | None = None
    """The lease of the driver before, where it was another's."""
    left: Left = ""
    """How that one left the run."""


class Claim(NamedTuple):
    """A wish to drive a run."""

    driver: Driver | None = None
    ttl: float = TTL
    take_over: bool = False


class Driving(Protocol):
    """A driver of this process, as far as others ask for it."""

    run_id: str

    @property
    def busy(self) -> bool:
        """Whether its turn is continuing."""
        ...

    def lose(self, to: Driver | None) -> None:
        """Its run is another's now."""
        ...

    def yield_lease(self) -> None:
        """A child of its run is driven by another of this process; it may take the lease again."""
        ...


here: WeakValueDictionary[str, Driving] = WeakValueDictionary()
"""The drivers of this process, by token."""


def grant(run_id: str, held: Mapping[str, Lease], claim: Claim, now: float) -> Acquired:
    """The lease that a claim gets. `held` are those of the run and of the runs above it.

    Raises `Driven` while another driver's is alive, unless it is to be taken over.
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
    """Whether a lease is alive, and if not, what became of its driver."""
    process = lease.driver.process
    if is_mine(process):
        driving = here.get(lease.driver.token)
        return "alive" if driving is not None and driving.busy else "gone"
    if is_gone(process):
        return "gone"
    left, lasts = lease.until - now, lease.until - lease.renewed
    # more than twice as long as it ever lasts: the clock was set back, and this would not end
    return "alive" if 0 < left <= 2 * lasts else "silent"


def ancestry(run_id: str) -> Iterator[str]:
    """The run's id, and the ids of the runs that it is a child of, itself first."""
    while run_id:
        yield run_id
        run_id = run_id.rpartition(CHILD_MARK)[0]


def driven(run_id: str, lease: Lease) -> Driven:
    """The refusal: who drives the run, since when and until when."""
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


class Leases(Protocol):
    """What a journal does about leases, beside `Journal.acquire`."""

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        """Let the driver's lease last `ttl` seconds from now. False: it has none any more."""
        ...

    async def release(self, run_id: str, driver: Driver) -> None:
        """Give the driver's lease back. Nothing happens where it has none."""
        ...

    async def lease(self, run_id: str) -> Lease | None:
        """The newest lease of the run, alive or not; None where it was given back."""
        ...


class MemoryLeases:
    """The leases of a journal in memory."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._leases: dict[str, Lease] = {}
        self._now = now

    def grant(self, run_id: str, claim: Claim) -> Acquired:
        """What a claim gets; nothing is kept."""
        held = {of: self._leases[of] for of in ancestry(run_id) if of in self._leases}
        return grant(run_id, held, claim, self._now())

    def take(self, run_id: str, claim: Claim) -> Acquired:
        """What a claim gets, kept in place of the lease before."""
        acquired = self.grant(run_id, claim)
        self._leases.pop(run_id, None)
        if acquired.lease is not None:
            self._leases[run_id] = acquired.lease
        return acquired

    async def renew(self, run_id: str, driver: Driver, *, ttl: float = TTL) -> bool:
        found, now = self._leases.get(run_id), self._now()
        if found is None or found.driver.token != driver.token:
            return False
        self._leases[run_id] = found._replace(renewed=now, until=now + ttl)
        return True

    async def release(self, run_id: str, driver: Driver) -> None:
        found = self._leases.get(run_id)
        if found is not None and found.driver.token == driver.token:
            del self._leases[run_id]

    async def lease(self, run_id: str) -> Lease | None:
        return self._leases.get(run_id)

    def forget(self, run_id: str) -> None:
        """A run is gone, and its children."""
        for of in [of for of in self._leases if run_id in ancestry(of)]:
            del self._leases[of]


def say_time(at: float) -> str:
    """A moment on the clock of this place, for people."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
    except (OverflowError, OSError, ValueError):
        return str(at)
