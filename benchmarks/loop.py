"""The loop that everybody runs, once for all libraries: model, tool, model, ... until an answer.

A user message, then `turns` turns of the model with a tool call between two of them:
`2 * turns - 1` steps. Each step adds a message of about 200 bytes to the conversation that the
next turn is given, and three limits are looked at each turn. The model is a function that answers
at once, the tool adds two numbers: what is left is the library.

Belongs here: the work, and how one cell of the table is timed. Each `loop_in_*.py` does this work
in the idiom of one library and is run by that library's own interpreter, so this file imports
nothing but the standard library.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

Message = dict[str, Any]
Figures = dict[str, float]

TEXT = "The quick brown fox jumps over the lazy dog while the agent counts its steps and tokens. "
TOKENS = 10
"""Tokens of one model call."""
USER: Message = {"role": "user", "content": TEXT + TEXT[:60]}
PAUSE = 0.05
"""Seconds that a model of one of many agents takes."""


class Loop:
    """One piece of work: what the model and the tool say, and what was asked of them."""

    def __init__(self, turns: int) -> None:
        self.turns = turns
        self.max_steps = 10 * turns + 100
        self.max_tokens = 100 * TOKENS * turns
        self.deadline = time.monotonic() + 3600
        self.model_calls = self.tool_calls = 0

    def answer(self, turn: int) -> Message:
        """What the model says in that turn, the first being 1."""
        self.model_calls += 1
        calls: list[Message] = []
        if turn < self.turns:
            calls = [{"id": f"call_{turn:05}", "name": "add", "args": {"a": turn, "b": 1}}]
        text = TEXT[:60] if calls else TEXT + TEXT[:60]
        usage = {"total_tokens": TOKENS}
        return {"role": "assistant", "content": text, "tool_calls": calls, "usage": usage}

    def add(self, a: int, b: int) -> str:
        """The tool: the sum, in a text."""
        self.tool_calls += 1
        return f"{TEXT}{TEXT[:20]}{a + b}"

    def use(self, call: Message) -> Message:
        """The message of a tool call that the model asked for."""
        text = self.add(**call["args"])
        return {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": text}

    def spent(self, steps: int, tokens: int) -> bool:
        """Whether one of the three limits is reached."""
        return (
            steps >= self.max_steps
            or tokens >= self.max_tokens
            or time.monotonic() >= self.deadline
        )

    def prove(self, runs: int = 1) -> None:
        """Raise unless the model and the tool were called as often as the work has it."""
        found, due = (self.model_calls, self.tool_calls), (self.turns, self.turns - 1)
        assert found == (runs * due[0], runs * due[1]), f"calls {found}, not {runs} x {due}"


class Library(NamedTuple):
    """The work in the idiom of one library. What a function returns is what is timed."""

    memory: Callable[[Loop], Callable[[], object]]
    agents: Callable[[Loop, int], Callable[[], Awaitable[object]]]
    """As many runs at once; the model of each takes `PAUSE` a turn."""
    disk: Callable[[Loop, Path], Callable[[], object]] | None = None
    """Every step on disk when the next begins; the folder is empty."""
    agents_on_disk: Callable[[Loop, int, Path], Callable[[], Awaitable[object]]] | None = None


def main(library: Library) -> NoReturn:
    """Measure one cell, and print its figures as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("w1", "w2", "w3", "w3 on disk"))
    parser.add_argument("turns", type=int)
    parser.add_argument("agents", type=int, nargs="?", default=1)
    cell = parser.parse_args()
    if cell.work.startswith("w3"):
        figures = many(library, cell.turns, cell.agents, on_disk=cell.work != "w3")
    else:
        figures = single(library, cell.turns, on_disk=cell.work == "w2")
    print(json.dumps(figures), flush=True)
    os._exit(0)  # without the exit hooks of background threads


def single(library: Library, turns: int, *, on_disk: bool) -> Figures:
    """One run. Short ones are done three times, after one of five turns that warms up."""
    one(library, 5, on_disk)
    found = [one(library, turns, on_disk) for _ in range(3 if turns <= 200 else 1)]
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


def one(library: Library, turns: int, on_disk: bool) -> Figures:
    """One run, in microseconds and bytes a step."""
    loop, steps = Loop(turns), 2 * turns - 1
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if on_disk:
            assert library.disk is not None
            run = library.disk(loop, folder)
        else:
            run = library.memory(loop)
        gc.collect()
        cpu, wall = time.process_time(), time.perf_counter()
        run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        loop.prove()
        size = stored(folder)
    figures = {"cpu": cpu / steps * 1e6, "wall": wall / steps * 1e6}
    return figures | ({"bytes": size / steps} if on_disk else {})


def many(library: Library, turns: int, agents: int, *, on_disk: bool) -> Figures:
    """Many runs at once: seconds, CPU microseconds a turn of the model, memory of an agent."""
    asyncio.run(at_once(library, Loop(2), 3, on_disk))
    gc.collect()
    forget_most_memory()
    loop, before = Loop(turns), most_memory()
    cpu, wall = time.process_time(), time.perf_counter()
    asyncio.run(at_once(library, loop, agents, on_disk))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    loop.prove(agents)
    kept = (most_memory() - before) / agents
    return {"seconds": wall, "cpu": cpu / agents / turns * 1e6, "kB an agent": kept}


async def at_once(library: Library, loop: Loop, agents: int, on_disk: bool) -> None:
    if not on_disk:
        await library.agents(loop, agents)()
        return
    assert library.agents_on_disk is not None
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        await library.agents_on_disk(loop, agents, Path(name))()


STATUS = Path("/proc/self/status")


def forget_most_memory() -> None:
    """Have Linux begin anew with what `most_memory` gives; elsewhere imports count too."""
    if STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5", "ascii")


def most_memory() -> float:
    """The most memory that this process has had, in kB."""
    if STATUS.exists():
        rows = dict(line.split(":", 1) for line in STATUS.read_text("ascii").splitlines())
        return float(rows["VmHWM"].split()[0])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1024 if sys.platform == "darwin" else most


def stored(folder: Path) -> int:
    """Bytes in the folder, SQLite's log folded into its file."""
    for path in folder.rglob("*.db"):
        with closing(sqlite3.connect(path, timeout=5)) as connection:
            connection.execute("pragma wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
