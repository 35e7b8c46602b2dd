"""Threads that stay: where code is called that blocks.

A call takes the idle thread that worked last, or a new one where all are busy. One that hangs keeps
its thread to itself, and whoever waited for it has continued; the thread is a daemon, so that it
does not hold up the end of the process. A thread without work ends after a while.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any

Made = tuple[Any, BaseException | None]
"""The result of a call, or its exception."""
Call = Callable[[], Any]
Deliver = Callable[[Made], None]

LINGER = 30.0
"""Seconds that a thread waits for its next call before it ends."""
MOST_IDLE = 64
"""Threads that wait at once; one more ends."""


class _Worker(threading.Thread):
    def __init__(self) -> None:
        super().__init__(name="chartloop tool", daemon=True)
        self.calls: SimpleQueue[tuple[Call, Deliver]] = SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                call, deliver = self.calls.get(timeout=LINGER)
            except Empty:
                if _leave(self):
                    return
                continue  # a call is on its way
            made = _outcome(call)
            # idle before it delivers: who gets the result may have the next call for it
            stays = _rest(self)
            deliver(made)
            del call, deliver, made  # nothing of a call stays alive with the thread
            if not stays:
                return


_idle: list[_Worker] = []
"""Those that wait for a call; the last one worked last. Each step on it is atomic."""


def _rest(worker: _Worker) -> bool:
    if len(_idle) >= MOST_IDLE:
        return False
    _idle.append(worker)
    return True


def _leave(worker: _Worker) -> bool:
    """Whether it may end: no one has chosen it meanwhile."""
    try:
        _idle.remove(worker)
    except ValueError:
        return False
    return True


def _outcome(call: Call) -> Made:
    try:
        return call(), None
    except BaseException as error:  # noqa: BLE001  nothing may be lost in a thread
        return None, error


def _submit(call: Call, deliver: Deliver) -> None:
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.calls.put((call, deliver))


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads
    os.register_at_fork(after_in_child=_idle.clear)


class _Waiting:
    """The waiter for one call: first the thread itself, for a moment, then its event loop."""

    __slots__ = ("done", "loop", "made", "ready")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.made: Made = (None, None)
        self.ready = threading.Lock()
        self.ready.acquire()
        self.done: asyncio.Future[Made] | None = None

    def deliver(self, made: Made) -> None:
        self.made = made
        self.ready.release()
        if (done := self.done) is not None:
            with suppress(RuntimeError):  # the loop is closed: no one waits for it any more
                self.loop.call_soon_threadsafe(_set, done, made)

    def wait_ready(self, within: float) -> bool:
        return self.ready.acquire(timeout=within) if within else self.ready.acquire(blocking=False)


MOMENT = 0.0002
"""Seconds for which the event loop stands still for a tool that was as quick as that before: to
leave and to be woken costs twice the call of a small function."""
_slow: set[str] = set()
"""The names of what took longer the last time."""


async def in_thread(name: str, call: Call) -> Made:
    """The result of a call in another thread, in this context. Given up when cancelled."""
    waiting = _Waiting(asyncio.get_running_loop())
    _submit(partial(_call_timed, name, partial(copy_context().run, call)), waiting.deliver)
    if name not in _slow:
        if waiting.wait_ready(MOMENT):
            return waiting.made
        _slow.add(name)
    done = waiting.done = waiting.loop.create_future()
    if waiting.wait_ready(0):  # meanwhile, and may not have seen that someone waits
        return waiting.made
    return await done


def _call_timed(name: str, call: Call) -> Any:
    # the call alone: an event loop with a thousand runs is late for a quick one too
    began = perf_counter()
    try:
        return call()
    finally:
        if perf_counter() - began < MOMENT / 2:
            _slow.discard(name)


def _set(done: asyncio.Future[Made], made: Made) -> None:
    if not done.done():
        done.set_result(made)
