"""The loop as a graph of pydantic-graph 1, with its `FileStatePersistence` on disk."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loop import PAUSE, USER, Library, Loop, Message, main
from pydantic_graph import BaseNode, End, Graph, GraphRunContext
from pydantic_graph.persistence.file import FileStatePersistence

warnings.simplefilter("ignore")


@dataclass
class Facts:
    """What is persisted."""

    messages: list[Message] = field(default_factory=lambda: [USER])
    turn: int = 0
    tokens: int = 0
    steps: int = 0


@dataclass
class Work:
    """What is not."""

    loop: Loop
    pause: float | None = None


@dataclass
class Think(BaseNode[Facts, Work, str]):
    async def run(self, ctx: GraphRunContext[Facts, Work]) -> Use | End[str]:
        facts, work = ctx.state, ctx.deps
        if work.loop.spent(facts.steps, facts.tokens):
            return End("stopped")
        if work.pause is not None:
            await asyncio.sleep(work.pause)
        facts.turn, facts.steps = facts.turn + 1, facts.steps + 1
        said = work.loop.answer(facts.turn)
        facts.messages.append(said)
        facts.tokens += said["usage"]["total_tokens"]
        return Use(said["tool_calls"]) if said["tool_calls"] else End("answered")


@dataclass
class Use(BaseNode[Facts, Work, str]):
    calls: list[Message]

    async def run(self, ctx: GraphRunContext[Facts, Work]) -> Think:
        for call in self.calls:
            ctx.state.steps += 1
            ctx.state.messages.append(ctx.deps.loop.use(call))
        return Think()


GRAPH = Graph(nodes=[Think, Use])


def memory(loop: Loop) -> Callable[[], object]:
    return lambda: asyncio.run(GRAPH.run(Think(), state=Facts(), deps=Work(loop)))


def disk(loop: Loop, folder: Path) -> Callable[[], object]:
    kept: Any = FileStatePersistence(folder / "run.json")
    return lambda: asyncio.run(GRAPH.run(Think(), state=Facts(), deps=Work(loop), persistence=kept))


def agents(loop: Loop, count: int) -> Callable[[], Awaitable[Any]]:
    work = Work(loop, PAUSE)
    return lambda: asyncio.gather(
        *(GRAPH.run(Think(), state=Facts(), deps=work) for _ in range(count))
    )


def agents_on_disk(loop: Loop, count: int, folder: Path) -> Callable[[], Awaitable[Any]]:
    work = Work(loop, PAUSE)

    async def one(number: int) -> None:
        kept: Any = FileStatePersistence(folder / f"{number}.json")
        await GRAPH.run(Think(), state=Facts(), deps=work, persistence=kept)

    return lambda: asyncio.gather(*(one(n) for n in range(count)))


if __name__ == "__main__":
    main(Library(memory, agents, disk, agents_on_disk))
