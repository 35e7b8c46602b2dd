"""Threads that stay: where code is called that blocks.

A call takes the idle thread that worked last, or a new one where all are busy. One that hangs keeps
its thread to itself, and whoever waited for it has gone on; the thread is a daemon, so that it does
not hold up the end of the process. A thread without work ends after a while.
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
from typing import Any

Made = tuple[Any, BaseException | None]
"""What a call gave, or what it raised."""
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
    """Whether it may end: nobody has chosen it meanwhile."""
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


async def in_thread(call: Call) -> Made:
    """What a call in another thread gave or raised, in this context. Given up when cancelled."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Made] = loop.create_future()

    def deliver(made: Made) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            loop.call_soon_threadsafe(_set, done, made)

    _submit(partial(copy_context().run, call), deliver)
    return await done


def _set(done: asyncio.Future[Made], made: Made) -> None:
    if not done.done():
        done.set_result(made)
