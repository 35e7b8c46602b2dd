"""Model calls through litellm over HTTP, by a machine of chartloop and by litellm in a bare loop.

    python calls.py chartloop|litellm TURNS AGENTS

Each agent keeps its conversation and sends it whole with every call. The server is a process of its
own, so that its work is not counted.
"""

# ruff: noqa: PLC0415 - only one of the two is imported

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loop import USER, Figures

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "openai/gpt-4o-mini"
MACHINE = """\
chartloop: 1
machine: calls
vars: {turns: 10}
model: {name: openai/gpt-4o-mini, api_base: BASE}
limits: {steps: 1_000_000, tokens: 100_000_000, time: 1h}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.total_tokens >= limits.tokens, stop: token_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  question: {do: receive, next: think}
  think: {do: infer, next: [{when: usage.llm_calls >= vars.turns, to: done}, {to: think}]}
  done: {stop: completed}
"""

Work = Callable[[int, int], Awaitable[Any]]
"""Turns and agents."""


def by_litellm(base: str) -> Work:
    import litellm

    async def agent(turns: int) -> None:
        messages: list[Any] = [USER]
        for _ in range(turns):
            reply = await litellm.acompletion(model=MODEL, messages=messages, api_base=base)
            messages.append({"role": "assistant", "content": reply.choices[0].message.content})

    return lambda turns, agents: asyncio.gather(*(agent(turns) for _ in range(agents)))


def by_chartloop(base: str) -> Work:
    from chartloop import load
    from chartloop.run.journal import MemoryJournal

    made, journal = load(MACHINE.replace("BASE", base)), MemoryJournal()

    async def work(turns: int, agents: int) -> None:
        runs = (
            made.arun(USER["content"], journal=journal, vars={"turns": turns})
            for _ in range(agents)
        )
        ends = await asyncio.gather(*runs)
        assert all(result.reason == "completed" for result in ends), ends[0]

    return work


@contextmanager
def provider() -> Iterator[str]:
    """The address of a server on loopback."""
    program = [sys.executable, str(Path(__file__).with_name("provider.py"))]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        server.stdin.close()


ROUNDS = 5


async def measure(work: Work, other: Work, turns: int, agents: int) -> Figures:
    """CPU of a call, and its ratio to that of the other work.

    The two alternate in rounds of a part of the agents, so that a busy machine slows down both.
    """
    parts = min(ROUNDS, agents)
    spent: dict[Work, list[float]] = {work: [], other: []}
    for one in spent:
        await one(2, 5)
    since = time.perf_counter()
    for _ in range(parts):
        for one, figures in spent.items():
            cpu = time.process_time()
            await one(turns, agents // parts)
            cpu = time.process_time() - cpu
            figures.append(cpu / turns / (agents // parts) * 1e6)
    own, others = (statistics.median(figures) for figures in spent.values())
    return {"cpu": own, "ratio": own / others, "seconds": time.perf_counter() - since}


def main() -> None:
    who, turns, agents = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENAI_API_KEY": "none"}
    with provider() as base:
        works = [by_chartloop(base), by_litellm(base)]
        if who == "litellm":
            works.reverse()
        figures = asyncio.run(measure(works[0], works[1], turns, agents))
    if who == "litellm":
        del figures["ratio"]
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
