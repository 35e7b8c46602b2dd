"""MCP servers for tests: real processes, good and bad.

`SERVER` speaks the protocol with nothing but Python's own library, so that it starts at once and
can misbehave in ways that a library would not; `PACKAGE` is the same with the package `mcp`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SERVER = '''\
"""An MCP server over stdio: `python server.py TOOLS.json [WAY]`."""
import json, os, signal, sys, time

tools = json.load(open(sys.argv[1]))
way = sys.argv[2] if len(sys.argv) > 2 else ""
if way == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if way in ("mute", "deaf"):
    time.sleep(60)
if way == "secret":  # where it was cut, in a line that is too long for a report, and in lines of it
    print("x" * 490 + os.environ["TOKEN"].replace("\\n", " "), file=sys.stderr)
    print(os.environ["TOKEN"], file=sys.stderr, flush=True)
    sys.exit("y" * 200_000 + os.environ["TOKEN"].replace("\\n", " "))
if way == "exit":
    sys.exit("no such account")
if way == "babble":
    print("Welcome to the server!", flush=True)
    print("{not json", flush=True)


asked, waiting = iter(range(1000, 10**6)), []


def request(method, params):
    """What the client answers to a request, as the result of the call."""
    number = next(asked)
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(message), flush=True)
    while (reply := json.loads(sys.stdin.readline())).get("id") != number or "method" in reply:
        waiting.append(reply)
    if "error" in reply:
        return {"content": [{"type": "text", "text": reply["error"]["message"]}], "isError": True}
    return {"content": [{"type": "text", "text": json.dumps(reply["result"])}]}


def call(name, given):
    with open(sys.argv[1] + ".calls", "a") as log:
        log.write(json.dumps([name, given]) + "\\n")
    if name == "die":
        print("out of luck", os.environ.get("TOKEN", ""), file=sys.stderr, flush=True)
        os._exit(3)
    if name == "sleep":
        time.sleep(given.get("seconds", 60))
    if name == "env":
        return {"content": [{"type": "text", "text": os.environ.get(given["name"], "unset")}]}
    if name == "ask":  # as servers of 2025 do: a request of its own, in the middle of the call
        asked = {"message": given.get("message", "Sure?"), "requestedSchema": given.get("schema") or {
            "type": "object", "properties": {}}} | given.get("more", {})
        return request("elicitation/create", asked)
    if name == "model":
        said = [{"role": "user", "content": {"type": "text", "text": text}} for text in given["texts"]]
        for one in said:
            done = request("sampling/createMessage", {"messages": [one], "maxTokens": 50})
        return done
    if name == "folders":
        return request("roots/list", {})
    if name == "give":  # what the call says
        return given["result"]
    if name == "fail":
        return {"content": [{"type": "text", "text": "no"}], "isError": True}
    if name == "picture":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}
    if name == "data":  # no text beside the data
        return {"content": [], "structuredContent": {"sum": 5}}
    if name == "odd":
        return {"content": [{"type": "hologram", "data": "AAAA"}]}
    if name == "pictures":
        pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
        return {"content": [{"type": "image", "data": pixel, "mimeType": "image/png"}] * 25}
    if name == "babble":
        print("{not json", flush=True)
        time.sleep(60)
    if name == "quoted":
        return {"content": [{"type": "text", "text": json.dumps(os.environ["TOKEN"])}]}
    if name == "add":
        total = given["a"] + given["b"]
        text = {"content": [{"type": "text", "text": str(total)}]}
        return text | {"structuredContent": {"sum": total}}
    return {"content": [{"type": "text", "text": json.dumps(given)}]}


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "peer", "version": "1"}}
    if method == "tools/list":
        if way == "pages":
            return {"tools": [], "nextCursor": "more"}
        if way == "no-list":
            return {"tools": 5}
        at = int(params.get("cursor") or 0)
        page = {"tools": tools[at:at + 1000]}
        return page | ({"nextCursor": str(at + 1000)} if len(tools) > at + 1000 else {})
    if method == "tools/call" and params["name"] == "error":
        return {"error": params["arguments"]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})


while waiting or (line := sys.stdin.readline()):
    said = waiting.pop(0) if waiting else json.loads(line)
    if "id" not in said:
        continue
    found = answer(said["method"], said.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": said["id"]}
    error = {"code": -32601, "message": "Method not found"}
    if found is None or set(found) == {"error"}:
        found = found or {"error": error}
    else:
        found = {"result": found}
    reply |= found
    print(json.dumps(reply), flush=True)
'''

PACKAGE = '''\
import mcp_types as types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("calc")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise RuntimeError(why)


@server.tool()
async def sample(ctx: Context) -> str:
    """Asks the client's model."""
    text = types.TextContent(type="text", text="hi")
    message = types.SamplingMessage(role="user", content=text)
    return str(await ctx.session.create_message([message], max_tokens=5))


if __name__ == "__main__":
    server.run()
'''


def offer(name: str, description: str = "", /, **properties: Any) -> dict[str, Any]:
    """A tool as a server lists it; every argument is required."""
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"name": name, "description": description, "inputSchema": schema}


NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
ADD = offer("add", "Add two numbers.", a=NUMBER, b=NUMBER)
DIE = offer("die", "Ends the server.")
OFFERS = (
    ADD, DIE, offer("sleep", "Sleeps.", seconds={"type": "number"}), offer("fail", "Fails."),
    offer("env", "A variable.", name=TEXT), offer("picture", "A picture."),
    {**offer("ask", "Asks a person."), "inputSchema": {"type": "object"}},
    {**offer("model", "Asks the model."), "inputSchema": {"type": "object"}},
    offer("folders", "Asks for folders."),
)  # fmt: skip
ODD = (
    offer("data", "No text."), offer("odd", "A new kind of content."), offer("pictures", "Many."),
    offer("babble", "Writes what is no message."), offer("quoted", "A variable, as JSON."),
)  # fmt: skip
"""Tools whose results a client may not expect."""
OBJECT = {"type": "object"}
GIVE: dict[str, Any] = {"name": "give", "inputSchema": OBJECT}
"""Returns the result that the call says."""
ERROR: dict[str, Any] = {"name": "error", "inputSchema": OBJECT}
"""Fails with the error of JSON-RPC that the call says."""


def put_server(folder: Path, offers: Sequence[Mapping[str, Any]] = OFFERS) -> None:
    """Write the server and the tools that it offers."""
    (folder / "server.py").write_text(SERVER)
    (folder / "calc.json").write_text(json.dumps(list(offers)))


def machine(
    tools: str = "calc.*", *, way: str = "", more: str = "", states: str = "", head: str = ""
) -> str:
    """A machine whose server `calc` is that one."""
    args = ["server.py", "calc.json", *([way] if way else [])]
    loop = """\
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0 and run.steps < 30, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
    return f"""\
chartloop: 1
machine: peer
model: {{name: scripted}}
mcp_servers:
  calc: {{command: {json.dumps(sys.executable)}, args: {json.dumps(args)}{more}}}
tools: [{tools}]
{head}states:
{states or loop}"""


def put_machine(folder: Path, text: str) -> Path:
    """Write a machine beside its server."""
    path = folder / "machine.yaml"
    path.write_text(text)
    return path


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A scripted reply that asks for one tool."""
    return {"text": "", "tool_calls": [{"name": name, "arguments": arguments}]}


def calls_of(folder: Path) -> list[Any]:
    """What the server was asked to do, in order."""
    log = folder / "calc.json.calls"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
