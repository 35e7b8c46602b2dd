"""Watchers of the journal: one reader for all, and a bounded queue for each.

    journal ─ changed? ─▶ tail ─▶ queue of each watcher ─▶ its stream
    worker ─ text as it comes ─▶ the same queues, best effort

What a stream gives comes from the journal, so it is the same whichever process drives, and whoever
was away goes on from the id that it saw last. Text as it comes is not stored: it has no id, and is
only given by the server that drives.

Belongs here: who is told what. Never: HTTP, driving.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from chartloop.core.errors import ChartloopError, CursorGoneError
from chartloop.core.plain import plain
from chartloop.run.events import Delta, ReasoningDelta, Started, ToolCallDelta
from chartloop.run.events import Event as StreamEvent
from chartloop.run.journal import Event, Journal
from chartloop.server.problems import Refusal
from chartloop.server.settings import Limits

POLL = 0.05
"""Seconds between two questions whether the journal changed."""
PAGE = 256
HEARTBEAT = 15.0
"""Seconds after which a stream that has nothing to say says so: proxies close silent ones."""


_LIVE: Mapping[type, str] = {
    Started: "started", Delta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool_call",
}  # fmt: skip
"""What is told as it happens, and never stored: its name in a stream."""


class Sent(NamedTuple):
    """One event of a stream."""

    event: str
    data: Any
    id: str = ""


class _Full(NamedTuple):
    """A watcher was too slow: its stream ends."""


class Watcher:
    """One stream: its queue, and what it is about."""

    def __init__(self, run_id: str, size: int) -> None:
        self.run_id = run_id
        """Of which run; empty for all."""
        self.queue: asyncio.Queue[Sent | _Full] = asyncio.Queue(size + 1)
        self.closed = False

    def put(self, item: Sent) -> None:
        """Queue an event; a watcher that is full is closed, and hears no more."""
        if self.closed:
            return
        if self.queue.qsize() >= self.queue.maxsize - 1:
            if not item.id:
                return  # text as it comes: the record will say it all
            self.closed = True
            self.queue.put_nowait(_Full())
        else:
            self.queue.put_nowait(item)


class Hub:
    """All watchers of a server. Used on the web loop only, but for `hear`."""

    def __init__(self, journal: Journal, limits: Limits) -> None:
        self._journal: Journal = getattr(journal, "grouped", journal)
        self._limits = limits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.watchers: set[Watcher] = set()
        self._cursor = ""
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Begin to read where the journal ends."""
        self._loop = asyncio.get_running_loop()
        self._cursor = (await self._journal.tail(limit=0)).newest
        self._task = self._loop.create_task(self._read())

    async def stop(self) -> None:
        """End every stream."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        for watcher in list(self.watchers):
            watcher.closed = True
            with suppress(asyncio.QueueFull):
                watcher.queue.put_nowait(_Full())

    async def _read(self) -> None:
        token = ""
        while True:
            try:
                now = await self._journal.changed(token)
                if now is not None:
                    async with self._turn:
                        await self._tell()
                    token = now
            except CursorGoneError as error:  # the file was replaced by an older one
                self._cursor = error.newest
            except ChartloopError:  # locked: the next time
                pass
            await asyncio.sleep(POLL)

    async def _tell(self) -> None:
        while True:
            tail = await self._journal.tail(self._cursor, PAGE)
            for found in tail.events:
                for watcher in [*self.watchers]:
                    if watcher.run_id in ("", found.run_id):
                        id = found.cursor if not watcher.run_id else str(_seq(found))
                        watcher.put(_stored(found.run_id, found.event, found.problem, id))
            self._cursor = tail.cursor
            if len(tail.events) < PAGE:
                return

    def hear(self, run_id: str, event: StreamEvent) -> None:
        """An event of a run that is driven here. From any thread."""
        if type(event) in _LIVE and self._loop is not None and self.watchers:
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._live, run_id, event)

    def _live(self, run_id: str, event: StreamEvent) -> None:
        item = Sent(_LIVE[type(event)], {"run": run_id, **event.to_dict()})
        for watcher in self.watchers:
            if watcher.run_id in ("", run_id):
                watcher.put(item)

    # streams --------------------------------------------------------------------------------------

    def add(self, run_id: str = "") -> Watcher:
        """A new watcher. `Refusal` where there are as many as may be."""
        if len(self.watchers) >= self._limits.watchers:
            raise Refusal(
                503, f"{self._limits.watchers} streams are open already",
                hint="close one, or try again later", headers={"Retry-After": "5"},
            )  # fmt: skip
        watcher = Watcher(run_id, self._limits.queue)
        self.watchers.add(watcher)
        return watcher

    async def of_run(self, watcher: Watcher, after: int) -> AsyncIterator[Sent]:
        """The events of a run behind number `after`, then those that come, to its end."""
        try:
            at = after + 1
            while page := await self._journal.events(watcher.run_id, at, PAGE):
                for event in page:
                    at = event.seq + 1
                    yield _stored(watcher.run_id, event, "", str(event.seq))
            row = await self._journal.row(watcher.run_id)
            while row is not None and not (row.ended and row.head <= at):
                item = await self._next(watcher)
                if item is None:
                    return
                if item.id:
                    if int(item.id) < at:
                        continue
                    at = int(item.id) + 1
                yield item
                if item.id or item.event == "heartbeat":
                    row = await self._journal.row(watcher.run_id)
            yield Sent("end", {"run": watcher.run_id})
        finally:
            self.watchers.discard(watcher)

    async def of_all(self, watcher: Watcher, cursor: str | None) -> AsyncIterator[Sent]:
        """The events of all runs behind a cursor, then those that come; None: only those."""
        try:
            async with self._turn:  # what is behind this place comes through the queue
                await self._tell()
                watcher.queue = asyncio.Queue(self._limits.queue + 1)
                place = self._cursor
            cursor = place if cursor is None else cursor
            while cursor != place:
                tail = await self._journal.tail(cursor, PAGE)
                for found in tail.events:
                    yield _stored(found.run_id, found.event, found.problem, found.cursor)
                    if found.cursor == place:
                        break
                if not tail.events or any(found.cursor == place for found in tail.events):
                    break
                cursor = tail.cursor
            while (item := await self._next(watcher)) is not None:
                yield item
        finally:
            self.watchers.discard(watcher)

    async def _next(self, watcher: Watcher) -> Sent | None:
        """The next event of a watcher; None where its stream is to end."""
        if watcher.closed and watcher.queue.empty():
            return None
        try:
            item = await asyncio.wait_for(watcher.queue.get(), HEARTBEAT)
        except TimeoutError:
            return Sent("heartbeat", {})
        return None if isinstance(item, _Full) else item


def _seq(found: Any) -> int:
    return -1 if found.event is None else found.event.seq


def _stored(run_id: str, event: Event | None, problem: str, id: str) -> Sent:
    """An event as the journal has it."""
    if event is None:
        return Sent("unreadable", {"run": run_id, "problem": problem}, id)
    data: dict[str, Any] = {"run": run_id, "seq": event.seq, "at": event.at}
    if event.record is not None:
        data |= {"record": event.record.seq, **event.record.to_dict()}
    else:
        data |= {"data": plain(event.data)}
    return Sent(event.type, data, id)
