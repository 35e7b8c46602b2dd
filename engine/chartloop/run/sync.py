"""Sync methods: the same coroutines, driven by hand or on one private event loop thread.

By hand (0.3 us) if nothing can suspend; otherwise one hop to the loop thread per call, which keeps
every HTTP client on one loop and works inside a notebook's running loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from anyio import to_thread

from chartloop.core.errors import RunError

T = TypeVar("T")


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread; None where a coroutine is driven by hand."""
    return asyncio._get_running_loop()


class _LoopThread(threading.Thread):
    """A thread that runs an event loop for as long as the process lives."""

    def __init__(self) -> None:
        super().__init__(name="chartloop", daemon=True)
        self.loop = asyncio.new_event_loop()

    def run(self) -> None:
        while True:
            # Such an exception is already the result of its task. If it ended the loop as well,
            # everyone who waits for another task on it would wait for ever.
            with suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()


_lock = threading.Lock()
_threads: list[_LoopThread] = []
"""The last one is in use; earlier ones are left over from before a fork of the process."""


def by_hand(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends. `RunError` if it does."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise suspended_error()


def suspended_error() -> RunError:
    """The error for a coroutine that is driven by hand and suspends."""
    return RunError(
        "a component that said it would not suspend did",
        hint="its `suspends` must be true when it awaits anything that waits",
    )


def loop_thread() -> asyncio.AbstractEventLoop:
    """The private event loop, started at first use."""
    with _lock:
        if not _threads or not _threads[-1].is_alive():
            _threads.append(_LoopThread())
            _threads[-1].start()
        return _threads[-1].loop


async def off_loop(work: Callable[[], T]) -> T:
    """Call `work` in another thread, so that the event loop stays free.

    If cancelled, does not wait for the call: only for work that changes nothing.
    """
    return await to_thread.run_sync(work, abandon_on_cancel=True)


def on_loop_thread() -> bool:
    """Whether this is a thread that runs a private event loop."""
    return isinstance(threading.current_thread(), _LoopThread)


def wait(coroutine: Coroutine[Any, Any, T], *, suspends: bool) -> T:
    """Run a coroutine to its result: by hand unless it `suspends`, else on the loop thread."""
    if not suspends:
        return by_hand(coroutine)
    loop = loop_thread()
    if on_loop_thread():
        coroutine.close()
        raise RunError(
            "the sync method was called inside an action or tool, on the thread that drives it",
            hint="await the method of the same name with an `a` before it",
        )
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
