"""What one request may take of a server: a thread, rows to read, bytes to answer.

    GET  ─▶ one of 4 threads ─▶ reads much, or searches ─▶ a scan, one of 2: 503 beyond
    POST ─▶ one of 8 threads
    both ─▶ an answer of at most 256 kB: fewer entries of a list, the beginning of a long text

A caller who hangs up gives back its place in the queue, and ends its scan. Orders are carried out
all the same: what was sent counts.

Belongs here: the limits of one request. Never: a route, the journal.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextvars import ContextVar
from threading import Semaphore
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, Lock
from anyio.to_thread import run_sync

from chartloop.core.strict_json import pointer
from chartloop.hosting.problems import Refusal
from chartloop.run.reader import READERS

T = TypeVar("T")
ORDERS = 8
"""Threads that carry out orders at the same time."""
SCANS = 2
"""Scans that run at the same time."""
ROWS = 2_000
"""A request that is given more rows of the journal than these is a scan."""
SECONDS = 10.0
"""The longest that a scan may take."""
BYTES = 256_000
"""The most bytes of an answer in JSON."""
PIECE = BYTES // 4
"""The bytes of stored text after which a page of records ends: some are given twice."""
_CUTS = 100
"""The most places that an answer names where something was cut."""


class Lanes:
    """The threads and scans of a server, which its requests share."""

    def __init__(self) -> None:
        self.reads, self.orders = CapacityLimiter(READERS), CapacityLimiter(ORDERS)
        self.agents = CapacityLimiter(ORDERS)
        """Agents that are driven for a request which waits for them."""
        self.bodies = CapacityLimiter(ORDERS)
        """Large bodies that are held: others wait in their connections."""
        self.slots = Semaphore(SCANS)
        self.turns = WeakValueDictionary[str, Lock]()
        """By run: its orders wait for each other, and hold up none of other runs."""
        self.rows = self.scans = 0
        """The rows that requests were given, and their scans, since the start."""


class Asking:
    """One request: a `Reader` of the journal, as long as it takes."""

    def __init__(self, lanes: Lanes, lane: CapacityLimiter) -> None:
        self.lanes, self.lane = lanes, lane
        self.interrupt: Callable[[], object] | None = None
        self.until = 0.0
        self._rows = 0
        self._left = False

    def scan(self) -> None:
        if (over := self.over()) is not None:
            raise over
        if not self.until:
            if not self.lanes.slots.acquire(blocking=False):
                raise Refusal(
                    503, f"{SCANS} searches are running, and no more may",
                    hint="send it again in a second", headers={"Retry-After": "1"},
                )  # fmt: skip
            self.until = time.monotonic() + SECONDS
            self.lanes.scans += 1

    def took(self, rows: int) -> None:
        self._rows += rows
        self.lanes.rows += rows
        if self._rows > ROWS:
            self.scan()
        elif (over := self.over()) is not None:
            raise over

    def over(self) -> Exception | None:
        if self._left:
            return Refusal(408, "the caller has left")
        if self.until and time.monotonic() > self.until:
            hint = "narrow it: `machine`, `since` and `until` leave fewer runs to look at"
            return Refusal(422, f"this takes more than {SECONDS:g} s of reading", hint=hint)
        return None

    def leave(self) -> None:
        """Its caller has hung up: nobody waits for what it reads."""
        self._left = True
        if self.interrupt is not None:
            self.interrupt()

    def end(self) -> None:
        """Give back what it holds."""
        if self.until:
            self.lanes.slots.release()


ASKING: ContextVar[Asking | None] = ContextVar("ASKING", default=None)
"""The request that is being answered."""


def has_left() -> bool:
    """Whether the caller of the request has hung up."""
    return (asking := ASKING.get()) is not None and asking.over() is not None


async def in_lane(work: Callable[[], T], run_id: str = "") -> T:
    """Call `work` in a thread of the request's lane, once one is free.

    Orders to a run come one by one.
    """
    asking = ASKING.get()
    if asking is None or asking.lane is asking.lanes.reads or not run_id:
        return await run_sync(work, limiter=asking and asking.lane)
    turn = asking.lanes.turns.setdefault(run_id, Lock())
    async with turn:
        return await run_sync(work, limiter=asking.lane)


def fit(body: bytes, most: int = BYTES) -> bytes:
    """An answer in JSON with at most so many bytes: long texts and lists are cut.

    Its `cut` names the places, as JSON pointers, with how much follows there. A `digest` of
    something that was cut is left empty: it would prove that all of it was seen.
    """
    if len(body) <= most:
        return body
    whole, longest = json.loads(body), most
    while len(body) > most and longest > 1:
        longest //= 4
        cuts: list[dict[str, Any]] = []
        kept = _cut(whole, longest, "", cuts)
        body = json.dumps({**kept, "cut": cuts[:_CUTS]}, ensure_ascii=False).encode()
    return body


def _cut(value: Any, longest: int, at: str, cuts: list[dict[str, Any]]) -> Any:
    most = longest if isinstance(value, str) else longest // 64 + 1
    if isinstance(value, (str, list, dict)) and len(cast("str", value)) > most:
        cuts.append({"at": at, "rest": len(cast("str", value)) - most})
    if isinstance(value, str):
        return value[:most]
    before = len(cuts)
    if isinstance(value, list):
        items = cast("list[Any]", value)[:most]
        return [_cut(one, longest, at + pointer(n), cuts) for n, one in enumerate(items)]
    if not isinstance(value, dict):
        return value
    kept = {
        name: _cut(one, longest, at + pointer(name), cuts)
        for name, one in list(cast("dict[str, Any]", value).items())[:most]
    }
    if "digest" in kept and len(cuts) > before:
        kept["digest"] = ""
    return kept


def text_at(value: Any, at: str) -> str | None:
    """The text at a JSON pointer, or None."""
    for part in at.split("/")[1:]:
        try:
            name = part.replace("~1", "/").replace("~0", "~")
            value = value[int(name) if isinstance(value, list) else name]
        except (LookupError, TypeError, ValueError):
            return None
    return value if isinstance(value, str) else None
