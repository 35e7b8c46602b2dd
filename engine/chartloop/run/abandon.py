"""Waiting for code that may never end: a run that is cancelled continues without it.

Cancellation is a request: a coroutine may catch it and carry on. So it runs in its own task,
which is cancelled once, has a moment to clean up, and is left behind when it does not end.

Source: design "language", section 6 (deadlines)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

import anyio

T = TypeVar("T")
MOMENT = 0.5
"""Seconds that cancelled code has to end in its own way."""


async def or_leave(made: Awaitable[T]) -> T:
    """The result of an awaitable, or its error; if cancelled, this ends at most a `MOMENT` later.

    Needs an event loop.
    """
    task = asyncio.ensure_future(_catch_error(made))
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
    return value  # pyright: ignore[reportReturnType]  without an error there is one


def _tell(done: asyncio.Future[None], _: asyncio.Task[object]) -> None:
    if not done.done():
        done.set_result(None)


async def _catch_error(made: Awaitable[T]) -> tuple[T | None, BaseException | None]:
    """The result of an awaitable, or the error that it raises.

    A task that raises Ctrl-C would end the whole event loop: the error is handed over instead.
    """
    try:
        return await made, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001  raised again by whoever waits
        return None, error
