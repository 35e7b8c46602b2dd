"""Streams: a run driven while somebody looks on.

`Started` and `Delta` come as they happen, `Recorded` after its append. Leaving the iterator
cancels cooperatively: the action at hand is finished, and the run stops before the next one.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any

from interlock.run.events import Event
from interlock.run.loop import advance, drive
from interlock.run.session import Session
from interlock.run.sync import by_hand, loop_thread

_END = object()


class _Left:
    """The cancel of a stream that was left."""

    def __init__(self) -> None:
        self.left = False

    def is_requested(self) -> bool:
        return self.left


async def astream(session: Session) -> AsyncIterator[Event]:
    """Drive the run; give its events."""
    events: asyncio.Queue[Any] = asyncio.Queue()
    async for event in _driven(session, events.put_nowait, events.get):
        yield event


async def _driven(session: Session, put: Any, get: Any) -> AsyncIterator[Event]:
    left = _Left()
    session.cancels.append(left)
    session.listener = put
    task = asyncio.ensure_future(drive(session))
    task.add_done_callback(lambda _: put(_END))
    try:
        while (event := await get()) is not _END:
            yield event
        await task
    finally:
        left.left = True
        session.listener = None
        if not task.done():
            await asyncio.gather(task, return_exceptions=True)
        session.cancels.remove(left)


def stream(session: Session, *, suspends: bool) -> Iterator[Event]:
    """The same for callers without an event loop."""
    return _from_thread(session) if suspends else _by_hand(session)


def _by_hand(session: Session) -> Iterator[Event]:
    waiting: list[Event] = []
    left = _Left()
    session.cancels.append(left)
    session.listener = waiting.append
    try:
        while by_hand(advance(session)) is not None:
            yield from waiting
            waiting.clear()
    except GeneratorExit:
        left.left = True
        session.listener = None
        while by_hand(advance(session)) is not None:
            pass
        raise
    finally:
        session.listener = None
        session.cancels.remove(left)


def _from_thread(session: Session) -> Iterator[Event]:
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    left = _Left()
    session.cancels.append(left)
    session.listener = events.put
    future = asyncio.run_coroutine_threadsafe(drive(session), loop_thread())
    future.add_done_callback(lambda _: events.put(_END))
    try:
        while (event := events.get()) is not _END:
            yield event
        future.result()
    finally:
        left.left = True
        session.listener = None
        if not future.done():
            future.exception()
        session.cancels.remove(left)
