"""The return value of an action, and its parts.

An `Outcome` says everything that an action changed, so that folding outcomes is all there is
to a run's state. Actions never change anything else. `Blocked` says that the action is not
finished: the run pauses and the same action is called again when it is due. What someone reports
of tokens, calls and money is believed only as far as it can be true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeGuard, cast

from chartloop.core.facts import EMPTY, Failure, Task, ToolCall, wire_name
from chartloop.core.plain import plain
from chartloop.core.reasons import REASONS, StopReason, StopSignal
from chartloop.core.values import Value

Message = Mapping[str, Any]
"""One message of the conversation in the chat format: ``role``, ``content``, and for the
assistant ``tool_calls`` and ``reasoning`` (`core.reasoning`), for a tool's reply ``tool_call_id``
and ``name``."""


class Spent(Value, frozen=True, gc=False):
    """The resources that an action used. Unknown cost is None, never 0."""

    llm_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    """USD."""
    estimated: bool = False
    """The provider sent no usage; the tokens were estimated."""
    tools: Mapping[str, int] = EMPTY
    """Tool calls that were executed, by tool."""
    cached_tokens: int = 0
    """Of the prompt tokens, those that the provider read from its cache."""
    cache_write_tokens: int = 0
    """Of the prompt tokens, those that it wrote into its cache."""
    reasoning_tokens: int = 0
    """Of the completion tokens, those of the model's reasoning."""

    def plus(self, other: Spent) -> Spent:
        """Both together. The cost is that of the part whose cost is known."""
        known = [cost for cost in (self.cost, other.cost) if cost is not None]
        tools = {**self.tools}
        for name, count in other.tools.items():
            tools[name] = tools.get(name, 0) + count
        return Spent(
            self.llm_calls + other.llm_calls, self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens, sum(known) if known else None,
            self.estimated or other.estimated, tools or EMPTY,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )  # fmt: skip


class Reply(Value, frozen=True, gc=False):
    """The reply of a model."""

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
        """The reply as the result of the action that asked for it."""
        return {
            "text": self.text,
            "finish_reason": self.finish_reason,
            "model": self.model,
            "tool_calls": [call.to_mapping() for call in self.tool_calls],
        }


NOTHING_SPENT = Spent()


class Outcome(Value, frozen=True, gc=False):
    """The outcome of an action: everything it changed.

    Messages are given as additions (`messages`) or as a whole new conversation (`rewrite`,
    by pruning and trimming). `changes` maps fact names that the action declares to their new
    values: ``vars.plan``, ``memory.persona``, ``queue.size``, ``progress.magnitude``.
    """

    ok: bool = True
    error: Failure | None = None
    """Set when `ok` is false."""
    result: Any = None
    """JSON data of the type that the action declares."""
    reply: Reply | None = None
    messages: tuple[Message, ...] = ()
    rewrite: tuple[Message, ...] | None = None
    prompt: tuple[Message, ...] | None = None
    """Messages for the next model call only, in place of the conversation."""
    spent: Spent = NOTHING_SPENT
    tool_errors: tuple[str, ...] = ()
    """Failures of single tool calls whose text went back to the model."""
    changes: Mapping[str, Any] = EMPTY
    queue: tuple[Task, ...] | None = None
    kept: Mapping[str, Any] = EMPTY
    """Data that the action needs again after a resume, by action name: a sandbox session."""
    signals: tuple[StopSignal, ...] = ()
    continued: int | None = None
    """`continue_run`: put the pending signals off, at most this many times."""
    partial: tuple[str, ...] = ()
    """Partial results, in order."""
    warnings: tuple[str, ...] = ()
    progressed: bool = False
    """The action reports progress: `progress.stalled_for` starts again."""
    forgiven: bool = False
    """`back_off` or a fix: `errors.consecutive` starts again, `errors.retries` rises."""
    timed_out: bool = False
    again: bool = False
    """The action failed, has said what was wrong, and asks to be done again at once."""
    context_tokens: int | None = None
    """The conversation's size as counted; otherwise it is estimated."""
    prunable: bool | None = None
    dropped: tuple[ToolCall, ...] = ()
    """Calls that the model asked for and that were not executed."""
    unanswered: int = 0
    """Model calls that were made and gave no reply: a script counts them too."""
    in_doubt: bool = False
    """The paid call was started before a crash; whether it happened is unknown."""

    @classmethod
    def failure(cls, category: str, message: str, *, kind: str = "", **more: Any) -> Outcome:
        """An outcome of an action that failed."""
        return cls(ok=False, error=Failure(str(category), message, "", kind), **more)

    def to_dict(self) -> dict[str, Any]:
        """Plain data without what was left at its default.

        What a model said is written once: a result that only repeats the `reply` is left out,
        and ``"said": true`` stands for its message at the end of `messages`.
        """
        out: dict[str, Any] = {}
        for name, default in _DEFAULTS.items():
            value = getattr(self, name)
            if value is not default and value != default:
                out[name] = _plain(value)
        reply = self.reply
        if reply is not None:
            if self.result is None:
                out["result"] = None
            elif self.result == reply.result:
                del out["result"]
            if self.messages and self.messages[-1] == reply.message:
                out["said"] = True
                out["messages"] = out["messages"][:-1]
                if not out["messages"]:
                    del out["messages"]
        return out

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Outcome:
        """Read back what `to_dict` wrote."""
        given = dict(data)
        for name in data.keys() & _READ.keys():
            if data[name] is not None:
                given[name] = _READ[name](data[name])
        if "signals" in given:
            given["signals"] = tuple(StopSignal.from_dict(s, reasons) for s in given["signals"])
        reply: Reply | None = given.get("reply")
        if reply is not None:
            given.setdefault("result", reply.result)
            if given.pop("said", False):
                given["messages"] = (*given.get("messages", ()), reply.message)
        return cls(**given)


class ToolResult(Value, frozen=True, gc=False):
    """The return value of a tool that reports more than a value."""

    text: str
    """The text that the model reads."""
    ok: bool = True
    result: Any = None
    """JSON data for the record."""
    changes: Mapping[str, Any] = EMPTY
    """Memory blocks and other facts that it changed."""
    partial: tuple[str, ...] = ()
    signals: tuple[StopSignal, ...] = ()
    category: str = "RECOVERABLE"
    """The category of the failure, if it is not ok: what can be done about it."""
    progressed: bool = False
    """The tool reports progress, ok or not: `progress.stalled_for` starts again."""
    warnings: tuple[str, ...] = ()
    """Oddities of the call, for operators; the model does not read them."""
    parts: tuple[Mapping[str, Any], ...] = ()
    """Images and files after the text, as parts of a message: ``Image.read("a.png").part``."""
    in_doubt: bool = False
    """The call was made, and whether it was carried out is not known."""

    @property
    def is_text(self) -> bool:
        """Whether a text, or the data that it was made of, is all that it gives."""
        return self.ok and not (
            self.changes or self.partial or self.signals or self.progressed or self.warnings
        )


class Blocked(Value, frozen=True, gc=False):
    """The action is not finished: call it again at `until`, or when `on` has happened.

    `until` is in seconds since the epoch; `on` names what is waited for, for people and
    schedulers: ``back-off``, ``child``, ``in-doubt``.
    """

    until: float | None = None
    on: str = ""
    asks: Mapping[str, Any] = EMPTY
    """The question of a child: see `core.position.Asked`."""


_DEFAULTS = Outcome.defaults()
_MISSING = object()


def _plain(value: object) -> Any:
    """As `core.plain`, without what a value leaves empty: records are kept small."""
    if isinstance(value, StopSignal):
        return value.to_dict()
    if isinstance(value, Value):
        unset = _defaults_of(type(value))
        given = value.to_mapping().items()
        data = {n: _plain(v) for n, v in given if v != unset.get(n, _MISSING)}
        return {n: v for n, v in data.items() if v is not None and v not in ([], {})}
    if isinstance(value, tuple):
        return [_plain(v) for v in cast("tuple[object, ...]", value)]
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in cast(Mapping[str, object], value).items()}
    return plain(value)


@cache
def _defaults_of(kind: type[Value]) -> Mapping[str, Any]:
    return kind.defaults()


def _failure(data: Mapping[str, Any]) -> Failure:
    return Failure(**data)


def _spent_from_dict(data: Mapping[str, Any]) -> Spent:
    return Spent(**data)


def _tasks(data: Iterable[Mapping[str, Any]]) -> tuple[Task, ...]:
    return tuple(Task(**t) for t in data)


def _calls(data: Iterable[Mapping[str, Any]]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(**d) for d in data)


def _reply(data: Mapping[str, Any]) -> Reply:
    if "tool_calls" not in data:
        return Reply(**data)
    given: dict[str, Any] = {**data, "tool_calls": _calls(data["tool_calls"])}
    return Reply(**given)


_READ: Mapping[str, Callable[[Any], Any]] = {
    "error": _failure,
    "reply": _reply,
    "spent": _spent_from_dict,
    "queue": _tasks,
    "dropped": _calls,
    **dict.fromkeys(("messages", "rewrite", "prompt", "tool_errors", "partial", "warnings"), tuple),
}


MOST_TOKENS = 10**9
"""Tokens of one side of one model call. The largest windows hold a few million."""
MOST_COST = 10**6
"""USD for one model call."""
MOST = 1e15
"""An upper bound for every count and every sum of money, whatever was added up."""


PARTS: Mapping[str, str] = {
    "cached_tokens": "prompt_tokens",
    "cache_write_tokens": "prompt_tokens",
    "reasoning_tokens": "completion_tokens",
}
"""Counts that are a part of another one."""


def is_tokens(value: object) -> TypeGuard[int]:
    """Whether so many tokens can have been sent or written in one model call."""
    return type(value) is int and 0 <= value <= MOST_TOKENS


def is_cost(value: object) -> bool:
    """Whether one model call can have cost so many USD."""
    return isinstance(value, (int, float)) and 0 <= value <= MOST_COST


def problem_with(spent: Spent) -> str:
    """The error in the usage that an action reports, in words; empty if there is none."""
    asked, sent, written = spent.llm_calls, spent.prompt_tokens, spent.completion_tokens
    paid, tools = spent.cost, spent.tools
    if not (
        type(asked) is type(sent) is type(written) is int
        and 0 <= asked <= MOST and 0 <= sent <= MOST and 0 <= written <= MOST
    ):  # fmt: skip
        counts = {"llm_calls": asked, "prompt_tokens": sent, "completion_tokens": written}
        for name, count in counts.items():
            if not _is_count(count):
                return f"{name} {say(count)}"
    if spent.cached_tokens or spent.cache_write_tokens or spent.reasoning_tokens:
        for name, whole in PARTS.items():
            part = getattr(spent, name)
            if not (_is_count(part) and part <= getattr(spent, whole)):
                return f"{name} {say(part)}"
    if paid is not None and not (_is_number(paid) and paid <= MOST):
        return f"cost {say(paid)}"
    if tools is EMPTY:  # nearly always, and asked about every step
        return ""
    if not isinstance(tools, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]  a file may hold anything
        return f"tools {say(tools)}"
    for tool, count in tools.items():
        if not (isinstance(tool, str) and _is_count(count)):  # pyright: ignore[reportUnnecessaryIsInstance]
            return f"tools {say(tool)}: {say(count)}"
    return ""


def say(value: object) -> str:
    """A value that is not believed, as a warning names it: short, whatever it is."""
    if isinstance(value, int) and value.bit_length() > 60:
        return f"a number of about {int(value.bit_length() * math.log10(2)) + 1:,} digits"
    if isinstance(value, (int, float)):
        return f"{value:,}"
    return ascii(value[:40]) if isinstance(value, str) else f"of type {type(value).__name__}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and 0 <= value <= MOST


def _is_number(value: object) -> bool:
    """A number from 0 on. NaN is none."""
    return isinstance(value, (int, float)) and 0 <= value < math.inf
