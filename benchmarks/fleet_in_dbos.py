"""The agents as a workflow of DBOS: a step for each call of the model and of the tool.

python benchmarks/fleet_in_dbos.py URL AGENTS TURNS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from dbos import DBOS
from loop import USER, Loop

URL, AGENTS, TURNS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
loop = Loop(TURNS)


@DBOS.step()
async def think(turn: int, messages: list[Any]) -> Any:  # noqa: ARG001  a step is given it
    """A call of the model, which is given the conversation."""
    return loop.answer(turn)


@DBOS.step()
async def use(call: Any) -> Any:
    """A call of the tool."""
    return loop.use(call)


@DBOS.workflow()
async def agent() -> int:
    """One run."""
    messages, steps, tokens = [USER], 0, 0
    for turn in range(1, TURNS + 1):
        said = await think(turn, messages)
        messages.append(said)
        steps, tokens = steps + 1, tokens + said["usage"]["total_tokens"]
        if loop.spent(steps, tokens) or not said["tool_calls"]:
            break
        for call in said["tool_calls"]:
            messages.append(await use(call))
            steps += 1
    return steps


async def main() -> None:
    """Run them all at once."""
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "ERROR"})
    DBOS.launch()
    await agent()
    loop.model_calls = loop.tool_calls = 0
    before = time.perf_counter()
    steps = await asyncio.gather(*(agent() for _ in range(AGENTS)))
    seconds = time.perf_counter() - before
    loop.prove(AGENTS)
    print(json.dumps({"steps/s": sum(steps) / seconds}), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
