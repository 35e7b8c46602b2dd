"""The loop thread: it outlives whatever is raised on it."""

from __future__ import annotations

import asyncio

import pytest

from chartloop.run.sync import loop_thread, wait


async def leave(error: type[BaseException]) -> None:
    await asyncio.sleep(0)
    raise error


async def five() -> int:
    await asyncio.sleep(0.05)
    return 5


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_would_end_the_thread_is_the_result_of_its_task(error: type[BaseException]) -> None:
    """Who waits would wait for ever."""
    other = asyncio.run_coroutine_threadsafe(five(), loop_thread())
    future = asyncio.run_coroutine_threadsafe(leave(error), loop_thread())
    with pytest.raises(error):
        future.result(20)
    assert other.result(20) == 5
    assert wait(five(), suspends=True) == 5
