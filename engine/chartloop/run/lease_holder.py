"""A run's lease in the hands of this process: taken, renewed, lost, given back.

One thread of the process renews all leases in time, whatever their drivers do meanwhile: a tool
may take hours, and stand the event loop still. It writes nothing for a run that is driven for less
than a third of a lease, and is not there for journals in memory: what they hold ends with the
process.

Belongs here: leases in time. Never: who gets one (`run.lease`).
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
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import anyio

from chartloop.core.errors import Fenced, JournalError, StatusError
from chartloop.run.lease import TTL, Acquired, Driver, here, say_time
from chartloop.run.processes import this_process
from chartloop.run.sync import by_hand

if TYPE_CHECKING:
    from chartloop.run.journal import Journal, RunRow

FOR_EVER = float("inf")
RENEWALS = 3
"""How often a lease is renewed in the time that it lasts."""
RETRIES = 9
"""How often in that time it is tried again, where it cannot be renewed."""

elapsed: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Seconds that passed, those too in which the machine slept: others were awake."""


class Turn:
    """Whose turn it is to drive a run: one caller's at a time, in whichever thread."""

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
        """Whether the run is being driven at this moment."""
        return self._lock.locked()


class Holder:
    """What drives one run in this process, its children too, and the lease that it has for that."""

    def __init__(self, run_id: str, turn: Turn) -> None:
        self.run_id = run_id
        self.face = "python"
        """What it drives with, as others are told."""
        self.ttl = TTL
        self.take_over = False
        """The next lease is taken from whoever has it."""
        self.driver: Driver | None = None
        """Set while it has a lease."""
        self.before: Acquired | None = None
        """What its lease was taken after."""
        self.until = FOR_EVER
        """When the lease lapses, by `elapsed`."""
        self.due = FOR_EVER
        """When it is to be renewed, likewise."""
        self._turn = turn
        self._journal: Journal | None = None
        self._lost = ""

    @property
    def busy(self) -> bool:
        """Whether its turn is continuing."""
        return self._turn.is_held

    @property
    def doubt(self) -> Mapping[str, str]:
        """What a doubt about an earlier driver's call says of that driver."""
        found = self.before
        if found is None or found.before is None or found.left not in _DOUBTS:
            return {}
        return {"left": found.left, "driver": str(found.before.driver)}

    @property
    def suspends(self) -> bool:
        """Whether renewing may give the event loop away."""
        return self._journal is not None and self._journal.suspends

    @property
    def doubtful(self) -> bool:
        """Whether it has to be asked for whether the lease is still there. Cheap."""
        return self._lost != "" or elapsed() >= self.until

    async def acquire(self, journal: Journal, run_id: str) -> RunRow:
        """Take the run, or a child of it. `Driven` where someone else drives it."""
        self._refuse_lost()
        driver, began = self.driver or self._new(), elapsed()
        row, acquired = await journal.acquire(
            run_id, driver, ttl=self.ttl, take_over=self.take_over
        )
        if acquired.before is not None and (other := here.get(acquired.before.driver.token)):
            if other.busy or other.run_id == run_id:
                other.lose(driver)
            else:  # a run above this one, at rest: it continues from what its child did
                other.yield_lease()
        if acquired.lease is not None and run_id == self.run_id:
            self.driver, self.before, self._journal = driver, acquired, journal
            here[driver.token] = self
            if journal.name != "memory":  # there no one else can see it
                self._lasts_from(began)
                _renewal().add(self)
        return row

    def _lasts_from(self, began: float) -> None:
        self.until, self.due = began + self.ttl, began + self.ttl / RENEWALS

    def _new(self) -> Driver:
        return Driver(secrets.token_hex(8), self.face, this_process())

    async def check(self) -> None:
        """`Fenced` where the lease is lost: nothing more may be done."""
        self._refuse_lost()
        if self.driver is not None and elapsed() >= self.until:
            await self.renew()
            self._refuse_lost()

    async def renew(self) -> None:
        """Make the lease last."""
        driver, journal, began = self.driver, self._journal, elapsed()
        if driver is None or journal is None:
            return
        if await journal.renew(self.run_id, driver, ttl=self.ttl):
            self._lasts_from(began)
        elif self.driver is driver:  # else it was given back meanwhile
            lease = await journal.lease(self.run_id)
            self.lose(None if lease is None else lease.driver)

    async def release(self) -> None:
        """Give the lease back. A journal that cannot take it lets it lapse."""
        driver, journal = self.driver, self._journal
        self._forget()
        if driver is None or journal is None or self._lost:
            return
        here.pop(driver.token, None)
        with contextlib.suppress(JournalError):
            if journal.suspends:  # a cancellation was met: it is not to keep the run from others
                with anyio.CancelScope(shield=True):
                    await journal.release(self.run_id, driver)
            else:
                await journal.release(self.run_id, driver)

    def yield_lease(self) -> None:
        """Another `Run` of this process drives a child, between two turns of this one."""
        if self.driver is not None:
            here.pop(self.driver.token, None)
        self._forget()

    def _forget(self) -> None:
        self.driver, self.take_over, self.until = None, False, FOR_EVER
        if self._journal is not None and self._journal.name != "memory":
            _renewal().drop(self)

    def lose(self, to: Driver | None) -> None:
        """The run is another's now."""
        by = f": {to} took it over, {say_time(time.time())}" if to is not None else " meanwhile"
        self._lost = f"run `{self.run_id}` is driven by another process{by}"

    def _refuse_lost(self) -> None:
        if self._lost:
            raise Fenced(
                self._lost,
                hint="nothing more was done here; open the run again to continue from there",
            )

    async def explain_fenced(self, error: Fenced) -> Fenced:
        """The journal's error, naming the driver that took the run over where it is known."""
        if self._journal is not None and self.driver is not None and not self._lost:
            lease = await self._journal.lease(self.run_id)
            if lease is not None and lease.driver.token != self.driver.token:
                self.lose(lease.driver)
                return Fenced(self._lost, hint=error.hint)
        return error


_DOUBTS = {
    "stopped": "{what} was in the middle of a call when the run was stopped",
    "alive": "{what} was in flight when this run was taken over from {driver}",
    "silent": "{what} was started by {driver}, which has not renewed its lease",
}


def say_doubt(what: str, data: Mapping[str, Any]) -> str:
    """That a call was started and its answer is not known, and why: ``infer at think ...``."""
    doubt = _DOUBTS.get(data.get("left", ""), "{what} was started before an interruption")
    doubt = doubt.format(what=what, driver=data.get("driver", "another process"))
    return f"{doubt}; whether it happened is not known"


# renewing -----------------------------------------------------------------------------------


class _Renewal(threading.Thread):
    """Renews the leases that this process has, a third of the way to their end."""

    def __init__(self) -> None:
        super().__init__(name="chartloop-lease", daemon=True)
        self.process = os.getpid()
        self._holders: WeakSet[Holder] = WeakSet()
        self._news = threading.Condition()
        self._wakes = 0.0
        self._loop: asyncio.Runner | None = None

    def add(self, holder: Holder) -> None:
        """Renew this one too."""
        with self._news:
            self._holders.add(holder)
            if holder.due < self._wakes:
                self._news.notify()

    def drop(self, holder: Holder) -> None:
        """Renew this one no more."""
        with self._news:
            self._holders.discard(holder)

    def run(self) -> None:
        while True:
            for holder in self._wait():
                with contextlib.suppress(Exception):  # the next time, or its driver, meets it again
                    self._renew(holder)

    def _wait(self) -> list[Holder]:
        """Sleep until something is due; gives it."""
        with self._news:
            self._wakes = min((holder.due for holder in self._holders), default=FOR_EVER)
            if (left := self._wakes - elapsed()) > 0:
                self._news.wait(None if left == FOR_EVER else left)
            self._wakes, now = 0.0, elapsed()
            return [holder for holder in self._holders if holder.due <= now]

    def _renew(self, holder: Holder) -> None:
        holder.due = elapsed() + holder.ttl / RETRIES  # where this fails
        if holder.suspends:
            self._loop = self._loop or asyncio.Runner()
            self._loop.run(holder.renew())
        else:
            by_hand(holder.renew())


_lock = threading.Lock()
_running: list[_Renewal] = []


def _renewal() -> _Renewal:
    """The thread, started at first use; a fork of the process starts its own."""
    with _lock:
        if not _running or _running[-1].process != os.getpid():
            _running[:] = [_Renewal()]
            _running[-1].start()
        return _running[-1]
