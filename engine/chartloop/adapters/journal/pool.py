"""A few connections to one database, opened when they are needed.

Belongs here: who has which. Never: what is done over them.
"""

from __future__ import annotations

from collections.abc import Callable
from queue import LifoQueue
from typing import Generic, TypeVar

C = TypeVar("C")


class Pool(Generic[C]):
    """At most `most` connections. Safe from any thread."""

    def __init__(
        self, most: int, connect: Callable[[], C], close: Callable[[C], object],
        *, broken: Callable[[C], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self._connect, self._close, self._broken = connect, close, broken
        self._free: LifoQueue[C | None] = LifoQueue()
        for _ in range(most):
            self._free.put(None)
        self.closed = False

    def take(self) -> C:
        """A connection that nobody uses; waits until there is one."""
        free = self._free.get()
        try:
            return free or self._connect()
        except BaseException:
            self._free.put(None)
            raise

    def give(self, used: C | None) -> None:
        """Take a connection back. A broken one is replaced when it is needed."""
        if used is None:
            return
        if self.closed or self._broken(used):
            self._close(used)
            self._free.put(None)
        else:
            self._free.put(used)

    def close(self) -> None:
        """Close the connections; one that is used, once it is given back."""
        self.closed = True
        for free in [self._free.get() for _ in range(self._free.qsize())]:
            if free is not None:
                self._close(free)
            self._free.put(None)
