"""The agents in pydantic-ai, durable by DBOS: its own step for each model call, ours for the tool.

python benchmarks/fleet_in_pydantic_ai.py URL AGENTS TURNS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from dbos import DBOS
from loop import USER, Loop
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits

URL, AGENTS, TURNS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
loop = Loop(TURNS)


def answer(messages: list[Any], _: AgentInfo) -> ModelResponse:
    """The next turn of the model, which is counted in the conversation."""
    said = loop.answer(1 + sum(isinstance(message, ModelResponse) for message in messages))
    calls = [ToolCallPart(call["name"], call["args"], call["id"]) for call in said["tool_calls"]]
    return ModelResponse([TextPart(said["content"]), *calls])


agent = Agent(FunctionModel(answer), name="bench", capabilities=[DBOSDurability()])


@agent.tool_plain
@DBOS.step()
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return loop.add(a, b)


@DBOS.workflow()
async def run() -> None:
    """One run."""
    await agent.run(USER["content"], usage_limits=LIMITS)


LIMITS = UsageLimits(request_limit=10 * TURNS)


async def main() -> None:
    """Run them all at once."""
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "ERROR"})
    DBOS.launch()
    await run()
    loop.model_calls = loop.tool_calls = 0
    before = time.perf_counter()
    await asyncio.gather(*(run() for _ in range(AGENTS)))
    seconds = time.perf_counter() - before
    loop.prove(AGENTS)
    print(json.dumps({"steps/s": AGENTS * (2 * TURNS - 1) / seconds}), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
