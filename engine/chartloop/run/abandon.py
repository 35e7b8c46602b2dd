"""Awaiting code that may never end: a run whose deadline passes continues without it.

Cancellation is a request: a coroutine may catch it and carry on. So it runs in its own task, which
is cancelled once, gets a moment to clean up, and is abandoned if it does not end.

Source: docs/language.md, "When an action fails"
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

import anyio

T = TypeVar("T")
MOMENT = 0.5
"""Seconds that cancelled code has to clean up."""


async def or_leave(work: Awaitable[T]) -> T:
    """Await; if cancelled, end at most a `MOMENT` later, whether the awaitable ends or not.

    Needs an event loop.
    """
    task = asyncio.ensure_future(_catch_error(work))
    done = task.get_loop().create_future()
    task.add_done_callback(partial(_tell, done))
    try:
        await done
    except asyncio.CancelledError:
        if not task.done():
            task.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=MOMENT)
        raise
    value, error = task.result()
    if error is not None:
        raise error
    return value  # pyright: ignore[reportReturnType]  without an error there is a value


def _tell(done: asyncio.Future[None], _: asyncio.Task[object]) -> None:
    if not done.done():
        done.set_result(None)


async def _catch_error(work: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """The result of an awaitable, or the error that it raises.

    A task that raises `KeyboardInterrupt` would end the whole event loop, so the error is returned.
    """
    try:
        return await work, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  `or_leave` raises it again
        return None, error
