"""Carrying out one tool: whatever it does, a `ToolResult` comes of it.

A plain function runs in another thread, a coroutine in its own task, so that one that hangs
or ignores that it was cancelled holds up neither the run nor its deadline. One that says it does
not block runs where it is. A tool may raise anything and return anything.

Source: 004 "Tool Call Step"; 002 "AgentStopException".
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from chartloop.core.errors import (
    Category,
    ModelError,
    ScriptError,
    SetupError,
    ToolError,
    ToolsChangedError,
)
from chartloop.core.media_parts import is_media, say_parts
from chartloop.core.outcome import ToolResult
from chartloop.core.specs import ToolSpec
from chartloop.run.abandon import or_leave
from chartloop.run.context import Context
from chartloop.run.elicitation import InputRequired
from chartloop.run.exceptions import AgentStop, describe, is_own, stop_signal
from chartloop.run.media import MOST, File, Image, parts_of
from chartloop.run.sanitize import cut_text, is_sound, sound_data, sound_signal, text_for_model
from chartloop.run.workers import Made, in_thread


async def run_tool(ctx: Context, spec: ToolSpec, arguments: Mapping[str, Any]) -> ToolResult:
    """Call the function.

    Raises only for cancellation, Ctrl-C, a test's script that is wrong, and `InputRequired`.
    """
    call = partial(spec.call, *((ctx,) if spec.wants_context else ()), **arguments)
    if not spec.suspends:
        return _at_once(ctx, spec, call)
    made, error = await (in_thread(spec.name, call) if spec.blocking else _await_tool(call))
    if error is None and inspect.isawaitable(made):  # a plain function that gives a coroutine
        made, error = await _await_tool(partial(_itself, made))
    return _result_of(ctx, spec, made, error)


def _result_of(ctx: Context, spec: ToolSpec, made: Any, error: BaseException | None) -> ToolResult:
    if isinstance(error, AgentStop):
        text = cut_text(error.message) or "stopped"
        signal = stop_signal(ctx, error, spec.name)
        return ToolResult(text, result=dict(signal.context), signals=(signal,))
    if isinstance(error, (ScriptError, ToolsChangedError, InputRequired)):
        raise error
    if error is not None:
        return failed_result(_error_text(error), _category(error))
    return _result(ctx, made)


def _at_once(ctx: Context, spec: ToolSpec, call: Callable[[], Any]) -> ToolResult:
    """A call on the thread that drives the run: the tool said that it does not block."""
    began = time.perf_counter()
    made: Any = None
    error: BaseException | None = None
    try:
        made = call()
    except BaseException as raised:
        if not is_own(raised):
            raise
        error = raised
    took = time.perf_counter() - began
    if inspect.iscoroutine(made):
        made.close()
        error = ToolError(f"tool `{spec.name}` {NO_COROUTINE}")
    result = _result_of(ctx, spec, made, error)
    if took <= HELD:
        return result
    return result.replace(warnings=(*result.warnings, HELD_UP.format(spec.name, took)))


HELD = 0.2
"""Seconds that a tool may take which says that it does not block."""
HELD_UP = (
    "tool `{}` says that it does not block, and held everything up for {:.1f} s: take "
    "`blocking=False` away, or make it `async`"
)
NO_COROUTINE = "says that it does not block, and gave a coroutine: make it `async`"


def failed_result(text: str, category: str = Category.RECOVERABLE) -> ToolResult:
    """The result of a failed call, as the model reads it."""
    return ToolResult(cut_text(f"error: {text}"), ok=False, category=category)


def refusal(ctx: Context, name: str, why: str) -> ToolResult:
    """The model's text for a refused call: why, and what it may call instead."""
    listed = ", ".join(f"`{tool.name}`" for tool in ctx.tools) or "none"
    if name not in ctx.machine.registry.tools:
        return failed_result(f"there is no tool `{name}`; the tools are: {listed}")
    return failed_result(f"tool `{name}` {why}; you may call: {listed}")


def _error_text(error: BaseException) -> str:
    return error.message if isinstance(error, ToolError) else describe(error)


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


async def _itself(made: Awaitable[Any]) -> Any:
    return await made


def _result(ctx: Context, made: Any) -> ToolResult:
    if type(made) is str:  # nearly always
        text = cut_text(made)
        return ToolResult(text, result=text)
    if inspect.isgenerator(made) or inspect.isasyncgen(made):
        return failed_result("the tool returned a generator; it must return what that would give")
    try:
        if isinstance(made, ToolResult):
            return _validate_result(ctx, made)
        if media := _media_of(made):
            return _with_media(made, media)
        return ToolResult(text_for_model(made), result=sound_data(made))
    except Exception as error:  # noqa: BLE001  a value may raise anything when it is read
        return failed_result(f"what the tool returned cannot be read: {describe(error)}")


def _media_of(made: Any) -> list[Image | File]:
    """The images and files that a tool returned, alone or in a list."""
    if isinstance(made, (Image, File)):
        return [made]
    if isinstance(made, (list, tuple)):
        return [one for one in cast("Sequence[Any]", made) if isinstance(one, (Image, File))]
    return []


def _with_media(made: Any, media: Sequence[Image | File]) -> ToolResult:
    parts = parts_of(media)
    given = cast("list[Any]", list(made) if isinstance(made, (list, tuple)) else [])  # pyright: ignore[reportUnknownArgumentType]
    texts = [text_for_model(one) for one in given if not isinstance(one, (Image, File))]
    said = say_parts(part for part in parts if is_media(part))
    text = cut_text("\n".join(texts))
    shown = "\n".join(filter(None, (text, said)))
    return ToolResult(text, result=shown or "done", parts=tuple(parts))


def _sound_parts(parts: Sequence[Any]) -> tuple[Mapping[str, Any], ...]:
    """The parts of a result that a tool wrote itself."""
    if len(parts) > MOST or not all(isinstance(p, Mapping) and is_sound(p) for p in parts):  # pyright: ignore[reportUnknownArgumentType]
        raise SetupError(
            "`parts` are at most 20 parts of a message", hint='take `Image.read("a.png").part`'
        )
    return tuple(parts)


def _validate_result(ctx: Context, made: ToolResult) -> ToolResult:
    """A result that a tool wrote itself, without values that a record cannot hold."""
    for name, value in made.changes.items():
        root, _, block = name.partition(".")
        if root != "memory" or block not in ctx.facts.memory or not isinstance(value, str):
            return failed_result(
                f"the tool changed `{name}`: tools change memory blocks only, to a text"
            )
    changes = {name: cut_text(cast(str, value)) for name, value in made.changes.items()}
    return made.replace(
        text=text_for_model(made.text), ok=bool(made.ok), result=sound_data(made.result),
        changes=changes,
        partial=tuple(text_for_model(part) for part in made.partial),
        signals=tuple(sound_signal(signal) for signal in made.signals),
        progressed=bool(made.progressed),
        warnings=tuple(text_for_model(one) for one in made.warnings),
        parts=_sound_parts(made.parts) if made.parts else (),
    )  # fmt: skip
