"""The same workloads for LangGraph, run by its own interpreter. Prints figures as JSON."""

from __future__ import annotations

import asyncio
import json
import operator
import sys
import time
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph


class Facts(TypedDict):
    steps: int
    tokens: int
    messages: Annotated[list[Any], operator.add]


def limits(last: int) -> Any:
    def route(facts: Facts) -> str:
        stop = facts["steps"] >= last or facts["tokens"] >= 10**9
        return END if stop else "think"

    return route


def step(count: int = 2_000) -> dict[str, float]:
    def think(facts: Facts) -> dict[str, Any]:
        return {"steps": facts["steps"] + 1}

    graph = StateGraph(Facts)
    graph.add_node("think", think)
    graph.add_node("act", think)
    graph.add_edge(START, "think")
    graph.add_edge("think", "act")
    graph.add_conditional_edges("act", limits(count))
    app = graph.compile()
    before = time.process_time()
    app.invoke({"steps": 0, "tokens": 0, "messages": []}, {"recursion_limit": count + 10})
    return {"step": (time.process_time() - before) / count * 1e6}


def agents(count: int = 1_000, turns: int = 10, *, durable: bool = False) -> dict[str, float]:
    async def think(facts: Facts) -> dict[str, Any]:
        await asyncio.sleep(0.05)
        said = {"role": "assistant", "content": "x" * 200}
        return {"steps": facts["steps"] + 1, "tokens": facts["tokens"] + 150, "messages": [said]}

    graph = StateGraph(Facts)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", limits(turns))
    app = graph.compile(checkpointer=InMemorySaver() if durable else None)

    async def all_of_them() -> None:
        start = {"steps": 0, "tokens": 0, "messages": []}
        await asyncio.gather(
            *(app.ainvoke(start, {"configurable": {"thread_id": str(n)}}) for n in range(count))
        )

    before = time.perf_counter()
    asyncio.run(all_of_them())
    return {"checkpointed in memory" if durable else "memory": time.perf_counter() - before}


WORKLOADS = {
    "step": step,
    "agents in memory": agents,
    "agents durable": lambda: agents(durable=True),
}

if __name__ == "__main__":
    print(json.dumps(WORKLOADS[sys.argv[1]]()))
