"""Streams: driving a run while yielding its events.

`Started` and `Delta` come as they happen, `Recorded` after its append. Leaving the iterator
cancels cooperatively: the current action is finished, and the run stops before the next one.
An earlier listener keeps receiving events.

Source: docs/streaming.md.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from typing import Any

from chartloop.core.facts import RunFacts
from chartloop.run.events import Event
from chartloop.run.loop import advance, at_breakpoint, drive, leave, watch_breakpoints
from chartloop.run.session import Session
from chartloop.run.sync import by_hand, loop_thread

_END = object()


class _Left:
    """The cancellation of a run whose stream is left."""

    def __init__(self, session: Session) -> None:
        self.left = False
        self._session, self._before = session, session.listener

    def is_requested(self, run: RunFacts) -> bool:
        return self.left

    def leave(self) -> None:
        """Detach the stream and have the run stop, without resting at a breakpoint before."""
        self.left, self._session.listener, self._session.breakpoints = True, self._before, None


@contextmanager
def _heard(session: Session, listener: Callable[[Event], None]) -> Generator[_Left]:
    """A context in which a listener receives a session's events, besides the current listener."""
    left, before = _Left(session), session.listener

    def both(event: Event) -> None:
        listener(event)
        if before is not None:
            before(event)

    session.cancels.append(left)
    session.listener = both
    try:
        yield left
    finally:
        session.listener = before
        session.cancels.remove(left)


async def astream(session: Session) -> AsyncGenerator[Event]:
    """Drive the run, and yield its events."""
    events: asyncio.Queue[Any] = asyncio.Queue()
    with _heard(session, events.put_nowait) as left:
        task = asyncio.ensure_future(drive(session))
        task.add_done_callback(lambda _: events.put_nowait(_END))
        try:
            while (event := await events.get()) is not _END:
                yield event
            await task
        finally:
            left.leave()
            if not task.done():  # a cancellation while it waits here is not cooperative
                await asyncio.gather(task, return_exceptions=True)


def stream(session: Session, *, suspends: bool) -> Iterator[Event]:
    """Drive the run, and yield its events, without an event loop."""
    return _from_thread(session) if suspends else _by_hand(session)


def _by_hand(session: Session) -> Iterator[Event]:
    waiting: list[Event] = []
    watch = watch_breakpoints(session)
    with _heard(session, waiting.append) as left:
        try:
            while not at_breakpoint(session, watch) and by_hand(advance(session)) is not None:
                yield from waiting
                waiting.clear()
            by_hand(leave(session))
        except GeneratorExit:
            left.leave()
            by_hand(drive(session))
            raise


def _from_thread(session: Session) -> Iterator[Event]:
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with _heard(session, events.put) as left:
        future = asyncio.run_coroutine_threadsafe(drive(session), loop_thread())
        future.add_done_callback(lambda _: events.put(_END))
        try:
            while (event := events.get()) is not _END:
                yield event
            future.result()
        finally:
            left.leave()
            try:
                wait_for([future])
            except BaseException:  # Ctrl-C while it waits here is not cooperative
                future.cancel()
                raise
