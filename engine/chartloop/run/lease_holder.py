"""A run's lease in this process: acquired, renewed, lost, released.

One thread of the process renews all leases in time, whatever their drivers do: a tool may take
hours, and block the event loop. It writes nothing for a run that is driven for less than a third of
a lease, and does not run for journals in memory, which end with the process.

Belongs here: leases over time. Never: who gets one (`run.lease`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakSet

import anyio

from chartloop.core.errors import Fenced, JournalError, StatusError
from chartloop.run.lease import TTL, Acquired, Driver, here, say_time
from chartloop.run.processes import this_process
from chartloop.run.sync import by_hand

if TYPE_CHECKING:
    from chartloop.run.journal import Journal, RunRow
    from chartloop.run.ports import Clock

_LEFT = ("stopped", "alive", "silent")
FOR_EVER = float("inf")
RENEWALS = 3
"""Renewals within the duration of a lease."""
RETRIES = 9
"""Attempts within the duration of a lease, once a renewal has failed."""

DRIFT = 5.0
"""Seconds by which the clock of a driven run follows the journal's. What is further away is a jump
of the host's clock: it must not move a wait."""

elapsed: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Elapsed seconds, including those in which this machine slept and others did not."""


class Turn:
    """A lock on driving a run: one caller at a time, in any thread. A second one is refused."""

    __slots__ = ("_lock", "_run_id")

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise StatusError(
                f"run `{self._run_id}` is being driven at this moment",
                hint="an action, or another thread, cannot step the run that is being stepped; "
                "it can `send`, `pause` and `cancel`",
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @property
    def is_held(self) -> bool:
        """Whether the run is being driven."""
        return self._lock.locked()


class Holder:
    """The driver of one run and its children in this process, with its lease."""

    def __init__(self, run_id: str, turn: Turn, clock: Clock) -> None:
        self.run_id = run_id
        self.clock = clock
        """The run's clock, which follows the journal's."""
        self.face = "python"
        """The program that drives, as a refused driver reads it."""
        self.ttl = TTL
        self.take_over = False
        """Take the next lease even from a living driver."""
        self.driver: Driver | None = None
        """Set while it holds a lease."""
        self.before: Acquired | None = None
        """The result of its last acquisition, with the lease before it."""
        self.restored = 0.0
        """`Journal.restored`, as of its last acquisition of the run or a child."""
        self.until = FOR_EVER
        """When the lease lapses, by `elapsed`."""
        self.due = FOR_EVER
        """When the lease is to be renewed, by `elapsed`."""
        self._turn = turn
        self._journal: Journal | None = None
        self._lost = ""

    @property
    def busy(self) -> bool:
        """Whether the run is being driven by it now."""
        return self._turn.is_held

    @property
    def doubt(self) -> Mapping[str, str]:
        """The earlier driver, for a doubt about one of its calls; empty if there was none."""
        acquired = self.before
        if acquired is None or acquired.before is None or acquired.left not in _LEFT:
            return {}
        return {"left": acquired.left, "driver": str(acquired.before.driver)}

    @property
    def suspends(self) -> bool:
        """Whether renewing may yield to the event loop."""
        return self._journal is not None and self._journal.suspends

    @property
    def may_be_lost(self) -> bool:
        """Whether the lease may be lost, so that `check` must run. Cheap."""
        return self._lost != "" or elapsed() >= self.until

    async def acquire(self, journal: Journal, run_id: str) -> RunRow:
        """Acquire the run, or a child of it. `Driven` if another driver has it."""
        self._refuse_lost()
        driver = self.driver or Driver(secrets.token_hex(8), self.face, this_process())
        began = elapsed()
        row, acquired = await journal.acquire(
            run_id, driver, ttl=self.ttl, take_over=self.take_over
        )
        self.restored = acquired.restored
        if acquired.before is not None and (other := here.get(acquired.before.driver.token)):
            if other.busy or other.run_id == run_id:
                other.lose(driver)
            else:  # an ancestor at rest: it will continue from what its child did
                other.yield_lease()
        if acquired.lease is not None and run_id == self.run_id:
            self.driver, self.before, self._journal = driver, acquired, journal
            self.clock.follow(acquired.lease.renewed)
            here[driver.token] = self
            if journal.durability is not None:  # no other process can see a journal in memory
                self._lasts_from(began)
                _renewal().add(self)
        return row

    def _lasts_from(self, began: float) -> None:
        self.until, self.due = began + self.ttl, began + self.ttl / RENEWALS

    async def check(self) -> None:
        """Raise `Fenced` if the lease is lost: nothing more may be done."""
        self._refuse_lost()
        if self.driver is not None and elapsed() >= self.until:
            await self.renew()
            self._refuse_lost()

    async def renew(self) -> None:
        """Renew the lease."""
        driver, journal, began = self.driver, self._journal, elapsed()
        if driver is None or journal is None:
            return
        if await journal.renew(self.run_id, driver, ttl=self.ttl):
            self._lasts_from(began)
            self.clock.follow(await journal.now(), DRIFT)
        elif self.driver is driver:  # else it was released meanwhile
            lease = await journal.lease(self.run_id)
            self.lose(None if lease is None else lease.driver)

    async def release(self) -> None:
        """Release the lease. If the journal fails, the lease lapses by itself."""
        driver, journal = self.driver, self._journal
        self._forget()
        if driver is None or journal is None or self._lost:
            return
        here.pop(driver.token, None)
        with contextlib.suppress(JournalError):
            if journal.suspends:  # release even when cancelled, so that others can drive the run
                with anyio.CancelScope(shield=True):
                    await journal.release(self.run_id, driver)
            else:
                await journal.release(self.run_id, driver)

    def yield_lease(self) -> None:
        """Drop the lease: another `Run` of this process drives a child between two turns."""
        if self.driver is not None:
            here.pop(self.driver.token, None)
        self._forget()

    def _forget(self) -> None:
        self.driver, self.take_over, self.until = None, False, FOR_EVER
        if self._journal is not None and self._journal.durability is not None:
            _renewal().drop(self)

    def lose(self, to: Driver | None) -> None:
        """Mark the lease as lost to another driver."""
        at = say_time(self.clock.now())
        by = f": {to} took it over, {at}" if to is not None else " meanwhile"
        self._lost, self.until = f"run `{self.run_id}` is driven by another process{by}", 0.0

    def _refuse_lost(self) -> None:
        if self._lost:
            raise Fenced(
                self._lost,
                hint="no more was recorded here; open the run again to continue from there",
            )

    async def explain_fenced(self, error: Fenced) -> Fenced:
        """The journal's error, with the driver that took the run over, if known."""
        if self._journal is not None and self.driver is not None and not self._lost:
            lease = await self._journal.lease(self.run_id)
            if lease is not None and lease.driver.token != self.driver.token:
                self.lose(lease.driver)
                return Fenced(self._lost, hint=error.hint)
        return error


# renewing -----------------------------------------------------------------------------------


class _Renewal(threading.Thread):
    """Renews the leases of this process after a third of their duration."""

    def __init__(self) -> None:
        super().__init__(name="chartloop-lease", daemon=True)
        self.process = os.getpid()
        self._holders: WeakSet[Holder] = WeakSet()
        self._news = threading.Condition()
        self._wakes = 0.0
        self._loop: asyncio.Runner | None = None

    def add(self, holder: Holder) -> None:
        """Start renewing a holder's lease."""
        with self._news:
            self._holders.add(holder)
            if holder.due < self._wakes:
                self._news.notify()

    def drop(self, holder: Holder) -> None:
        """Stop renewing a holder's lease."""
        with self._news:
            self._holders.discard(holder)

    def run(self) -> None:
        while True:
            for holder in self._wait():
                holder.due = elapsed() + holder.ttl / RETRIES  # the next attempt, if this one fails
                with contextlib.suppress(Exception):  # the next attempt, or its driver, will see it
                    if holder.suspends:
                        self._loop = self._loop or asyncio.Runner()
                        self._loop.run(holder.renew())
                    else:
                        by_hand(holder.renew())

    def _wait(self) -> list[Holder]:
        """Sleep until leases are due; returns their holders."""
        with self._news:
            self._wakes = min((holder.due for holder in self._holders), default=FOR_EVER)
            if (left := self._wakes - elapsed()) > 0:
                self._news.wait(None if left == FOR_EVER else left)
            self._wakes, now = 0.0, elapsed()
            return [holder for holder in self._holders if holder.due <= now]


_lock = threading.Lock()
_running: list[_Renewal] = []


def _renewal() -> _Renewal:
    """The renewal thread, started at first use; a forked process starts its own."""
    with _lock:
        if not _running or _running[-1].process != os.getpid():
            _running[:] = [_Renewal()]
            _running[-1].start()
        return _running[-1]
