"""A model that replies from a script: for tests, demos and scenarios.

    replies:
      - {text: Let me add., tool_calls: [{name: add, arguments: {a: 2, b: 3}}],
         usage: {prompt_tokens: 120, completion_tokens: 18}}
      - {error: {category: TRANSIENT, message: rate limited}}
      - {text: "5", finish_reason: stop, delay: 30s, reasoning: I add the two numbers.}

The n-th model call of a run gets the n-th reply. The number comes from the run's records
(`ModelRequest.number`), not from this object: a resumed run continues with the reply after its
recorded calls, and a recorded failure counts as a call.

Belongs here: the form of a reply, its parsing, and the model that gives it. Never: litellm,
a file, a real clock. `testing.loopback` serves the same form over HTTP.

Source: docs/language.md, "Scripts and scenarios".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import anyio

from chartloop.core.errors import Category, ModelError, ScriptError, nearest
from chartloop.core.facts import EMPTY, PARTS, ReportedParts, ToolCall, parts_of
from chartloop.core.reasoning import reasoning_text
from chartloop.core.units import parse_duration, parse_number
from chartloop.run.ports import Clock, ModelReply, ModelRequest, OnText


class ScriptedCall(NamedTuple):
    """One tool call of a scripted reply."""

    name: str
    arguments: str = "{}"
    """JSON text. A mapping in the script is serialized; a text is taken as it is, so that invalid
    arguments can be scripted too."""
    id: str = ""
    """Empty: `call_<number of the model call>_<n>`, both counted from 0."""


class ScriptedError(NamedTuple):
    """A failure instead of a reply; becomes a `ModelError` with the same fields."""

    category: Category
    message: str
    kind: str = ""
    retry_after: float | None = None
    """Seconds."""


class ScriptedReply(ReportedParts, frozen=True, gc=False):
    """One reply of a script, parsed and checked."""

    text: str = ""
    """With `error`: the text received before the failure."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str = "stop"
    """By default `tool_calls` if there are any, else `stop`."""
    prompt_tokens: int | None = None
    """None if the script gives no usage: the run estimates it and marks the estimate."""
    completion_tokens: int | None = None
    cost: float | None = None
    """USD; None, not 0, if the script gives none."""
    delay: float = 0.0
    """Seconds on the run's clock before the first word."""
    error: ScriptedError | None = None
    reasoning: str | tuple[Mapping[str, Any], ...] = ""
    """The reasoning before the reply: a text, or thinking blocks."""
    refusal: str = ""
    """The words with which the model refuses to answer: the call fails, and was paid for."""

    def calls(self, number: int) -> tuple[ToolCall, ...]:
        """The tool calls with their ids, for the model call of that number."""
        return tuple([
            ToolCall(call.id or f"call_{number}_{n}", call.name, call.arguments)
            for n, call in enumerate(self.tool_calls)
        ])  # fmt: skip


class Scripted:
    """A deterministic `Model`. Raises `ScriptError` when the script cannot be read.

    >>> from chartloop.adapters.model.scripted import Scripted
    >>> model = Scripted(["Hello.", {"text": "Bye.", "usage": {"completion_tokens": 2}}])
    >>> model.suspends, model.left_over(used=1)
    (False, 1)
    """

    scripted = True
    """Suppresses the warning about missing usage: scripted replies cost nothing."""

    def __init__(
        self, replies: Sequence[Mapping[str, Any] | str], *, clock: Clock | None = None
    ) -> None:
        self.replies, problems = parse_replies(replies)
        if problems:
            raise ScriptError(
                "the script cannot be read:\n  " + "\n  ".join(problems),
                hint="a reply is a text, or a mapping of " + ", ".join(_FIELDS),
            )
        self._clock = clock

    @property
    def suspends(self) -> bool:
        """Whether a reply has a delay on a clock that really waits."""
        waits = self._clock is None or self._clock.suspends
        return waits and any(reply.delay for reply in self.replies)

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Do nothing: a script needs no setup."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's context window; a script has none of its own."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Return the reply of number `request.number`; with `on_text`, stream it word by word.

        Raises `ModelError` if the script has an error there, and `ScriptError` if it has too few
        replies.
        """
        number = request.number
        if number >= len(self.replies):
            raise ScriptError(
                f"the script has too few replies: it holds {len(self.replies)}, "
                f"and model call {number + 1} was asked for",
                hint="add a reply for each model call, failed calls included, or stop the run "
                "earlier",
            )
        return await deliver(self.replies[number], request, self._clock, on_text)

    def left_over(self, used: int) -> int:
        """The number of unused replies after `used` model calls."""
        return max(0, len(self.replies) - used)


async def deliver(
    reply: ScriptedReply, request: ModelRequest, clock: Clock | None, on_text: OnText | None = None
) -> ModelReply:
    """Return a scripted reply, or raise its error, after its delay; stream it to `on_text`."""
    if reply.delay:
        await (clock.sleep if clock else anyio.sleep)(reply.delay)
    if on_text is not None:
        reasoning: OnText | None = getattr(on_text, "reasoning", None)
        if reasoning is not None and reply.reasoning:
            for piece in pieces(reasoning_text(_reasoning(reply.reasoning))):
                reasoning(piece)
        for piece in pieces(reply.text):
            on_text(piece)
        call: Any = getattr(on_text, "call", None)
        if call is not None:
            for number, tool_call in enumerate(reply.calls(request.number)):
                call(number, tool_call.id, tool_call.name, tool_call.arguments)
    if (error := reply.error) is not None:
        raise ModelError(
            error.message,
            category=error.category,
            kind=error.kind,
            retry_after=error.retry_after,
            partial=reply.text,
        )
    answer = ModelReply(
        reply.text,
        reply.calls(request.number) if reply.tool_calls else (),
        reply.finish_reason,
        reply.prompt_tokens,
        reply.completion_tokens,
        reply.cost,
        "scripted",
        _reasoning(reply.reasoning) if reply.reasoning else EMPTY,
        refusal=reply.refusal,
    )
    counts = parts_of(reply)
    return answer.replace(**dict(zip(PARTS, counts, strict=True))) if any(counts) else answer


def _reasoning(given: str | Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if isinstance(given, str):
        return {"provider": "scripted", "reasoning_content": given}
    return {"provider": "scripted", "thinking_blocks": [dict(block) for block in given]}


def pieces(text: str) -> list[str]:
    """The words of a text, each with the white space after it, as pieces of a stream."""
    return re.findall(r"\A\s+|\S+\s*", text)


def parse_replies(data: Any) -> tuple[list[ScriptedReply], list[str]]:
    """Parse the `replies` of a script; return the valid replies and all problems.

    Each problem starts with its place: ``replies.2.usage: unknown field ...``, counted from 0.
    """
    if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
        return [], ["replies: a list is needed, with one reply for each model call"]
    reader = _Reader()
    entries = cast(Sequence[Any], data)
    return [reader.reply(f"replies.{n}", e) for n, e in enumerate(entries)], reader.problems


_FIELDS = ("text", "tool_calls", "finish_reason", "usage", "delay", "error", "reasoning", "refusal")
_COUNTS = ("prompt_tokens", "completion_tokens", *PARTS)


class _Reader:
    """Parses plain data into `ScriptedReply`; collects problems instead of raising."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def reply(self, at: str, data: Any) -> ScriptedReply:
        if isinstance(data, str):
            return ScriptedReply(data)
        given = self._fields(at, data, _FIELDS)
        calls = self._calls(f"{at}.tool_calls", given.get("tool_calls", ()))
        usage = self._fields(f"{at}.usage", given.get("usage", {}), (*_COUNTS, "cost"))
        counts = {name: self._count(f"{at}.usage", usage, name) for name in _COUNTS}
        error = self._error(f"{at}.error", given["error"]) if "error" in given else None
        if error and calls:
            self._say(at, "`error` and `tool_calls` do not go together: a failed call asks nothing")
        return ScriptedReply(
            self._text(at, given, "text"),
            calls,
            self._text(at, given, "finish_reason") or ("tool_calls" if calls else "stop"),
            cost=self._amount(f"{at}.usage", usage, "cost", "USD"),
            delay=self._seconds(at, given, "delay") or 0.0,
            error=error,
            reasoning=self._reasoning(f"{at}.reasoning", given.get("reasoning", "")),
            refusal=self._text(at, given, "refusal"),
            **counts,
        )

    def _reasoning(self, at: str, data: Any) -> str | tuple[Mapping[str, Any], ...]:
        if isinstance(data, str):
            return data
        if isinstance(data, Sequence) and not isinstance(data, (bytes, bytearray)):
            blocks = cast(Sequence[Any], data)
            if all(isinstance(block, Mapping) for block in blocks):
                return tuple(cast("Mapping[str, Any]", json.loads(json.dumps(b))) for b in blocks)
        self._say(at, "a text is needed, or a list of thinking blocks")
        return ""

    def _calls(self, at: str, data: Any) -> tuple[ScriptedCall, ...]:
        if not isinstance(data, Sequence) or isinstance(data, (str, bytes)):
            self._say(at, "a list of {name, arguments, id} is needed")
            return ()
        entries = cast(Sequence[Any], data)
        return tuple(self._call(f"{at}.{n}", entry) for n, entry in enumerate(entries))

    def _call(self, at: str, data: Any) -> ScriptedCall:
        given = self._fields(at, data, ("name", "arguments", "id"), needed=("name",))
        arguments = given.get("arguments", {})
        if not isinstance(arguments, str):
            arguments = self._json(f"{at}.arguments", arguments)
        return ScriptedCall(self._text(at, given, "name"), arguments, self._text(at, given, "id"))

    def _json(self, at: str, arguments: Any) -> str:
        if isinstance(arguments, Mapping):
            try:
                return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
            except (TypeError, ValueError, RecursionError):
                pass
        self._say(at, "a mapping of JSON values is needed, or the JSON as a text")
        return "{}"

    def _error(self, at: str, data: Any) -> ScriptedError:
        given = self._fields(
            at, data, ("category", "message", "kind", "retry_after"), needed=("category", "message")
        )
        category = given.get("category", Category.TRANSIENT)
        words = [str(c) for c in Category]
        if category not in words:
            self._say(at, f"unknown category {_excerpt(category)}: one of {', '.join(words)}")
            category = Category.TRANSIENT
        return ScriptedError(
            Category(category),
            self._text(at, given, "message"),
            self._text(at, given, "kind"),
            self._seconds(at, given, "retry_after"),
        )

    def _fields(
        self, at: str, data: Any, known: Sequence[str], *, needed: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        if not isinstance(data, Mapping):
            self._say(at, "a mapping of " + ", ".join(f"`{k}`" for k in known) + " is needed")
            return {}
        given = cast(Mapping[Any, Any], data)
        for name in given:
            if name not in known:
                hint = nearest(_excerpt(name).strip("`"), known)
                self._say(at, f"unknown field {_excerpt(name)}: {hint}")
        for name in needed:
            if name not in given:
                self._say(at, f"`{name}` is missing")
        return {k: v for k, v in given.items() if k in known}

    def _text(self, at: str, given: Mapping[str, Any], name: str) -> str:
        value = given.get(name, "")
        if isinstance(value, str):
            return value
        self._say(f"{at}.{name}", f"a text is needed, not {_excerpt(value)}: put it in quotes")
        return ""

    def _count(self, at: str, given: Mapping[str, Any], name: str) -> int | None:
        value = self._amount(at, given, name, "tokens")
        if value is None or isinstance(value, int):
            return value
        self._say(f"{at}.{name}", f"a whole number of tokens is needed, not {_excerpt(value)}")
        return None

    def _seconds(self, at: str, given: Mapping[str, Any], name: str) -> float | None:
        value = given.get(name)
        if isinstance(value, str) and (seconds := parse_duration(value)) is not None:
            return seconds
        return self._amount(at, given, name, "seconds, or a duration such as `30s`")

    def _amount(self, at: str, given: Mapping[str, Any], name: str, unit: str) -> float | None:
        value = given.get(name)
        if value is None:
            return None
        number = parse_number(value) if isinstance(value, str) else value
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            if 0 <= number < math.inf:
                return number
        self._say(
            f"{at}.{name}", f"a number of {unit}, zero or more, is needed, not {_excerpt(value)}"
        )
        return None

    def _say(self, at: str, message: str) -> None:
        self.problems.append(f"{at}: {message}")


def _excerpt(value: Any) -> str:
    """A short text for a value in a message; never calls its `repr`."""
    if isinstance(value, str):
        return f"`{value[:60]}`"
    if isinstance(value, bool) or (isinstance(value, (int, float)) and abs(value) < 1e12):
        return f"`{value}`"
    return f"a value of type {type(value).__name__}"
