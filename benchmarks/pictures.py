"""Draws the agent loop with chartloop and with four other libraries, to be looked at side by side.

    python -m venv peers && peers/bin/pip install -e . "pygraphviz>=2" \\
        transitions==0.9.3 graphviz "python-statemachine[diagrams]==3.2.2" \\
        langgraph==1.2.22 "burr[graphviz]==0.42.0"
    peers/bin/python benchmarks/pictures.py pictures/

The loop is that of `machines/agent.yaml`: a message, the model, then memory, tools or the end;
three retries, five limits, and a detour that prunes the conversation. Each library is used as its
documentation does, with the options that show most, and driven one step where a picture can show a
live state. It says how many ways the loop has there and how many arrows are drawn: those into
clusters and from the point of the start are not counted. Needs Graphviz. What can be seen on the
pictures stands in docs/pictures.md. No part of the test suite.
"""

# Each library is imported where it draws; routes and guards are asked nothing here.
# ruff: noqa: PLC0415, ARG001, ARG005

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

LIMITS = ("steps", "tokens", "time", "stalled", "errors")
ACTING = ("user_message", "llm_inference", "tool_call", "memory_update")


class Drawn(NamedTuple):
    """What became of the ways of the loop."""

    ways: int
    arrows: int


class Counts(TypedDict):
    """The state of the loop in LangGraph."""

    steps: int


def draw_chartloop(folder: Path) -> Drawn:
    from chartloop import load

    picture = load("agent").draw()
    picture.save(folder / "chartloop.png")
    said = [line for line in picture.chart.rules if line.to.startswith("end-")]
    return Drawn(len(picture.chart.arrows) + len(said), len(picture.chart.arrows))


def draw_transitions(folder: Path) -> Drawn:
    from transitions.extensions import GraphMachine

    class Agent:
        pass

    for name in ("wants_memory", "has_tool_calls", "may_retry", "context_is_full"):
        setattr(Agent, name, lambda self: False)
    for name in LIMITS:
        setattr(Agent, f"{name}_spent", lambda self: False)
    states = [*ACTING, "prune", {"name": "done", "final": True}, {"name": "stopped", "final": True}]
    agent = Agent()
    made = GraphMachine(
        agent, states=states, initial="user_message", auto_transitions=False, show_conditions=True,
        show_state_attributes=True, title="Step-based agent", graph_engine="graphviz",
    )  # fmt: skip
    for name in LIMITS:
        made.add_transition("check", list(ACTING), "stopped", conditions=f"{name}_spent")
    made.add_transition("advance", ["user_message", "tool_call", "memory_update"], "prune",
                        conditions="context_is_full")  # fmt: skip
    made.add_transition("advance", ["user_message", "tool_call", "memory_update"], "llm_inference")
    made.add_transition("advance", "llm_inference", "=", conditions="may_retry")
    made.add_transition("advance", "llm_inference", "memory_update", conditions="wants_memory")
    made.add_transition("advance", "llm_inference", "tool_call", conditions="has_tool_calls")
    made.add_transition("advance", "llm_inference", "done")
    made.add_transition("advance", "prune", "llm_inference")
    driven: Any = agent
    driven.advance()
    drawn = driven.get_graph()
    drawn.draw(str(folder / "transitions.png"), prog="dot")
    ways = sum(len(found) for e in made.events.values() for found in e.transitions.values())
    return Drawn(ways, drawn.source.count("->"))


def draw_statemachine(folder: Path) -> Drawn:
    from statemachine import State, StateChart
    from statemachine.contrib.diagram import DotGraphMachine

    class AgentLoop(StateChart):
        class working(State.Compound):  # noqa: N801 - a state
            user_message = State(initial=True)
            llm_inference = State()
            tool_call = State()
            memory_update = State()
            prune = State()

            advance = (
                user_message.to(prune, cond="context_is_full")
                | tool_call.to(prune, cond="context_is_full")
                | memory_update.to(prune, cond="context_is_full")
                | user_message.to(llm_inference)
                | tool_call.to(llm_inference)
                | memory_update.to(llm_inference)
                | llm_inference.to.itself(cond="may_retry")
                | llm_inference.to(memory_update, cond="wants_memory")
                | llm_inference.to(tool_call, cond="has_tool_calls")
                | prune.to(llm_inference)
            )

        done = State(final=True)
        stopped = State(final=True)

        answer = working.to(done)
        check = (
            working.to(stopped, cond="steps >= max_steps")
            | working.to(stopped, cond="tokens >= max_tokens")
            | working.to(stopped, cond="time >= max_time")
            | working.to(stopped, cond="stalled >= max_stalled")
            | working.to(stopped, cond="errors >= max_errors")
        )

        context_is_full = may_retry = wants_memory = has_tool_calls = False
        steps = tokens = time = stalled = errors = 0
        max_steps = max_tokens = max_time = max_stalled = max_errors = 1

    agent = AgentLoop()
    agent.send("advance")
    drawn = DotGraphMachine(agent)()
    drawn.write_png(str(folder / "python-statemachine.png"))
    starts = 2  # the points in front of the first state, and of the first in the cluster
    return Drawn(16, drawn.to_string().count("->") - starts)


def draw_langgraph(folder: Path) -> Drawn:
    from langgraph.graph import END, START, StateGraph

    def work(state: Counts) -> Counts:
        return state

    def route(state: Counts) -> str:
        return "no tool calls"

    def before_model(state: Counts) -> str:
        return "go on"

    made = StateGraph(Counts)
    for name in ("llm_inference", "tool_call", "memory_update", "prune"):
        made.add_node(name, work)
    limits = {f"{name} limit": END for name in LIMITS}
    for name in (START, "tool_call", "memory_update"):
        ways = {**limits, "context full": "prune", "go on": "llm_inference"}
        made.add_conditional_edges(name, before_model, ways)
    ways = {
        **limits,
        "memory tool": "memory_update",
        "tool calls": "tool_call",
        "no tool calls": END,
    }
    made.add_conditional_edges("llm_inference", route, ways)
    made.add_edge("prune", "llm_inference")
    drawn = made.compile().get_graph()
    drawn.draw_png(str(folder / "langgraph.png"))
    (folder / "langgraph.mmd").write_text(drawn.draw_mermaid())
    return Drawn(3 * 7 + 8 + 1, len(drawn.edges))


def draw_burr(folder: Path) -> Drawn:
    from burr.core import ApplicationBuilder, State, action, default, expr, when

    def acting(name: str) -> Any:
        @action(reads=[], writes=["steps"])
        def work(state: State) -> State:
            return state.update(steps=state.get("steps", 0) + 1)

        work.__name__ = name
        return work

    names = (*ACTING, "prune", "done", "stopped")
    ways: list[tuple[Any, ...]] = []
    for name in ("user_message", "tool_call", "memory_update", "llm_inference"):
        ways += [(name, "stopped", expr(f"{limit} >= max_{limit}")) for limit in LIMITS]
    for name in ("user_message", "tool_call", "memory_update"):
        ways += [(name, "prune", expr("context >= 0.95")), (name, "llm_inference", default)]
    ways += [
        ("llm_inference", "llm_inference", when(failed=True)),
        ("llm_inference", "memory_update", when(wants_memory=True)),
        ("llm_inference", "tool_call", expr("len(tool_calls) > 0")),
        ("llm_inference", "done", default),
        ("prune", "llm_inference", default),
    ]
    made = (
        ApplicationBuilder()
        .with_actions(**{name: acting(name) for name in names})
        .with_transitions(*ways)
        .with_state(steps=0)
        .with_entrypoint("user_message")
        .build()
    )
    made.visualize(str(folder / "burr"), include_conditions=True, include_state=True, format="png")
    return Drawn(len(ways), len(made.graph.transitions))


DRAWN: dict[str, Callable[[Path], Drawn]] = {
    "chartloop": draw_chartloop,
    "transitions": draw_transitions,
    "python-statemachine": draw_statemachine,
    "langgraph": draw_langgraph,
    "burr": draw_burr,
}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "pictures")
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in DRAWN.items():
        drawn = draw(folder)
        print(
            f"{name} {version(name)}: {drawn.ways} ways, {drawn.arrows} arrows: {folder / name}.png"
        )


if __name__ == "__main__":
    main()
