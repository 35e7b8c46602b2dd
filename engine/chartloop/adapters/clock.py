"""The system's clock."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

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

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        """Cancels what is inside when the clock reaches `at`, and raises `TimeoutError`."""
        return anyio.fail_after(max(0.0, at - time.time()))
