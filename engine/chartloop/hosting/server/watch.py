"""Watchers of the journal: one reader for all, and pages that all watchers of the same place share.

    journal ─ changed? ─▶ tail ─▶ log of a run, log of all runs ─▶ page ─▶ up-to-date watchers
    journal ─ events behind a place ─────────────────────────────▶ page ─▶ watchers behind
    worker ─ text as it arrives ─▶ the same logs, best effort

Streams are fed from the journal, so they are the same whichever process drives, and a client that
was disconnected resumes after the last id it saw. Text as it arrives is not stored: it has no id,
and only the server that drives the run sends it.

An event is encoded and redacted once for all its watchers, in a thread: on the web loop it would
hold up every request. A log holds the newest events; a watcher whose place has left the log reads
on from the journal, page by page, as one that was disconnected does.

Everything is bounded in bytes, however large an event is: what the logs hold, and the pages that
streams are being sent. A page is handed to a connection in parts, the next once the last was taken.
If the pages exceed their bound, the streams end whose readers have waited longest.

Belongs here: which watcher is sent which events. Never: HTTP, driving.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from chartloop.core.errors import ChartloopError, CursorGoneError
from chartloop.core.plain import plain
from chartloop.hosting.problems import Refusal
from chartloop.hosting.safety import Hidden
from chartloop.hosting.settings import Limits
from chartloop.run.events import Delta, ReasoningDelta, Started, ToolCallDelta
from chartloop.run.events import Event as StreamEvent
from chartloop.run.journal import Event, Journal
from chartloop.run.journal_pages import TailEvent, event_number
from chartloop.run.journal_records import MOVED
from chartloop.run.lease import ancestry
from chartloop.run.redact import Redactor
from chartloop.run.tenants import MARK, tenant_of

POLL = 0.05
"""Seconds between two polls of the journal for changes."""
PAGE = 256
"""The most events of a page. A page of the journal ends at a multiple of it, so that readers who
began at different events soon share pages."""
SIZE = 128_000
"""The bytes of a page, reached by its last event."""
PART = 64_000
"""The most bytes that a connection is handed at once."""
HEARTBEAT = 15.0
"""Seconds of silence after which a heartbeat is sent: proxies close silent streams."""
WEIGHT = 300
"""What an event takes in a log beside its text, in bytes."""
BEHIND = -1
"""The place of a watcher that is to read from the journal."""
FEW = 8
"""Streams that are woken before the web loop gets a turn for requests."""
_ENDS = ("completed", "error")


_LIVE: Mapping[type, str] = {
    Started: "started", Delta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool_call",
}  # fmt: skip
"""Live events, which are never stored, with their names in a stream."""


class Sent(NamedTuple):
    """One event of a stream, encoded and redacted for all watchers that know it by this id."""

    lines: bytes
    """Its lines in a stream, without the id."""
    id: str = ""
    """The id from which a reader resumes; empty for live events."""
    number: int = 0
    """Its place among the events of its stream, from 1; 0 for live events."""
    ends: bool = False
    """Whether it may be the last of its run."""


class Page:
    """Whole events that a stream is sent together, encoded once for all its watchers.

    One without events is a heartbeat.
    """

    __slots__ = ("count", "ends", "first", "holders", "last", "parts", "size")

    def __init__(self, items: Sequence[Sent] = ()) -> None:
        heads = (f"id: {item.id}\n".encode() if item.id else b"" for item in items)
        lines = b"".join([head + item.lines for head, item in zip(heads, items, strict=True)])
        lines = lines or b": heartbeat\n\n"
        self.parts = [Hidden(lines[at : at + PART]) for at in range(0, len(lines), PART)]
        self.size, self.count = len(lines), len(items)
        numbers = [item.number for item in items if item.number]
        self.first, self.last = (numbers[0], numbers[-1]) if numbers else (0, 0)
        """The numbers of its first and last stored event; 0 if it has none."""
        self.ends = any(item.ends for item in items)
        self.holders = 0
        """How many watchers are being sent it, and whether the hub keeps it for others."""


class Log:
    """The newest events of a run, of a run and its children, or of all runs."""

    def __init__(self, since: int | None) -> None:
        self.watchers: set[Watcher] = set()
        self.since = since
        """The number of the newest event that is not here: all later ones are, or come. None for a
        run's own log, whose numbers are the run's, until somebody has read so far."""
        self.size = 0
        """The bytes that it takes."""
        self.end = 0
        """The place after the newest event."""
        self.first = 0
        """The place of the oldest event."""
        self._items: dict[int, Sent] = {}
        """By place."""
        self._pages: dict[int, Page] = {}

    def add(self, item: Sent) -> None:
        """Append an event, unless it is known."""
        if item.number and self.since is None:
            self.since = item.number - 1
        if not item.number or item.number > (self.since or 0):
            self._items[self.end] = item
            self.end += 1
            self.size += len(item.lines) + WEIGHT
            self._pages.clear()

    def halve(self) -> None:
        """Drop the oldest events: half of the bytes."""
        self._pages.clear()
        rest = self.size // 2
        while self._items and self.size > rest:
            item = self._items.pop(self.first)
            self.first += 1
            self.size -= len(item.lines) + WEIGHT
            self.since = max(self.since or 0, item.number)

    def place_after(self, number: int) -> int:
        """The place of the first stored event after event `number`."""
        found = self.end
        for place in range(self.end - 1, self.first - 1, -1):
            if (here := self._items[place].number) > number:
                found = place
            elif here:
                break
        return found

    def page(self, place: int, after: int) -> tuple[Page | None, int]:
        """The events from a place on, and the place behind them; None where it has left the log.

        Watchers at the same place get the same page. Events up to number `after` are left out.
        """
        if place < self.first:
            return None, place
        page = self._pages.get(place)
        if page is None:
            items, size = list[Sent](), 0
            while place + len(items) < self.end and len(items) < PAGE and size < SIZE:
                items.append(self._items[place + len(items)])
                size += len(items[-1].lines)
            page = self._pages[place] = Page(items)
        behind = place + page.count
        if page.first and page.first <= after:
            items = [self._items[at] for at in range(place, behind)]
            page = Page([item for item in items if not item.number or item.number > after])
        return page, behind


class Watcher:
    """One stream, and how far it has come. Used on the web loop only."""

    def __init__(self, run_id: str, log: Log, *, family: bool = False) -> None:
        self.run_id = run_id
        """The run that it watches; empty for all runs."""
        self.family = family
        """Whether it watches the run's children too, by the ids of the whole journal."""
        self.log = log
        self.created = 0.0
        """When the run of its own ids began: another run may have the same id later."""
        self.after = 0
        """The number of the newest event that it was sent: only later ones are."""
        self.place = log.end
        """Where it is in the log. It reads from the journal if the log begins after that."""
        self.page: Page | None = None
        """What its connection is being sent."""
        self.waits_since = 0.0
        """When its connection was handed the newest part."""
        self.abort: Callable[[], None] = self.wake
        """Drops its connection, with everything that the reader has not taken."""
        self.closed = False
        self._news = asyncio.Event()
        self._heard = time.monotonic()

    def wake(self) -> None:
        """Resume `take`: there is something to send."""
        self._news.set()

    def close(self) -> None:
        """End the stream."""
        self.closed = True
        self._news.set()

    def beat(self, now: float) -> None:
        """Send a heartbeat after a long silence."""
        if now - self._heard >= HEARTBEAT:
            self._news.set()

    def catch_up(self) -> bool:
        """Go on from the log, if all events after number `after` are there."""
        if self.log.since is None or self.after < self.log.since:
            return False
        self.place = self.log.place_after(self.after)
        return True

    async def take(self) -> Page | None:
        """Wait for the next page of the log: a heartbeat after a silence, None if it is behind."""
        if self.place < self.log.end or self.closed:
            await asyncio.sleep(0)  # let other streams and requests proceed
        else:
            self._news.clear()
            await self._news.wait()
        self._heard = time.monotonic()
        page, self.place = self.log.page(self.place, self.after)
        return page


class Hub:
    """All watchers of a server. Used on the web loop only, except for `hear`."""

    def __init__(self, journal: Journal, limits: Limits, redactor: Redactor | None = None) -> None:
        self._journal: Journal = getattr(journal, "grouped", journal)
        self._limits = limits
        self.redactor = redactor or Redactor()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.watchers: set[Watcher] = set()
        self._logs: dict[tuple[str, bool], Log] = {}
        """By run, empty for all runs, and whether the run's children are included."""
        self._pages: OrderedDict[tuple[Any, ...], Page] = OrderedDict()
        """Pages of the journal for those who come to the same place: the oldest leave first."""
        self.held = 0
        """The bytes of the pages that are kept here, or that a stream is being sent."""
        self._cursor = ""
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Begin to read at the end of the journal."""
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
        self._close_all()

    def _close_all(self) -> None:
        for watcher in list(self.watchers):
            watcher.close()

    async def _read(self) -> None:
        token, beat = "", 0.0
        while True:
            try:
                new = await self._journal.changed(token)
                if new is not None:
                    await self._publish()
                    token = new
            except CursorGoneError as error:  # the file was replaced: no id of a stream is known
                self._cursor = error.newest
                self._logs.clear()
                self._close_all()
            except ChartloopError:  # locked: the next poll reads it
                pass
            now = time.monotonic()
            if now - beat >= 1.0:
                beat = now
                self._beat(now)
            await asyncio.sleep(POLL)

    def _beat(self, now: float) -> None:
        """Look after the watchers, once a second. The loop itself must not hold one of them."""
        for watcher in self.watchers:
            watcher.beat(now)
        if not any(watcher.place < watcher.log.first for watcher in self.watchers):
            self._forget_pages(0)

    async def _publish(self) -> None:
        """Add the events written since the last call to the logs, and wake their watchers."""
        while self.watchers:
            tail = await self._journal.tail(self._cursor, PAGE, size=SIZE)
            self._cursor = tail.cursor  # a log that is made from now on begins after these
            wanted = [entry for entry in tail.events if self._logs_of(entry.run_id)]
            sent = await asyncio.to_thread(self._encode, wanted) if wanted else []
            woken = 0
            for log in {
                log
                for entry, item in zip(wanted, sent, strict=True)
                for log in self._keep(entry.run_id, item, entry.event)
            }:
                for watcher in [*log.watchers]:  # a few at a time: requests are not held up
                    watcher.wake()
                    woken += 1
                    if woken % FEW == 0:
                        await asyncio.sleep(0)
            if tail.cursor == tail.newest:
                return
        newest = (await self._journal.tail(limit=0)).newest
        if not self.watchers:
            self._cursor = newest

    def _logs_of(self, run_id: str) -> list[Log]:
        """The logs that hold events of a run: its own, that of all, those of families it is in."""
        keys = [(run_id, False), ("", False), (tenant_of(run_id) + MARK, True)]
        keys += [(name, True) for name in ancestry(run_id)]
        return [log for key in keys if (log := self._logs.get(key))]

    def _keep(self, run_id: str, item: Sent, event: Event | None = None) -> list[Log]:
        """Add an event of a run to its logs. If all logs are too large, the largest is halved."""
        logs, every = self._logs_of(run_id), self._logs.values()
        for log in logs:
            own = item.number and log is self._logs.get((run_id, False))
            log.add(_of_run(item, event) if own else item)
            while sum(one.size for one in every) > self._limits.queue // 2:
                max(every, key=lambda one: one.size).halve()
        return logs

    # encoding -------------------------------------------------------------------------------------

    def _encode(self, entries: Sequence[TailEvent], size: float = inf) -> list[Sent]:
        """Encode events until their texts reach a size. In a thread: it takes long."""
        found: list[Sent] = []
        for cursor, run_id, event, problem in entries:
            if event is None:
                name, data = "unreadable", {"run": run_id, "problem": problem}
            else:
                name, record = event.type, event.record
                data = {"run": run_id, "seq": event.seq, "at": event.at} | (
                    {"data": plain(event.data)}
                    if record is None
                    else {"record": record.seq, **record.to_dict()}
                )
            lines = self._lines(name, data)
            ends = name == MOVED or data.get("status") in _ENDS
            found.append(Sent(lines, cursor, event_number(cursor), ends))
            if (size := size - len(lines)) <= 0:
                break
        return found

    def _lines(self, name: str, data: Mapping[str, Any]) -> bytes:
        text = f"event: {name}\ndata: {json.dumps(data, default=str)}\n\n"
        hide = self.redactor.markup if "<svg" in text else self.redactor.text
        return hide(text).encode()

    def hear(self, run_id: str, event: StreamEvent) -> None:
        """Pass on a live event of a run that this process drives. Safe from any thread."""
        if type(event) in _LIVE and self._loop is not None and self._logs_of(run_id):
            item = Sent(self._lines(_LIVE[type(event)], {"run": run_id, **event.to_dict()}))
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._live, run_id, item)

    def _live(self, run_id: str, item: Sent) -> None:
        for log in self._keep(run_id, item):
            for watcher in log.watchers:
                watcher.wake()

    # streams --------------------------------------------------------------------------------------

    def add(self, run_id: str = "", *, family: bool = False) -> Watcher:
        """Add a watcher of a run, of a run with its children, or of all runs. `remove` ends it.

        With `family`, ``acme:`` stands for the runs of a tenant, ``:`` for those without one.

        Raises `Refusal` if the most permitted streams are open.
        """
        if len(self.watchers) >= self._limits.watchers:
            raise Refusal(
                503, f"{self._limits.watchers} streams are open already",
                hint="close one, or try again later", headers={"Retry-After": "5"},
            )  # fmt: skip
        key = (run_id, family)
        log = self._logs.get(key)
        if log is None:
            by_run = run_id and not family
            log = self._logs[key] = Log(None if by_run else event_number(self._cursor))
        watcher = Watcher(run_id, log, family=family)
        self.watchers.add(watcher)
        log.watchers.add(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """Forget a watcher whose stream has ended, and what only it needed."""
        self._hand(watcher, None)
        self.watchers.discard(watcher)
        watcher.log.watchers.discard(watcher)
        key = (watcher.run_id, watcher.family)
        if not watcher.log.watchers and self._logs.get(key) is watcher.log:
            del self._logs[key]
        if not self.watchers:
            self._forget_pages(0)

    async def of_run(self, watcher: Watcher, after: int) -> AsyncIterator[Page]:
        """The events of a run after number `after`, then new ones until the run ends."""
        run_id = watcher.run_id
        row = await self._journal.row(run_id)
        watcher.created = 0.0 if row is None else row.created
        watcher.after, watcher.place = after + 1, BEHIND
        async for page in self._sent_to(watcher):
            yield page
            if page.ends or not page.count:
                row = await self._journal.row(run_id)
                if row is None or (row.ended and row.head <= watcher.after):
                    yield Page([Sent(self._lines("end", {"run": run_id}))])
                    return

    async def of_all(self, watcher: Watcher, cursor: str | None) -> AsyncIterator[Page]:
        """The events of all runs after a cursor, then new ones; only new ones without a cursor.

        For the watcher of one run, the events of that run and of its children.
        """
        watcher.after = event_number(self._cursor if cursor is None else cursor)
        if cursor is not None:
            watcher.place = BEHIND
        async for page in self._sent_to(watcher):
            yield page

    async def _sent_to(self, watcher: Watcher) -> AsyncIterator[Page]:
        """The pages of a watcher; one without events after a silence, and when it is up to date."""
        while not watcher.closed:
            if watcher.place >= watcher.log.first:
                page = await watcher.take()
            elif watcher.catch_up():
                page = Page()
            else:
                try:
                    page = await self._stored(watcher)
                except ChartloopError:  # the journal is locked or gone: the reader comes again
                    return
            if page is not None and not watcher.closed:
                watcher.after = max(watcher.after, page.last)
                yield page

    async def _stored(self, watcher: Watcher) -> Page | None:
        """The page of the journal after what a watcher was sent; None if the log goes on there.

        One page is made at a time, so that requests get their turn at the journal, and whoever
        waited for the same page finds it.
        """
        key = (watcher.run_id, watcher.family, watcher.created, watcher.after)
        async with self._turn:
            page = self._pages.get(key)
            if page is not None or watcher.catch_up():
                return page
            run_id, after = watcher.run_id, watcher.after
            most = PAGE - after % PAGE
            if own := run_id and not watcher.family:
                events = await self._journal.events(run_id, after, most, size=SIZE)
                entries = [TailEvent("", run_id, event) for event in events]
            else:
                cursor = f"{self._cursor.rpartition('-')[0]}-{after}"
                tail = await self._journal.tail(cursor, most, size=SIZE, run=run_id)
                entries = tail.events
                if not entries:
                    watcher.after = event_number(tail.cursor)
            if not entries:
                watcher.log.since = watcher.log.since or watcher.after
                return None
            items = await asyncio.to_thread(self._encode, entries, SIZE)
            if own:
                items = [
                    _of_run(item, entry.event) for item, entry in zip(items, entries, strict=False)
                ]
            page = self._pages[key] = Page(items)
            self._count(page, 1)
            self._forget_pages(self._limits.queue // 2)
            return page

    async def parts_for(self, watcher: Watcher, pages: AsyncIterator[Page]) -> AsyncIterator[bytes]:
        """What a watcher's connection is handed, each part once the last was taken."""
        yield Hidden(b": open\n\n")  # the headers of a response are sent with its first chunk
        async for page in pages:
            self._hand(watcher, page)
            for part in page.parts:
                watcher.waits_since = time.monotonic()
                yield part
                await asyncio.sleep(0)
            self._hand(watcher, None)

    def _hand(self, watcher: Watcher, page: Page | None) -> None:
        """Note what a watcher is being sent.

        Ends the streams that have waited longest, if the pages are too large together.
        """
        before, watcher.page = watcher.page, page
        for one, more in ((page, 1), (before, -1)):
            if one is not None:
                self._count(one, more)
        self._forget_pages(self._limits.queue // 2)
        while self.held > self._limits.queue // 2:
            waiting = [one for one in self.watchers if one.page is not None and one is not watcher]
            if not waiting:
                return
            slowest = min(waiting, key=lambda one: one.waits_since)
            slowest.close()
            slowest.abort()
            self._hand(slowest, None)

    def _count(self, page: Page, more: int) -> None:
        if page.holders == 0:
            self.held += page.size
        page.holders += more
        if page.holders == 0:
            self.held -= page.size

    def _forget_pages(self, most: int) -> None:
        """Forget pages that are kept for others, the oldest first, while more bytes are held."""
        while self._pages and self.held > most:
            self._count(self._pages.popitem(last=False)[1], -1)


def _of_run(item: Sent, event: Event | None) -> Sent:
    """An event of all runs as the stream of its own run knows it; a damaged one has no id there."""
    if event is None:
        return item._replace(id="", number=0)
    return item._replace(id=str(event.seq), number=event.seq + 1)
