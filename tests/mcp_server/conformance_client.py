"""The client of the protocol's conformance suite: one run of a machine that calls one tool.

    python conformance_client.py URL

The suite starts this program, names the scenario in `MCP_CONFORMANCE_SCENARIO`, and judges what
arrives at its server.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from chartloop import load
from chartloop.api.tool_lock import lock_tools

MACHINE = """\
chartloop: 1
machine: caller
mcp_servers:
  suite: {{url: "{url}"}}
{tools}states:
  {call}
  done: {{stop: completed}}
"""
CALLS = {
    "initialize": "",
    "tools_call": "{name: suite.add_numbers, arguments: {a: 5, b: 3}}",
    "elicitation-sep1034-client-defaults": "{name: suite.test_client_elicitation_defaults}",
    "sse-retry": "{name: suite.test_reconnection}",
}
"""The call that each scenario expects; the first wants only that the server's tools are read."""


def main(url: str, call: str) -> None:
    """Lock the server's tools, and run a machine that makes the call."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "caller.yaml"
        state = f"call: {{do: tool, with: {call}, next: done}}" if call else "call: {do: nothing}"
        tools = "tools: [suite.*]\n" if call else ""
        path.write_text(MACHINE.format(url=url, tools=tools, call=state))
        lock_tools(path).write()
        if not call:
            return
        run = load(path).start("go")
        if run.run().question is not None:
            run.send("accept", {})
            run.run()


if __name__ == "__main__":
    main(sys.argv[-1], CALLS[os.environ["MCP_CONFORMANCE_SCENARIO"]])
