"""The loop as a graph of LangGraph 1: two nodes, a conditional edge, plain dicts as messages.

On disk every checkpoint is written before the next step (`durability="sync"`), by its SQLite savers
with `synchronous=NORMAL`. With ``deltas`` as first argument the messages are in a `DeltaChannel`,
which stores what was added instead of the whole list.
"""

from __future__ import annotations

import os

os.environ |= {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false"}

import asyncio
import operator
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.channels import DeltaChannel
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from loop import PAUSE, USER, Library, Loop, main

NORMAL = "pragma synchronous=NORMAL"
MANY = 10**9


class Whole(TypedDict):
    messages: Annotated[list[Any], operator.add]
    turn: int
    tokens: int
    steps: int


def joined(messages: list[Any], writes: list[list[Any]]) -> list[Any]:
    return messages + [message for write in writes for message in write]


class Deltas(TypedDict):
    messages: Annotated[list[Any], DeltaChannel(joined)]
    turn: int
    tokens: int
    steps: int


def wrapped(message: Any) -> Any:
    """A message as this channel leaves it alone: it makes objects of plain ones."""
    return {"message": message}


def plain(message: Any) -> Any:
    return message


DELTAS = sys.argv[1:2] == ["deltas"]
SCHEMA = Deltas if DELTAS else Whole
PUT = wrapped if DELTAS else plain


def get(message: Any) -> Any:
    return message["message"] if DELTAS else message


def graph(loop: Loop, saver: Any = None, pause: float | None = None) -> Any:
    def think(state: Any) -> dict[str, Any]:
        turn = state["turn"] + 1
        said = loop.answer(turn)
        return {
            "messages": [PUT(said)],
            "turn": turn,
            "steps": state["steps"] + 1,
            "tokens": state["tokens"] + said["usage"]["total_tokens"],
        }

    async def think_slowly(state: Any) -> dict[str, Any]:
        await asyncio.sleep(pause or 0)
        return think(state)

    def use(state: Any) -> dict[str, Any]:
        calls = get(state["messages"][-1])["tool_calls"]
        return {"messages": [PUT(loop.use(call)) for call in calls], "steps": state["steps"] + 1}

    def route(state: Any) -> str:
        if loop.spent(state["steps"], state["tokens"]):
            return END
        return "use" if get(state["messages"][-1])["tool_calls"] else END

    made = StateGraph(SCHEMA)
    made.add_node("think", think if pause is None else think_slowly)
    made.add_node("use", use)
    made.add_edge(START, "think")
    made.add_conditional_edges("think", route, ["use", END])
    made.add_edge("use", "think")
    return made.compile(checkpointer=saver)


def start() -> dict[str, Any]:
    return {"messages": [PUT(USER)], "turn": 0, "tokens": 0, "steps": 0}


def thread(number: int) -> dict[str, Any]:
    return {"recursion_limit": MANY, "configurable": {"thread_id": str(number)}}


def memory(loop: Loop) -> Callable[[], object]:
    made = graph(loop)
    return lambda: made.invoke(start(), {"recursion_limit": MANY})


def disk(loop: Loop, folder: Path) -> Callable[[], object]:
    connection = sqlite3.connect(folder / "graph.db", check_same_thread=False)
    connection.execute(NORMAL)
    saver = SqliteSaver(connection)
    saver.setup()
    made = graph(loop, saver)

    def run() -> None:
        made.invoke(start(), thread(0), durability="sync")
        connection.close()

    return run


def agents(loop: Loop, count: int) -> Callable[[], Awaitable[Any]]:
    made = graph(loop, pause=PAUSE)
    return lambda: asyncio.gather(
        *(made.ainvoke(start(), {"recursion_limit": MANY}) for _ in range(count))
    )


def agents_on_disk(loop: Loop, count: int, folder: Path) -> Callable[[], Awaitable[Any]]:
    async def run() -> None:
        async with AsyncSqliteSaver.from_conn_string(str(folder / "graph.db")) as saver:
            await saver.conn.execute(NORMAL)
            made = graph(loop, saver, PAUSE)
            runs = (made.ainvoke(start(), thread(n), durability="sync") for n in range(count))
            await asyncio.gather(*runs)

    return run


if __name__ == "__main__":
    if DELTAS:
        del sys.argv[1]
    main(Library(memory, agents, disk, agents_on_disk))
