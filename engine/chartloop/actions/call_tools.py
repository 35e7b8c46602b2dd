"""Tool calls: `call_tools`, `call_tool`, `tool`, `update_memory`.

The model reads a tool's failure as the tool's reply, and the failure is counted; the action itself
succeeds, unless the file sets `on_error: fail`.

Source: 004 "Tool Call Step", "Memory Update Step"; 002 "AgentStopException"; 000 "Adapters".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace as traits_of
from functools import lru_cache
from typing import Annotated, Any, Literal

import anyio
from msgspec import UNSET
from msgspec.structs import replace

from chartloop.actions.annotations import Field, Name, Texts
from chartloop.actions.approval import Gate
from chartloop.actions.builtin_tools import append_text, replace_text
from chartloop.actions.call_machines import ChildCalls
from chartloop.actions.declare import action
from chartloop.actions.run_tool import (
    failed_result,
    parsed_arguments,
    refusal,
    run_tool,
    with_loop,
)
from chartloop.actions.server_calls import ServerCalls
from chartloop.core.approvals import keyed, shown
from chartloop.core.codec import read
from chartloop.core.conversation import calls_of, text_of, tool_reply, trim_calls
from chartloop.core.errors import Category
from chartloop.core.facts import EMPTY, ToolCall
from chartloop.core.outcome import (
    NOTHING_SPENT,
    Blocked,
    CallResult,
    Message,
    Outcome,
    Spent,
    ToolResult,
    written_result,
)
from chartloop.core.specs import MOST_CALLS, Effect, ToolSpec
from chartloop.core.traits import BY_FIELDS, OUTSIDE
from chartloop.core.transcript import NOT_KNOWN
from chartloop.core.types import ANY, BOOL, STR, list_of, struct
from chartloop.core.units import say_count
from chartloop.run.calls import say_doubt
from chartloop.run.context import Context
from chartloop.run.doubts import ask_about, treatment
from chartloop.run.elicitation import InputRequired
from chartloop.run.journal_records import Intent
from chartloop.run.sanitize import cut_text, sound_text
from chartloop.run.tracing import around_tool

AT_ONCE = 64
"""The number of calls of one reply that are made at the same time; the others queue."""

CALLED = struct({"id": STR, "name": STR, "ok": BOOL, "content": STR, "result": ANY}, keyed=True)


TOO_MANY = "error: this call was not executed: at most {most} calls of one reply are"
"""The reply to each call beyond the number of calls that are executed."""


MOST = 1_000


def _number(value: Any) -> str | None:
    """The error in a number of calls, or None."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and 1 <= value <= MOST else f"a number from 1 to {MOST:,}"


OnError = Annotated[Literal["reply", "fail"], Field(type=STR)]


@action(
    traits=traits_of(OUTSIDE, calls="all"), result=list_of(CALLED), suspends=False,
    intents="careful", changes="memory.*", supplies="conversation",
    reads=(),
)  # fmt: skip
async def call_tools(
    ctx: Context,
    on_error: OnError = "reply",
    at_most: Annotated[int, Field("data", check=_number, role="most_calls")] = MOST_CALLS,
) -> Outcome | Blocked:
    """Executes the tool calls of the newest reply, at once.

    Memory tools are called in order.

    Args:
        on_error: `reply`: the model gets the error as the reply; `fail`: the action fails.
        at_most: How many calls of one reply are executed; default 32. The reply to each call
            beyond it says that it was not executed.
    """
    return await _carry_out(ctx, ctx.messages.open_calls(ctx.machine.wire_names), on_error, at_most)


@action(
    traits=traits_of(OUTSIDE, calls="first"), result=list_of(CALLED), suspends=False,
    intents="careful", changes="memory.*", supplies="conversation",
    reads=(),
)  # fmt: skip
async def call_tool(ctx: Context, on_error: OnError = "reply") -> Outcome | Blocked:
    """Executes the first tool call of the newest reply; drops the others.

    Source: 004 "Execute first tool call".

    Args:
        on_error: `reply`: the model gets the error as the reply; `fail`: the action fails.
    """
    calls = ctx.messages.open_calls(ctx.machine.wire_names)
    first = [c for key, c in keyed(calls) if c is calls[0] or f"{ctx.key}/{key}" in ctx.recorded]
    outcome = await _carry_out(ctx, first, on_error)
    if isinstance(outcome, Blocked) or len(calls) == len(first):
        return outcome
    # the newest reply no longer has the calls behind the first
    reply = next(m for m in reversed(ctx.messages) if m["role"] == "assistant")
    left = [call for call in calls if call not in first]
    kept = {c.id for c in calls_of(reply)} - {c.id for c in left} | {c.id for c in first}
    dropped = ", ".join(f"`{sound_text(call.name)}`" for call in left)
    message = f"only the first of {len(calls)} calls was made; left out: {dropped}"
    return outcome.replace(
        rewrite=trim_calls(ctx.messages, kept), dropped=tuple(left),
        warnings=(*outcome.warnings, message),
    )  # fmt: skip


async def _carry_out(
    ctx: Context, calls: Sequence[ToolCall], on_error: str, most: int = MOST_CALLS
) -> Outcome | Blocked:  # fmt: skip
    if len(calls) > most:  # what was begun is finished, whatever a changed file says of it now
        numbers = [row.run_id.rpartition("/")[2] for row in await ctx.host.find_children()]
        most = max(most, *(int(number) for number in numbers if number.isdecimal()), 0)
    done = {call for key, call in keyed(calls) if f"{ctx.key}/{key}" in ctx.recorded}
    made = [call for n, call in enumerate(calls) if n < most or call in done]
    batch, excess = _Batch(ctx, made), [call for call in calls if call not in made]
    ctx.so_far, ctx.at_end = batch.outcome, batch.cut
    await batch.carry_out()
    if batch.waits is not None:
        await batch.keep_done()
        return batch.waits
    outcome = batch.outcome()
    if batch.children is not None:
        outcome = await batch.children.counted(outcome)
    if batch.servers is not None:
        outcome = batch.servers.done(outcome)
    if batch.failing:
        failure = Outcome.failure(Category.RECOVERABLE, batch.failing, kind="in_doubt")
        return outcome.replace(ok=False, error=failure.error)
    if outcome.tool_errors and on_error == "fail":
        text = cut_text("; ".join(outcome.tool_errors))
        failure = Outcome.failure(Category.RECOVERABLE, text, kind="tool")
        outcome = outcome.replace(ok=False, error=failure.error, tool_errors=())
    if not excess:
        return outcome
    # the calls over the limit are answered, and recorded as dropped
    message, asked = TOO_MANY.format(most=most), say_count(most + len(excess), "call")
    warning = f"a reply asked for {asked}; {most} were executed, the rest were refused"
    return outcome.replace(
        messages=(*outcome.messages, *(tool_reply(call, message) for call in excess)),
        result=outcome.result, dropped=tuple(excess), warnings=(*outcome.warnings, warning),
    )  # fmt: skip


class _Batch:
    """The calls of one reply, and the results of the finished ones."""

    def __init__(self, ctx: Context, calls: Sequence[ToolCall]) -> None:
        self.ctx = ctx
        self.known = ctx.host.chart.tools_at(ctx.state.name)
        self.servers = ServerCalls(ctx) if ctx.ports.servers is not None else None
        self.children: ChildCalls | None = None
        self.waits: Blocked | None = None
        """What the action waits for; None if it does not wait."""
        self.done: dict[int, ToolResult] = {}
        approve = ctx.machine.approve
        self.gate = None if approve is None else Gate(ctx, approve.when)
        self.calls: list[ToolCall] = []
        """With the arguments that a person accepted."""
        self.keys: list[str] = []
        self.refused: dict[int, ToolResult] = {}
        self.denied = set[str]() if self.gate is None else self.gate.denied
        self.notes: dict[int, str] = {}
        self.unsettled: list[CallResult] = []
        """The replies to cut calls that may be repeated, if they are not."""
        self.asks: dict[int, ToolSpec] = {}
        """The tools of the calls in doubt on which a person decides, by number."""
        self.failing = ""
        """Why a call in doubt makes the action fail; empty if none does."""
        self.unsure = False
        """Whether the action must not be tried again."""
        for n, (key, call) in enumerate(keyed(calls)):
            if self.gate is not None:
                cleared = self.gate.clear(key, call)
                if isinstance(cleared, ToolResult):
                    self.refused[n] = cleared
                else:
                    call, self.notes[n] = cleared
            self.calls.append(call)
            self.keys.append(f"{ctx.key}/{key}")

    async def carry_out(self) -> None:
        """Execute every call; memory tools in order, since each reads what the last one wrote.

        Calls in doubt are settled first: the others wait for the person who decides on one.
        """
        calls = self.ctx.host.calls
        for n, key in enumerate(self.keys):
            unsettled = self.ctx.host.doubt(key) is not None or key in calls.decided
            if unsettled and key not in self.ctx.recorded:
                self._settle(n, self.known[self.calls[n].name])
        if self.failing or (self.asks and self._asks_now()):
            return
        memory, others, children = list[int](), list[int](), list[int]()
        for n in range(len(self.calls)):
            spec = self.known.get(self.calls[n].name)
            if n not in self.done:
                kind = others if spec is None else children if spec.machine else memory
                (kind if spec is None or spec.machine or spec.memory else others).append(n)
        await self._make_others(others)
        if self.servers is not None and self.servers.blocked:
            self.waits = self.servers.wait()
        if children:
            await self._run_children(children)
        if self.asks and self.waits is None:
            self._asks_now()
        if memory and self.waits is None:
            await self._edit_memory(memory)

    async def _make_others(self, calls: Sequence[int]) -> None:
        known = (self.known.get(self.calls[n].name) for n in calls)
        if len(calls) < 2 or not any(spec is not None and spec.suspends for spec in known):
            for n in calls:
                await self._do(self.ctx, n)
        else:
            await with_loop(self.ctx, self._at_once(calls))

    async def _edit_memory(self, calls: Sequence[int]) -> None:
        blocks = dict(self.ctx.facts.memory)
        for n in calls:
            facts = self.ctx.facts.replace(memory=blocks)
            await self._do(replace(self.ctx, facts=facts), n)
            changes = self.done[n].changes
            blocks |= {name.removeprefix("memory."): v for name, v in changes.items()}

    def outcome(self) -> Outcome:
        """The outcome of the finished calls, in the order of the reply."""
        done: list[tuple[ToolCall, ToolResult]] = []
        counts: dict[str, int] = {}
        told: list[CallResult] = []
        with_media: dict[int, Message] = {}
        denied, errors = list[str](), list[str]()
        only_texts = True
        for n in sorted(self.done):
            call, result = self.calls[n], self.done[n]
            made = call.name in self.known and n not in self.refused
            if made or self.keys[n] in self.ctx.recorded:
                counts[call.name] = counts.get(call.name, 0) + 1
            if note := self.notes.get(n):
                result = result.replace(text=f"{note}\n{result.text}")
            done.append((call, result))
            if not result.ok:
                kind = denied if self.keys[n] in self.denied else errors
                kind.append(f"{call.name}: {result.text}")
            text, data = result.text, UNSET if result.result == result.text else result.result
            if result.parts:
                with_media[len(told)] = message = tool_reply(call, text, result.parts)
                text = text_of(message)
            told.append(CallResult(call.id, call.name, result.ok, text, data))
            only_texts = only_texts and result.is_text
        spent, kept = NOTHING_SPENT, EMPTY
        if counts:
            spent = _one_call(*counts) if len(done) == 1 else Spent(tools=counts)
        if self.gate is not None and len(done) == len(self.calls):
            kept = self.gate.kept_after_use
        results = tuple(told)
        outcome = Outcome(result=results or [], messages=results, spent=spent, kept=kept)
        if with_media:
            messages = tuple([with_media.get(n, c.message) for n, c in enumerate(results)])
            outcome = outcome.replace(result=outcome.result, messages=messages)
        if self.servers is not None:
            outcome = self.servers.counted(outcome)
        if only_texts and not self.unsettled:
            return outcome
        unknown = sum(result.in_doubt for _, result in done) + len(self.unsettled)
        return outcome.replace(
            unknown=unknown,
            unsettled=tuple(self.unsettled),
            in_doubt=self.unsure,
            tool_errors=tuple(errors),
            denied=tuple(denied),
            changes={name: value for _, d in done for name, value in d.changes.items()},
            signals=tuple(signal for _, d in done for signal in d.signals),
            partial=tuple(part for _, d in done for part in d.partial),
            warnings=tuple(warning for _, d in done for warning in d.warnings),
            progressed=any(d.progressed for _, d in done),
        )

    async def _run_children(self, calls: Sequence[int]) -> None:
        """Run the child machines of these calls as far as they can go now."""
        given: dict[int, tuple[str, Mapping[str, Any]]] = {}
        for n in calls:
            spec = self.known[self.calls[n].name]
            if n in self.refused:
                self.done[n] = self.refused[n]
            elif isinstance(arguments := parsed_arguments(spec, self.calls[n]), ToolResult):
                self.done[n] = arguments
            else:
                given[n] = spec.machine, arguments
        self.children = ChildCalls(self.ctx)
        self.done |= await self.children.make(given)
        self.waits = self.waits or self.children.waits

    async def _at_once(self, calls: Sequence[int]) -> None:
        places = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as group:
            for n in calls:
                group.start_soon(self._take_place, places, n)

    async def _take_place(self, places: anyio.CapacityLimiter, n: int) -> None:
        async with places:
            await self._do(self.ctx, n)

    async def _do(self, ctx: Context, n: int) -> None:
        """Execute one call, or keep the question at which it waits."""
        call, tracer = self.calls[n], ctx.ports.tracer
        spec = self.known.get(call.name)
        if tracer is None or self.keys[n] in self.denied:  # nothing is executed
            result = await self._result_of(ctx, n, call, spec)
        else:
            with tracer.tool_call(call, spec) as trace:
                result = await self._result_of(ctx, n, call, spec)
                if result is not None:
                    trace(result)
        if result is not None:
            self.done[n] = result

    async def _result_of(
        self, ctx: Context, n: int, call: ToolCall, spec: ToolSpec | None
    ) -> ToolResult | None:
        """The result of one call, whatever the model wrote; None if its server asks a question.

        A paid call is made between a note of its intent and one of its result.
        """
        key, servers = self.keys[n], self.servers
        if (known := ctx.recorded.get(key)) is not None:  # whatever a changed file says of it now
            fields = {name: value for name, value in known.items() if name not in ("key", "late")}
            return read(fields, ToolResult, ctx.machine.reasons)
        if n in self.refused:
            return self.refused[n]
        if spec is None:
            return refusal(ctx, call.name, "may not be called here")
        if isinstance(arguments := parsed_arguments(spec, call), ToolResult):
            return arguments
        if servers is not None and spec.server:
            ctx = replace(ctx, client=servers.call(key, spec.name))
        paid = spec.effect is Effect.PAID
        if not paid:
            await ctx.settle()
        elif ctx.client is None or (at := ctx.ports.servers) is None or not at.in_flight(key):
            intent = Intent(key, ctx.state.name, tool=spec.name)
            if await ctx.host.note_restored(key, intent) and (
                not self._settle(n, spec) or n in self.done
            ):
                return self.done.get(n)
            await ctx.intent(key, intent)
        try:
            result = await run_tool(ctx, spec, arguments, key)
        except InputRequired as question:
            assert servers is not None
            servers.blocked.append(question)
            return None
        return await self._note_result(n, spec, result) if paid else result

    async def _note_result(self, n: int, spec: ToolSpec, result: ToolResult) -> ToolResult | None:
        """Record the result of a call with effects; None if a person decides on it first."""
        key, data = self.keys[n], written_result(result)
        if result.in_doubt:
            await self.ctx.host.note_unknown({"left": "said", "warned": bool(result.warnings)}, key)
            if not self._settle(n, spec):
                return None
        if len(self.done) == len(self.calls) - 1:
            self.ctx.last_result(key, data)
        else:
            await self.ctx.result(key, data)
        return result

    def _settle(self, n: int, spec: ToolSpec) -> bool:
        """Settle a call in doubt, unless it is made again. False while a person decides on it."""
        calls, key = self.ctx.host.calls, self.keys[n]
        word = calls.decided.get(key) or treatment(self.ctx.host, self.ctx.state, spec, key)
        if calls.decided.get(key) == "fail":
            self.done[n] = failed_result("a person says that this call was not carried out")
            self.failing = f"a person says that {spec.name} was not carried out"
        elif word == "ask":
            self.asks[n] = spec
        elif word != "retry":
            self.done[n] = _UNKNOWN
            if word == "fail":
                self.failing = say_doubt(spec.name, self.ctx.host.doubt(key) or EMPTY)
                self.unsure = True
        return word != "ask"

    def _asks_now(self) -> bool:
        """Ask about the calls on which a person decides. Without time they stay unknown."""
        ctx, asked = self.ctx, [*self.asks]
        keys = [self.keys[n].removeprefix(f"{ctx.key}/") for n in asked]
        held = {} if self.gate is None else self.gate.held
        listed = [
            {"key": k, **(shown(held[k]) if k in held else self.calls[n]).to_mapping()}
            for k, n in zip(keys, asked, strict=True)
        ]
        about = {"calls": listed, "keys": [self.keys[n] for n in asked]}
        now = ctx.ports.clock.now()
        self.waits = ask_about(ctx.host, ctx.state, self.asks[asked[0]], about, now)
        if self.waits is None:
            self.done |= dict.fromkeys(asked, _UNKNOWN)
        return self.waits is not None

    async def cut(self) -> Blocked | None:
        """Settle the calls that a deadline cut in two; the wait for who decides on one, if any."""
        host = self.ctx.host
        for n, key in enumerate(self.keys):
            if key in host.calls.pending and n not in self.done:
                spec = self.known[self.calls[n].name]
                await host.note_unknown({"left": "cut"}, key)
                if self._settle(n, spec) and n not in self.done:
                    reply = CallResult(self.calls[n].id, spec.name, False, NOT_KNOWN)
                    self.unsettled.append(reply)
        if self.asks and self._asks_now():
            await self.keep_done()
        return self.waits

    async def keep_done(self) -> None:
        """Record the results of the finished calls, because the action is called again."""
        for n, result in self.done.items():
            spec = self.known.get(self.calls[n].name)
            child = spec is not None and spec.machine  # it has records of its own
            if not child and self.keys[n] not in self.ctx.recorded:
                await self.ctx.host.note(
                    "result", self.keys[n], written_result(result), self.ctx.ports.clock.now()
                )


_UNKNOWN = ToolResult(NOT_KNOWN, ok=False, in_doubt=True)
"""The result of a call whose outcome is not known, and that is not made again."""


@lru_cache
def _one_call(tool: str) -> Spent:
    """What one call of a tool uses. Most steps make one, so it is shared."""
    return Spent(tools={tool: 1})


@action(
    traits=traits_of(OUTSIDE, calls="named"), suspends=False, changes="memory.*",
    example="""\
look_up:
  do: tool
  with: {name: price, arguments: {item: "{{ vars.item }}", count: 2}}
  save: {vars.price: result}
  next: work""",
    reads=(),
)  # fmt: skip
async def tool(
    ctx: Context,
    name: Annotated[str, Name("tool")],
    arguments: Annotated[Any, Texts, Field(arguments_of="name")] = None,
) -> Outcome | Blocked:
    """Calls one registered tool without a model.

    Args:
        name: The tool's name.
        arguments: Its arguments; every text is a template.
    """
    spec = ctx.machine.registry.tools[name]
    try:
        parsed = spec.parse(json.dumps(arguments or {}, ensure_ascii=False))
    except ValueError as error:
        return Outcome.failure(Category.RECOVERABLE, str(error), kind="arguments")
    call = ToolCall("", name, "" if ctx.ports.tracer is None else json.dumps(arguments or {}))
    servers = ServerCalls(ctx) if spec.server and ctx.ports.servers is not None else None
    if servers is not None:
        ctx.so_far = lambda: servers.counted(Outcome())
        ctx = replace(ctx, client=servers.call(ctx.key, name))
    with around_tool(ctx.ports.tracer, call, spec) as trace:
        try:
            result = await run_tool(ctx, spec, parsed, ctx.key)
        except InputRequired as question:
            assert servers is not None  # only a server asks
            servers.blocked.append(question)
            return servers.wait()
        trace(result)
    nothing = result.result is None and not spec.result.nullable
    data = result.text if nothing else result.result
    outcome = Outcome(
        result=data, spent=_one_call(name), changes=result.changes, signals=result.signals,
        partial=result.partial, progressed=result.progressed, warnings=result.warnings,
    )  # fmt: skip
    if servers is not None:
        outcome = servers.done(servers.counted(outcome))
    if result.ok:
        return outcome
    kind = "in_doubt" if result.in_doubt else "tool"
    error = Outcome.failure(result.category, result.text, kind=kind).error
    return outcome.replace(ok=False, error=error, in_doubt=result.in_doubt)


@action(
    effect="pure", traits=traits_of(BY_FIELDS, calls="memory"), suspends=False, changes="memory.*",
    supplies="conversation",
    reads=(),
)  # fmt: skip
async def update_memory(
    ctx: Context,
    block: Annotated[str, Name("block")] = "",
    append: str = "",
    old: str = "",
    new: str = "",
) -> Outcome:
    """Appends to memory blocks or replaces text in them, by memory tools or by `with`.

    Args:
        block: The block; without it, the model's own memory calls.
        append: Text to add at the end of the block.
        old: Text to replace.
        new: The replacement.
    """
    if not block:
        here, memory = ctx.host.chart.tools_at(ctx.state.name), ctx.host.chart.memory_tools
        calls = [
            call
            for call in ctx.messages.open_calls(ctx.machine.wire_names)
            if call.name in here and call.name in memory
        ]
        outcome = await _carry_out(ctx, calls, "reply")
        assert isinstance(outcome, Outcome)  # a memory tool never waits
        return outcome
    result = append_text(ctx, block, append) if append else replace_text(ctx, block, old, new)
    if not result.ok:
        return Outcome.failure(Category.RECOVERABLE, result.text, kind="memory")
    return Outcome(result=result.result, changes=result.changes)
