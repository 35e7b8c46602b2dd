"""The conformance suite of the protocol, `@modelcontextprotocol/conformance`, against both sides.

Its scenarios for a server ask for tools of fixed names: machines of these names stand here. Left
out is what neither side offers: resources, prompts, completion, log levels and sign-in by OAuth;
tools whose results are pictures, sounds or resources, since the result of a machine is a text or
data; and tools with arguments of their own names, since a machine takes a task and variables.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mcp_server.conftest import Make, needs_mcp, serving

SUITE = "@modelcontextprotocol/conformance"
pytestmark = [needs_mcp, pytest.mark.node(SUITE), pytest.mark.slow("starts processes of Node")]
HERE = Path(__file__).resolve().parent
PROGRAM = HERE.parent / "node" / "node_modules" / SUITE / "dist" / "index.js"

MACHINES = {
    "test_simple_text": """\
vars: {text: This is a simple text response for testing.}
output: vars.text
states:
  say: {do: nothing, next: done}
  done: {stop: completed}
""",
    "test_error_handling": """\
states:
  fail: {do: nothing, next: failed}
  failed: {stop: error}
""",
    "test_tool_with_progress": """\
states:
  one: {do: nothing, next: two}
  two: {do: nothing, next: three}
  three: {do: nothing, next: done}
  done: {stop: completed}
""",
}


@pytest.mark.parametrize(
    "scenario",
    ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry"],
)
def test_a_machine_that_uses_a_server_passes(scenario: str) -> None:
    command = f'"{sys.executable}" "{HERE / "conformance_client.py"}"'
    judge("client", "--command", command, "--scenario", scenario)


@pytest.mark.parametrize(
    "scenario",
    [
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-error",
        "tools-call-with-progress",
        "server-sse-multiple-streams",
        "dns-rebinding-protection",
    ],
)
def test_a_server_of_machines_passes(make: Make, machines: Path, scenario: str) -> None:
    for name, text in MACHINES.items():
        (machines / f"{name}.yaml").write_text(f"chartloop: 1\nmachine: {name}\n{text}")
    with serving(make()) as address:
        judge("server", "--url", address, "--scenario", scenario)


def judge(*arguments: str) -> None:
    """The suite's verdict on one scenario; what it says where that is not "passed"."""
    done = subprocess.run(
        ["node", str(PROGRAM), *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    verdict = done.stdout + done.stderr
    assert done.returncode == 0, verdict[-3_000:]
    assert "SUCCESS" in verdict, verdict[-3_000:]
    assert "FAILURE" not in verdict, verdict[-3_000:]
