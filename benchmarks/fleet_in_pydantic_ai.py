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
from pydantic_ai.durable_exec.dbos import DBOSAgent
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


plain = Agent(FunctionModel(answer), name="bench")


@plain.tool_plain
@DBOS.step()
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return loop.add(a, b)


agent = DBOSAgent(plain)
LIMITS = UsageLimits(request_limit=10 * TURNS)


async def main() -> None:
    """Run them all at once."""
    DBOS(config={"name": "bench", "system_database_url": URL, "log_level": "ERROR"})
    DBOS.launch()
    await agent.run(USER["content"], usage_limits=LIMITS)
    loop.model_calls = loop.tool_calls = 0
    before = time.perf_counter()
    runs = (agent.run(USER["content"], usage_limits=LIMITS) for _ in range(AGENTS))
    await asyncio.gather(*runs)
    seconds = time.perf_counter() - before
    loop.prove(AGENTS)
    print(json.dumps({"steps/s": AGENTS * (2 * TURNS - 1) / seconds}), flush=True)
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main())
