"""Worker threads for code that blocks.

A call takes the thread that became idle last, or a new one if all are busy. A call that hangs keeps
its thread, while the run continues without it; threads are daemons, so they do not keep the process
alive. An idle thread ends after a while.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any

Made = tuple[Any, BaseException | None]
"""The result of a call, or its exception."""
Call = Callable[[], Any]

LINGER = 30.0
"""Seconds that an idle thread waits for a call before it ends."""
MOST_IDLE = 64
"""The most idle threads; any further one ends."""


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="chartloop tool", daemon=True)
        self.calls: SimpleQueue[_Waiting] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                waiting = self.calls.get(timeout=LINGER)
            except Empty:
                if _leave(self):
                    return
                continue  # a call is on its way
            # time the call alone: a busy event loop is late even for a quick call
            began = perf_counter()
            try:
                waiting.made = waiting.context.run(waiting.call), None
            except BaseException as error:  # noqa: BLE001  the caller gets every exception
                waiting.made = None, error
            if perf_counter() - began < MOMENT / 2:
                _slow.discard(waiting.name)
            # idle before it delivers: the receiver may submit its next call at once
            stays = len(_idle) < MOST_IDLE
            if stays:
                _idle.append(self)
            waiting.deliver()
            del waiting  # the idle thread must keep no object alive
            if not stays:
                return


_idle: list[_Worker] = []
"""The idle threads, the last to work at the end. Each operation on the list is atomic."""


def _leave(worker: _Worker) -> bool:
    """Whether the thread may end: it was not chosen for a call meanwhile."""
    try:
        _idle.remove(worker)
    except ValueError:
        return False
    return True


if hasattr(os, "register_at_fork"):  # a forked process does not have the threads
    os.register_at_fork(after_in_child=_idle.clear)


class _Waiting:
    """A call in this context, and the wait for it.

    The wait first blocks its thread for a moment, then goes on in the event loop.
    """

    __slots__ = ("call", "context", "done", "loop", "made", "name", "ready")

    def __init__(self, name: str, call: Call) -> None:
        self.name, self.call, self.context = name, call, copy_context()
        self.made: Made = (None, None)
        self.ready = threading.Lock()
        self.ready.acquire()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.done: asyncio.Future[Made] | None = None

    def deliver(self) -> None:
        self.ready.release()
        if (done := self.done) is not None:
            assert self.loop is not None
            with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
                self.loop.call_soon_threadsafe(_set, done, self.made)


MOMENT = 0.0002
"""Seconds for which the event loop blocks for a tool that was as quick as that before: leaving the
loop and being woken costs twice the call of a small function."""
_slow: set[str] = set()
"""The names of tools that took longer the last time."""


async def in_thread(name: str, call: Call) -> Made:
    """Call in another thread, in this context. If cancelled, the call is abandoned."""
    waiting = _Waiting(name, call)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.calls.put(waiting)
    if name not in _slow:
        if waiting.ready.acquire(timeout=MOMENT):
            return waiting.made
        _slow.add(name)
    waiting.loop = asyncio.get_running_loop()
    done = waiting.done = waiting.loop.create_future()
    if waiting.ready.acquire(blocking=False):  # it may have finished before it saw the future
        return waiting.made
    return await done


def _set(done: asyncio.Future[Made], made: Made) -> None:
    if not done.done():
        done.set_result(made)
