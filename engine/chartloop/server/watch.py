"""Watchers of the journal: one reader for all, and one log for all watchers of the same runs.

    journal ─ changed? ─▶ tail ─▶ log of a run, log of all runs ─▶ each watcher has its place in one
    worker ─ text as it arrives ─▶ the same logs, best effort

Streams are fed from the journal, so they are the same whichever process drives, and a client that
was disconnected resumes after the last id it saw. Text as it arrives is not stored: it has no id,
and only the server that drives the run sends it.

A log holds the newest events, encoded and redacted once for all its watchers. A watcher whose place
has left the log was too slow: its stream ends. Watchers of one run are not woken by events of
another.

Belongs here: which watcher is sent which events. Never: HTTP, driving.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

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
from chartloop.run.lease import CHILD_MARK
from chartloop.run.redact import Redactor

POLL = 0.05
"""Seconds between two polls of the journal for changes."""
PAGE = 256
HEARTBEAT = 15.0
"""Seconds of silence after which a heartbeat is sent: proxies close silent streams."""
TOGETHER = 500
"""The most events that a stream is sent at once."""
FEW = 8
"""Streams that are woken before the web loop gets a turn for requests."""
_ENDS = ("completed", "error")


_LIVE: Mapping[type, str] = {
    Started: "started", Delta: "text", ReasoningDelta: "reasoning", ToolCallDelta: "tool_call",
}  # fmt: skip
"""Live events, which are never stored, with their names in a stream."""


class Payload:
    """The name and data of an event, encoded when it is first sent."""

    __slots__ = ("_lines", "_redactor", "data", "event")

    def __init__(self, event: str, data: Mapping[str, Any], redactor: Redactor) -> None:
        self.event, self.data = event, data
        self._redactor = redactor
        self._lines: bytes | None = None

    @property
    def lines(self) -> bytes:
        """Its lines in a stream, redacted and without the id."""
        if self._lines is None:
            text = f"event: {self.event}\ndata: {json.dumps(self.data, default=str)}\n\n"
            hide = self._redactor.markup if "<svg" in text else self._redactor.text
            self._lines = hide(text).encode()
        return self._lines


class Sent:
    """One event of a stream, shared by all watchers that know it by this id."""

    __slots__ = ("id", "number", "payload")

    def __init__(self, payload: Payload, id: str = "", number: int = 0) -> None:
        self.payload = payload
        self.id = id
        """The id from which a reader resumes; empty for live events."""
        self.number = number
        """Its place in the order of commits."""

    @property
    def event(self) -> str:
        """The name of the event."""
        return self.payload.event

    @property
    def data(self) -> Mapping[str, Any]:
        """The data of the event."""
        return self.payload.data

    @property
    def lines(self) -> bytes:
        """Its lines in a stream, with the id."""
        head = f"id: {self.id}\n".encode() if self.id else b""
        return head + self.payload.lines


class Batch:
    """The events that a stream is sent at once, encoded once for all its watchers.

    An empty batch is a heartbeat.
    """

    __slots__ = ("_lines", "items")

    def __init__(self, items: Sequence[Sent] = ()) -> None:
        self.items = items
        self._lines: bytes | None = None

    @property
    def lines(self) -> bytes:
        """Its lines in a stream, redacted."""
        if self._lines is None:
            lines = b"".join([item.lines for item in self.items])
            self._lines = Hidden(lines or b": heartbeat\n\n")
        return self._lines


class Log:
    """The newest events of a run, of a run and its children, or of all runs."""

    def __init__(self, size: int, since: int) -> None:
        self.watchers: set[Watcher] = set()
        self.since = since
        """The number of the newest event that has left the log: all later ones are here."""
        self._size = size
        self._items: list[Sent] = []
        self._first = 0
        """The place of the first item."""
        self._stored = 0
        """How many items are stored events."""
        self._batches: dict[int, Batch] = {}

    @property
    def end(self) -> int:
        """The place after the newest event."""
        return self._first + len(self._items)

    def add(self, item: Sent) -> None:
        """Append an event, and drop the oldest where the log is full."""
        self._items.append(item)
        self._batches.clear()
        self._stored += item.id != ""
        if self._stored > 2 * self._size or len(self._items) > 8 * self._size:
            self._trim()

    def _trim(self) -> None:
        while self._stored > self._size or len(self._items) > 4 * self._size:
            leaves = self._items[: max(1, min(self._size, self._stored - self._size))]
            del self._items[: len(leaves)]
            self._first += len(leaves)
            self._stored -= sum(item.id != "" for item in leaves)
            self.since = max([self.since, *(item.number for item in leaves)])

    def place_after(self, number: int) -> int:
        """The place of the first stored event after event `number`."""
        items = enumerate(self._items)
        at = next((at for at, item in items if item.number > number), len(self._items))
        return self._first + at

    def from_place(self, place: int) -> Batch | None:
        """At most `TOGETHER` events from a place on; None where that place has left the log.

        Watchers at the same place get the same batch.
        """
        at = place - self._first
        if at < 0 or self._is_too_old(at):
            return None
        batch = self._batches.get(place)
        if batch is None:
            batch = self._batches[place] = Batch(self._items[at : at + TOGETHER])
        return batch

    def _is_too_old(self, at: int) -> bool:
        """Whether more events follow a place than a watcher may lag behind."""
        behind = len(self._items) - at
        return behind > self._size and sum(i.id != "" for i in self._items[at:]) > self._size


class Watcher:
    """One stream and its place in a log. Used on the web loop only."""

    def __init__(self, run_id: str, log: Log, *, family: bool = False) -> None:
        self.run_id = run_id
        """The run that it watches; empty for all runs."""
        self.family = family
        """Whether it watches the run's children too, by the ids of the whole journal."""
        self.log = log
        self.after = 0
        """The number of an event: only later ones are sent."""
        self.closed = False
        self._place = log.end
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

    def covers(self, event: TailEvent) -> bool:
        """Whether it watches the run of an event."""
        run_id = event.run_id
        return self.run_id in ("", run_id) or run_id.startswith(f"{self.run_id}{CHILD_MARK}")

    def rewind(self) -> None:
        """Go to the first event of the log after number `after`."""
        self._place = self.log.place_after(self.after)

    async def take(self) -> Batch | None:
        """Wait for the next events: an empty batch after a silence, None where the stream ends."""
        if self._place < self.log.end or self.closed:
            await asyncio.sleep(0)  # let other streams and requests proceed
        else:
            self._news.clear()
            await self._news.wait()
        self._heard = time.monotonic()
        if self.closed:
            return None
        batch = self.log.from_place(self._place)
        if batch is None:
            self.closed = True
            return None
        self._place += len(batch.items)
        if batch.items and batch.items[0].number <= self.after and self.after:
            return Batch([i for i in batch.items if not i.id or i.number > self.after])
        return batch


class Hub:
    """All watchers of a server. Used on the web loop only, except for `hear`."""

    def __init__(self, journal: Journal, limits: Limits, redactor: Redactor | None = None) -> None:
        self._journal: Journal = getattr(journal, "grouped", journal)
        self._limits = limits
        self._redactor = redactor or Redactor()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self.watchers: set[Watcher] = set()
        self._logs: dict[tuple[str, bool], Log] = {}
        """By run, empty for all runs, and whether the run's children are included."""
        self._cursor = ""
        self._number = 0
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Begin to read at the end of the journal."""
        self._loop = asyncio.get_running_loop()
        self._move((await self._journal.tail(limit=0)).newest)
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
                new = await self._journal.changed(token)
                if new is not None:
                    async with self._turn:
                        await self._publish()
                    token = new
            except CursorGoneError as error:  # the file was replaced by an older one
                self._move(error.newest)
            except ChartloopError:  # locked: the next poll reads it
                pass
            now = time.monotonic()
            if now - beat >= 1.0:
                beat = now
                self._beat(now)
            await asyncio.sleep(POLL)

    def _beat(self, now: float) -> None:
        for watcher in self.watchers:
            watcher.beat(now)

    def _move(self, cursor: str) -> None:
        self._cursor, self._number = cursor, event_number(cursor)

    async def _publish(self) -> None:
        """Add the events written since the last call to the logs, and wake their watchers."""
        while self.watchers:
            tail = await self._journal.tail(self._cursor, PAGE)
            logs = self._add_page(tail.events)
            self._move(tail.cursor)
            await self._wake(logs)
            if len(tail.events) < PAGE:
                return
        self._move((await self._journal.tail(limit=0)).newest)

    def _add_page(self, page: Sequence[TailEvent]) -> set[Log]:
        """Add events to the logs that are watched; returns these logs."""
        changed: set[Log] = set()
        for entry in page:
            logs = self._logs_of(entry.run_id)
            if not logs:
                continue
            payload = self._payload(entry.run_id, entry.event, entry.problem)
            number = event_number(entry.cursor)
            for log, by_run in logs:
                seq = -1 if entry.event is None else entry.event.seq
                log.add(Sent(payload, str(seq) if by_run else entry.cursor, number))
                changed.add(log)
        return changed

    def _logs_of(self, run_id: str) -> list[tuple[Log, bool]]:
        """The logs that hold events of a run, and whether they use the run's own event ids."""
        keys = [("", False), (run_id, False)]
        keys += [(name, True) for name in _names(run_id)]
        return [(log, key == (run_id, False)) for key in keys if (log := self._logs.get(key))]

    async def _wake(self, logs: Iterable[Log]) -> None:
        """Wake the watchers of logs, a few at a time, so that requests are not held up."""
        woken = 0
        for log in logs:
            for watcher in [*log.watchers]:
                watcher.wake()
                woken += 1
                if woken % FEW == 0:
                    await asyncio.sleep(0)

    def _payload(self, run_id: str, event: Event | None, problem: str = "") -> Payload:
        """The payload of a journal event; `unreadable` where the event is damaged."""
        if event is None:
            return Payload("unreadable", {"run": run_id, "problem": problem}, self._redactor)
        data: dict[str, Any] = {"run": run_id, "seq": event.seq, "at": event.at}
        if event.record is not None:
            data |= {"record": event.record.seq, **event.record.to_dict()}
        else:
            data |= {"data": plain(event.data)}
        return Payload(event.type, data, self._redactor)

    def hear(self, run_id: str, event: StreamEvent) -> None:
        """Pass on a live event of a run that this process drives. Safe from any thread."""
        if type(event) in _LIVE and self._loop is not None and self.watchers:
            with suppress(RuntimeError):  # the loop is closed: the server stops
                self._loop.call_soon_threadsafe(self._live, run_id, event)

    def _live(self, run_id: str, event: StreamEvent) -> None:
        logs = self._logs_of(run_id)
        if not logs:
            return
        payload = Payload(_LIVE[type(event)], {"run": run_id, **event.to_dict()}, self._redactor)
        for log, _ in logs:
            log.add(Sent(payload))
            for watcher in log.watchers:
                watcher.wake()

    # streams --------------------------------------------------------------------------------------

    def add(self, run_id: str = "", *, family: bool = False) -> Watcher:
        """Add a watcher of a run, of a run with its children, or of all runs. `remove` ends it.

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
            log = self._logs[key] = Log(self._limits.queue, self._number)
        watcher = Watcher(run_id, log, family=family)
        self.watchers.add(watcher)
        log.watchers.add(watcher)
        return watcher

    def remove(self, watcher: Watcher) -> None:
        """Forget a watcher whose stream has ended."""
        self.watchers.discard(watcher)
        watcher.log.watchers.discard(watcher)
        key = (watcher.run_id, watcher.family)
        if not watcher.log.watchers and self._logs.get(key) is watcher.log:
            del self._logs[key]

    async def of_run(self, watcher: Watcher, after: int) -> AsyncIterator[Batch]:
        """The events of a run after number `after`, then new ones until the run ends."""
        at, run_id = after + 1, watcher.run_id
        while page := await self._journal.events(run_id, at, PAGE):
            at = page[-1].seq + 1
            yield Batch([Sent(self._payload(run_id, event), str(event.seq)) for event in page])
        ended = await self._has_ended(run_id, at)
        while not ended:
            batch = await watcher.take()
            if batch is None:
                return
            items = batch.items
            numbers = [int(item.id) for item in items if item.id]
            if numbers and numbers[0] < at:  # these were sent from the journal already
                batch = Batch([item for item in items if not item.id or int(item.id) >= at])
            at = max([at, *(number + 1 for number in numbers[-1:])])
            if batch.items or not items:
                yield batch
            if not items or _may_end(batch):
                ended = await self._has_ended(run_id, at)
        yield Batch([Sent(Payload("end", {"run": run_id}, self._redactor))])

    async def _has_ended(self, run_id: str, at: int) -> bool:
        """Whether the run has ended, or is gone, and has no event from number `at` on."""
        row = await self._journal.row(run_id)
        return row is None or (row.ended and row.head <= at)

    async def of_all(self, watcher: Watcher, cursor: str | None) -> AsyncIterator[Batch]:
        """The events of all runs after a cursor, then new ones; only new ones without a cursor.

        For the watcher of one run, the events of that run and of its children.
        """
        if cursor is not None:
            watcher.after = event_number(cursor)
            watcher.rewind()
            while watcher.after < watcher.log.since:
                tail = await self._journal.tail(cursor, PAGE)
                if items := [self._of_tail(e) for e in tail.events if watcher.covers(e)]:
                    yield Batch(items)
                cursor, watcher.after = tail.cursor, event_number(tail.cursor)
                watcher.rewind()
                if not tail.events:
                    break
        while (batch := await watcher.take()) is not None:
            yield batch

    def _of_tail(self, entry: TailEvent) -> Sent:
        payload = self._payload(entry.run_id, entry.event, entry.problem)
        return Sent(payload, entry.cursor, event_number(entry.cursor))


def _may_end(batch: Batch) -> bool:
    """Whether one of the events may be the last of its run."""
    return any(
        item.id and (item.event == MOVED or item.data.get("status") in _ENDS)
        for item in batch.items
    )


def _names(run_id: str) -> Iterator[str]:
    """The ids of a run and of the runs above it."""
    while run_id:
        yield run_id
        run_id = run_id.rpartition(CHILD_MARK)[0]
