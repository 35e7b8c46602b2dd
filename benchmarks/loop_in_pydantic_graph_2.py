"""The loop as a graph of pydantic-graph 2, which has no persistence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from loop import PAUSE, USER, Library, Loop, Message, main
from pydantic_graph import BaseNode, End, GraphBuilder, GraphRunContext


@dataclass
class Facts:
    loop: Loop
    pause: float | None = None
    messages: list[Message] = field(default_factory=lambda: [USER])
    turn: int = 0
    tokens: int = 0
    steps: int = 0


@dataclass
class Think(BaseNode[Facts, None, str]):
    async def run(self, ctx: GraphRunContext[Facts, None]) -> Use | End[str]:
        facts = ctx.state
        if facts.loop.spent(facts.steps, facts.tokens):
            return End("stopped")
        if facts.pause is not None:
            await asyncio.sleep(facts.pause)
        facts.turn, facts.steps = facts.turn + 1, facts.steps + 1
        said = facts.loop.answer(facts.turn)
        facts.messages.append(said)
        facts.tokens += said["usage"]["total_tokens"]
        return Use(said["tool_calls"]) if said["tool_calls"] else End("answered")


@dataclass
class Use(BaseNode[Facts, None, str]):
    calls: list[Message]

    async def run(self, ctx: GraphRunContext[Facts, None]) -> Think:
        for call in self.calls:
            ctx.state.steps += 1
            ctx.state.messages.append(ctx.state.loop.use(call))
        return Think()


def graph() -> Any:
    made = GraphBuilder(state_type=Facts, input_type=Think, output_type=str)
    made.add(made.node(Think), made.node(Use), made.edge_from(made.start_node).to(Think))
    return made.build()


GRAPH = graph()


def memory(loop: Loop) -> Callable[[], object]:
    return lambda: asyncio.run(GRAPH.run(state=Facts(loop), inputs=Think()))


def agents(loop: Loop, count: int) -> Callable[[], Awaitable[Any]]:
    return lambda: asyncio.gather(
        *(GRAPH.run(state=Facts(loop, PAUSE), inputs=Think()) for _ in range(count))
    )


if __name__ == "__main__":
    main(Library(memory, agents))
