"""The system's clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager
from types import TracebackType
from weakref import WeakKeyDictionary

import anyio


class SystemClock:
    """Wall-clock time. It may jump; facts never fall, see `core.fold`."""

    suspends = True

    def now(self) -> float:
        """Seconds since 1970-01-01 UTC."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        if seconds > 0:
            await anyio.sleep(seconds)

    def deadline(self, at: float) -> AbstractContextManager[Deadline]:
        """Cancels what is inside when the clock reaches `at`, and raises `TimeoutError`."""
        return Deadline(max(0.0, at - time.time()))


class Deadline:
    """Cancels the task that is inside once the seconds are over, and raises `TimeoutError` then.

    What `asyncio.timeout` does, as a plain context manager. Once, unlike a cancel scope of anyio
    (a fifth of whose price it has): `run.abandon` sees to code that catches its cancellation.
    """

    __slots__ = ("_at", "_cancelling", "_loop", "_others", "_seconds", "_task", "_timer", "expired")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.expired = False
        """It has cancelled what is inside."""

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
            self._others = _same_second(loop, self._at)
            self._others.add(self)
        return self

    def set_timer(self) -> None:
        """The deadline is near: wait for it alone."""
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
        # someone else's cancellation, if there was one too, continues
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        ):
            raise TimeoutError from error


FAR = 2.0
"""Seconds from which on a deadline shares a timer with all that are due in the same second.

Most are hours away and never come: a timer for each call costs more than the call's bookkeeping.
"""
_far: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[int, set[Deadline]]] = WeakKeyDictionary()


def _same_second(loop: asyncio.AbstractEventLoop, at: float) -> set[Deadline]:
    """The deadlines of that second. When it starts each of them gets its own timer."""
    seconds = _far.get(loop)
    if seconds is None:
        seconds = _far[loop] = {}
    second = int(at)
    if (found := seconds.get(second)) is None:
        found = seconds[second] = set()
        loop.call_at(second, _begin, seconds, second)
    return found


def _begin(seconds: dict[int, set[Deadline]], second: int) -> None:
    for deadline in seconds.pop(second):
        deadline.set_timer()
