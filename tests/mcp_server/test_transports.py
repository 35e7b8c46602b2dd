"""`chartloop mcp` as a process over stdio, and as a server over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.conftest import (
    TWICE,
    Gate,
    Make,
    command,
    first_run,
    needs_mcp,
    over_stdio,
    person,
    play,
    serving,
)

pytestmark = needs_mcp
ROOT = Path(__file__).resolve().parents[2]
REPLIES = "- First.\n- Second.\n"
MODES = pytest.mark.parametrize("mode", ["auto", "legacy"])
NOISY = """\
import os, sys
from chartloop import tool

print("printed while it is loaded")


@tool
def shout(text: str) -> str:
    \"\"\"Shout.\"\"\"
    print("printed by a tool")
    os.write(1, b"written past Python\\n")
    return text.upper()
"""
CALLER = """\
chartloop: 1
machine: caller
model: {name: scripted}
tools: [shout]
states:
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, done]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


@MODES
@pytest.mark.slow("starts a process")
def test_over_stdio_a_machine_asks_and_gives_its_result(
    machines: Path, tmp_path: Path, mode: Any
) -> None:
    from mcp import Client  # noqa: PLC0415

    (tmp_path / "replies.yaml").write_text(REPLIES)
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(str(message).partition(": ")[2])

    async def client() -> None:
        eve = person({"answer": "reject", "note": "more"}, {"answer": "approve"})
        server = command(tmp_path, "--script", "replies.yaml")
        async with Client(over_stdio(server), mode=mode, elicitation_callback=eve) as talk:
            given = await talk.call_tool("review", {"task": "x"}, progress_callback=hear)
            assert given.structured_content["output"] == "Second."

    play(client())
    assert told == ["take → draft", "draft → approve", "draft → approve"]


@pytest.mark.slow("starts a process")
def test_what_tools_print_is_not_on_the_wire(machines: Path, tmp_path: Path) -> None:
    (machines / "caller.yaml").write_text(CALLER)
    (tmp_path / "noisy.py").write_text(NOISY)
    call = {"tool_calls": [{"name": "shout", "arguments": {"text": "hey"}}]}
    (tmp_path / "replies.yaml").write_text(json.dumps([call, "Done."]))
    lines = [
        {
            "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        },
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call",
         "params": {"name": "caller", "arguments": {"task": "x"}}},
    ]  # fmt: skip
    arguments = ["--machines", "machines", "--journal", "j.db", "--tools", "noisy.py"]
    process = subprocess.Popen(
        [sys.executable, "-m", "chartloop", "mcp", *arguments, "--script", "replies.yaml"],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    for line in lines:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    out, err = process.communicate(timeout=60)
    assert out == b""
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["output"] == "Done."
    for said in (b"printed while it is loaded", b"printed by a tool", b"written past Python"):
        assert said in err
    assert process.returncode == 0


@pytest.mark.slow("starts processes")
def test_a_run_of_a_server_that_was_killed_is_taken_up_by_the_next(
    machines: Path, tmp_path: Path
) -> None:
    from mcp import Client  # noqa: PLC0415

    (tmp_path / "replies.yaml").write_text('- {text: "Slow.", delay: 2.0}\n')
    server = command(tmp_path, "--script", "replies.yaml")

    async def begin() -> None:
        process = await asyncio.create_subprocess_exec(
            server.command, *server.args, cwd=tmp_path, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        started = {"name": "start", "arguments": {"machine": "review", "task": "x"}}
        for line in (
            {
                "id": 1, "method": "initialize",
                "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "raw", "version": "1"},
                },
            },
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": started},
        ):  # fmt: skip
            process.stdin.write(json.dumps({"jsonrpc": "2.0", **line}).encode() + b"\n")
        for _ in range(2):
            await process.stdout.readline()
        process.kill()
        await process.wait()

    async def continues() -> None:
        async with Client(over_stdio(server)) as talk:
            (row,) = (await talk.call_tool("status", {})).structured_content["runs"]
            seen: Any = None
            for _ in range(40):  # the lease of the dead one lapses first
                seen = await talk.call_tool("status", {"run": row["run"], "seconds": 5})
                if seen.structured_content["status"] == "waiting":
                    break
            asked = seen.structured_content["question"]
            if "retry" in asked["answers"]:  # the call was in doubt: the file decides
                await talk.call_tool("answer", {"run": row["run"], "event": "retry"})
            done = await talk.call_tool("answer", {"run": row["run"], "event": "approve"})
            assert done.structured_content["output"] == "Slow."

    play(begin())
    play(continues())


@pytest.mark.slow("starts a process")
def test_a_client_that_goes_away_in_a_call_leaves_a_run_that_can_be_resumed(
    machines: Path, tmp_path: Path
) -> None:
    from mcp import Client  # noqa: PLC0415

    text = TWICE.replace("do: pass_gate", "do: infer")
    (machines / "twice.yaml").write_text(text)
    (tmp_path / "replies.yaml").write_text('- {text: "First.", delay: 3.0}\n- Second.\n')
    server = command(tmp_path, "--script", "replies.yaml")

    async def leave() -> None:
        async with Client(over_stdio(server)) as talk:
            call = asyncio.create_task(talk.call_tool("twice", {"task": "x"}))
            await first_run(talk)
            call.cancel()
            await asyncio.wait([call])

    async def come_back() -> None:
        async with Client(over_stdio(server)) as talk:
            (row,) = (await talk.call_tool("status", {})).structured_content["runs"]
            done = await talk.call_tool("resume", {"run": row["run"]})
            assert done.structured_content["output"] == "Second."

    play(leave())
    play(come_back())


@pytest.mark.slow("starts a process")
def test_the_settings_that_the_page_shows_start_the_server(tmp_path: Path) -> None:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415

    page = (ROOT / "docs" / "mcp-server.md").read_text()
    text = page.partition("```json\n")[2].partition("```")[0]
    text = text.replace("/path/to/machines.db", str(tmp_path / "machines.db"))
    told = json.loads(text.replace("/path/to", str(ROOT)))["mcpServers"]["machines"]
    assert told["command"] == "chartloop"
    server = StdioServerParameters(command=sys.executable, args=["-m", "chartloop", *told["args"]])

    async def client() -> None:
        async with Client(over_stdio(server)) as talk:
            given = await talk.call_tool("buyer", {"task": "How fast does demand rise?"})
            assert given.structured_content["question"]["answers"].keys() == {"accept", "deny"}

    play(client())


# HTTP -------------------------------------------------------------------------------------------


@MODES
def test_over_http_a_machine_asks_and_gives_its_result(make: Make, mode: Any) -> None:
    from mcp import Client  # noqa: PLC0415

    async def client(address: str) -> None:
        eve = person({"answer": "reject", "note": "more"}, {"answer": "approve"})
        told: list[str] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            told.append(str(message).partition(": ")[2])

        async with Client(address, mode=mode, elicitation_callback=eve) as talk:
            given = await talk.call_tool("review", {"task": "x"}, progress_callback=hear)
            assert given.structured_content["output"] == "Second."
            assert told == ["take → draft", "draft → approve", "draft → approve"]

    with serving(make()) as address:
        play(client(address))


@MODES
def test_over_http_a_call_that_is_cancelled_pauses_its_run(
    make: Make, gate: Gate, mode: Any
) -> None:
    from mcp import Client  # noqa: PLC0415

    settings = make(["Second."], tools=gate.action)

    async def client(address: str) -> None:
        async with Client(address, mode=mode) as talk:
            call = asyncio.create_task(talk.call_tool("twice", {"task": "x"}))
            run = await first_run(talk)
            call.cancel()
            await asyncio.wait([call])
            await gate.open_once_paused(settings, run)
            told: Any = {}
            for _ in range(2_000):
                told = (await talk.call_tool("status", {"run": run})).structured_content
                if told["status"] != "running":
                    break
                await asyncio.sleep(0.01)
            assert told["status"] == "paused", told
            done = await talk.call_tool("resume", {"run": run})
            assert done.structured_content["output"] == "Second."

    with serving(settings) as address:
        play(client(address))


class Request:
    """What stands before the protocol over HTTP: headers, and the status that they give."""

    CASES: tuple[tuple[str, dict[str, str], int], ...] = (
        ("no-token", {}, 401),
        ("wrong-token", {"Authorization": "Bearer wrong"}, 401),
        ("other-host", {"Authorization": "Bearer 0123456789abcdef", "Host": "evil.com"}, 421),
        (
            "other-site",
            {"Authorization": "Bearer 0123456789abcdef", "Origin": "https://evil.com"},
            403,
        ),
    )


@pytest.mark.parametrize(("id", "headers", "status"), Request.CASES)
def test_http_is_guarded_as_the_api_is(
    make: Make, id: str, headers: dict[str, str], status: int
) -> None:
    import httpx  # noqa: PLC0415

    from chartloop.server import Token  # noqa: PLC0415

    token = Token("0123456789abcdef", "drive", "tester")
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    with serving(make(tokens=(token,))) as address:
        assert httpx.post(address, json=body, headers=headers).status_code == status


def test_a_token_that_only_reads_starts_nothing(make: Make) -> None:
    import httpx2  # noqa: PLC0415
    from mcp import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from chartloop.server import Token  # noqa: PLC0415

    tokens = (Token("0123456789abcdef", "read"), Token("fedcba9876543210", "drive"))

    async def client(address: str, secret: str, refused: bool) -> None:
        headers = {"Authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport) as talk:
                given = await talk.call_tool("start", {"machine": "review", "task": "x"})
                assert given.is_error is refused, given
                assert not (await talk.call_tool("status", {})).is_error

    with serving(make(tokens=tokens)) as address:
        play(client(address, "0123456789abcdef", True))
        play(client(address, "fedcba9876543210", False))


def test_a_tenant_learns_nothing_of_the_runs_of_another(make: Make) -> None:
    import httpx2  # noqa: PLC0415
    from mcp import Client  # noqa: PLC0415
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

    from chartloop.server import Token  # noqa: PLC0415

    tokens = (Token("0123456789abcdef", "edit", "eve", "beta"),
              Token("fedcba9876543210", "edit", "eve", "acme"))  # fmt: skip
    more = {"answer": {"event": "approve"}, "enqueue": {"tasks": ["x"]}}

    @asynccontextmanager
    async def talking(address: str, token: Token) -> AsyncGenerator[Any]:
        headers = {"Authorization": f"Bearer {token.secret}"}
        async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
            transport = streamable_http_client(address, http_client=http)
            async with Client(transport) as talk:
                yield talk

    async def own(address: str) -> str:
        async with talking(address, tokens[0]) as beta:
            await beta.call_tool("start", {"machine": "review", "task": "x"})
            return await first_run(beta)

    async def other(address: str, run: str) -> list[str]:
        wrong = list[str]()
        async with talking(address, tokens[1]) as acme:
            for tool in (await acme.list_tools()).tools:
                if "run" not in tool.input_schema.get("properties", {}):
                    continue
                told = list[str]()
                for name in (run, run.removeprefix("beta:"), "beta:none", "none"):
                    arguments = {"run": name, **more.get(tool.name, {})}
                    given = await acme.call_tool(tool.name, arguments)
                    told.append(f"{given.is_error} {given.content}".replace(name, "NAME"))
                asked.append(tool.name)
                if told[:2] != told[2:] or not told[0].startswith("True"):
                    wrong.append(f"{tool.name}: {told}")
            if run in str(await acme.call_tool("status", {})):
                wrong.append("status lists it")
        return wrong

    asked = list[str]()
    with serving(make(tokens=tokens)) as address:
        run = play(own(address))
        assert run.startswith("beta:")
        assert play(other(address, run)) == []
    assert {*asked} == {"answer", "status", "cancel", "resume", "why"}


@pytest.mark.slow("starts processes")
def test_what_cannot_be_served_is_said_before_anything_is(machines: Path, tmp_path: Path) -> None:
    def said(*more: str) -> tuple[int, str]:
        arguments = [sys.executable, "-m", "chartloop", "mcp", "--machines", "machines", *more]
        done = subprocess.run(
            arguments, cwd=tmp_path, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.stdout == ""
        return done.returncode, done.stderr

    code, text = said("--http", "0.0.0.0:8001")
    assert (code, "can be reached from other computers" in text) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, text = said("--http", str(port))
    assert (code, f"cannot listen at 127.0.0.1:{port}" in " ".join(text.split())) == (2, True)
    code, text = said("--http", "nowhere")
    assert (code, "is not HOST:PORT" in text) == (2, True)
    code, text = said("--name", "x")
    assert (code, "go with --http" in text) == (2, True)
    (machines / "status.yaml").write_text("chartloop: 1\nmachine: status\nstates: {}\n")
    code, text = said()
    assert (code, "has the name of a tool of this server" in text) == (2, True)
