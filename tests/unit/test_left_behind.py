"""What ignores that it was cancelled is left behind at its deadline: tools, models, actions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from chartloop import action, load, tool
from chartloop.run.context import Context
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.run.result import Result

ENOUGH = threading.Event()
"""Set when the test has seen enough: what was left behind ends."""


@pytest.fixture(autouse=True)
def over() -> Any:
    ENOUGH.clear()
    yield
    ENOUGH.set()


async def stubborn() -> None:
    while not ENOUGH.is_set():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            continue


@tool
async def deaf() -> str:
    """Never listens."""
    await stubborn()
    return "late"


@tool
async def tidy() -> str:
    """Cleans up when it is cancelled."""
    try:
        await asyncio.sleep(30)
    finally:
        await asyncio.sleep(0.01)
        CLEANED.append("tidy")
    return "late"


CLEANED: list[str] = []


@action(effect="paid")
async def brood(ctx: Context) -> str:
    """Never listens, and writes into the log of a run that has gone on."""
    await stubborn()
    await ctx.intent("late", {"state": "x"})
    return "late"


class Deaf:
    suspends = True

    def prepare(self, settings: Mapping[str, Any]) -> None: ...

    def context_window(self, settings: Mapping[str, Any]) -> int | None: ...

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        await stubborn()
        return ModelReply("late")


MACHINE = """
chartloop: 1
machine: m
model: {{name: scripted}}
tools: [deaf, tidy]
states:
  a: {{do: {do}, within: 200ms, next: z, failed: z}}
  z: {{stop: completed}}
"""


def played(do: str) -> tuple[Result, Any]:
    machine = load(MACHINE.format(do=do), tools=[deaf, tidy], actions=[brood])
    run = machine.start("x", model=Deaf())
    done: list[Result] = []
    thread = threading.Thread(target=lambda: done.append(run.run()), daemon=True)
    thread.start()
    thread.join(60)
    assert done, "the run hangs in what does not listen"
    return done[0], run


@pytest.mark.parametrize(
    "do", ["tool, with: {name: deaf}", "infer", "brood"], ids=["tool", "model", "action"]
)
def test_what_does_not_listen_is_left_behind(do: str) -> None:
    result, run = played(do)
    (error,) = result.errors
    assert "took too long: stopped after 200 ms" in error["message"]
    before = [record.to_json() for record in run.records]
    ENOUGH.set()
    assert [record.to_json() for record in run.records] == before
    assert run.replay().same


def test_what_listens_may_clean_up() -> None:
    result, _ = played("tool, with: {name: tidy}")
    assert CLEANED == ["tidy"]
    assert "took too long" in result.errors[0]["message"]
