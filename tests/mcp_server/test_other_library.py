"""An agent of another library starts our machine, answers its question and gets its typed result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.conftest import needs_mcp, play

INSTALL = 'pip install "pydantic-ai-slim[mcp]"'
pytestmark = [
    needs_mcp,
    pytest.mark.extra("pydantic_ai", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.extra("fastmcp", install=INSTALL),  # noqa: S610 - no Django
    pytest.mark.slow("imports another agent library, and starts a process"),
    # it says so of every session of revision 2026-07-28, and calls it all the same
    pytest.mark.filterwarnings("ignore:`elicitation_handler` will never be called:UserWarning"),
]


def test_pydantic_ai_runs_a_machine_as_its_tool(machines: Path, tmp_path: Path) -> None:
    from fastmcp.client.transports import StdioTransport  # noqa: PLC0415
    from pydantic_ai import Agent  # noqa: PLC0415
    from pydantic_ai.mcp import MCPToolset  # noqa: PLC0415
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: PLC0415
    from pydantic_ai.models.function import FunctionModel  # noqa: PLC0415

    (tmp_path / "replies.yaml").write_text("- We look into it.\n")
    came: list[Any] = []
    asked: list[str] = []

    def model(messages: Any, info: Any) -> ModelResponse:
        """Calls the tool; then answers with what came of it."""
        assert {"rating", "start", "answer"} <= {tool.name for tool in info.function_tools}
        last = messages[-1].parts[-1]
        if last.part_kind != "tool-return":
            return ModelResponse(parts=[ToolCallPart("rating", {"task": "The shop is down!"})])
        came.append(last.content)
        return ModelResponse(parts=[TextPart(f"Urgency {last.content['output']['urgency']}.")])

    async def person(message: str, response: Any, params: Any, context: Any) -> Any:
        asked.append(message)
        return {"urgency": 4}

    async def client() -> str:
        arguments = ["--machines", "machines", "--journal", "j.db", "--script", "replies.yaml"]
        transport = StdioTransport(
            sys.executable, ["-m", "chartloop", "mcp", *arguments], cwd=str(tmp_path)
        )
        server = MCPToolset(transport, elicitation_handler=person, init_timeout=60)
        agent = Agent(FunctionModel(model), toolsets=[server])
        async with agent:
            return (await agent.run("How urgent is this mail?")).output

    assert play(client()) == "Urgency 4."
    assert asked == ["How urgent is it?\n\nWe look into it."]
    (told,) = came
    assert told["output"] == {"urgency": 4, "reply": "We look into it."}
    assert (told["status"], told["reason"]) == ("completed", "completed")
