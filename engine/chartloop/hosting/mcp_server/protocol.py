"""The tools over the protocol: the door to the package `mcp`.

A question reaches the client's user in one of two ways. Up to revision 2025-11-25, the server asks
while the call is open. From 2026-07-28 on, the call returns an input request, and the client makes
the call again with the input. The state of that call holds the run and the wait, unsealed: any
caller of `answer` may name both, and a restarted server must be able to read it.

Belongs here: requests, results, progress, elicitation and errors in the protocol's terms. Never:
the work of a tool.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, cast

import anyio
import mcp_types as types
from anyio import CancelScope, get_cancelled_exc_class
from mcp.server import Server, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from chartloop.api import new_run_id
from chartloop.core.errors import AnswerError, ArgumentsError, WaitError
from chartloop.core.version import __version__
from chartloop.hosting.mcp_server.elicitation_form import form_of, read_form
from chartloop.hosting.mcp_server.machine_tools import (
    ANSWER_WAIT,
    OWN,
    ToolShape,
    machine_tool,
    refuse_arguments,
)
from chartloop.hosting.mcp_server.tool_calls import Calls, Progress, Standing
from chartloop.hosting.problems import Refusal
from chartloop.hosting.safety import Identity
from chartloop.run.question import Question
from chartloop.run.tenants import ALL_TENANTS, Reach

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]
Reply = types.CallToolResult | types.InputRequiredResult
Begin = Callable[[], Awaitable[None]]
ASKED = "answer"
"""The key of the one input request that a call may return to its client."""
TRIES = 3
"""How often a form is sent again when the run refuses its answer."""
PAUSE_WITHIN = 5.0
"""Seconds within which the run of a cancelled call must be paused."""
INSTRUCTIONS = (
    "Each tool that is not one of start, answer, status, cancel, resume and why runs a machine: an"
    " agent that is written as a state machine. Its result names the run. Where `status` is"
    " `waiting` the run asks a person: answer with `answer`. A call that is cancelled pauses its"
    " run: `resume` continues it."
)


class ProtocolServer:
    """The handler of client requests: one for all connections of a server."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def server(self) -> Server[Any]:
        """The server, ready to run over a transport."""
        return Server(
            "chartloop", version=__version__, title="chartloop", instructions=INSTRUCTIONS,
            on_list_tools=self.list_tools, on_call_tool=self.call_tool,
        )  # fmt: skip

    async def list_tools(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        """List every tool, in one page."""
        if params is not None and params.cursor is not None:
            raise MCPError(types.INVALID_PARAMS, "there is one page: give no cursor")
        return types.ListToolsResult(tools=[_tool(shape) for shape in await self._calls.shapes()])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Reply:
        """Handle one call. Its errors are results; only an unknown tool is a protocol error."""
        name, arguments = params.name, dict(params.arguments or {})
        try:
            if name in OWN:
                own = "answer" if name == "answer" else "drive"
                _need(ctx, "read" if OWN[name].reads_only else own)
                refuse_arguments(OWN[name], arguments)
                if "run" in arguments:
                    arguments["run"] = _reach(ctx).whole(arguments["run"])
                return await getattr(self, f"_{name}")(ctx, params, arguments)
            return await self._machine(ctx, params, arguments)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001  returned to the client; internal ones are logged
            body, text = self._calls.error(_single(error))
            return types.CallToolResult(
                content=[types.TextContent(text=text)], structured_content=body, is_error=True
            )

    # machines -----------------------------------------------------------------------------------

    async def _machine(
        self, ctx: Context, params: types.CallToolRequestParams, arguments: Json
    ) ->Reply:  # fmt: skip
        _need(ctx, "drive")
        if params.request_state is not None:
            return await self._retry(ctx, params)
        try:
            shape = machine_tool(await self._calls.machine(params.name))
        except ArgumentsError as error:  # no such machine: to the protocol, an unknown tool
            message = f"there is no tool `{params.name}`: {error.hint}"
            raise MCPError(types.INVALID_PARAMS, message) from None
        refuse_arguments(shape, arguments)
        run_id = _reach(ctx).whole(new_run_id())
        return await self._drive(
            ctx,
            run_id,
            partial(self._calls.start, params.name, arguments, run_id, _person(ctx)),
        )

    async def _drive(
        self, ctx: Context, run_id: str, begin: Begin | None = None, past: str = ""
    ) -> Reply:
        """Follow a run until it stops, and ask the client's user its questions on the way.

        `begin` starts it: the client is sent the progress of every step from then on. A call that
        ends early, by a cancel or a lost connection, pauses its run.
        """
        after = await self._calls.head(run_id)
        try:
            if begin is not None:
                await begin()
            return await self._follow(ctx, run_id, past, after)
        except get_cancelled_exc_class():
            with CancelScope(shield=True, deadline=anyio.current_time() + PAUSE_WITHIN):
                await self._calls.hold(run_id)
            raise

    async def _follow(self, ctx: Context, run_id: str, past: str, after: int) -> Reply:
        async def report(number: int, step: str) -> None:
            await ctx.session.report_progress(number, None, f"run {run_id}: {step}")

        progress = None
        if ctx.meta and ctx.meta.get("progress_token") is not None:
            progress = Progress(report, after)
        while True:
            await self._calls.follow(run_id, past=past, progress=progress)
            now = await self._calls.standing(run_id)
            if now.question is None or now.question.rest or not _can_ask(ctx):
                return _result(now)
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                return self._input_request(run_id, now.question)
            elicited = await self._ask(ctx, run_id, now.question)
            if not elicited.sent:
                return _result(await self._calls.standing(run_id, elicited.note))
            past = now.question.wait

    # questions: the server asks while the call is open ------------------------------------------

    async def _ask(self, ctx: Context, run_id: str, question: Question) -> _Elicited:
        """Ask the client's user until the run accepts the answer or no longer waits for it."""
        done: list[_Elicited] = []

        async def ask(scope: CancelScope) -> None:
            done.append(await self._elicit(ctx, run_id, question))
            scope.cancel()

        async def watch(scope: CancelScope) -> None:
            await self._calls.wait_over(run_id, question.wait)
            done.append(_Elicited(True, "the question was answered elsewhere, or expired"))
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(ask, group.cancel_scope)
            group.start_soon(watch, group.cancel_scope)
        return done[0]

    async def _elicit(self, ctx: Context, run_id: str, question: Question) -> _Elicited:
        form, refused = form_of(question), ""
        for _ in range(TRIES):
            message = self._calls.redactor.text(f"{refused}{form.message}")
            try:
                reply = await ctx.session.elicit_form(message, form.schema, ctx.request_id)
            except MCPError as error:
                return _Elicited(False, f"the client could not ask: {error}")
            except ValueError:  # its reply is not a form result
                return _Elicited(False, "what the client answered cannot be read")
            if reply.action != "accept":
                return _Elicited(False, _NOT_ANSWERED[reply.action])
            try:
                await self._send(ctx, run_id, question, reply)
            except WaitError:
                return _Elicited(True, "")  # answered elsewhere, or too late: follow the run
            except AnswerError as error:
                refused = f"{error.message}. "
            else:
                return _Elicited(True, "")
        return _Elicited(False, f"the answer was refused {TRIES} times: {refused.strip()}")

    async def _send(
        self, ctx: Context, run_id: str, question: Question, reply: types.ElicitResult
    ) -> None:  # fmt: skip
        event, data = read_form(question, reply.content or {})
        body = {"event": event, "data": data, "wait": question.wait, "shown": question.digest}
        await self._calls.answer(run_id, body, _person(ctx))

    # questions: the call returns, and the client repeats it with the answer -----------------------

    def _input_request(self, run_id: str, question: Question, refused: str = "") -> Reply:
        form = form_of(question)
        message = self._calls.redactor.text(f"{refused}{form.message}")
        params = types.ElicitRequestFormParams(message=message, requested_schema=form.schema)
        return types.InputRequiredResult(
            input_requests={ASKED: types.ElicitRequest(params=params)},
            request_state=json.dumps({"run": run_id, "wait": question.wait}),
        )

    async def _retry(self, ctx: Context, params: types.CallToolRequestParams) -> Reply:
        """Handle a repeated call: the answer in it is checked as by the tool `answer`."""
        run_id, wait = _state(params.request_state or "")
        run_id = _reach(ctx).whole(run_id)
        row = await self._calls.row(run_id)
        if row.machine != params.name and params.name not in OWN:
            raise ArgumentsError(f"run `{run_id}` is not one of `{params.name}`")
        reply = (params.input_responses or {}).get(ASKED)
        if not isinstance(reply, types.ElicitResult):
            return await self._drive(ctx, run_id)
        if reply.action != "accept":
            return _result(await self._calls.standing(run_id, _NOT_ANSWERED[reply.action]))
        question = (await self._calls.standing(run_id)).question
        if question is None or question.wait != wait:
            return await self._drive(ctx, run_id, past=wait)

        async def send() -> None:
            with suppress(WaitError):  # answered elsewhere, or too late: follow the run
                await self._send(ctx, run_id, question, reply)

        try:
            return await self._drive(ctx, run_id, send, past=wait)
        except AnswerError as error:
            return self._input_request(run_id, question, f"{error.message}. ")

    # the server's own tools ---------------------------------------------------------------------

    async def _start(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        name = arguments.pop("machine")
        shape = machine_tool(await self._calls.machine(name))
        run_id = _reach(ctx).whole(new_run_id())
        refuse_arguments(shape, arguments)
        await self._calls.start(name, arguments, run_id, _person(ctx))
        message = f"run {run_id} has been started: `status` shows it"
        return _result(await self._calls.standing(run_id, message), message)

    async def _answer(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        run_id, seconds = arguments["run"], arguments.get("seconds", ANSWER_WAIT)
        body = {name: value for name, value in arguments.items() if name not in ("run", "seconds")}
        past = await self._calls.answer(run_id, body, _person(ctx))
        return await self._see(run_id, seconds, past)

    async def _status(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        if "run" in arguments:
            whole = arguments.get("whole", False)
            return await self._see(arguments["run"], arguments.get("seconds", 0), whole=whole)
        runs = await self._calls.newest(_reach(ctx))
        return types.CallToolResult(
            content=[types.TextContent(text=json.dumps(runs, ensure_ascii=False))],
            structured_content=runs,
        )

    async def _cancel(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        await self._calls.cancel(arguments["run"], arguments.get("message", ""))
        return await self._see(arguments["run"], arguments.get("seconds", 10), any_wait=True)

    async def _resume(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        if params.request_state is not None:
            return await self._retry(ctx, params)
        run_id = arguments["run"]
        return await self._drive(ctx, run_id, partial(self._calls.resume, run_id))

    async def _why(self, ctx: Context, params: Any, arguments: Json) -> Reply:
        decision, text = await self._calls.why(arguments["run"], arguments.get("record"))
        return types.CallToolResult(
            content=[types.TextContent(text=text)], structured_content=decision
        )

    async def _see(
        self, run_id: str, seconds: float, past: str = "", *, any_wait: bool = False,
        whole: bool = False,
    ) -> Reply:  # fmt: skip
        """The run once it stops, or as it is after `seconds`."""
        if any_wait and (question := (await self._calls.row(run_id)).question) is not None:
            past = question.wait
        await self._calls.row(run_id)
        if seconds:
            await self._calls.follow(run_id, past=past, seconds=seconds)
        return _result(await self._calls.standing(run_id, whole=whole))


class _Elicited(NamedTuple):
    """The outcome of a question to the client's user."""

    sent: bool
    """Whether the run moves on, so that it is followed."""
    note: str


_NOT_ANSWERED = {
    "decline": "the person declined to answer: the run still waits",
    "cancel": "the person closed the form without an answer: the run still waits",
}


def _single(error: Exception) -> Exception:
    """The error inside nested groups of one error; other errors unchanged."""
    inner: Any = error
    while isinstance(inner, ExceptionGroup) and len(cast("Any", inner).exceptions) == 1:
        inner = cast("Any", inner).exceptions[0]
    return cast("Exception", inner)


def _tool(shape: ToolShape) -> types.Tool:
    return types.Tool(
        name=shape.name, title=shape.title, description=shape.description,
        input_schema=shape.input, output_schema=shape.output,
        annotations=types.ToolAnnotations(title=shape.title, read_only_hint=shape.reads_only),
    )  # fmt: skip


def _result(now: Standing, text: str = "") -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(text=text or now.text)], structured_content=now.body,
        is_error=now.is_error,
    )  # fmt: skip


def _can_ask(ctx: Context) -> bool:
    """Whether the client can show a form to its user on request."""
    capabilities = ctx.session.client_capabilities
    elicits = capabilities.elicitation if capabilities is not None else None
    if elicits is None or (elicits.form is None and elicits.url is not None):
        return False
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request


def _state(text: str) -> tuple[str, str]:
    """The run and the wait in the state of a repeated call."""
    try:
        state = json.loads(text)
        return str(state["run"]), str(state["wait"])
    except (ValueError, TypeError, KeyError):
        raise ArgumentsError(
            "the state of this call is not one that this server gave", hint="make the call anew"
        ) from None


def _identity(ctx: Context) -> Identity | None:
    """Who calls; None over stdio, which has no tokens."""
    return None if ctx.request is None else ctx.request.scope.get("state", {}).get("identity")


def _reach(ctx: Context) -> Reach:
    """The runs that the caller may see: over stdio, all."""
    identity = _identity(ctx)
    return ALL_TENANTS if identity is None else identity.reach


def _person(ctx: Context) -> str:
    """The name that signs runs and answers: the token's; over stdio there is none."""
    identity = _identity(ctx)
    return "" if identity is None else identity.person


def _need(ctx: Context, scope: Any) -> None:
    """Raise `Refusal` if the caller's token lacks a scope. Over stdio there are no tokens."""
    identity = _identity(ctx)
    if identity is not None and not identity.allows(scope):
        raise Refusal(
            403, f"this needs a token with the scope `{scope}`",
            hint=f"yours has `{identity.scope}`",
        )  # fmt: skip
