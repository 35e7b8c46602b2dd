"""A clock that is moved by hand, or by whoever sleeps on it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager


class ManualClock:
    """Simulated time: `sleep` moves it on at once, so a day passes in no time.

    >>> clock = ManualClock()
    >>> start = clock.now()
    >>> clock.advance(90)
    >>> clock.now() - start
    90.0

    `start` is its first reading, in seconds since 1970-01-01 UTC. It may be set back with
    `set`, as real clocks are.
    """

    suspends = False

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._now = start
        self._deadlines: list[float] = []

    def now(self) -> float:
        """The reading."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move it on."""
        self._now += seconds

    def set(self, at: float) -> None:
        """Put it at a reading, also an earlier one."""
        self._now = at

    async def sleep(self, seconds: float) -> None:
        """Move on at once; past a deadline that it is in, raise `TimeoutError` there."""
        until = self._now + max(0.0, seconds)
        nearest = min(self._deadlines, default=None)
        if nearest is not None and until > nearest:
            self._now = max(self._now, nearest)
            raise TimeoutError
        self._now = until

    @contextmanager
    def deadline(self, at: float) -> Generator[None, None, None]:
        """Inside it, sleeping past `at` raises `TimeoutError`."""
        self._deadlines.append(at)
        try:
            yield
        finally:
            self._deadlines.remove(at)
