"""Model calls: `receive`, `prompt`, `infer`.

Source: 004 "User Message Step", "LLM Inference Step", `build-llm-messages`,
`build-system-message`; 001 "Construct Prompt", "Call LLM".
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, cast

from msgspec import Struct

from chartloop.actions.annotations import Field
from chartloop.actions.call_cost import cost_of, most_of
from chartloop.actions.declare import action
from chartloop.actions.run_tool import refusal
from chartloop.core.conversation import tool_reply, user
from chartloop.core.errors import Category, ModelError, SetupError
from chartloop.core.facts import PARTS, Failure, ToolCall, parts_of, wire_name
from chartloop.core.media_parts import with_parts
from chartloop.core.outcome import (
    Held,
    Message,
    Outcome,
    Reply,
    Spent,
    is_cost,
    is_tokens,
    say,
)  # fmt: skip
from chartloop.core.position import FILES, REPAIRED, REPLY_KEY, repair_count
from chartloop.core.specs import CACHED, refused_extra
from chartloop.core.traits import ASKS_MODEL, BY_FIELDS, OUTSIDE
from chartloop.core.transcript import Conversation, Joined, estimate, estimate_messages
from chartloop.core.types import ANY, BOOL, DURATION, FLOAT, INT, STR, Type, list_of, map_of, struct
from chartloop.language.json_schema.reply import BrokenReplyError, ReplySchema, in_words
from chartloop.machine.assignment import template_names
from chartloop.run.context import Context
from chartloop.run.fleet_calls import CallIntent, limits_of, under_limits, used_of
from chartloop.run.journal_records import Intent
from chartloop.run.ports import Model, ModelReply, ModelRequest
from chartloop.run.sanitize import cut_text, is_sound, read_json, sound_data, sound_text

KEEP = "prompt"
"""The key of `Position.kept` for the note that `prompt` leaves for the next `infer`."""

_CALL = struct({"id": STR, "name": STR, "arguments": STR}, keyed=True)
REPLY: Type = struct(
    {"text": STR, "finish_reason": STR, "tool_calls": list_of(_CALL), "model": STR}, keyed=True
)


@action(
    work=False, effect="pure", traits=OUTSIDE, result=struct({"text": STR}, keyed=True),
    needs="task", needs_if=lambda fields: fields.get("optional", False) is False,
    supplies="conversation",
    reads="task",
)  # fmt: skip
def receive(ctx: Context, optional: bool = False) -> Outcome:
    """Puts the task into the conversation.

    Args:
        optional: Whether a run may start without a task and a conversation.
    """
    task = ctx.facts.run.task
    files = ctx.kept.get(FILES, ())
    if task or files:
        return Outcome(result={"text": task}, messages=(with_parts(user(task), files),))
    if ctx.messages or optional:
        return Outcome(result={"text": ""})
    return Outcome.failure(Category.RECOVERABLE, "the run was given no task", kind="no_task")


@action(
    work=False, effect="pure", traits=replace(BY_FIELDS, sets_prompt=True),
    supplies="conversation",
    reads="task",
)  # fmt: skip
def prompt(
    ctx: Context, user: str = "", system: str = "", keep: bool = False, files: bool = False
) -> Outcome:
    """Builds the messages of the next `infer` only; the conversation is left as it is.

    Args:
        user: The user message, a template.
        system: The system message; default: the file's instructions.
        keep: Keep the text and the reply in the conversation.
        files: Whether the images and files of the task follow the user message.
    """
    new: list[Message] = []
    parts = ctx.kept.get(FILES, ()) if files else ()
    if user or parts:
        new.append(with_parts({"role": "user", "content": user}, parts))
    head: tuple[Message, ...] = ({"role": "system", "content": system},) if system else ()
    note = {KEEP: {"keep": keep}}
    if not keep:
        return Outcome(result={"messages": [*head, *new]}, prompt=(*head, *new), kept=note)
    whole = (*head, *ctx.messages, *new)
    return Outcome(
        result={"messages": [*whole]},
        prompt=whole if head else None,
        messages=tuple(new),
        kept=note,
    )


def request_messages(ctx: Context) -> Conversation | Joined:
    """The messages for the model: a prompt, or the system message and the conversation.

    The system message holds the instructions, then every memory block that they do not contain.
    Source: 004 "System message includes persona and memory blocks".
    """
    machine, facts, prompt = ctx.machine, ctx.facts, ctx.position.prompt
    talk = ctx.position.messages if prompt is None else Conversation(prompt)
    messages = talk.sendable()
    first = next(iter(messages), None)
    if first is not None and first.get("role") == "system":
        return messages
    parts: list[str] = []
    shown: frozenset[str] = frozenset()
    if machine.instructions is not None:
        shown = machine.instructions.reads
        names = template_names(machine, facts, shown) if shown else {}
        parts.append(machine.instructions.render(names).strip())
    for name, block in machine.memory.items():
        if f"memory.{name}" not in shown and "memory" not in shown:
            parts.append(block.in_prompt(name, facts.memory.get(name, "")))
    head = "\n\n".join(filter(None, parts))
    return Joined(({"role": "system", "content": head},), messages) if head else messages


MOST_REPAIRS = 10


def _times(value: Any) -> str | None:
    """The error in a number of repairs, or None."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return None if whole and 0 <= value <= MOST_REPAIRS else f"a number from 0 to {MOST_REPAIRS}"


def _above_zero(value: Any) -> str | None:
    """The error in a quantity that must be above zero, or None."""
    return None if value > 0 else "a number above zero"


def _words(value: Any) -> str | None:
    """The error in a list of texts, or None."""
    words = cast("list[Any]", value) if isinstance(value, list) else [None]
    return None if words and all(isinstance(w, str) and w for w in words) else "a list of texts"


def _stops(value: Any) -> str | None:
    """The error in the stop texts of a model, or None."""
    return None if isinstance(value, str) and value else _words(value) and "a text, or a list"


def _marks(value: Any) -> str | None:
    """The error in the marks for the provider's cache, or None."""
    known = ", ".join(f"`{word}`" for word in CACHED)
    words = cast("list[Any]", value) if isinstance(value, list) else [None]
    return None if all(word in CACHED for word in words) else f"a list of {known}"


def _extra(value: Any) -> str | None:
    """The error in the `extra` of a model, or None."""
    extra = cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else None
    if extra is None:
        return "a mapping"
    wrong = refused_extra(extra)
    return None if wrong is None else f"a mapping without `{wrong}`"


_WHOLE, _SWITCH = Field("value", INT), Field("value", BOOL)
_TIME = Field("duration", DURATION)


class CallSettings(Struct, frozen=True):
    """The settings of one model call: the `with` of an `infer`.

    Args:
        model: In place of the file's `model.name`.
        output: JSON Schema that the reply must satisfy, or the name of a pydantic class that
            `--tools` brings; its data is `result.data`.
        repair: How often the model must correct a reply that breaks `output`: 0 to 10, default 0.
            It is shown the fault; each attempt is a step and a model call.
        tool_choice: `auto`, `none`, `required`, or one tool as the provider writes it.
        temperature: In place of the file's `model.temperature`.
        top_p: In place of the file's `model.top_p`.
        max_tokens: The longest reply in tokens, in place of the file's `model.max_tokens`.
        stop: In place of the file's `model.stop`.
        seed: In place of the file's `model.seed`.
        stream: In place of the file's `model.stream`.
        timeout: In place of the file's `model.timeout`.
        idle_timeout: In place of the file's `model.idle_timeout`.
        reply_limit: In place of the file's `model.reply_limit`.
        fallbacks: In place of the file's `model.fallbacks`.
        extra: Passed to the provider unchanged; overrides the file's `model.extra` key by key.
        cache: The parts marked for the provider's cache, in place of the file's `model.cache`.
        keep: Whether the reply stays in the conversation.
    """

    model: str = ""
    output: Annotated[ReplySchema | None, Field("schema", ANY)] = None
    repair: Annotated[int, Field("data", INT, check=_times, needs="output", role="repairs")] = 0
    tool_choice: Annotated[Any, Field("data", STR)] = None
    temperature: Annotated[
        float | None,
        Field("value", FLOAT, check=lambda v: None if 0 <= v <= 2 else "a number from 0 to 2"),
    ] = None
    top_p: Annotated[
        float | None,
        Field("value", FLOAT, check=lambda v: None if 0 < v <= 1 else "a number above 0, up to 1"),
    ] = None
    max_tokens: Annotated[int | None, Field("value", INT, check=_above_zero)] = None
    stop: Annotated[Any, Field("data", check=_stops)] = None
    seed: Annotated[int | None, _WHOLE] = None
    stream: Annotated[bool | None, _SWITCH] = None
    timeout: Annotated[float | None, _TIME] = None
    idle_timeout: Annotated[float | None, _TIME] = None
    reply_limit: Annotated[int | None, Field("value", INT, check=_above_zero)] = None
    fallbacks: Annotated[Sequence[str] | None, Field("data", list_of(STR), check=_words)] = None
    extra: Annotated[Mapping[str, Any] | None, Field("data", map_of(ANY), check=_extra)] = None
    cache: Annotated[Sequence[str] | None, Field("data", list_of(STR), check=_marks)] = None
    keep: Annotated[bool | None, _SWITCH] = None


NO_SETTINGS = CallSettings()
SETTINGS = (
    "temperature", "top_p", "max_tokens", "stop", "seed", "stream", "timeout", "idle_timeout",
    "reply_limit", "fallbacks", "cache",
)  # fmt: skip
"""The fields of `infer` that override the same setting of the file's `model`."""
_ABOVE_ZERO = ("max_tokens", "timeout", "idle_timeout", "reply_limit")


@action(
    traits=replace(ASKS_MODEL, asks="reply"), result=REPLY, suspends=False, fields=CallSettings,
    intents="careful", needs="conversation", supplies=("conversation", "reply"),
    reads=(),
)  # fmt: skip
async def infer(ctx: Context, **fields: Any) -> Outcome:
    """One model call: sends instructions, memory, conversation and the state's tools."""
    call = CallSettings(**fields) if fields else NO_SETTINGS
    for name in _ABOVE_ZERO if fields else ():
        value = fields.get(name)
        if value is not None and not value > 0:
            message = f"`{name}` of this call is {value:,}: it must be above zero"
            return Outcome.failure(Category.RECOVERABLE, message, kind="settings")
    intent = Intent(ctx.key, ctx.state.name, "infer")
    completion = await complete(
        ctx, request_messages(ctx), ctx.tool_schemas, call,
        intent=CallIntent(ctx.key, partial(ctx.intent, ctx.key, intent)),
    )  # fmt: skip
    outcome, reply = _outcome(ctx, completion, call.keep), completion.reply
    if reply.tool_calls:
        outcome = _refuse_unoffered(ctx, outcome, reply.tool_calls)
    if call.output is None or not outcome.ok:
        return outcome
    structured = _parse_structured(outcome, reply.text, call.output)
    if structured.ok:
        return structured
    known = ctx.machine.registry.tools
    if any(known.get(call.name) in ctx.tools for call in reply.tool_calls):
        return outcome  # its data comes with a later reply
    return ask_again(ctx, structured, call)


class Completion(Struct, frozen=True):
    """The result of a model call."""

    reply: Reply
    spent: Spent
    warnings: tuple[str, ...] = ()
    """Warnings about the call: estimated usage, a reply that was cut off."""
    dropped: tuple[ToolCall, ...] = ()
    """The calls beyond `MOST_KEPT`."""


async def complete(
    ctx: Context, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (),
    call: CallSettings = NO_SETTINGS, *, intent: CallIntent | None = None,
) -> Completion:  # fmt: skip
    """Call the run's model with these messages. Without `intent`, one of the action stands."""
    model = ctx.ports.model
    if model is None:
        raise SetupError(
            "this run has no model",
            hint="give one: `model=` in Python, `--model` or `--script` on the command line",
        )
    settings = {**ctx.machine.model, **ctx.ports.settings}
    if call.model:
        settings["name"] = call.model
    if call is not NO_SETTINGS:
        for name in SETTINGS:
            if (value := getattr(call, name)) is not None:
                settings[name] = value
        if call.extra is not None:
            settings["extra"] = {**(settings.get("extra") or {}), **call.extra}
    request = ModelRequest(
        messages, tools, settings,
        call.tool_choice if tools else None, call.output and call.output.schema, ctx.key,
        ctx.facts.usage.llm_calls + ctx.failed_calls,
    )  # fmt: skip
    names = [
        str(name) for name in (settings.get("name"), *(settings.get("fallbacks") or ())) if name
    ]
    if limits := await limits_of(ctx.host, *names):
        most = most_of(request, model, names, limits)

        async def measured() -> tuple[Completion, Mapping[str, float]]:
            made = await _traced(ctx, model, request)
            tokens = made.spent.prompt_tokens + made.spent.completion_tokens
            return made, used_of(tokens, made.spent.cost)

        return await under_limits(ctx, most, names, intent or CallIntent(ctx.key), measured)
    if intent is not None and intent.write is not None:
        await intent.write()
    return await _traced(ctx, model, request)


async def _traced(ctx: Context, model: Model, request: ModelRequest) -> Completion:
    if ctx.ports.tracer is None:
        return await _send(ctx, model, request)
    with ctx.ports.tracer.model_call(request) as trace:
        completion = await _send(ctx, model, request)
        trace(completion.reply, completion.spent)
    return completion


async def _send(ctx: Context, model: Model, request: ModelRequest) -> Completion:
    streaming = ctx.streaming or bool(request.settings.get("stream"))
    before, ctx.so_far = ctx.so_far, partial(_outcome_in_flight, ctx.so_far)
    raw = await model.complete(request, ctx.pieces if streaming else None)
    ctx.so_far = before
    reply, dropped = _sound(raw, ctx)
    spent, warnings = _measure_spent(raw, request, model, reply)
    told = raw.warnings
    if dropped:
        told = (*told, TOO_MANY.format(MOST_KEPT + len(dropped)))
    if told:
        warnings += tuple(w for w in told if w not in ctx.host.tally.warnings)
    if reply.finish_reason in _CUT:
        warnings += (_CUT[reply.finish_reason],)
    if raw.refusal:
        raise ModelError(
            raw.refusal, category=Category.RECOVERABLE, kind="refusal", partial=reply.text,
            spent=spent,
        )  # fmt: skip
    warnings += tuple(_repeated(reply.tool_calls))
    if (error := raw.error) is not None:
        raise ModelError(
            error.message, category=error.category, kind=error.kind, partial=reply.text, spent=spent
        )
    return Completion(reply, spent, warnings, dropped)


def _repeated(calls: Sequence[ToolCall]) -> Iterator[str]:
    """A warning for each call that one reply has several times."""
    if len(calls) < 2:
        return
    counts = Counter((call.name, _canonical(call.arguments)) for call in calls)
    yield from (REPEATED.format(name, n) for (name, _), n in counts.items() if n > 1)


def _canonical(arguments: str) -> str:
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(json.loads(arguments), sort_keys=True)
    return arguments


def _measure_spent(
    raw: ModelReply, request: ModelRequest, model: Model, reply: Reply
) -> tuple[Spent, tuple[str, ...]]:
    """The usage of a call as reported, estimated where the report is missing or implausible."""
    sent, written, cost = raw.prompt_tokens, raw.completion_tokens, raw.cost
    warnings: tuple[str, ...] = ()
    if sent == written == 0:  # some servers send zeros for "not counted"
        sent = written = None
    estimated = False
    if not (is_tokens(sent) and is_tokens(written)):
        estimated = True
        wrong: list[str] = []
        if not is_tokens(sent):
            wrong += [] if sent is None else [f"prompt_tokens {say(sent)}"]
            sent = estimate(request.messages)
        if not is_tokens(written):
            wrong += [] if written is None else [f"completion_tokens {say(written)}"]
            written = estimate_messages((reply.message,))
        if wrong:
            warnings = (UNBELIEVED.format(", ".join(wrong)),)
        elif not getattr(model, "scripted", False):  # else it costs nothing
            warnings = (ESTIMATED,)
    if cost is not None and not is_cost(cost):
        warnings, cost = (*warnings, WRONG_COST.format(say(cost))), None
    if cost is None:
        cost = cost_of(reply.model, request.settings, model, (sent, written))
    spent = Spent(1, sent, written, cost, estimated)
    if not any(parts_of(raw)):
        return spent, warnings
    parts, part_warnings = _parts_of(raw, spent)
    return spent.replace(**parts), (*warnings, *part_warnings)


def _parts_of(raw: ModelReply, spent: Spent) -> tuple[dict[str, int], tuple[str, ...]]:
    """The reported cached and reasoning tokens, without counts larger than their whole."""
    usage: dict[str, Any] = {name: count for name in PARTS if (count := getattr(raw, name))}
    if spent.estimated:
        return {}, ()
    wrong = {
        name: count for name, count in usage.items()
        if not is_tokens(count) or count > getattr(spent, PARTS[name].of)
    }  # fmt: skip
    for whole in sorted({part.of for part in PARTS.values()}) if not wrong else ():
        of_it = {name: count for name, count in usage.items() if PARTS[name].of == whole}
        if sum(of_it.values()) > getattr(spent, whole):
            wrong |= of_it
    if not wrong:
        return usage, ()
    listed = ", ".join(f"{name} {say(count)}" for name, count in wrong.items())
    return {n: c for n, c in usage.items() if n not in wrong}, (UNBELIEVED_PART.format(listed),)


def _outcome_in_flight(so_far: Callable[[], Outcome] | None) -> Outcome:
    """The outcome of an action that is cut off during a model call, which counts as made."""
    return (so_far() if so_far is not None else Outcome()).replace(unanswered=1)


LONGEST_ID = 200
"""The longest id of a call, in characters; a longer one is replaced."""
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")


def _sound(raw: ModelReply, ctx: Context) -> tuple[Reply, tuple[ToolCall, ...]]:
    """Sanitize a model's reply for the conversation and the journal; return calls over the limit.

    Providers refuse invalid names and missing or duplicate ids, and the conversation would carry
    them into every later call.
    """
    calls: list[ToolCall] = []
    ids: set[str] = set()
    memory, others = ctx.host.chart.memory_tools, 0
    of_servers: Mapping[str, str] = ctx.machine.wire_names if ctx.machine.servers else {}
    for n, call in enumerate(raw.tool_calls):
        unique = sound_text(str(call.id or ""))
        if not unique or unique in ids or len(unique) > LONGEST_ID:
            unique = f"call_{ctx.step}_{n}"
        ids.add(unique)
        name = str(call.name or "")
        known = of_servers.get(name) or (of_servers.get(wire_name(name)) if of_servers else None)
        name = known or _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"
        others += n < MOST_KEPT and name not in memory
        calls.append(ToolCall(unique, name, cut_text(call.arguments or "{}")))
    texts = raw.text or "", str(raw.finish_reason), str(raw.model)
    text, finish_reason, model = texts if "".join(texts).isascii() else map(sound_text, texts)
    reply = Reply(
        text, finish_reason, tuple(calls[:MOST_KEPT]), bool(calls) and not others, model,
        raw.reasoning,
    )  # fmt: skip
    return reply, tuple(calls[MOST_KEPT:])


def _outcome(ctx: Context, completion: Completion, keep: bool | None) -> Outcome:
    """The outcome of a model call: its reply, and the messages that this adds."""
    reply, spent, warnings = completion.reply, completion.spent, completion.warnings
    if not (reply.tool_calls or reply.text.strip()):
        retry, filtered = ctx.state.retry, reply.finish_reason == "content_filter"
        if retry is not None and "EMPTY" in retry.on and not filtered:
            error = Failure(Category.TRANSIENT, EMPTY, "", "empty")
            return Outcome(ok=False, error=error, reply=reply, spent=spent, warnings=warnings)
        warnings += (EMPTY,)
    prompt = ctx.position.prompt
    messages: tuple[Held, ...] = (reply,)
    if prompt is None:
        if keep is False and not reply.tool_calls:
            messages = ()
    elif not (keep or ctx.kept.get(KEEP, {}).get("keep")):
        # the replies need their call, and the call its question
        asked = (m for m in prompt if m.get("role") != "system")
        messages = (*asked, reply) if reply.tool_calls else ()
    size = spent.prompt_tokens + spent.completion_tokens
    outcome = Outcome(
        result=reply, reply=reply, messages=messages, spent=spent,
        context_tokens=size if prompt is None else None, warnings=warnings,
        dropped=completion.dropped,
    )  # fmt: skip
    return outcome.replace(kept={REPLY_KEY: ctx.key}) if reply.tool_calls else outcome


def _refuse_unoffered(ctx: Context, outcome: Outcome, calls: Iterable[ToolCall]) -> Outcome:
    """Answer each call of a tool that this state did not offer with a refusal.

    The refusal stands right after the reply, so that no later state, run or child that continues
    the conversation finds an open call of a tool that was not offered. The state that executes
    calls answers those of unregistered tools.
    """
    known = ctx.machine.registry.tools
    replies: list[Message] = []
    errors: list[str] = []
    for call in calls:
        if call.name in known and known[call.name] not in ctx.tools:
            text = refusal(ctx, call.name, "was not offered here").text
            replies.append(tool_reply(call, text))
            errors.append(f"{call.name}: {text}")
    if not replies:
        return outcome
    size = outcome.context_tokens
    return outcome.replace(
        messages=(*outcome.messages, *replies),
        tool_errors=tuple(errors),
        context_tokens=None if size is None else size + estimate_messages(replies),
    )


ESTIMATED = "a reply came without usage; its tokens were estimated"
"""A warning: token limits are enforced by an estimate."""
UNBELIEVED = "a reply came with usage that cannot be: {}; these tokens were estimated"
"""A warning: the provider's implausible counts are not used."""
UNBELIEVED_PART = "a reply came with usage that cannot be: {}; this is not counted"
"""A warning: a part is larger than its whole."""
WRONG_COST = (
    "a reply came with a cost that cannot be: {} USD; it was computed from the model's prices"
)
"""A warning: the cost is computed from prices; without prices it is unknown."""
_CUT = {
    "length": "a reply was cut off at its longest (finish_reason `length`): see `max_tokens`",
    "content_filter": "the provider's filter cut a reply (finish_reason `content_filter`)",
}
"""Warnings by finish reason: the end of the text or of the tool calls may be missing. It is not a
failure, because machines decide by `last.finish_reason`. Source: 002 "finish_reason"."""
REPEATED = "a reply has the same call of `{}` {} times: each is executed, as the file says"
"""A warning: see `at_most` of a state."""
MOST_KEPT = 128
"""The most calls kept of one reply: providers refuse a message with more when it is sent back.
Source: OpenAI API reference, "Create chat completion"."""
TOO_MANY = f"a reply asked for {{}} tool calls: the first {MOST_KEPT} are kept"
"""A warning: no provider takes more back in one message."""
EMPTY = "the model gave an empty reply: neither text nor tool calls"
"""A warning: most machines treat such a reply as the last one."""


NOT_JSON = "the reply is not JSON"
QUOTED = 60
"""The most characters of a broken reply that its correction quotes."""


def _parse_structured(outcome: Outcome, text: str, wanted: ReplySchema) -> Outcome:
    """The outcome with the reply's data as result, or a failure if it does not fit the schema."""
    try:
        data = wanted.data_of(read_json(text))
    except BrokenReplyError as error:
        problem = f"the reply does not fit the schema: {cut_text(str(error))}"
    except ValueError as error:
        problem = f"{NOT_JSON}: {error}"
    else:
        if not is_sound(data):  # lone surrogates
            data = sound_data(data)
        return outcome.replace(result={**outcome.result, "data": data})
    failure = Outcome.failure(Category.RECOVERABLE, problem, kind="output")
    return outcome.replace(ok=False, error=failure.error)


def _correction(reply: Reply, problem: str, wanted: ReplySchema) -> str:
    """What a model needs to correct its reply: what was wrong, in its own words, and the schema."""
    if reply.finish_reason == "length":
        wrong, how = "Your reply was cut off before its end.", "Reply shorter, with"
    elif problem.startswith(NOT_JSON):
        began = " ".join(reply.text[:QUOTED].split())
        said = f"It began with `{began}`." if began else "It was empty."
        wrong, how = f"Your reply was not JSON. {said}", "Reply with"
    else:
        wrong, how = f"Your{problem.removeprefix('the')}.", "Reply with"
    return f"{wrong}\n{how} nothing but {in_words(wanted.schema)}"


def ask_again(ctx: Context, broken: Outcome, call: CallSettings) -> Outcome:
    """Request a corrected reply after one that breaks its schema, unless `repair` is used up.

    Each attempt is a step and a record, so that rules are evaluated in between.
    """
    times = repair_count(ctx.kept, ctx.state.name, ctx.position.attempt)
    if times >= call.repair or ctx.position.stopping:
        return broken
    assert broken.error is not None
    assert broken.reply is not None
    assert call.output is not None
    wrong = user(_correction(broken.reply, broken.error.message, call.output))
    kept: dict[str, Any] = {REPAIRED: {"state": ctx.state.name, "times": times + 1}}
    if ctx.prompt is None and call.keep is not False:
        return broken.replace(messages=(*broken.messages, wrong), kept=kept, again=True)
    if ctx.prompt is None:
        kept[KEEP] = {"keep": False}
    sent = ctx.messages if ctx.prompt is None else ctx.prompt
    prompt = (*sent, broken.reply.message, wrong)
    return broken.replace(messages=(), prompt=prompt, kept=kept, again=True)
