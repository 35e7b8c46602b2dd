"""A thread-safe LRU cache.

Belongs here: which values are kept. Never: what the values are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class LruCache(Generic[K, T]):
    """A mapping of at most `most` values; the least recently used is dropped."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._values: OrderedDict[K, T] = OrderedDict()

    def get(self, key: K) -> T | None:
        """The value of a key, or None."""
        with self._lock:
            if (value := self._values.get(key)) is not None:
                self._values.move_to_end(key)
            return value

    def get_or_make(self, key: K, make: Callable[[], T]) -> T:
        """The value of a key, made now if it is missing: one thread makes it, the others wait."""
        with self._lock:
            value = self._values.pop(key, None)
            value = make() if value is None else value
            self._add(key, value)
            return value

    def put(self, key: K, value: T) -> None:
        """Set the value of a key."""
        with self._lock:
            self._values.pop(key, None)
            self._add(key, value)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def _add(self, key: K, value: T) -> None:
        self._values[key] = value
        while len(self._values) > self._most:
            self._values.popitem(last=False)
