"""Execution of one tool: whatever it does, the result is a `ToolResult`.

A plain function runs on a worker thread and a coroutine in its own task, so that a tool that hangs
or ignores its cancellation delays neither the run nor its deadline. A tool declared as
non-blocking runs in place. A tool may raise anything and return anything.

Source: 004 "Tool Call Step"; 002 "AgentStopException".
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, TypeVar, cast

from msgspec.structs import replace

from chartloop.core.errors import (
    Category,
    ModelError,
    ScriptError,
    SetupError,
    ToolError,
    ToolsChangedError,
)
from chartloop.core.facts import ToolCall
from chartloop.core.media_parts import is_media, say_parts
from chartloop.core.outcome import ToolResult
from chartloop.core.specs import Effect, ToolSpec
from chartloop.core.transcript import NOT_KNOWN
from chartloop.run.abandon import or_leave
from chartloop.run.context import Context
from chartloop.run.elicitation import InputRequired
from chartloop.run.exceptions import UNSURE, AgentStop, describe, is_own, stop_signal
from chartloop.run.media import MOST, File, Image, parts_of
from chartloop.run.sanitize import cut_text, is_sound, sound_data, sound_signal, text_for_model
from chartloop.run.sync import running_loop
from chartloop.run.workers import Made, in_thread, on_loop

T = TypeVar("T")


async def run_tool(
    ctx: Context, spec: ToolSpec, arguments: Mapping[str, Any], key: str
) -> ToolResult:  # fmt: skip
    """Call a tool's function. What it returns after its deadline is kept under its `key`.

    Raises only for cancellation, Ctrl-C, an error in a test's script, changed tools of an MCP
    server, and `InputRequired`.
    """
    own = (replace(ctx, key=key),) if spec.wants_context else ()
    call = partial(spec.call, *own, **arguments)
    seconds = 0.0
    if not spec.suspends:
        start = time.perf_counter()
        value, error = _at_once(spec, call)
        seconds = time.perf_counter() - start
    else:
        late = ctx.host.returned
        if spec.blocking:
            told = partial(_call_and_keep, ctx, spec, key, call)
            value, error = await in_thread(spec.name, told, partial(_seconds_left, ctx))
        else:
            value, error = await _await_tool(partial(_await_and_keep, ctx, spec, key, call))
        late.pop(key, None)
        if error is None and inspect.isawaitable(value):  # a plain function that gave a coroutine
            value, error = await with_loop(ctx, _await_tool(partial(_await_value, value)))
    result = _result(ctx, value) if error is None else _result_of(ctx, spec, error)
    if seconds > LONGEST_IN_PLACE:
        held_up = HELD_UP.format(spec.name, seconds)
        return result.replace(warnings=(*result.warnings, held_up))
    return result


def _call_and_keep(ctx: Context, spec: ToolSpec, key: str, call: Callable[[], Any]) -> Any:
    """Call a tool, and keep what comes of it for a run that may have gone on by then."""
    try:
        value = call()
    except Exception as error:
        ctx.host.returned[key] = partial(_result_of, ctx, spec, error)
        raise
    if not inspect.isawaitable(value):
        ctx.host.returned[key] = partial(_result, ctx, value)
    return value


async def _await_and_keep(
    ctx: Context, spec: ToolSpec, key: str, call: Callable[[], Awaitable[Any]]
) -> Any:
    try:
        value = await call()
    except Exception as error:
        ctx.host.returned[key] = partial(_result_of, ctx, spec, error)
        raise
    ctx.host.returned[key] = partial(_result, ctx, value)
    return value


def _result_of(ctx: Context, spec: ToolSpec, error: BaseException) -> ToolResult:
    """The result of a call that raised."""
    if isinstance(error, AgentStop):
        text = cut_text(error.message) or "stopped"
        signal = stop_signal(ctx, error, spec.name)
        return ToolResult(text, result=dict(signal.context), signals=(signal,))
    if isinstance(error, (ScriptError, ToolsChangedError, InputRequired)):
        raise error
    text = error.message if isinstance(error, ToolError) else describe(error)
    if spec.effect is Effect.PAID and isinstance(error, UNSURE):
        said = f"{NOT_KNOWN} ({text})"
        return ToolResult(cut_text(said), ok=False, category=_category(error), in_doubt=True)
    return failed_result(text, _category(error))


def _seconds_left(ctx: Context) -> float:
    """Seconds until the deadline; infinite without one, and on a simulated clock."""
    clock, deadline = ctx.ports.clock, ctx.deadline
    return inf if deadline is None or not clock.suspends else deadline - clock.now()


async def with_loop(ctx: Context, work: Coroutine[Any, Any, T]) -> T:
    """Await what needs an event loop. Driven by hand there is none: the loop thread does it."""
    return await (work if running_loop() is not None else on_loop(_in_time(ctx, work)))


async def _in_time(ctx: Context, work: Coroutine[Any, Any, T]) -> T:
    clock, deadline = ctx.ports.clock, ctx.deadline
    if deadline is None or not clock.suspends:
        return await work
    try:
        with clock.deadline(deadline):
            return await work
    except TimeoutError:
        await clock.sleep(deadline - clock.now())  # the loop's clock may be ahead by a hair
        raise


def _at_once(spec: ToolSpec, call: Callable[[], Any]) -> Made:
    """Call a non-blocking tool on the thread that drives the run."""
    try:
        value = call()
    except BaseException as error:
        if not is_own(error):
            raise
        return None, error
    if inspect.iscoroutine(value):
        value.close()
        return None, ToolError(f"tool `{spec.name}` {NO_COROUTINE}")
    return value, None


LONGEST_IN_PLACE = 0.2
"""The seconds that a non-blocking tool may take without a warning."""
HELD_UP = (
    "tool `{}` says that it does not block, and held everything up for {:.1f} s: take "
    "`blocking=False` away, or make it `async`"
)
NO_COROUTINE = "says that it does not block, and gave a coroutine: make it `async`"


def failed_result(text: str, category: str = Category.RECOVERABLE) -> ToolResult:
    """The result of a failed call, as the model reads it."""
    return ToolResult(cut_text(f"error: {text}"), ok=False, category=category)


def parsed_arguments(spec: ToolSpec, call: ToolCall) -> Mapping[str, Any] | ToolResult:
    """The arguments of a call; the reply to one with wrong arguments."""
    try:
        return spec.parse(call.arguments)
    except Exception as error:  # noqa: BLE001  the application's own types may raise anything
        return failed_result(str(error) if isinstance(error, ValueError) else describe(error))


def refusal(ctx: Context, name: str, why: str) -> ToolResult:
    """The reply to a refused call: the reason, and the tools that the model may call."""
    listed = ", ".join(f"`{tool.name}`" for tool in ctx.tools) or "none"
    if name not in ctx.machine.registry.tools:
        return failed_result(f"there is no tool `{name}`; the tools are: {listed}")
    return failed_result(f"tool `{name}` {why}; you may call: {listed}")


def _category(error: BaseException) -> str:
    if isinstance(error, (ToolError, ModelError)):
        return error.category
    late = isinstance(error, (TimeoutError, ConnectionError))
    return Category.TRANSIENT if late else Category.RECOVERABLE


async def _await_tool(call: Callable[[], Awaitable[Any]]) -> Made:
    try:
        return await or_leave(call()), None
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)) and not is_own(error):
            raise
        return None, error


async def _await_value(value: Awaitable[Any]) -> Any:
    return await value


def _result(ctx: Context, value: Any) -> ToolResult:
    if type(value) is str:  # the usual case
        text = cut_text(value)
        return ToolResult(text, result=text)
    if inspect.isgenerator(value) or inspect.isasyncgen(value):
        return failed_result("the tool returned a generator; it must return what that would give")
    try:
        if isinstance(value, ToolResult):
            return _validate_result(ctx, value)
        if media := _media_of(value):
            parts = parts_of(media)
            items = cast("list[Any]", list(value) if isinstance(value, (list, tuple)) else [])  # pyright: ignore[reportUnknownArgumentType]
            texts = [text_for_model(one) for one in items if not isinstance(one, (Image, File))]
            media_text = say_parts(part for part in parts if is_media(part))
            text = cut_text("\n".join(texts))
            whole = "\n".join(filter(None, (text, media_text)))
            return ToolResult(text, result=whole or "done", parts=tuple(parts))
        return ToolResult(text_for_model(value), result=sound_data(value))
    except Exception as error:  # noqa: BLE001  a value may raise anything when it is read
        return failed_result(f"what the tool returned cannot be read: {describe(error)}")


def _media_of(value: Any) -> list[Image | File]:
    """The images and files that a tool returned, alone or in a list."""
    if isinstance(value, (Image, File)):
        return [value]
    if isinstance(value, (list, tuple)):
        return [one for one in cast("Sequence[Any]", value) if isinstance(one, (Image, File))]
    return []


def _sound_parts(parts: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """Validate the message parts of a tool's own `ToolResult`."""
    if len(parts) > MOST or not all(isinstance(p, Mapping) and is_sound(p) for p in parts):  # pyright: ignore[reportUnknownArgumentType]
        raise SetupError(
            "`parts` are at most 20 parts of a message", hint='take `Image.read("a.png").part`'
        )
    return tuple(parts)


def _validate_result(ctx: Context, result: ToolResult) -> ToolResult:
    """Validate a tool's own `ToolResult`, and remove values that a record cannot hold."""
    for name, value in result.changes.items():
        root, _, block = name.partition(".")
        if root != "memory" or block not in ctx.facts.memory or not isinstance(value, str):
            return failed_result(
                f"the tool changed `{name}`: tools change memory blocks only, to a text"
            )
    changes = {name: cut_text(cast(str, value)) for name, value in result.changes.items()}
    return result.replace(
        text=text_for_model(result.text), ok=bool(result.ok), result=sound_data(result.result),
        changes=changes,
        partial=tuple(text_for_model(part) for part in result.partial),
        signals=tuple(sound_signal(signal) for signal in result.signals),
        progressed=bool(result.progressed),
        warnings=tuple(text_for_model(one) for one in result.warnings),
        parts=_sound_parts(result.parts) if result.parts else (),
    )  # fmt: skip
