"""The sync face: the same coroutines, driven by hand or on one private loop thread.

By hand (0.3 µs) where nothing can suspend; otherwise one hop to a loop thread per call, which
keeps every HTTP client on one loop and works inside a notebook's running loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def by_hand(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends. One that does is closed, with an error."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    raise RuntimeError("a component that said it would not suspend did")


def loop_thread() -> asyncio.AbstractEventLoop:
    """The private event loop, started at first use."""
    global _loop
    with _lock:
        if _loop is None or _loop.is_closed():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="interlock", daemon=True).start()
            _loop = loop
        return _loop


def wait(coroutine: Coroutine[Any, Any, T], *, suspends: bool) -> T:
    """The coroutine's result. `suspends` false: by hand."""
    if not suspends:
        return by_hand(coroutine)
    loop = loop_thread()
    if threading.current_thread().name == "interlock":
        coroutine.close()
        raise RuntimeError("the sync face was called inside an action: use the async one there")
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
