"""Talking to the model: `receive`, `prompt`, `infer`.

Source: 004 "User Message Step", "LLM Inference Step", `build-llm-messages`,
`build-system-message`; 001 "Construct Prompt", "Call LLM".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from interlock.actions.reply_schema import problem_with
from interlock.core.conversation import assistant, system, user
from interlock.core.errors import Category, SetupError
from interlock.core.outcome import Message, Outcome, Reply, Spent
from interlock.core.specs import ActionSpec, ArgSpec, Effect
from interlock.core.tokens import estimate_messages
from interlock.core.types import BOOL, FLOAT, STR, Type, list_of, map_of, struct
from interlock.machine.saving import template_names
from interlock.run.context import Context
from interlock.run.ports import ModelReply, ModelRequest

KEEP = "prompt"
"""Under this name `prompt` leaves a note for the `infer` that follows."""

_CALL = struct({"id": STR, "name": STR, "arguments": STR}, keyed=True)
REPLY: Type = struct(
    {"text": STR, "finish_reason": STR, "tool_calls": list_of(_CALL), "model": STR}, keyed=True
)


def receive(ctx: Context) -> Outcome:
    """The task, into the conversation. A run that only continues a conversation has none."""
    task = ctx.facts.run.task
    if task:
        return Outcome(result={"text": task}, messages=(user(task),))
    if ctx.messages:
        return Outcome(result={"text": ""})
    return Outcome.failed(Category.RECOVERABLE, "the run was given no task", kind="no_task")


def prompt(ctx: Context, user: str = "", system: str = "", keep: bool = False) -> Outcome:
    """The messages of the next model call."""
    said: list[Message] = []
    if user:
        said.append({"role": "user", "content": user})
    head: tuple[Message, ...] = ({"role": "system", "content": system},) if system else ()
    note = {KEEP: {"keep": keep}}
    if not keep:
        return Outcome(result={"messages": [*head, *said]}, prompt=(*head, *said), kept=note)
    whole = (*head, *ctx.messages, *said)
    return Outcome(
        result={"messages": [*whole]},
        prompt=whole if head else None,
        messages=tuple(said),
        kept=note,
    )


def system_message(ctx: Context) -> str:
    """Instructions, then every memory block that they do not show themselves.

    Source: 004 "System message includes persona and memory blocks".
    """
    machine, facts = ctx.machine, ctx.facts
    parts: list[str] = []
    shown: frozenset[str] = frozenset()
    if machine.instructions is not None:
        shown = machine.instructions.reads
        parts.append(machine.instructions.render(template_names(machine, facts, shown)).strip())
    for name, block in machine.memory.items():
        if f"memory.{name}" in shown or "memory" in shown:
            continue
        value, label = facts.memory.get(name, ""), block.label or name
        if block.template is not None:
            parts.append(block.template.render({"value": value, "label": label}))
        else:
            parts.append(f"<{label}>\n{value}\n</{label}>")
    return "\n\n".join(p for p in parts if p)


def request_messages(ctx: Context) -> tuple[Message, ...]:
    """What the model is sent: a prompt's own messages, else system message and conversation."""
    messages = ctx.messages.whole() if ctx.prompt is None else ctx.prompt
    if messages and messages[0].get("role") == "system":
        return messages
    head = system_message(ctx)
    return (system(head), *messages) if head else messages


async def infer(
    ctx: Context, model: str = "", output: Mapping[str, Any] | None = None,
    tool_choice: Any = None, temperature: float | None = None, keep: bool | None = None,
) -> Outcome:  # fmt: skip
    """One model call."""
    if ctx.ports.model is None:
        raise SetupError(
            "this run has no model",
            hint="give one: `model=` in Python, `--model` or `--script` on the command line",
        )
    settings = {**ctx.machine.model, **ctx.ports.settings}
    if model:
        settings["name"] = model
    if temperature is not None:
        settings["temperature"] = temperature
    messages = request_messages(ctx)
    request = ModelRequest(
        messages, tuple(t.for_model() for t in ctx.tools), settings, tool_choice, output, ctx.key,
        ctx.facts.usage.llm_calls + ctx.failed_calls,
    )  # fmt: skip
    streaming = ctx.streaming or bool(settings.get("stream"))
    reply = await ctx.ports.model.complete(request, ctx.tell if streaming else None)
    return _outcome(ctx, messages, reply, output, keep)


def _outcome(
    ctx: Context, messages: tuple[Message, ...], reply: ModelReply,
    output: Mapping[str, Any] | None, keep: bool | None,
) -> Outcome:  # fmt: skip
    memory_tools = {n for n, t in ctx.machine.registry.tools.items() if t.memory}
    wants_memory = bool(reply.tool_calls) and all(c.name in memory_tools for c in reply.tool_calls)
    estimated = reply.prompt_tokens is None or reply.completion_tokens is None
    prompt_tokens = (
        estimate_messages(messages) if reply.prompt_tokens is None else reply.prompt_tokens
    )
    completion = reply.completion_tokens
    if completion is None:
        completion = estimate_messages((assistant(reply.text, reply.tool_calls),))
    said = assistant(reply.text, reply.tool_calls)
    added: tuple[Message, ...] = ()
    if ctx.prompt is None:
        added = (said,) if keep is not False or reply.tool_calls else ()
    elif keep or ctx.kept.get(KEEP, {}).get("keep"):
        added = (said,)
    elif reply.tool_calls:  # their replies must find the call: the question comes along
        added = (*(m for m in ctx.prompt if m.get("role") != "system"), said)
    outcome = Outcome(
        result={
            "text": reply.text, "finish_reason": reply.finish_reason, "model": reply.model,
            "tool_calls": [c._asdict() for c in reply.tool_calls],
        },
        reply=Reply(reply.text, reply.finish_reason, reply.tool_calls, wants_memory, reply.model),
        messages=added,
        spent=Spent(1, prompt_tokens, completion, reply.cost, estimated),
        context_tokens=prompt_tokens + completion if ctx.prompt is None else None,
        warnings=("a reply came without usage; its tokens were estimated",) if estimated else (),
    )  # fmt: skip
    if output is None:
        return outcome
    return _structured(outcome, reply.text, output)


def _structured(outcome: Outcome, text: str, schema: Mapping[str, Any]) -> Outcome:
    """A reply that must be JSON of a schema: its data becomes the result."""
    try:
        data = json.loads(text)
    except ValueError as error:
        problem = f"the reply is no JSON: {error}"
    else:
        found = problem_with(data, schema)
        if found is None:
            return outcome._replace(result={**outcome.result, "data": data})
        problem = f"the reply does not fit the schema: {found}"
    failed = Outcome.failed(Category.RECOVERABLE, problem, kind="output")
    return outcome._replace(ok=False, error=failed.error)


ACTIONS = (
    ActionSpec(
        "receive", receive, result=struct({"text": STR}, keyed=True), work=False, effect=Effect.PURE,
        suspends=False, about="Puts the task into the conversation.",
    ),
    ActionSpec(
        "prompt", prompt, (
            ArgSpec("user", "text", STR, about="The user message, a template."),
            ArgSpec("system", "text", STR, about="The system message; default: the file's instructions."),
            ArgSpec("keep", "value", BOOL, about="Keep the text and the reply in the conversation."),
        ),
        work=False, effect=Effect.PURE, suspends=False,
        about="Builds the messages of the next `infer` only; they are on the record, not in the conversation.",
    ),
    ActionSpec(
        "infer", infer, (
            ArgSpec("model", "text", STR, about="Another model than the file's."),
            ArgSpec("output", "data", map_of(STR), about="JSON Schema that the reply must satisfy; its data is `result.data`."),
            ArgSpec("tool_choice", "data", STR, about="`auto`, `none`, `required`, or one tool as the provider writes it."),
            ArgSpec("temperature", "value", FLOAT, about="Another temperature than the file's."),
            ArgSpec("keep", "value", BOOL, about="Whether the reply stays in the conversation."),
        ),
        result=REPLY, effect=Effect.PAID, suspends=False, uses=frozenset({"model"}),
        about="One model call: sends instructions, memory blocks, conversation and the state's tools.",
    ),
)  # fmt: skip
