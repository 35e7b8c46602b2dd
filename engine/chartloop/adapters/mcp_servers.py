"""The MCP servers of a run: their start, the comparison with the lock, their calls, their end.

    call ─▶ chartloop's loop thread ─▶ owner task of the server ─▶ stdio or streamable HTTP

A connection lives on the loop thread, whatever loop drives the run: one owner task opens and closes
it, and calls are passed over. A run has its own servers, which its children share. They are
connected before the run's next action and ended when it rests.

A server that ends during a call is started once more. A call that may be made twice is then
repeated; whether a `paid` one was carried out is unknown, so it fails as a call in doubt.

The values of ``${VAR}`` go only to the server: if its texts contain one, the name of the variable
replaces it.

Belongs here: the only import of `mcp`, when a server is connected. Never: the tools of a machine,
or the lock (`language.tool_lock`).
Source: MCP 2025-11-25 and 2026-07-28, "Lifecycle", "Tools".
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib
import json
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any, TypeVar, cast

from chartloop.adapters.mcp_calls import (
    ASKING,
    Call,
    first_answer,
    reason_of_refusal,
    sample_request,
)
from chartloop.adapters.mcp_results import failed_call, result_of
from chartloop.adapters.mcp_wire import Wire
from chartloop.core.errors import Category, ServerUnavailableError, SetupError, ToolsChangedError
from chartloop.core.outcome import ToolResult
from chartloop.core.specs import Effect
from chartloop.core.units import say_count, say_duration
from chartloop.extras import install
from chartloop.language.server_tools import VARIABLE, ServerSpec
from chartloop.language.tool_lock import LockedServer, lock_offers, server_differences
from chartloop.run.elicitation import Form, InputRequired, form_trouble
from chartloop.run.ports import SamplingRefused, ToolClient
from chartloop.run.redact import forms_of
from chartloop.run.sync import loop_thread

T = TypeVar("T")
LOG = logging.getLogger("chartloop.mcp")
"""The logger for the servers' stderr, line by line, at level INFO."""
STARTS = 2
"""The most starts of a server while a run is driven."""
MOST_OFFERED = 20_000
"""The most tools of a listing that are read."""
_ENDING = 8.0
"""The seconds that a server has to end: its pipe is closed, then it is terminated, then killed."""
_LINES, _LINE = 12, 500
"""The most lines of stderr that an error shows, and the most characters of each."""
_KEPT = 6
"""The least length of a variable's value that is hidden in the texts of a server."""

Offers = list[Any]


class McpServers:
    """The servers of one run, which `ready` starts."""

    def __init__(self, servers: Sequence[ServerSpec], folder: Path | None = None) -> None:
        self._connections = {_key(s): _Connection(s, folder) for s in servers}
        self._calls: dict[str, Call] = {}
        """The calls in flight, by key."""
        weakref.finalize(self, _end, list(self._connections.values()))

    def prepare(self) -> None:
        """Raise `SetupError` early if the package or a variable is missing."""
        _refuse_missing_package()
        for connection in self._connections.values():
            connection.prepare()

    async def ready(self) -> None:
        """Connect the servers that are not connected, and compare their tools with the lock.

        Raises:
            ServerUnavailableError: if a server did not start, initialize or list its tools in time.
            ToolsChangedError: if its tools differ from the lock.
        """
        waiting = [c for c in self._connections.values() if not c.was_opened]
        if waiting:
            await _cross(_open_all(waiting))

    async def call(
        self,
        server: ServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        client: ToolClient | None = None,
    ) -> ToolResult:
        """Call a tool; a failure of the call is a result, too.

        Raises `ToolsChangedError` if the server was restarted with other tools, and
        `InputRequired` if the call asks a question, while it stays in flight.
        """
        connection = self._connections[_key(server)]
        if client is None:
            return await _cross(connection.call(tool, arguments))
        call = self._calls.get(client.key)
        if call is None:
            call = self._calls[client.key] = Call(connection, tool, client)
            await _cross(call.start(arguments))
        else:
            await _cross(call.take_up(client))
        try:
            result = await self._follow(call, server, client)
        except InputRequired:
            call.warnings += client.warnings
            raise
        except BaseException:
            self._drop(client.key)
            raise
        del self._calls[client.key]
        return result.replace(warnings=(*result.warnings, *call.warnings, *client.warnings))

    async def _follow(self, call: Call, server: ServerSpec, client: ToolClient) -> ToolResult:
        """Follow a call to its result or to a question. Model calls run on the run's own loop."""
        while True:
            event = await _cross(call.next())
            if isinstance(event, ToolResult):
                return event
            if isinstance(event, Form):
                raise InputRequired(event, server.elicitation.within)
            try:
                reply = await client.sample(server, event.request)
            except SamplingRefused as refused:
                call.settle(event, refused)
            else:
                call.settle(event, reply)

    def let_go(self, run_id: str, action: str) -> None:
        """Cancel the calls in flight of other actions of a run than this one."""
        if not self._calls:
            return
        for key in list(self._calls):
            if key.startswith(f"{run_id}/") and not _is_below(key, action):
                self._drop(key)

    def _drop(self, key: str) -> None:
        call = self._calls.pop(key)
        loop_thread().call_soon_threadsafe(call.cancel)

    def in_flight(self, key: str) -> bool:
        """Whether a call with this key, or one below it, is in flight."""
        return any(_is_below(one, key) for one in self._calls)

    def asks(self, run_id: str) -> bool:
        """Whether calls of a run or its children are in flight and wait for an answer."""
        return any(key.startswith(f"{run_id}/") and c.asks for key, c in self._calls.items())

    async def close(self) -> None:
        """End the servers. They are connected again when the run continues."""
        for key in list(self._calls):
            self._drop(key)
        opened = [c for c in self._connections.values() if c.was_opened]
        if opened:
            await asyncio.shield(asyncio.ensure_future(_cross(_close_all(opened))))


def lock_server(
    server: ServerSpec, folder: Path | None, wanted: Callable[[str], bool]
) -> LockedServer:
    """Start a server, lock the wanted tools of its listing, and end it.

    Raises:
        SetupError: if the package `mcp` or a variable is missing.
        ServerUnavailableError: if the server did not start, initialize or list its tools in time.
    """
    _refuse_missing_package()
    connection = _Connection(server, folder)
    connection.prepare()

    async def ask() -> LockedServer:
        found = await connection.connect(wanted)
        await connection.close()
        return found

    return asyncio.run_coroutine_threadsafe(ask(), loop_thread()).result()


def _refuse_missing_package() -> None:
    if util.find_spec("mcp") is None:
        raise SetupError("the tools of MCP servers need the package `mcp`", hint=install("mcp"))


def _is_below(key: str, of: str) -> bool:
    """Whether a key is `of` or below it."""
    return key == of or key.startswith(f"{of}/")


def _key(server: ServerSpec) -> tuple[str, str]:
    return server.name, server.definition


async def _cross(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the loop thread, and return its result."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop_thread())
    return await asyncio.wrap_future(future)


async def _open_all(connections: Sequence[_Connection]) -> None:
    """Open all connections concurrently; the first error is raised after all have finished."""
    errors = await asyncio.gather(*(c.open() for c in connections), return_exceptions=True)
    for error in errors:
        if error is not None:
            raise error


async def _close_all(connections: Sequence[_Connection]) -> None:
    for connection in connections:
        for call in list(connection.calls):
            call.cancel()
    await asyncio.gather(*(c.close() for c in connections))


def _end(connections: Sequence[_Connection]) -> None:
    """End the servers of a deleted run object, or at the end of the process."""
    opened = [c for c in connections if c.was_opened]
    if not opened:
        return
    future = asyncio.run_coroutine_threadsafe(_close_all(opened), loop_thread())
    if threading.current_thread() is threading.main_thread():
        with contextlib.suppress(Exception):
            future.result(_ENDING)


class _Died(Exception):
    """The connection ended during a call."""


class _Connection:
    """The connection to one server. All methods but `prepare` run on the loop thread."""

    def __init__(self, server: ServerSpec, folder: Path | None) -> None:
        self.server = server
        self._folder = server.folder or str(folder or "")
        self._starts = 0
        self._client: Any = None
        self._wire = Wire(None, (), over_http=False)
        self._until = 0.0
        """When the server must have listed its tools, by the clock of the loop."""
        self._owner: asyncio.Task[None] | None = None
        self._closing: asyncio.Event | None = None
        self._opening: asyncio.Lock | None = None
        self._stderr: deque[str] = deque(maxlen=_LINES)
        self._babble = 0
        self._reader: threading.Thread | None = None
        self._hidden: dict[str, str] = {}
        """The values of variables, in plain and encoded form, to the variables' names."""
        self.calls: set[Call] = set()
        """The calls in flight that the server may ask something."""

    @property
    def was_opened(self) -> bool:
        """Whether it was connected since it was last closed, even if it has died."""
        return self._starts > 0

    # variables ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Raise `SetupError` for an unset variable."""
        for text in self.server.texts:
            for name, default in VARIABLE.findall(text):
                value = os.environ.get(name)
                if value is None and f"${{{name}:-" not in text:
                    raise SetupError(
                        f"MCP server `{self.server.name}` needs the environment variable "
                        f"`{name}`, which is not set",
                        hint=f"set it, or write a default into the file: `${{{name}:-...}}`",
                    )
                if value is None or value == default:
                    continue
                for part in (value, *value.splitlines()):  # stderr is read line by line
                    if len(part) >= _KEPT:
                        self._hidden.update((form, str(name)) for form in forms_of(part))

    def _expand(self, text: str) -> str:
        return VARIABLE.sub(lambda m: os.environ.get(m[1], m[2] or ""), text)

    def _mask(self, value: Any) -> Any:
        """Replace the values of variables in data of the server by the variables' names."""
        if isinstance(value, str):
            for secret, name in self._hidden.items():
                if secret in value:
                    value = value.replace(secret, f"${{{name}}}")
            return value
        # a listing may be large: the forms of a secret for JSON are among those that are hidden
        text = json.dumps(value, ensure_ascii=False) if self._hidden else ""
        if not any(secret in text for secret in self._hidden):
            return value
        if isinstance(value, Mapping):
            mapping = cast("Mapping[str, Any]", value)
            return {self._mask(k): self._mask(v) for k, v in mapping.items()}
        is_list = isinstance(value, (list, tuple))
        return [self._mask(v) for v in cast("list[Any]", value)] if is_list else value

    # opening --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect if necessary, and compare the tools with the lock."""
        self._opening = self._opening or asyncio.Lock()
        async with self._opening:
            if self._client is not None:
                return
            locked = LockedServer(self.server.definition, self.server.tools)
            now = await self.connect(locked.tools.__contains__)
            if lines := tuple(server_differences(self.server.name, locked, now)):
                await self.close()
                raise ToolsChangedError(self.server.name, lines)

    async def connect(self, wanted: Callable[[str], bool]) -> LockedServer:
        """Start or reach the server, and lock the wanted tools of its listing.

        A server that is too slow is ended in the background.
        """
        self._starts += 1
        self._babble = 0
        self._stderr.clear()
        await asyncio.to_thread(_import_mcp)  # takes a second, so not on this thread
        loop = asyncio.get_running_loop()
        self._until = time.monotonic() + self.server.connect_timeout
        ready: asyncio.Future[LockedServer] = loop.create_future()
        self._closing = asyncio.Event()
        calling = ASKING.set(None)  # the connection outlives the call that opens it
        owner = self._owner = loop.create_task(self._own(ready, self._closing, wanted))
        ASKING.reset(calling)
        try:
            async with asyncio.timeout(self.server.connect_timeout):
                return await asyncio.shield(ready)
        except TimeoutError:
            ready.cancel()
            owner.cancel()
            self._leave(owner)
            raise self._cannot_connect(TimeoutError()) from None

    async def _own(
        self, ready: asyncio.Future[LockedServer], closing: asyncio.Event,
        wanted: Callable[[str], bool],
    ) -> None:  # fmt: skip
        """Open the connection, keep it open until `closing` is set, and close it."""
        client: Any = None
        try:
            async with AsyncExitStack() as stack:
                client = await self._enter(stack)
                offers = self._in_time(await self._list(client), wanted)
                locked = await asyncio.to_thread(
                    lock_offers, self.server.definition, offers, wanted
                )
                self._client = client
                if not ready.done():
                    ready.set_result(locked)
                await closing.wait()
        except BaseException as error:  # noqa: BLE001  passed to the waiting caller
            if not ready.done():
                await self._read_last_words()
                ready.set_exception(self._cannot_connect(_first(error)))
        finally:
            if self._client is client:  # a slow end may overlap with the next start
                self._client = None

    async def _enter(self, stack: AsyncExitStack) -> Any:
        mcp, server = _import_mcp(), self.server
        more: dict[str, Any] = {"cache": None, "message_handler": self._hear}
        if server.elicitation.questions:
            more["elicitation_callback"] = self._elicit
            more["input_required_max_rounds"] = _MOST_ROUNDS
        if server.sampling is not None:
            more["sampling_callback"] = self._sample
        if server.url:
            httpx2: Any = importlib.import_module("httpx2")
            http: Any = importlib.import_module("mcp.client.streamable_http")
            headers = {name: self._expand(text) for name, text in server.headers.items()}
            reads = max(server.timeout, server.connect_timeout, self._longest_pause)
            agent = await stack.enter_async_context(
                httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=reads))
            )
            transport = http.streamable_http_client(self._expand(server.url), http_client=agent)
        else:
            stdio: Any = importlib.import_module("mcp.client.stdio")
            started = stdio.StdioServerParameters(
                command=self._expand(server.command),
                args=[self._expand(arg) for arg in server.args],
                env={name: self._expand(text) for name, text in server.env.items()},
                cwd=str(Path(self._folder, self._expand(server.cwd))) or None,
                encoding_error_handler="replace",
            )
            transport = stdio.stdio_client(started, errlog=self._open_stderr(stack))
        self._wire = Wire(transport, server.tools, over_http=bool(server.url))
        return await stack.enter_async_context(mcp.Client(self._wire, **more))

    async def _list(self, client: Any) -> Offers:
        """The tools of all pages, as the server wrote them: `mcp` would refuse all for one."""
        offers: Offers = []
        cursor: str | None = None
        while True:
            page = await client.list_tools(cursor=cursor)
            offers += self._wire.listed
            cursor = page.next_cursor
            if len(offers) > MOST_OFFERED:
                raise _TooManyError(f"offers more than {MOST_OFFERED:,} tools")
            if not cursor:
                return offers

    def _in_time(self, offers: Offers, wanted: Callable[[str], bool]) -> Iterator[Any]:
        """The wanted tools of a listing without secrets, until `connect_timeout` has passed."""
        for offer in offers:
            if time.monotonic() > self._until:
                raise TimeoutError
            given = cast("Mapping[str, Any]", offer if isinstance(offer, Mapping) else {})
            if wanted(str(given.get("name", ""))):
                yield self._mask(offer)

    async def _hear(self, message: Any) -> None:
        """Count the lines on stdout that are not messages of the protocol."""
        if isinstance(message, Exception):
            self._babble += 1

    def _open_stderr(self, stack: AsyncExitStack) -> Any:
        """A file for the server's stderr, which a thread reads to its end."""
        read, write = os.pipe()
        self._reader = threading.Thread(target=self._read_stderr, args=(read,), daemon=True)
        self._reader.start()
        return stack.enter_context(os.fdopen(write, "w"))

    def _read_stderr(self, read: int) -> None:
        with os.fdopen(read, errors="replace") as lines:
            for line in _first_parts(lines):
                # first masked, then cut: half of a secret is not found
                if masked := str(self._mask(line)).rstrip()[:_LINE]:
                    self._stderr.append(masked)
                    LOG.info("%s: %s", self.server.name, masked)

    async def _read_last_words(self) -> None:
        """Wait until what an ended server wrote to stderr is read."""
        if self._reader is not None:
            await asyncio.to_thread(self._reader.join, 1.0)

    # errors ---------------------------------------------------------------------------------

    def _cannot_connect(self, error: BaseException) -> ServerUnavailableError:
        where = self.server.url or self.server.command
        if isinstance(error, TimeoutError):
            return self._unavailable(
                f"did not answer in {say_duration(self.server.connect_timeout)}",
                "give it more time with `connect_timeout`, or start it by hand and look",
            )
        if isinstance(error, FileNotFoundError) and not self.server.url:
            folder = self._folder or "."
            return self._unavailable(
                f"cannot be started: there is no `{where}`, or no folder `{folder}`",
                "install it, or give its path in `command`",
            )
        if isinstance(error, OSError) and not self.server.url:
            return self._unavailable(f"cannot be started: {error}", "look at its `command`")
        if isinstance(error, _TooManyError):
            return self._unavailable(str(error), "run a server that offers fewer")
        detail = " ".join(str(self._mask(str(error))).split())[:_LINE]
        if type(error).__name__ == "ValidationError":
            return self._unavailable(
                f"gave a listing that cannot be read: {detail}", "report it there"
            )
        if self._wire.has_ended_by(error) and not self.server.url:
            return self._unavailable("ended before it answered", "start it by hand and look")
        problem = f"cannot be reached: {type(error).__name__}: {detail}"
        return self._unavailable(problem, f"look at `{where}`")

    @property
    def _babbled(self) -> str:
        lines = say_count(self._babble, "line")
        return f"it has written {lines} that {'is' if self._babble == 1 else 'are'} no MCP message"

    def _unavailable(self, what: str, hint: str) -> ServerUnavailableError:
        lines = [f"MCP server `{self.server.name}` {self._mask(what)}"]
        if self._babble:
            lines.append(self._babbled)
        if self._stderr:
            lines += ["its last words on stderr:", *(f"  {line}" for line in self._stderr)]
        return ServerUnavailableError("\n".join(lines), hint=hint)

    # calls ----------------------------------------------------------------------------------

    async def call(
        self, tool: str, arguments: Mapping[str, Any], call: Call | None = None
    ) -> ToolResult:
        """Make a call, and repeat it if the server died and the call may be made twice."""
        name = f"{self.server.name}.{tool}"
        for last in (False, True):
            try:
                if self._client is None:
                    if self._starts >= STARTS:
                        message = "has ended, and was already started again once"
                        hint = "look at what it says; a resumed run tries again"
                        raise self._unavailable(message, hint)
                    await self.open()
            except ServerUnavailableError as error:
                return failed_call(str(error).partition("\n")[0], Category.TRANSIENT, (str(error),))
            try:
                return await self._ask(tool, arguments, call)
            except _Died:
                await self.close(again=True)
                await self._read_last_words()
                if last or self.server.effect is Effect.PAID:
                    return self._lost(name, f"server `{self.server.name}` ended in this call")
            except TimeoutError:
                return self._lost(name, f"no answer in {say_duration(self.server.timeout)}")
        raise AssertionError("the second attempt returns")

    async def _ask(self, tool: str, arguments: Mapping[str, Any], call: Call | None) -> ToolResult:
        client = self._client
        try:
            async with asyncio.timeout(self.server.timeout) as time:
                if call is not None:
                    call.time = time
                reply = await client.call_tool(tool, dict(arguments))
        except TimeoutError:
            raise
        except Exception as error:
            if client is not self._client or self._wire.has_ended_by(_first(error)):
                raise _Died from error
            message = str(self._mask(f"the server refused the call: {_first(error)}"))
            if (reason := reason_of_refusal(message)) is None:
                if type(error).__name__ in _UNREAD:
                    return self._lost(f"{self.server.name}.{tool}", "its answer cannot be read")
                return failed_call(message, Category.RECOVERABLE)
            message = f"{message}; {reason}"
            warning = f"{self.server.name}.{tool}: {message}"
            return failed_call(message, Category.RECOVERABLE, (warning,))
        name = f"{self.server.name}.{tool}"
        return result_of(reply, self._mask, self.server.tools.get(tool), name)

    def _lost(self, name: str, why: str) -> ToolResult:
        """The result of a call whose answer is unknown."""
        if self._babble:
            why = f"{why}; {self._babbled}"
        if self.server.effect is not Effect.PAID:
            return failed_call(f"{name}: {why}", Category.TRANSIENT)
        message = f"{name}: {why}; whether it was carried out is not known"
        more = "".join(f"\n  {line}" for line in self._stderr)
        return failed_call(message, Category.RECOVERABLE, (message + more,), in_doubt=True)

    # requests of the server -----------------------------------------------------------------

    @property
    def _longest_pause(self) -> float:
        """The seconds that a call may be silent, besides its own time."""
        asks = self.server.elicitation.within if self.server.elicitation.questions else 0.0
        return asks + (_LONGEST_MODEL_CALL if self.server.sampling is not None else 0.0) + 30

    async def _elicit(self, context: Any, params: Any) -> Any:
        """Answer the server's request for a form. Source: `mcp`, `elicitation_callback`."""
        if params.mode != "form":
            return _refuse("Elicitation by URL is not supported; ask for a form")
        calls = self._asking()
        if not calls:
            return _refuse("Elicitation outside a call of a tool is not answered")
        text = " ".join(str(self._mask(params.message)).split())
        schema = self._mask(dict(params.requested_schema))
        if why := form_trouble(text, schema):
            calls[0].warn(f"a question was refused: {why}")
            return _refuse(f"Elicitation refused: {why}")
        answer = await first_answer(calls, text, schema)
        types: Any = importlib.import_module("mcp_types")
        return types.ElicitResult(action=answer["action"], content=answer.get("content"))

    async def _sample(self, context: Any, params: Any) -> Any:
        """Answer the server's request for a model call. Source: `mcp`, `sampling_callback`."""
        calls = self._asking()
        if not calls:
            return _refuse("Sampling outside a call of a tool is not answered")
        request = sample_request(params, self._mask)
        if isinstance(request, str):
            calls[0].warn(f"a model call was refused: {request}")
            return _refuse(f"Sampling refused: {request}")
        try:
            reply = await calls[0].sample(request)
        except SamplingRefused as refused:
            return _refuse(f"Sampling refused: {refused}")
        types: Any = importlib.import_module("mcp_types")
        ended = {"stop": "endTurn", "length": "maxTokens"}.get(str(reply["finish_reason"]))
        content = types.TextContent(type="text", text=reply["text"])
        return types.CreateMessageResult(
            role="assistant", content=content, model=reply["model"] or "unknown",
            stop_reason=ended or str(reply["finish_reason"]),
        )  # fmt: skip

    def _asking(self) -> list[Call]:
        """The calls that a request of the server may belong to.

        Since the protocol of 2026 a request belongs to a call. Before, it does not name its call,
        and may belong to any in flight.
        """
        own = ASKING.get()
        return [own] if own is not None else sorted(self.calls, key=lambda call: call.number)

    # closing --------------------------------------------------------------------------------

    async def close(self, *, again: bool = False) -> None:
        """End the server. With `again` its starts still count."""
        owner, self._client = self._owner, None
        if self._closing is not None:
            self._closing.set()
        if owner is not None:
            await asyncio.wait({owner}, timeout=min(_ENDING, self.server.connect_timeout))
            self._leave(owner)
        if not again:
            self._starts = 0

    def _leave(self, owner: asyncio.Task[None]) -> None:
        """Let a server end in the background; the process waits for it at its own end."""
        self._owner = None
        if not owner.done():
            _LEAVING.add(owner)
            owner.add_done_callback(_LEAVING.discard)


_LEAVING: set[asyncio.Task[None]] = set()
"""The owners of servers that take long to end."""


@atexit.register
def _wait_for_leaving() -> None:
    async def wait() -> None:
        await asyncio.wait(_LEAVING)

    if _LEAVING:
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(wait(), loop_thread()).result(_ENDING)


_LONGEST_MODEL_CALL = 600.0
"""The seconds that a server may wait for a model call before it counts as dead."""
_MOST_ROUNDS = 100
"""The most repetitions of a call with answers; the file's limits are lower."""


def _refuse(text: str) -> Any:
    """An error reply to the server, which the tool can read."""
    types: Any = importlib.import_module("mcp_types")
    return types.ErrorData(code=types.INVALID_REQUEST, message=text)


class _TooManyError(Exception):
    """A listing has too many tools."""


def _first_parts(lines: Any) -> Iterator[str]:
    """The beginning of each line of a file."""
    begins = True
    while line := lines.readline(100_000):
        if begins:
            yield line
        begins = line.endswith("\n")


def _first(error: BaseException) -> BaseException:
    """The first single error in nested groups of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


_UNREAD = ("ValidationError", "RuntimeError")
"""The errors of `mcp` for an invalid answer, or one that does not fit the tool's schema."""


@cache
def _import_mcp() -> Any:
    """Import the package once. Without handlers its log goes nowhere."""
    logging.getLogger("mcp").addHandler(logging.NullHandler())
    return importlib.import_module("mcp")
