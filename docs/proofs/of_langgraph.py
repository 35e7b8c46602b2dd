"""The three loops in LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from loops import LIMIT, Library, Model


class State(TypedDict):
    """What the nodes read and write."""

    steps: int
    reply: str


def build(loop: str, model: Model, *, limited: bool) -> Callable[[], object]:
    """A graph of two nodes, compiled."""

    def think(state: State) -> State:
        return {"steps": state["steps"] + 1, "reply": model.ask()}

    def act(state: State) -> State:
        return {**state, "steps": state["steps"] + 1}

    graph: Any = StateGraph(State)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    if loop == "exitless":
        graph.add_node("act", act)
        graph.add_edge("think", "act")
        graph.add_edge("act", "think")
    else:
        taken = (
            (lambda state: state["steps"] >= 0)
            if loop == "always"
            else (lambda state: "DONE" in state["reply"])
        )
        graph.add_conditional_edges("think", taken, {True: END, False: "think"})
    compiled = graph.compile()
    config = {"recursion_limit": LIMIT} if limited else None

    def run() -> None:
        compiled.invoke({"steps": 0, "reply": ""}, config)

    return run


LIBRARY = Library("LangGraph", "langgraph", "recursion_limit=20", build, most=12_000)
