"""The clock of runs: their journal's time, kept by this process's monotonic clock."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import AbstractContextManager
from types import TracebackType
from weakref import WeakKeyDictionary

import anyio

from chartloop.run.lease_holder import elapsed
from chartloop.run.sync import running_loop


class SystemClock:
    """The journal's time, as of when a run was last acquired; monotonic from then on.

    A jump of this computer's clock moves nothing. Before it follows a journal, it starts at the
    computer's time.
    """

    suspends = True

    def __init__(self) -> None:
        self._offset = time.time() - elapsed()

    def now(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return elapsed() + self._offset

    def follow(self, now: float, within: float = math.inf) -> float:
        """Set it to the journal's time, unless that is further away than `within` seconds."""
        shift = now - self.now()
        if abs(shift) > within:
            return 0.0
        self._offset += shift
        return shift

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop, or in a thread that has none."""
        if seconds > 0 and running_loop() is None:
            time.sleep(seconds)  # noqa: ASYNC251  the caller's thread waits, and nothing else is on it
        elif seconds > 0:
            await anyio.sleep(seconds)

    def deadline(self, at: float) -> AbstractContextManager[Deadline]:
        """A block that is cancelled when the clock reaches `at`, with `TimeoutError`."""
        return Deadline(max(0.0, at - self.now()))


class Deadline:
    """Cancels the task in its block after some seconds, and raises `TimeoutError`.

    Like `asyncio.timeout`, but a synchronous context manager. It cancels only once, unlike a cancel
    scope of anyio, which costs five times as much; `run.abandon` handles code that catches the
    cancellation.
    """

    __slots__ = ("_at", "_cancelling", "_loop", "_others", "_seconds", "_task", "_timer", "expired")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.expired = False
        """Whether it has cancelled its block."""

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        self._task, self._cancelling = task, task.cancelling()
        self._loop = loop = asyncio.get_running_loop()
        self._at = loop.time() + self._seconds
        self._timer: asyncio.TimerHandle | None = None
        self._others: set[Deadline] | None = None
        if self._seconds < FAR:
            self.set_timer()
        else:
            # one timer for all of a second: when it begins, each gets its own
            seconds, second = _far.setdefault(loop, {}), int(self._at)
            if (others := seconds.get(second)) is None:
                others = seconds[second] = set()
                loop.call_at(second, _begin, seconds, second)
            self._others = others
            others.add(self)
        return self

    def set_timer(self) -> None:
        """Start a timer for this deadline alone, because it is near."""
        self._timer = self._loop.call_at(self._at, self._expire)

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._others is not None:
            self._others.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        # a cancellation by someone else is passed on
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        ):
            raise TimeoutError from error


FAR = 2.0
"""The distance in seconds from which on deadlines of the same second share a timer.

Most deadlines are hours away and never reached, and a timer of its own would cost more than all
other bookkeeping of a call.
"""
_far: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, set[Deadline]]] = WeakKeyDictionary()


def _begin(seconds: dict[int, set[Deadline]], second: int) -> None:
    for deadline in seconds.pop(second):
        deadline.set_timer()
