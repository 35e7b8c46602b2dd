"""Who waits for what is read, where many read at once: a caller of a server.

A read that finds its rows by an index is short. One that looks through many rows is a *scan*: few
may run at once, it ends when nobody waits for it, and it holds up neither writes nor short reads.

    READER.get()      set while a thread reads for a caller; None for programs, which may scan

Belongs here: what a journal asks of who reads. Never: HTTP, SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

READERS = 4
"""Threads that read for callers at the same time: a journal has as many connections for them."""


class Reader(Protocol):
    """One caller, for as long as its request takes."""

    interrupt: Callable[[], object] | None
    """Ends the statement that a database carries out for it. Any thread may call it."""
    until: float
    """When its scan ends, in seconds of the monotonic clock; 0 before it scans."""

    def scan(self) -> None:
        """From now on it scans. Raises if as many as may do already, or if it has left."""
        ...

    def took(self, rows: int) -> None:
        """It was given that many rows: beyond a number of them it scans. Raises as `scan` does."""
        ...

    def over(self) -> Exception | None:
        """Why it may read no more, to be raised: its caller has left, or its scan took long."""
        ...


READER: ContextVar[Reader | None] = ContextVar("READER", default=None)
