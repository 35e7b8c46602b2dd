"""Outcomes: the return values of actions, and their parts.

An `Outcome` holds everything that an action changed, so that a run's state is a fold of its
outcomes. Actions change nothing else. `Blocked` means that the action is not finished: the run
waits, and the same action is called again when it is due. Reported tokens, calls and costs are
accepted only within plausible bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

from msgspec import UNSET
from msgspec.structs import asdict

from chartloop.core.codec import written
from chartloop.core.facts import EMPTY, PARTS, Failure, Task, TokenParts, ToolCall, wire_name
from chartloop.core.reasons import StopSignal
from chartloop.core.values import Count, Value

Message = Mapping[str, Any]
"""One message of the conversation in the chat format: ``role``, ``content``, and for the
assistant ``tool_calls`` and ``reasoning`` (`core.reasoning`), for a tool's reply ``tool_call_id``
and ``name``."""


class Spent(TokenParts, frozen=True, gc=False):
    """The resources that an action used. Unknown cost is None, never 0."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """USD."""
    estimated: bool = False
    """Whether the tokens are estimated because the provider sent no usage."""
    tools: Mapping[str, int] = EMPTY
    """Executed tool calls, by tool."""

    def plus(self, other: Spent) -> Spent:
        """The sum of both. An unknown cost adds nothing; None if neither is known."""
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        tools = {**self.tools}
        for name, count in other.tools.items():
            tools[name] = tools.get(name, 0) + count
        return Spent(
            cost=sum(known) if known else None, tools=tools or EMPTY,
            estimated=self.estimated or other.estimated,
            **{name: getattr(self, name) + getattr(other, name) for name in COUNTS},
        )  # fmt: skip


class Reply(Value, frozen=True, gc=False):
    """A model's reply."""

    text: str = ""
    finish_reason: str = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    wants_memory: bool = False
    model: str = ""
    reasoning: Mapping[str, Any] = EMPTY
    """Thinking blocks and the like, as the provider sent them: see `core.reasoning`."""

    @property
    def message(self) -> Message:
        """The reply as the conversation holds it."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": wire_name(call.name), "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.reasoning:
            message["reasoning"] = self.reasoning
        return message

    @property
    def result(self) -> dict[str, Any]:
        """The reply as the result of the action that requested it."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "model": self.model,
            "tool_calls": list(map(asdict, self.tool_calls)),
        }


class CallResult(Value, frozen=True, gc=False):
    """The result of one call of a reply, and so the model's message about it."""

    id: str
    name: str
    ok: bool = True
    content: str = ""
    """The text that the model reads."""
    result: Any = UNSET
    """JSON data. Unset: `content`."""

    @property
    def message(self) -> Message:
        """The result as the conversation has it."""
        name = wire_name(self.name)
        return {"role": "tool", "tool_call_id": self.id, "name": name, "content": self.content}

    @property
    def data(self) -> dict[str, Any]:
        """The result as part of the result of the action that made the call."""
        data = asdict(self)
        if self.result is UNSET:
            data["result"] = self.content
        return data


_OF_A_CHILD = frozenset({"run", "machine", "reason", "kind", "output"})


def child_results(result: object) -> Iterator[Mapping[str, Any]]:
    """The results of child machines in an action's result: of one, of several, of calls."""
    if isinstance(result, CallResult):
        result = result.result
    if isinstance(result, Mapping):
        data = cast("Mapping[str, Any]", result)
        if data.keys() >= _OF_A_CHILD:
            yield data
        elif isinstance(several := data.get("children"), (list, tuple)):
            yield from child_results(several)  # pyright: ignore[reportUnknownArgumentType]
        elif data.keys() >= {"id", "name", "content", "result"}:
            yield from child_results(data["result"])
    elif isinstance(result, (list, tuple)):
        for one in cast("Sequence[object]", result):
            yield from child_results(one)


NOTHING_SPENT = Spent()
if not TYPE_CHECKING:  # a stored one is a message
    Held = Message
else:
    Held: TypeAlias = Message | Reply | CallResult
    """A message, or what it is made of when it is read."""


def as_message(held: Held) -> Message:
    """A message as it is read."""
    return held.message if isinstance(held, (Reply, CallResult)) else held


def made_of_calls(held: object) -> TypeGuard[tuple[CallResult, ...]]:
    """Whether a result is made of the results of calls when it is read."""
    return type(held) is tuple and bool(held) and type(held[0]) is CallResult  # pyright: ignore[reportUnknownArgumentType]


class HeldOutcome(Value, frozen=True, gc=False):
    """The fields of an `Outcome`, in which a reply and the text of a call stand once."""

    ok: bool = True
    error: Failure | None = None
    """Set when `ok` is false."""
    result: Any = None
    """JSON data of the type that the action declares; or `reply`, or results of calls."""
    reply: Reply | None = None
    messages: tuple[Held, ...] = ()
    rewrite: tuple[Message, ...] | None = None
    prompt: tuple[Message, ...] | None = None
    """Messages for the next model call only, in place of the conversation."""
    spent: Spent = NOTHING_SPENT
    tool_errors: tuple[str, ...] = ()
    """Failures of single tool calls, whose texts the model reads."""
    denied: tuple[str, ...] = ()
    """Likewise, for each call that a person denied, or that nobody answered in time."""
    changes: Mapping[str, Any] = EMPTY
    queue: tuple[Task, ...] | None = None
    kept: Mapping[str, Any] = EMPTY
    """Data that the action needs after a resume, by action name: a sandbox session."""
    signals: tuple[StopSignal, ...] = ()
    continued: int | None = None
    """`continue_run`: defer the pending signals, at most this many times in a run."""
    partial: tuple[str, ...] = ()
    """Partial results, in order."""
    warnings: tuple[str, ...] = ()
    progressed: bool = False
    """The action reports progress: `progress.stalled_for` is reset."""
    forgiven: bool = False
    """`back_off` or a fix: `errors.consecutive` is reset, `errors.retries` rises by one."""
    timed_out: bool = False
    again: bool = False
    """The action failed, told the model what was wrong, and requests another attempt at once."""
    context_tokens: Count | None = None
    """The counted size of the conversation; None: it is estimated."""
    prunable: bool | None = None
    dropped: tuple[ToolCall, ...] = ()
    """Calls that the model requested and that were not executed."""
    unanswered: int = 0
    """Model calls that gave no reply. A script counts these too."""
    in_doubt: bool = False
    """The outcome of a call that it made is not known, and so it is not tried again."""
    unknown: int = 0
    """The number of its calls whose outcome is not known."""
    cut_short: bool = False
    """A child in this conversation ended with a reply that lacks its end."""
    unsettled: tuple[CallResult, ...] = ()
    """Replies to calls that may be repeated, for the model, unless the action is tried again."""


class Outcome(HeldOutcome, frozen=True, gc=False):
    """The outcome of an action: everything that it changed.

    An action adds `messages`, or replaces the conversation with `rewrite` as pruning does.
    `changes` maps facts that the action declares to their new values: ``vars.plan``,
    ``memory.persona``, ``queue.size``, ``progress.magnitude``.
    """

    held_result = HeldOutcome.result
    held_messages = HeldOutcome.messages

    @property
    def result(self) -> Any:
        """JSON data of the type that the action declares."""
        held = self.held_result
        if type(held) is Reply:
            return held.result
        return [one.data for one in held] if made_of_calls(held) else held

    @property
    def messages(self) -> tuple[Message, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The messages that it adds."""
        return tuple(map(as_message, self.held_messages))

    def to_mapping(self) -> dict[str, Any]:
        """The fields by name, as they are read."""
        return {**asdict(self), "result": self.result, "messages": self.messages}

    @classmethod
    def failure(cls, category: str, message: str, *, kind: str = "", **more: Any) -> Outcome:
        """The outcome of a failed action."""
        return cls(ok=False, error=Failure(str(category), message, "", kind), **more)


class ToolResult(Value, frozen=True, gc=False):
    """The return value of a tool that returns more than a plain value."""

    text: str
    """The text that the model reads."""
    ok: bool = True
    result: Any = None
    """JSON data for the record."""
    changes: Mapping[str, Any] = EMPTY
    """New values of memory blocks and other facts, by fact name."""
    partial: tuple[str, ...] = ()
    signals: tuple[StopSignal, ...] = ()
    category: str = "RECOVERABLE"
    """The category of the failure, if `ok` is false."""
    progressed: bool = False
    """The tool reports progress, ok or not: `progress.stalled_for` is reset."""
    warnings: tuple[str, ...] = ()
    """Warnings about the call, for operators; the model does not read them."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """Images and files after the text, as parts of a message: ``Image.read("a.png").part``."""
    in_doubt: bool = False
    """The call was made; whether it was carried out is unknown."""

    @property
    def is_text(self) -> bool:
        """Whether the tool succeeded and returns nothing besides text, data and parts."""
        return self.ok and not (
            self.changes or self.partial or self.signals or self.progressed or self.warnings
        )


def written_result(result: ToolResult) -> dict[str, Any]:
    """The result of a tool as its event in a log holds it."""
    data = {"text": result.text, "ok": result.ok, "result": result.result}
    return data if result.is_text and not result.parts else {**data, **written(result)}


class Blocked(Value, frozen=True, gc=False):
    """An unfinished action: call it again at `until`, or when `on` has happened.

    `until` is in seconds since the epoch; `on` names the event for people and schedulers:
    ``back-off``, ``child``, ``in-doubt``.
    """

    until: float | None = None
    on: str = ""
    asks: Mapping[str, Any] = EMPTY
    """The question of a child run: see `core.position.Asked`."""


MOST_TOKENS = 10**9
"""Tokens of one side of one model call. The largest windows hold a few million."""
MOST_COST = 10**6
"""USD for one model call."""
MOST = 1e15
"""The upper bound of every sum of counts or of USD."""


COUNTS = ("llm_calls", "prompt_tokens", "completion_tokens", *PARTS)
"""The fields of `Spent` that are added up."""


def is_tokens(value: object) -> TypeGuard[int]:
    """Whether a value is a plausible token count for one side of one model call."""
    return type(value) is int and 0 <= value <= MOST_TOKENS


def is_cost(value: object) -> bool:
    """Whether a value is a plausible cost of one model call, in USD."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST_COST


def problem_with(spent: Spent) -> str:
    """The implausible part of reported usage, in words; empty if all of it is plausible."""
    paid, tools = spent.cost, spent.tools
    for name in COUNTS:
        count = getattr(spent, name)
        if not _is_count(count) or (name in PARTS and count > getattr(spent, PARTS[name].of)):
            return f"{name} {say(count)}"
    if paid is not None and not (isinstance(paid, (int, float)) and 0 <= paid <= MOST):  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"cost {say(paid)}"
    if not isinstance(tools, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  a file may hold anything
        return f"tools {say(tools)}"
    for tool, count in tools.items():
        if not (isinstance(tool, str) and _is_count(count)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return f"tools {say(tool)}: {say(count)}"
    return ""


def say(value: object) -> str:
    """A rejected value as a warning shows it: short, whatever the value is."""
    if isinstance(value, int) and value.bit_length() > 60:
        return f"a number of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return ascii(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST
