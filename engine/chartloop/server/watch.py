"""Watchers of the journal: one reader for all, and a bounded queue for each.

    journal ─ changed? ─▶ tail ─▶ encoded once ─▶ queue of each watcher of that run ─▶ its stream
    worker ─ text as it comes ─▶ the same queues, best effort

What a stream gives comes from the journal, so it is the same whichever process drives, and whoever
was away goes on from the id that it saw last. Text as it comes is not stored: it has no id, and is
only given by the server that drives.

An event is encoded, and cleared of secrets, when its first watcher is sent it; the others are sent
the same bytes. Who watches one run is not looked at for an event of another.

Belongs here: who is told what. Never: HTTP, driving.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from chartloop.core.errors import ChartloopError, CursorGoneError
from chartloop.core.plain import plain
from chartloop.run.events import Delta, Started
from chartloop.run.events import Event as StreamEvent
from chartloop.run.journal import Event, Journal
from chartloop.run.journal_pages import TailEvent
from chartloop.run.lease import CHILD_MARK
from chartloop.run.redact import Redactor
from chartloop.server.problems import Refusal
from chartloop.server.settings import Limits

POLL = 0.05
"""Seconds between two questions whether the journal changed."""
PAGE = 256
HEARTBEAT = 15.0
"""Seconds after which a stream that has nothing to say says so: proxies close silent ones."""
TOGETHER = 64
"""Events that a stream is sent at once."""
_ENDS = ("completed", "error")


class Payload:
    """What an event says, encoded when it is first sent."""

    __slots__ = ("_lines", "_redactor", "data", "event")

    def __init__(self, event: str, data: Mapping[str, Any], redactor: Redactor) -> None:
        self.event, self.data = event, data
        self._redactor = redactor
        self._lines: bytes | None = None

    @property
    def lines(self) -> bytes:
        """Its lines in a stream, without its id and without secrets."""
        if self._lines is None:
            text = f"event: {self.event}\ndata: {json.dumps(self.data, default=str)}\n\n"
            self._lines = self._redactor.text(text).encode()
        return self._lines


class Sent:
    """One event of a stream: the same for all who are sent it under this id."""

    __slots__ = ("id", "payload")

    def __init__(self, payload: Payload, id: str = "") -> None:
        self.payload = payload
        self.id = id
        """Where a reader goes on; empty for what is not stored."""

    @property
    def event(self) -> str:
        """What kind of event."""
        return self.payload.event

    @property
    def data(self) -> Mapping[str, Any]:
        """What it says."""
        return self.payload.data

    @property
    def lines(self) -> bytes:
        """As a stream has it."""
        head = f"id: {self.id}\n".encode() if self.id else b""
        return head + self.payload.lines


Batch = Sequence[Sent]
"""What a stream gives at once; an empty one says that there is nothing to say."""


class Watcher:
    """One stream: what it is about, and what it is yet to be sent. Used on the web loop only."""

    def __init__(self, run_id: str, size: int, *, family: bool = False) -> None:
        self.run_id = run_id
        """Of which run; empty for all."""
        self.family = family
        """The run's children too, under the ids of the whole journal."""
        self.closed = False
        self._size = size
        self._items: deque[Sent] = deque()
        self._news = asyncio.Event()
        self._heard = time.monotonic()

    def put(self, item: Sent) -> None:
        """Queue an event; a watcher that is full is closed, and hears no more."""
        if self.closed:
            return
        if len(self._items) >= self._size:
            if item.id:  # text as it comes is left out: the record will say it all
                self.close()
            return
        self._items.append(item)
        self._news.set()

    def close(self) -> None:
        """End its stream, behind what it is yet to be sent."""
        self.closed = True
        self._news.set()

    def beat(self, now: float) -> None:
        """Say something if nothing was said for long."""
        if not self._items and now - self._heard >= HEARTBEAT:
            self._news.set()

    def is_of(self, found: TailEvent) -> bool:
        """Whether it is about the run of an event."""
        run_id = found.run_id
        return self.run_id in ("", run_id) or run_id.startswith(f"{self.run_id}{CHILD_MARK}")

    def forget(self) -> None:
        """Leave out what it was yet to be sent."""
        self._items.clear()

    async def take(self) -> Batch | None:
        """What came since; empty after a silence, None where the stream is to end."""
        if not self._items and not self.closed:
            self._news.clear()
            await self._news.wait()
        self._heard = time.monotonic()
        if self.closed and not self._items:
            return None
        items = self._items
        return [items.popleft() for _ in range(min(TOGETHER, len(items)))]


class Hub:
    """All watchers of a server. Used on the web loop only, but for `hear`."""

    def __init__(self, journal: Journal, limits: Limits, redactor: Redactor | None = None) -> None:
        self._journal: Journal = getattr(journal, "grouped", journal)
        self._limits = limits
        self._redactor = redactor or Redactor()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.watchers: set[Watcher] = set()
        self._about: defaultdict[str, set[Watcher]] = defaultdict(set)
        """The watchers of each run; under the empty id those of all runs."""
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
            watcher.close()

    async def _read(self) -> None:
        token, beat = "", 0.0
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
            if (now := time.monotonic()) - beat >= 1.0:
                beat = now
                for watcher in self.watchers:
                    watcher.beat(now)
            await asyncio.sleep(POLL)

    async def _tell(self) -> None:
        """Tell those who watch what was written since."""
        while self.watchers:
            tail = await self._journal.tail(self._cursor, PAGE)
            for found in tail.events:
                self._tell_event(found)
            self._cursor = tail.cursor
            if len(tail.events) < PAGE:
                return
        self._cursor = (await self._journal.tail(limit=0)).newest

    def _tell_event(self, found: TailEvent) -> None:
        watching = list(self._watching(found.run_id))
        if not watching:
            return
        payload = self._payload(found.run_id, found.event, found.problem)
        of_all = Sent(payload, found.cursor)
        of_run = Sent(payload, str(-1 if found.event is None else found.event.seq))
        for watcher in watching:
            watcher.put(of_run if watcher.run_id and not watcher.family else of_all)

    def _watching(self, run_id: str) -> Iterator[Watcher]:
        """Who hears of a run."""
        about = self._about
        yield from about.get("", ())
        yield from about.get(run_id, ())
        above = run_id.rpartition(CHILD_MARK)[0]
        while above:
            yield from (watcher for watcher in about.get(above, ()) if watcher.family)
            above = above.rpartition(CHILD_MARK)[0]

    def _payload(self, run_id: str, event: Event | None, problem: str = "") -> Payload:
        """An event as the journal has it."""
        if event is None:
            return Payload("unreadable", {"run": run_id, "problem": problem}, self._redactor)
        data: dict[str, Any] = {"run": run_id, "seq": event.seq, "at": event.at}
        if event.record is not None:
            data |= {"record": event.record.seq, **event.record.to_dict()}
        else:
            data |= {"data": plain(event.data)}
        return Payload(event.type, data, self._redactor)

    def hear(self, run_id: str, event: StreamEvent) -> None:
        """An event of a run that is driven here. From any thread."""
        if isinstance(event, (Delta, Started)) and self._loop is not None and self.watchers:
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._live, run_id, event)

    def _live(self, run_id: str, event: Delta | Started) -> None:
        kind = "text" if isinstance(event, Delta) else "started"
        item = Sent(Payload(kind, {"run": run_id, **event.to_dict()}, self._redactor))
        for watcher in list(self._watching(run_id)):
            watcher.put(item)

    # streams --------------------------------------------------------------------------------------

    def add(self, run_id: str = "", *, family: bool = False) -> Watcher:
        """A new watcher: of a run, of one with its children, of all. `remove` it in the end.

        `Refusal` where there are as many as may be.
        """
        if len(self.watchers) >= self._limits.watchers:
            raise Refusal(
                503, f"{self._limits.watchers} streams are open already",
                hint="close one, or try again later", headers={"Retry-After": "5"},
            )  # fmt: skip
        watcher = Watcher(run_id, self._limits.queue, family=family)
        self.watchers.add(watcher)
        self._about[run_id].add(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """Its stream has ended."""
        self.watchers.discard(watcher)
        about = self._about[watcher.run_id]
        about.discard(watcher)
        if not about:
            del self._about[watcher.run_id]

    async def of_run(self, watcher: Watcher, after: int) -> AsyncIterator[Batch]:
        """The events of a run behind number `after`, then those that come, to its end."""
        at, run_id = after + 1, watcher.run_id
        while page := await self._journal.events(run_id, at, PAGE):
            at = page[-1].seq + 1
            yield [Sent(self._payload(run_id, event), str(event.seq)) for event in page]
        over = await self._is_over(run_id, at)
        while not over:
            batch = await watcher.take()
            if batch is None:
                return
            fresh = [item for item in batch if not item.id or int(item.id) >= at]
            at = max((int(item.id) + 1 for item in fresh if item.id), default=at)
            if fresh or not batch:
                yield fresh
            if not batch or _may_end(fresh):
                over = await self._is_over(run_id, at)
        yield [Sent(Payload("end", {"run": run_id}, self._redactor))]

    async def _is_over(self, run_id: str, at: int) -> bool:
        row = await self._journal.row(run_id)
        return row is None or (row.ended and row.head <= at)

    async def of_all(self, watcher: Watcher, cursor: str | None) -> AsyncIterator[Batch]:
        """The events of all runs behind a cursor, then those that come; None: only those.

        Of a watcher of one run: the events of it and of its children.
        """
        if cursor is not None:
            async with self._turn:  # what is behind this place comes through the queue
                await self._tell()
                watcher.forget()
                place = self._cursor
            while cursor != place:
                tail = await self._journal.tail(cursor, PAGE)
                upto = next((n for n, e in enumerate(tail.events, 1) if e.cursor == place), PAGE)
                if told := [self._of_tail(e) for e in tail.events[:upto] if watcher.is_of(e)]:
                    yield told
                if upto < PAGE or len(tail.events) < PAGE:
                    break
                cursor = tail.cursor
        while (batch := await watcher.take()) is not None:
            yield batch

    def _of_tail(self, found: TailEvent) -> Sent:
        return Sent(self._payload(found.run_id, found.event, found.problem), found.cursor)


def _may_end(batch: Batch) -> bool:
    """Whether one of the events may be a run's last."""
    return any(item.id and item.data.get("status") in _ENDS for item in batch)
