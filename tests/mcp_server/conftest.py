"""Servers of `chartloop mcp`, and the protocol's own client."""

from __future__ import annotations

import asyncio
import inspect
import socket
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chartloop import Context, action
from chartloop.adapters.journal.opening import journal_of
from tests.server.conftest import REVIEW, wait_for

if TYPE_CHECKING:
    from mcp import Client

    from chartloop.hosting.mcp_server.tool_calls import Calls
    from chartloop.hosting.server import Settings

needs_mcp = pytest.mark.extra("mcp", install='pip install -e ".[mcp]"')  # noqa: S610 - no Django
TRIAGE = """\
chartloop: 1
machine: triage
title: How urgent a mail is
model: {name: scripted}
vars: {urgency: 0, tags: {type: 'list[str]', value: []}}
limits: {steps: 20}
output: {urgency: vars.urgency, tags: vars.tags}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  mail: {do: receive, next: read}
  read:
    do: infer
    with: {output: {type: object, properties: {urgency: {type: integer}}, required: [urgency]}}
    save: {vars.urgency: result.data.urgency}
    next: done
  done: {stop: completed}
"""
DEADLINE = """\
chartloop: 1
machine: hurry
model: {name: scripted}
vars: {said: nothing}
output: vars.said
states:
  ask:
    ask: Go on?
    on: {go: {to: done, data: {said: str}}}
    within: 1s
    expired: late
  late: {do: nothing, set: {vars.said: '"too late"'}, next: done}
  done: {stop: completed}
"""
RATING = """\
chartloop: 1
machine: rating
title: A mail that a person rates
model: {name: scripted}
vars: {urgency: 0}
output: {urgency: vars.urgency, reply: last.text}
states:
  mail: {do: receive, next: draft}
  draft: {do: infer, next: rate}
  rate:
    ask: How urgent is it?
    on: {rate: {to: done, data: {urgency: int}, set: {vars.urgency: last.answer.urgency}}}
  done: {stop: completed}
"""
TWICE = """\
chartloop: 1
machine: twice
model: {name: scripted}
states:
  a: {do: pass_gate, next: b}
  b: {do: infer, next: done}
  done: {stop: completed}
"""
BROKEN = "chartloop: 1\nmachine: broken\nstates:\n  a: {do: receive, next: nowhere}\n"


class Gate:
    """An action of the machine `twice` that lasts until the test opens the gate."""

    def __init__(self) -> None:
        self.open = threading.Event()

        @action(effect="pure")
        def pass_gate(context: Context) -> str:
            """Wait for the gate."""
            self.open.wait(30)
            return "passed"

        self.action = pass_gate

    async def open_once_paused(self, settings: Settings, run: str) -> None:
        """Open it when the message that pauses the run is there."""
        journal = journal_of(settings.journal)
        for _ in range(2_000):
            if any(message.data["kind"] == "pause" for message in await journal.inbox(run)):
                break
            await asyncio.sleep(0.01)
        self.open.set()


@pytest.fixture
def gate(machines: Path) -> Iterator[Gate]:
    """The gate of the machine `twice`, which is there with it."""
    (machines / "twice.yaml").write_text(TWICE)
    made = Gate()
    yield made
    made.open.set()


@pytest.fixture
def machines(tmp_path: Path) -> Path:
    """A folder with machines, one of which has an error."""
    folder = tmp_path / "machines"
    folder.mkdir()
    texts = {
        "review": REVIEW,
        "triage": TRIAGE,
        "hurry": DEADLINE,
        "rating": RATING,
        "broken": BROKEN,
    }
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


Make = Callable[..., "Settings"]


@pytest.fixture
def make(machines: Path, tmp_path: Path) -> Make:
    """Makes the settings of a server on the journal of this test."""
    from chartloop.hosting.server import Settings  # noqa: PLC0415

    def settings(script: Sequence[Any] = ("First.", "Second."), **given: Any) -> Settings:
        every: dict[str, Any] = {
            "machines": (machines,), "journal": tmp_path / "journal.db",
            "components": {"script": list(script)}, "face": "chartloop mcp", **given,
        }  # fmt: skip
        return Settings(**every)

    return settings


def play(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run the client's side of a test."""
    return asyncio.run(coroutine)


@asynccontextmanager
async def talking(settings: Settings, *, mode: Any = "auto", **more: Any) -> AsyncGenerator[Talk]:
    """A client of a server in this process: everything of both but the bytes between them."""
    from mcp import Client  # noqa: PLC0415

    from chartloop.hosting.mcp_server.protocol import ProtocolServer  # noqa: PLC0415
    from chartloop.hosting.mcp_server.transports import open_calls, working  # noqa: PLC0415

    calls = open_calls(settings)
    async with working(calls), Client(ProtocolServer(calls).server(), mode=mode, **more) as client:
        yield Talk(client, calls)


class Talk:
    """A client, and the server's side of the runs that it starts."""

    def __init__(self, client: Client, calls: Calls) -> None:
        self.client = client
        self.calls = calls

    async def call(self, name: str, **arguments: Any) -> Any:
        """What a call gives, which is no error."""
        given: Any = await self.client.call_tool(name, arguments)
        assert not given.is_error, given
        return given.structured_content

    async def refused(self, name: str, **arguments: Any) -> Any:
        """The error that a call gives."""
        given: Any = await self.client.call_tool(name, arguments)
        assert given.is_error, given
        told = given.structured_content["error"]
        assert told["detail"] in given.content[0].text
        return told

    async def until(self, run: str, *statuses: str) -> Any:
        """The run as it is told of once it has one of these statuses."""
        told: Any = None
        for _ in range(2_000):
            told = await self.call("status", run=run)
            if told["status"] in statuses:
                return told
            await asyncio.sleep(0.02)
        raise AssertionError(told)


async def first_run(client: Client) -> str:
    """The newest run, once there is one."""
    for _ in range(2_000):
        told: Any = (await client.call_tool("status", {})).structured_content
        if told["runs"]:
            return told["runs"][0]["run"]
        await asyncio.sleep(0.01)
    raise AssertionError("no run was started")


def person(*replies: Any) -> Any:
    """A callback that answers forms: each with the content, or the action, that is next.

    Its `asked` holds the text and schema of every form that it got.
    """
    import mcp_types as types  # noqa: PLC0415

    left, asked = list(replies), list[tuple[str, Any]]()

    async def answer(_: Any, params: Any) -> Any:
        asked.append((params.message, params.requested_schema))
        reply = left.pop(0) if left else "cancel"
        if isinstance(reply, str):
            return types.ElicitResult(action=reply)  # pyright: ignore[reportArgumentType]
        if inspect.iscoroutinefunction(reply):
            reply = await reply()
        return types.ElicitResult(action="accept", content=reply)

    answer.asked = asked  # pyright: ignore[reportFunctionMemberAccess]
    return answer


def command(folder: Path, *more: str) -> Any:
    """What starts `chartloop mcp` for a client over stdio."""
    from mcp import StdioServerParameters  # noqa: PLC0415

    arguments = ["-m", "chartloop", "mcp", "--machines", "machines", "--journal", "journal.db"]
    return StdioServerParameters(
        command=sys.executable, args=[*arguments, *more], cwd=str(folder)
    )  # fmt: skip


@contextmanager
def serving(settings: Settings) -> Generator[str]:
    """A real server over HTTP on a free port of loopback, in a thread; its address."""
    from chartloop.hosting.mcp_server.transports import StreamableHttpServer  # noqa: PLC0415

    listener = socket.create_server(("127.0.0.1", 0))
    server = StreamableHttpServer(settings, log_level="warning")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def over_stdio(server: Any) -> Any:
    """A transport to a server that is started.

    `mcp` keeps the stderr of the moment in which it was imported: in a test that may be no file.
    """
    from mcp.client.stdio import stdio_client  # noqa: PLC0415

    return stdio_client(server, errlog=sys.__stderr__ or sys.stderr)
