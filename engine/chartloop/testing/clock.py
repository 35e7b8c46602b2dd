"""A fake clock, which a test or a sleep advances."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager

ROUNDING = 1e-6
"""Seconds past a deadline that only rounding makes: readings are large numbers."""


class ManualClock:
    """Simulated time: `sleep` advances it at once and returns.

    >>> clock = ManualClock()
    >>> start = clock.now()
    >>> clock.advance(90)
    >>> clock.now() - start
    90.0

    `start` is its first reading, in seconds since 1970-01-01 UTC. `set` may move it back, like a
    real clock.
    """

    suspends = False

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = float(start)
        self._deadlines: list[float] = []

    def now(self) -> float:
        """The current reading, in seconds since the epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._now += seconds

    def set(self, at: float) -> None:
        """Set the clock to a reading, even an earlier one."""
        self._now = at

    def follow(self, now: float, within: float = math.inf) -> float:
        """Do nothing: simulated time is no journal's."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Advance the clock at once; stop at an open deadline and raise `TimeoutError`."""
        until = self._now + max(0.0, seconds)
        nearest = min(self._deadlines, default=None)
        if nearest is not None and until > nearest + ROUNDING:
            self._now = max(self._now, nearest)
            raise TimeoutError
        self._now = until

    @contextmanager
    def deadline(self, at: float) -> Generator[None, None, None]:
        """A block in which sleeping past `at` raises `TimeoutError`."""
        self._deadlines.append(at)
        try:
            yield
        finally:
            self._deadlines.remove(at)


class HostClock:
    """The clock of a computer, which somebody may set: real time, and what it was moved by.

    >>> host = HostClock()
    >>> journal = MemoryJournal(now=host)
    >>> host.jump(-3600)

    Give it to a journal as `now`: a run that is driven must not notice the jump.
    """

    def __init__(self) -> None:
        self._moved = 0.0

    def __call__(self) -> float:
        """The reading, in seconds since the epoch."""
        return time.time() + self._moved

    def jump(self, seconds: float) -> None:
        """Set it on, or back if negative."""
        self._moved += seconds
