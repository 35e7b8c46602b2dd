"""The three loops in pydantic-graph."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loops import Library, Model
from pydantic_graph import GraphBuilder, StepContext


@dataclass
class State:
    """What the steps read and write."""

    steps: int = 0


def build(loop: str, model: Model, *, limited: bool) -> Callable[[], object]:
    """A graph of two steps and a decision, built and validated. It has no limit of its own."""
    assert not limited
    graph: Any = GraphBuilder(state_type=State, output_type=str)

    @graph.step
    async def think(context: StepContext[State, None, None]) -> str:
        context.state.steps += 1
        return model.ask()

    @graph.step
    async def act(context: StepContext[State, None, str]) -> None:
        context.state.steps += 1

    graph.add(graph.edge_from(graph.start_node).to(think))
    if loop == "exitless":
        graph.add(graph.edge_from(think).to(act), graph.edge_from(act).to(think))
    else:
        taken: Callable[[str], bool] = (
            (lambda reply: len(reply) >= 0) if loop == "always" else (lambda reply: "DONE" in reply)
        )
        out = graph.match(str, matches=taken).to(graph.end_node)
        again = graph.match(str).to(act)
        graph.add(graph.edge_from(think).to(graph.decision().branch(out).branch(again)))
        graph.add(graph.edge_from(act).to(think))
    built = graph.build()

    def run() -> None:
        asyncio.run(built.run(state=State()))  # `run_sync` leaves a loop open

    return run


LIBRARY = Library("pydantic-graph", "pydantic-graph", "", build)
