"""The loop as an application of Burr: function actions, guarded transitions, no tracker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from burr.core import ApplicationBuilder, Condition, State, action, default
from burr.core.persistence import SQLitePersister
from loop import PAUSE, USER, Library, Loop, main

FACTS = ["messages", "turn", "tokens", "steps", "wants_tool"]
START: dict[str, Any] = {
    "messages": [USER], "turn": 0, "tokens": 0, "steps": 0, "wants_tool": False,
}  # fmt: skip
ENDS = ["done", "stopped"]


def application(
    loop: Loop, *, persister: Any = None, run: int = 0, pause: float | None = None
) -> Any:
    def turn(state: State) -> State:
        number = state["turn"] + 1
        said = loop.answer(number)
        return state.append(messages=said).update(
            turn=number,
            steps=state["steps"] + 1,
            tokens=state["tokens"] + said["usage"]["total_tokens"],
            wants_tool=bool(said["tool_calls"]),
        )

    @action(reads=FACTS, writes=FACTS)
    def think(state: State) -> State:
        return turn(state)

    @action(reads=FACTS, writes=FACTS)
    async def think_slowly(state: State) -> State:
        await asyncio.sleep(pause or 0)
        return turn(state)

    @action(reads=["messages", "steps"], writes=["messages", "steps"])
    def use(state: State) -> State:
        for call in state["messages"][-1]["tool_calls"]:
            state = state.append(messages=loop.use(call))
        return state.update(steps=state["steps"] + 1)

    @action(reads=[], writes=[])
    def end(state: State) -> State:
        return state

    spent = Condition.lmda(lambda s: loop.spent(s["steps"], s["tokens"]), ["steps", "tokens"])
    builder = (
        ApplicationBuilder()
        .with_actions(
            think=think if pause is None else think_slowly, use=use, done=end, stopped=end
        )
        .with_transitions(
            ("think", "stopped", spent),
            ("think", "use", Condition.when(wants_tool=True)),
            ("think", "done", default),
            ("use", "think", default),
        )
    )
    if persister is None:
        return builder.with_state(**START).with_entrypoint("think").build()
    return (
        builder.initialize_from(
            persister,
            resume_at_next_action=True,
            default_state=START,
            default_entrypoint="think",
        )
        .with_state_persister(persister)
        .with_identifiers(app_id=str(run), partition_key="loop")
        .build()
    )


def store(folder: Path) -> Any:
    persister = SQLitePersister.from_values(db_path=str(folder / "burr.db"))
    persister.connection.execute("pragma journal_mode=WAL")
    persister.connection.execute("pragma synchronous=NORMAL")
    persister.initialize()
    return persister


def memory(loop: Loop) -> Callable[[], object]:
    made = application(loop)
    return lambda: made.run(halt_after=ENDS)


def disk(loop: Loop, folder: Path) -> Callable[[], object]:
    made = application(loop, persister=store(folder))
    return lambda: made.run(halt_after=ENDS)


def agents(loop: Loop, count: int, folder: Path | None = None) -> Callable[[], Awaitable[Any]]:
    persister = None if folder is None else store(folder)

    async def one(number: int) -> None:
        made = application(loop, persister=persister, run=number, pause=PAUSE)
        await made.arun(halt_after=ENDS)

    return lambda: asyncio.gather(*(one(n) for n in range(count)))


if __name__ == "__main__":
    main(Library(memory, agents, disk, agents))
