"""A cache of the newest things by key, for any thread.

Belongs here: what is kept and what is forgotten. Never: what the things are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class LruCache(Generic[K, T]):
    """At most so many things; those that were not asked for longest are forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._found: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K) -> T | None:
        """What is kept."""
        with self._lock:
            if (found := self._found.get(key)) is not None:
                self._found.move_to_end(key)
            return found

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """What is kept, or what is made now: one thread makes it, and the others wait."""
        with self._lock:
            found = self._found.pop(key, None)
            found = make() if found is None else found
            self._add(key, found)
            return found

    def put(self, key: K, value: T) -> None:
        """Keep this, in place of what is kept."""
        with self._lock:
            self._found.pop(key, None)
            self._add(key, value)

    def _add(self, key: K, value: T) -> None:
        self._found[key] = value
        while len(self._found) > self._most:
            self._found.popitem(last=False)
