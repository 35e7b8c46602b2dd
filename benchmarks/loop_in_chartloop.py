"""The loop as a machine of chartloop.

With ``inline`` as first argument the tool says that it does not block, and is called on the thread
that drives the run, as the other libraries call theirs. Without it the tool has a thread, so that
one that hangs is left behind at its deadline.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from loop import PAUSE, TOKENS, USER, Library, Loop, main

from chartloop import load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine
from chartloop.core.facts import ToolCall
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.ports import ModelReply, ModelRequest
from chartloop.run.sync import by_hand

MACHINE = """\
chartloop: 1
machine: loop
tools: [add]
model: {name: openai/none}
limits: {steps: 1_000_000, tokens: 100_000_000, time: 1h}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  question: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]}
  use: {do: call_tools, next: think}
  done: {stop: completed}
"""


INLINE = sys.argv[1:2] == ["inline"]


class Stub:
    """The model of one run: it answers at once, or after a pause."""

    def __init__(self, loop: Loop, pause: float | None = None) -> None:
        self.suspends = pause is not None
        self._loop, self._pause, self._turn = loop, pause, 0

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing is missing."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Not known."""
        return None

    async def complete(self, request: ModelRequest, on_text: Any = None) -> ModelReply:
        """The next turn."""
        if self._pause is not None:
            await asyncio.sleep(self._pause)
        self._turn += 1
        said = self._loop.answer(self._turn)
        calls = tuple(  # a provider sends arguments as text
            ToolCall(call["id"], call["name"], f'{{"a": {self._turn}, "b": 1}}')
            for call in said["tool_calls"]
        )
        half = TOKENS // 2
        return ModelReply(
            said["content"], tool_calls=calls, prompt_tokens=half, completion_tokens=half
        )


def machine(loop: Loop) -> Machine:
    @tool(blocking=not INLINE)
    def add(a: int, b: int) -> str:
        """Add two numbers.

        Args:
            a: The first number.
            b: The second number.
        """
        return loop.add(a, b)

    return load(MACHINE, tools=[add])


def single(loop: Loop, journal: Journal | None) -> Callable[[], object]:
    made = machine(loop)

    def run() -> None:
        result = made.run(USER["content"], model=Stub(loop), journal=journal)
        assert result.reason == "completed", result
        if journal is not None:
            by_hand(journal.close())

    return run


def memory(loop: Loop) -> Callable[[], object]:
    return single(loop, None)


def disk(loop: Loop, folder: Path) -> Callable[[], object]:
    return single(loop, SqliteJournal(folder / "journal.db"))


def agents(loop: Loop, count: int, folder: Path | None = None) -> Callable[[], Awaitable[Any]]:
    made = machine(loop)
    journal = MemoryJournal() if folder is None else SqliteJournal(folder / "journal.db")

    async def run() -> None:
        runs = (
            made.arun(USER["content"], model=Stub(loop, PAUSE), journal=journal)
            for _ in range(count)
        )
        ends = await asyncio.gather(*runs)
        assert all(result.reason == "completed" for result in ends), ends[0]
        await journal.close()

    return run


if __name__ == "__main__":
    if INLINE:
        del sys.argv[1]
    main(Library(memory, agents, disk, agents))
