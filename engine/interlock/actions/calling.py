"""Calling tools: `call_tools`, `call_tool`, `tool`, `update_memory`.

What goes wrong in a tool goes back to the model as the tool's reply, and is counted; the
action itself succeeds, unless the file says `on_error: fail`.

Source: 004 "Tool Call Step", "Memory Update Step"; 002 "AgentStopException"; 000 "Adapters".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread

from interlock.core.conversation import tool_reply, trim_calls, unanswered
from interlock.core.errors import Category, RunError
from interlock.core.facts import ToolCall
from interlock.core.outcome import Outcome, Spent, ToolResult
from interlock.core.reasons import StopSignal
from interlock.core.specs import ActionSpec, ArgSpec, Effect, ToolSpec
from interlock.core.types import ANY, BOOL, STR, list_of, struct
from interlock.run.acting import AgentStop, stop_signal
from interlock.run.context import Context

LONGEST = 256_000
"""Characters of a tool's reply that the model and the record get; what is over is cut."""

CALLED = struct({"id": STR, "name": STR, "ok": BOOL, "content": STR, "result": ANY}, keyed=True)


async def call_tools(ctx: Context, on_error: str = "reply") -> Outcome:
    """All calls of the newest reply, at once; memory tools one after the other."""
    return await _carry_out(ctx, unanswered(ctx.messages), on_error)


async def call_tool(ctx: Context, on_error: str = "reply") -> Outcome:
    """The first call of the newest reply; the others are dropped and go on the record.

    Source: 004 "Execute first tool call".
    """
    calls = unanswered(ctx.messages)
    outcome = await _carry_out(ctx, calls[:1], on_error)
    if len(calls) < 2:
        return outcome
    trimmed = trim_calls(ctx.messages, {calls[0].id})
    return outcome._replace(rewrite=tuple(trimmed), dropped=tuple(calls[1:]))


async def _carry_out(ctx: Context, calls: Sequence[ToolCall], on_error: str) -> Outcome:
    known = {t.name: t for t in ctx.tools}
    done: dict[int, ToolResult] = {}
    memory = dict(ctx.facts.memory)
    others = [n for n, c in enumerate(calls) if not (c.name in known and known[c.name].memory)]
    async with anyio.create_task_group() as group:
        for n in others:
            group.start_soon(_into, done, n, ctx, calls[n], known)
    for n, call in enumerate(calls):
        if n not in done:
            now = replace(ctx, facts=ctx.facts._replace(memory=memory))
            done[n] = await _one(now, call, known)
            memory |= {k.removeprefix("memory."): v for k, v in done[n].changes.items()}
    return _together(ctx, calls, [done[n] for n in range(len(calls))], on_error)


async def _into(
    done: dict[int, ToolResult], n: int, ctx: Context, call: ToolCall, known: Mapping[str, ToolSpec]
) -> None:
    done[n] = await _one(ctx, call, known)


async def _one(ctx: Context, call: ToolCall, known: Mapping[str, ToolSpec]) -> ToolResult:
    """One call, whatever the model wrote. Never raises but for cancellation and journal errors."""
    spec = known.get(call.name)
    if spec is None:
        listed = ", ".join(f"`{n}`" for n in known) or "none"
        return _failed(f"there is no tool `{call.name}`; the tools are: {listed}")
    try:
        arguments = spec.parse(call.arguments)
    except ValueError as error:
        return _failed(str(error))
    if spec.effect is not Effect.PAID:
        return await run_tool(ctx, spec, arguments)
    key = f"{ctx.key}/{call.id}"
    if key in ctx.recorded:  # an earlier, interrupted attempt had its answer: never pay again
        return ToolResult(**_plain_result(ctx.recorded[key]))
    await ctx.intent(key, {"state": ctx.state.name, "tool": call.name})
    result = await run_tool(ctx, spec, arguments)
    await ctx.result(key, {"text": result.text, "ok": result.ok, "result": result.result})
    return result


def _plain_result(data: Mapping[str, Any]) -> dict[str, Any]:
    return {n: data[n] for n in ("text", "ok", "result") if n in data}


async def run_tool(ctx: Context, spec: ToolSpec, arguments: Mapping[str, Any]) -> ToolResult:
    """Call the function: a plain one in a thread, so that it holds nobody else up."""
    given = (ctx,) if spec.wants_context else ()
    try:
        if spec.blocking:
            made = await anyio.to_thread.run_sync(
                partial(spec.call, *given, **arguments), abandon_on_cancel=True
            )
        else:
            made = await spec.call(*given, **arguments)
    except AgentStop as stop:
        return ToolResult(stop.message or "stopped", signals=(stop_signal(ctx, stop, spec.name),))
    except RunError:
        raise
    except Exception as error:  # noqa: BLE001  a tool may raise anything; the model is told
        return _failed(f"{type(error).__name__}: {error}")
    return made if isinstance(made, ToolResult) else ToolResult(_text(made), result=_data(made))


def _failed(text: str) -> ToolResult:
    return ToolResult(_cut(f"error: {text}"), ok=False)


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n… (cut: the whole has {len(text):,} characters)"


def _text(value: Any) -> str:
    if value is None:
        return "done"
    if isinstance(value, str):
        return _cut(value)
    try:
        return _cut(json.dumps(value, ensure_ascii=False, default=_as_data))
    except (TypeError, ValueError, RecursionError):
        return _cut(repr(value))


def _data(value: Any) -> Any:
    """The result as JSON data; its text where it is none."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_data, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return _cut(repr(value))
    return json.loads(text) if len(text) <= LONGEST else _cut(text)


def _as_data(value: Any) -> Any:
    for method in ("model_dump", "_asdict", "isoformat"):
        if callable(made := getattr(value, method, None)):
            return made()
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if hasattr(value, "__dataclass_fields__"):
        return {n: getattr(value, n) for n in value.__dataclass_fields__}
    return str(value)


def _together(
    ctx: Context, calls: Sequence[ToolCall], done: Sequence[ToolResult], on_error: str
) -> Outcome:
    """The outcome of all calls, in the order in which the model asked for them."""
    counts: dict[str, int] = {}
    for call in calls:
        counts[call.name] = counts.get(call.name, 0) + 1
    errors = tuple(f"{c.name}: {d.text}" for c, d in zip(calls, done, strict=True) if not d.ok)
    signals: tuple[StopSignal, ...] = tuple(s for d in done for s in d.signals)
    known = {t.name for t in ctx.tools}
    outcome = Outcome(
        result=[
            {"id": c.id, "name": c.name, "ok": d.ok, "content": d.text, "result": d.result}
            for c, d in zip(calls, done, strict=True)
        ],
        messages=tuple(tool_reply(c, d.text) for c, d in zip(calls, done, strict=True)),
        spent=Spent(tools={n: k for n, k in counts.items() if n in known}),
        tool_errors=errors,
        changes={k: v for d in done for k, v in d.changes.items()},
        signals=signals,
        partial=tuple(p for d in done for p in d.partial),
    )
    if errors and on_error == "fail":
        failed = Outcome.failed(Category.RECOVERABLE, "; ".join(errors), kind="tool")
        return outcome._replace(ok=False, error=failed.error, tool_errors=())
    return outcome


async def tool(ctx: Context, name: str, arguments: Mapping[str, Any] | None = None) -> Outcome:
    """One registered tool without a model."""
    spec = ctx.machine.registry.tools[name]
    try:
        given = spec.parse(json.dumps(arguments or {}, ensure_ascii=False))
    except ValueError as error:
        return Outcome.failed(Category.RECOVERABLE, str(error), kind="arguments")
    done = await run_tool(ctx, spec, given)
    outcome = Outcome(
        result=done.result if done.result is not None else done.text, spent=Spent(tools={name: 1}),
        changes=done.changes, signals=done.signals, partial=done.partial,
    )  # fmt: skip
    if done.ok:
        return outcome
    return outcome._replace(
        ok=False, error=Outcome.failed(Category.RECOVERABLE, done.text, kind="tool").error
    )


async def update_memory(
    ctx: Context, block: str = "", append: str = "", old: str = "", new: str = ""
) -> Outcome:
    """Memory blocks: what the model's memory tools ask for, or what `with` says."""
    if not block:
        return await _carry_out(ctx, unanswered(ctx.messages), "reply")
    from interlock.actions.builtin_tools import append_text, replace_text

    done = append_text(ctx, block, append) if append else replace_text(ctx, block, old, new)
    if not done.ok:
        return Outcome.failed(Category.RECOVERABLE, done.text, kind="memory")
    return Outcome(result=done.result, changes=done.changes)


_ON_ERROR = ArgSpec(
    "on_error", "enum", STR, choices=("reply", "fail"),
    about="`reply`: what goes wrong is told to the model; `fail`: the action fails.",
)  # fmt: skip
ACTIONS = (
    ActionSpec(
        "call_tools", call_tools, (_ON_ERROR,), result=list_of(CALLED), effect=Effect.PAID, own_intents=True,
        changes=frozenset({"memory.*"}), about="Carries out all tool calls of the newest reply, at once.",
    ),
    ActionSpec(
        "call_tool", call_tool, (_ON_ERROR,), result=list_of(CALLED), effect=Effect.PAID, own_intents=True,
        changes=frozenset({"memory.*"}), about="Carries out the first tool call of the newest reply; drops the others.",
    ),
    ActionSpec(
        "tool", tool, (
            ArgSpec("name", "name", STR, required=True, names="tool", about="The tool's name."),
            ArgSpec("arguments", "texts", about="Its arguments; every text is a template."),
        ),
        effect=Effect.PAID, changes=frozenset({"memory.*"}), about="Calls one registered tool without a model.",
    ),
    ActionSpec(
        "update_memory", update_memory, (
            ArgSpec("block", "name", STR, names="block", about="The block; without it, the model's own memory calls."),
            ArgSpec("append", "text", STR, about="Text to add at the end of the block."),
            ArgSpec("old", "text", STR, about="Text to replace."),
            ArgSpec("new", "text", STR, about="What to put in its place."),
        ),
        effect=Effect.PURE, changes=frozenset({"memory.*"}),
        about="Appends to or replaces in memory blocks, from the model's memory tools or from `with`.",
    ),
)  # fmt: skip
