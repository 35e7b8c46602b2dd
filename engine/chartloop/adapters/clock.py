"""The system's clock."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager
from types import TracebackType

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
    (a fifth of whose price it has): `run.leaving` sees to code that catches its cancellation.
    """

    __slots__ = ("_cancelling", "_seconds", "_task", "_timer", "expired")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.expired = False
        """It has cancelled what is inside."""

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a deadline needs a task")
        self._task, self._cancelling = task, task.cancelling()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)
        return self

    def _expire(self) -> None:
        self.expired = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        # somebody else's cancellation, if there was one too, goes on
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and isinstance(error, asyncio.CancelledError)
        ):
            raise TimeoutError from error
