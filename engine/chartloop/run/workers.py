"""Worker threads for code that blocks.

A call takes the thread that became idle last, or a new one if all are busy. A call that hangs keeps
its thread, while the run continues without it; threads are daemons, so they do not keep the process
alive. An idle thread ends after a while.

A run in which nothing else suspends is itself driven on such a thread, which makes the calls in
place (`Ticket`).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from math import inf
from queue import Empty, SimpleQueue
from time import monotonic, perf_counter
from typing import Any, TypeVar

from chartloop.run.sync import running_loop, suspended_error, wait

T = TypeVar("T")

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
            waiting.made = _make(waiting.context, waiting.call)
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


def _make(context: Context, call: Call) -> Made:
    try:
        return context.run(call), None
    except BaseException as error:  # noqa: BLE001  the caller gets every exception
        return None, error


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


def _begin(name: str, call: Call) -> _Waiting:
    waiting = _Waiting(name, call)
    try:
        worker = _idle.pop()
    except IndexError:
        worker = _Worker()
        worker.start()
    worker.calls.put(waiting)
    return waiting


async def in_thread(name: str, call: Call, left: Callable[[], float]) -> Made:
    """Call in another thread, in this context. If cancelled, the call is abandoned.

    On the thread of a `Ticket`, in place: `TimeoutError` once `left` gives no more seconds.
    """
    if (loop := running_loop()) is None:
        return await _Request(call, left)
    waiting = _begin(name, call)
    if name not in _slow:
        if waiting.ready.acquire(timeout=MOMENT):
            return waiting.made
        _slow.add(name)
    waiting.loop = loop
    done = waiting.done = loop.create_future()
    if waiting.ready.acquire(blocking=False):  # it may have finished before it saw the future
        return waiting.made
    return await done


def _set(done: asyncio.Future[Made], made: Made) -> None:
    if not done.done():
        done.set_result(made)


# whole runs ---------------------------------------------------------------------------------


async def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Await on the loop thread what needs an event loop, from the thread of a `Ticket`."""
    tasks: list[asyncio.Task[T]] = []

    async def begin() -> T:
        tasks.append(asyncio.ensure_future(work))
        return await tasks[0]

    async def end(task: asyncio.Task[T]) -> None:
        task.cancel()
        await asyncio.wait({task}, timeout=PATIENCE)

    value, error = await _Request(
        lambda: wait(begin(), suspends=True), lambda: inf,
        lambda: wait(end(tasks[0]), suspends=True) if tasks else work.close(),
    )  # fmt: skip
    if error is not None:
        raise error
    return value


class _Request:
    """What a coroutine yields to the thread that drives it: a call, made while it is suspended."""

    __slots__ = ("call", "context", "end", "left")

    def __init__(
        self, call: Call, left: Callable[[], float], end: Callable[[], None] = lambda: None
    ) -> None:
        self.call, self.left, self.end, self.context = call, left, end, copy_context()

    def __await__(self) -> Generator[_Request, Made, Made]:
        return (yield self)


class _Interrupted(BaseException):
    """The caller of a run was interrupted, e.g. by Ctrl-C, so the run comes to rest."""


class Ticket:
    """The right to go on with a coroutine that is driven by hand, its calls made in place.

    A worker puts it down with each call, and the coroutine is suspended meanwhile. It is taken up
    once: by that worker with the result, or by another one at the deadline, or when the caller is
    interrupted. Then nothing takes the result of the worker that was left behind.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine, self._context = coroutine, copy_context()
        self._down: list[_Request] = []
        """The request with which it was put down. Each operation on the list is atomic."""
        self._news: SimpleQueue[Made | None] = SimpleQueue()
        """The result of the coroutine; None: a deadline comes before the caller's next look."""
        self._looks = inf
        """When the caller looks next, by `monotonic`."""
        self._interrupted = False

    def _take(self, request: _Request) -> bool:
        try:
            self._down.remove(request)
        except ValueError:
            return False
        return True

    def leave(self, request: _Request, error: BaseException) -> None:
        """Go on with an error in place of the result, unless the call was just made."""
        if self._take(request):
            request.end()
            self.go_on(partial(self._coroutine.throw, error))

    def go_on(self, resume: Callable[[], Any]) -> None:
        """Drive the coroutine until it ends, or until the ticket is taken by another."""
        while True:
            try:
                request = self._context.run(resume)
            except StopIteration as end:
                return self._news.put((end.value, None))
            except BaseException as error:  # noqa: BLE001  the caller gets every exception
                return self._news.put((None, error))
            if not isinstance(request, _Request):
                resume = partial(self._coroutine.throw, suspended_error())
                continue
            self._down.append(request)
            if self._interrupted:
                return self.leave(request, _Interrupted())
            if monotonic() + request.left() < self._looks:
                self._news.put(None)
            made = _make(request.context, request.call)
            if not self._take(request):
                return None
            resume = partial(self._coroutine.send, made)

    def wait(self) -> Made:
        """Wait for the result of the coroutine, and keep the deadlines of its calls."""
        while True:
            self._looks = inf  # a call that begins now says so
            request = next(iter(self._down), None)
            left = LOOK if request is None else min(request.left(), LOOK)
            if request is not None and left <= 0:
                _begin("", partial(self.leave, request, TimeoutError()))
                left = LOOK
            self._looks = monotonic() + left
            with suppress(Empty):
                if (made := self._news.get(timeout=left)) is not None:
                    return made

    def interrupt(self) -> None:
        """Bring the coroutine to its end: now if it is in a call, else at its next one."""
        self._interrupted = True
        if (request := next(iter(self._down), None)) is not None:
            _begin("", partial(self.leave, request, _Interrupted()))
        with suppress(Empty):
            while self._news.get(timeout=PATIENCE) is None:
                pass


LOOK = 0.5
"""Seconds between two looks of the caller: only a nearer deadline has to wake it. A signal that
arrives just before it waits would else be seen at the end of the run."""
PATIENCE = 0.5
"""Seconds that an interrupted caller waits for its run to come to rest."""


def on_worker(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that suspends for `in_thread` and `on_loop` alone, on a worker."""
    ticket = Ticket(coroutine)
    try:
        _begin("", partial(ticket.go_on, partial(coroutine.send, None)))
        value, error = ticket.wait()
    except BaseException:
        ticket.interrupt()
        raise
    if error is not None:
        raise error
    return value
