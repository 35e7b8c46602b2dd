"""A reply as received, in one piece or in many, and whether it is valid.

Belongs here: reading litellm's responses without the values that it makes up, and responses that
litellm cannot read because a part has the wrong type. Never: a call.
Source: docs/models.md, "What models send"; OpenAI API reference, "Streaming".
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, cast

from chartloop.adapters.model.target import Target
from chartloop.adapters.model.thinking import ReceivedReasoning, check_reasoning
from chartloop.adapters.model.wire import TooLongError, Wire
from chartloop.core.facts import PARTS, ToolCall
from chartloop.run.ports import ModelReply, ModelRequest, OnText


class ReceivedReply:
    """One reply, as far as it has been received."""

    def __init__(self, on_text: OnText | None, most: int) -> None:
        self.text = ""
        self.refusal = ""
        """The words with which the model refused."""
        self.size = 0
        self.most = most
        self.idle = False
        """Whether the stream paused for longer than allowed."""
        self.media = False
        """Whether images or files were sent."""
        self.unreadable = False
        """Whether a whole reply came in an unreadable form."""
        self.usage: Any = None
        self.cost: float | None = None
        """USD by litellm's count; None if it has none."""
        self._on_text = on_text
        self._tell_reasoning = getattr(on_text, "reasoning", None)
        self._tell_call = getattr(on_text, "call", None)
        self._reasoning = ReceivedReasoning()
        self._calls: list[dict[str, Any]] = []
        self._later: list[Any] = []
        """The messages or pieces of further choices, of which one was asked for."""
        self._finish = ""
        self._cut = self._lone = False

    def take(self, response: Any, wire: Wire) -> None:
        """Take a reply in one piece. litellm fills in zeros if the provider sent no usage."""
        self.usage = _reported_usage(getattr(response, "usage", None))
        self.cost = getattr(response, "_hidden_params", {}).get("response_cost")
        for number, choice in enumerate(response.choices):
            self._choose(number, choice.message, choice.finish_reason)
        self._add_later()
        if not (self.text or self._calls):
            self.refusal = self.refusal or wire.refusal

    async def listen(self, stream: Any, idle: float, wire: Wire) -> None:
        """Take a streamed reply, with pauses of at most `idle` seconds, and close it."""
        async with contextlib.aclosing(stream):
            self._reasoning.watch(stream, self._look)
            try:
                await self._pieces(stream, idle)
            except Exception as error:
                # Only usage comes after the finish reason: the reply is complete without it.
                if isinstance(error, TooLongError) or not stream.received_finish_reason:
                    raise
                self._finish = self._finish or stream.received_finish_reason
        # litellm makes up a finish reason and usage, and reads a body that is not a stream as a
        # single event.
        self._lone = len(stream.chunks) == 1
        self._cut = not (stream.received_finish_reason or stream.intermittent_finish_reason)
        self._add_later()
        self.refusal = self.refusal or wire.refusal
        if not any(getattr(chunk, "usage", None) for chunk in stream.chunks):
            self.usage = None

    async def _pieces(self, stream: Any, idle: float) -> None:
        pause: float | None = None  # a model may think for long before its first word
        while True:
            scope = asyncio.timeout(pause)
            try:
                async with scope:
                    chunk = await anext(stream, None)
            finally:
                self.idle = scope.expired()
            pause = idle
            if chunk is None:
                break
            self.usage = _reported_usage(getattr(chunk, "usage", None)) or self.usage
            for number, choice in enumerate(chunk.choices):
                index = getattr(choice, "index", None) or number
                self._choose(index, choice.delta, choice.finish_reason)

    def _choose(self, index: int, part: Any, finish: str | None) -> None:
        if index == 0:
            self._add(part, finish)
        elif len(self._later) < MOST_LATER and (part.content or _calls_in(part)):
            self._later.append(part)

    def _add_later(self) -> None:
        """Take the calls of further choices if the first has none: some send them there."""
        if self._later and not self._calls:
            for part in self._later:
                part.content = None
                self._add(part, None)

    def read(self, wire: Wire) -> bool:
        """Take a whole reply that litellm could not read, and return whether there is one.

        It was paid for. Parts of the wrong type become text, or are left out.
        """
        if wire.status is None or wire.status >= 400 or not wire.whole or self._calls:
            return False
        try:
            body = json.loads(b"".join(wire.whole))
            choice = body["choices"][0]
        except (IndexError, KeyError, TypeError, ValueError, RecursionError):
            return False
        self.text, self.refusal, self.size, self._reasoning = "", "", 0, ReceivedReasoning()
        try:
            self._add(_message(choice["message"]), _text(choice.get("finish_reason")) or "stop")
            usage = body.get("usage")
            sent = isinstance(usage, Mapping)
            fields: Mapping[str, Any] = cast("Mapping[str, Any]", usage) if sent else {}
            counts = [fields.get(name) for name in _Usage._fields]
            self.usage = _reported_usage(
                _Usage(*(n if isinstance(n, int) else None for n in counts))
            )
        except (AttributeError, KeyError, TypeError, RecursionError, TooLongError) as error:
            self.unreadable = not isinstance(error, TooLongError)
            return False
        return True

    def _add(self, part: Any, finish: str | None) -> None:
        self._finish = finish or self._finish
        if not self._reasoning.watches:  # else `_look` has read it
            self.refusal += _text(getattr(part, "refusal", None))
        text, thought = self._reasoning.add(part)
        self.size += thought + len(part.content or "") + len(self.refusal)
        self.size += sum(len(call.function.arguments or "") for call in _calls_in(part))
        if self.size > self.most:
            raise TooLongError
        if text and self._tell_reasoning is not None:
            self._tell_reasoning(text)
        if part.content:
            self.text += part.content
            if self._on_text is not None:
                self._on_text(part.content)
        for n, delta in enumerate(_calls_in(part)):
            name = delta.function.name or ""
            call = self._call(getattr(delta, "index", n), delta.id or "", name)
            # Most servers send the name once, some with each piece, some in pieces.
            call["name"] = name if name.startswith(call["name"]) else call["name"] + name
            call["arguments"] += delta.function.arguments or ""
            number = self._calls.index(call)
            self._reasoning.call(number, delta)
            if self._tell_call is not None:
                id = self._reasoning.id_of(number, call["id"])
                self._tell_call(number, id, call["name"], delta.function.arguments or "")

    def _look(self, delta: Any) -> None:
        """Read what litellm drops from a piece, and flatten content that it cannot read."""
        self._reasoning.take_details(delta)
        self.refusal += _text(getattr(delta, "refusal", None))
        content: Any = getattr(delta, "content", None)
        if isinstance(content, (list, tuple, dict)):
            flat = flat_content(content)
            self.refusal += flat.refusal
            delta.content = flat.text
            if flat.thought:
                delta.reasoning_content = flat.thought
        for call in getattr(delta, "tool_calls", None) or ():
            if isinstance(getattr(function := call.function, "arguments", None), dict):
                function.arguments = json.dumps(function.arguments)

    def _call(self, index: int, id: str, name: str) -> dict[str, Any]:
        """The call of a piece, created if needed.

        Some servers number all calls 0: another id begins another call. Some give each piece an id
        of its own: the call goes on if the piece has no name, or its arguments are unfinished.
        """
        call = next((c for c in reversed(self._calls) if c["index"] == index), None)
        if call is not None and id and call["id"] not in ("", id):
            goes_on = not name or (name == call["name"] and _is_begun(call["arguments"]))
            call = call if goes_on else None
        if call is None:
            call = {"index": index, "id": "", "name": "", "arguments": ""}
            self._calls.append(call)
        call["id"] = call["id"] or id
        return call

    def problem(self, *, streamed: bool) -> tuple[str, str] | None:
        """The kind and text of a fault in a reply that raised no error; None if it is valid."""
        is_whole = self.usage and self._finish and not self._lone
        some = self.text or self._calls or self.refusal
        if not (some or is_whole) and self._finish in ("", "stop"):
            kind = "empty_stream" if streamed else "empty" if self._finish else "broken_body"
            return kind, "the answer is empty"
        return ("stream_broken", "the stream ended before the reply did") if self._cut else None

    def bad_end(self, reason: str) -> tuple[str, str] | None:
        """The kind and text of a fault in the provider's word for why the reply ended, or None.

        A word that is on no list of `ENDS` is a fault, since litellm takes it for `stop`.
        """
        word = _word(reason)
        if not word or any(word in words for words in ENDS.values()):
            return None
        kind = BAD_ENDS.get(word) or next((k for p, k in _PARTS.items() if p in word), "")
        some = self.text.strip() or self._calls
        return kind or ("reply" if some else "empty"), f"the reply ended with `{reason[:60]}`"

    def fault(self, reason: str) -> tuple[str, str] | None:
        """The kind and text of a fault in a reply that was paid for; None if it is good."""
        if fault := self.bad_end(reason):
            return fault
        word = _word(reason)
        finish = next((end for end, words in ENDS.items() if word in words), None)
        self._finish = finish or self._finish
        self.refusal = self.refusal or (REFUSED if word == "refusal" else "")
        if self._finish in ("tool_calls", "function_call") and not self._calls:
            return "reply", "the reply announced tool calls and has none"
        return None

    def _oddities(self, request: ModelRequest) -> Iterator[str]:
        """Warnings about a reply that is used all the same."""
        if self._later:
            yield IN_ANOTHER if self._calls else LEFT_OUT
        if request.tools and not self._calls and (mark := _MARKUP.search(self.text)):
            yield AS_TEXT.format(" ".join(mark[0].split())[:40])

    def reply(self, request: ModelRequest, target: Target, cost: float | None) -> ModelReply:
        """The complete reply. A call without an id gets one that is the same in each replay."""
        ids = [self._reasoning.id_of(n, c["id"]) for n, c in enumerate(self._calls)]
        calls = tuple(
            ToolCall(id or f"call_{request.number}_{n}", c["name"], c["arguments"] or "{}")
            for n, (id, c) in enumerate(zip(ids, self._calls, strict=True))
        )
        finish = self._finish or "stop"
        finish = "tool_calls" if calls and finish in ("stop", "function_call") else finish
        prompt = getattr(self.usage, "prompt_tokens", None)
        completion = getattr(self.usage, "completion_tokens", None)
        reasoning, warnings = check_reasoning(
            self._reasoning.whole(target.provider, target.name, len(calls))
        )
        warnings = (*warnings, *self._oddities(request))
        parts: dict[str, int | None] = {}
        for name, part in PARTS.items():
            found = (
                getattr(getattr(self.usage, section, None) if section else self.usage, field, None)
                for section, field in part.sent_as
            )
            parts[name] = next(filter(None, found), None)  # litellm makes up zeros
        return ModelReply(
            self.text, calls, finish, prompt, completion, cost, target.name, reasoning,
            warnings, self.refusal, None, **parts,
        )  # fmt: skip


def _word(reason: str) -> str:
    return reason.casefold().replace("-", "_")


def _calls_in(part: Any) -> Sequence[Any]:
    """The calls of a message or piece; a call in the deprecated field is the only one."""
    old = getattr(part, "function_call", None)
    if old is None or part.tool_calls:
        return part.tool_calls or ()
    return (SimpleNamespace(index=0, id="", function=old),)


MOST_LATER = 10_000
"""The most messages or pieces kept of further choices."""
ENDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "": frozenset(
            "stop end_turn stop_sequence tool_calls tool_call tool_use function_call complete "
            "completed eos eos_token end_of_text endoftext finished normal refusal".split()
        ),
        "length": frozenset(
            "length max_tokens max_output_tokens model_length max_length continuation "
            "model_context_window_exceeded".split()
        ),
        "content_filter": frozenset(
            "content_filter content_filtered safety recitation language blocklist sensitive spii "
            "prohibited_content image_safety image_prohibited_content image_recitation error_toxic "
            "guardrail_intervened".split()
        ),
    }
)
"""The words with which a reply may end, by the finish reason that they mean; for none, litellm's
own. Source: the API references of OpenAI, Anthropic, Gemini, Bedrock, Cohere, Mistral, Ollama,
Hugging Face, watsonx."""
BAD_ENDS: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("error", "network_error", "insufficient_system_resource", "abort", "aborted",
             "cancelled", "time_limit", "load", "unload"),
            "server",
        ),
        "missing_thought_signature": "reasoning",
        "content_blocked": "content_filter",
    }
)  # fmt: skip
"""The kinds of further words that are known. For any other it is `reply` or `empty`."""
_PARTS = {"prompt ": "content_filter", "malformed": "reply", "tool_call": "reply"}
"""The kinds of words that have such a part."""
IN_ANOTHER = "a reply came with several choices: its tool calls are those of a later one"
"""A warning: some gateways send the text and the calls of a reply as two choices."""
LEFT_OUT = "a reply came with several choices: only the first is used"
"""A warning: one was asked for."""
AS_TEXT = (
    "a reply has a tool call written as text (`{}`), which is not executed: the server does not "
    "read calls of this model; turn its parser of tool calls on"
)
"""A warning: nothing is executed that only looks like a call."""
_MARKUP = re.compile(
    r"<tool_calls?>|<function_calls>|<[|\uff5c]?(?:tool|python|action)[_\u2581]\w*[^>\n]{0,30}>"
    r"|<function=[\w.-]+>|<invoke name=|\[TOOL_CALLS\]|<\|channel\|>commentary to="
    r"|\Afunctions\.\w+:?\d*\s*\{|```tool_code\b"
    r"|\A\s*(?:```(?:json)?\s*)?\[?\{(?:\s*\"type\"\s*:\s*\"function\"\s*,)?"
    r"\s*\"(?:name|function|tool)\"\s*:\s*\"[\w.-]+\"\s*,"
    r"\s*\"(?:arguments|parameters|args|input)\"\s*:",
    re.IGNORECASE,
)
"""How models write a call where their server does not read it: Hermes, Llama, Mistral, DeepSeek,
Anthropic's old form, gpt-oss, Kimi, Gemma, bare JSON."""

REFUSED = "the model refused to answer (stop_reason `refusal`)"
"""The refusal of a provider that gives no words for it."""


def _is_begun(arguments: str) -> bool:
    """Whether arguments have begun and not ended."""
    try:
        json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return True
    return False


class Content(NamedTuple):
    """The content of a message that is a list of parts."""

    text: str
    thought: str = ""
    refusal: str = ""


def flat_content(content: Any) -> Content:
    """The text, reasoning and refusal of a content: a text, a part, or a list of either.

    Parts of another kind, such as an image, have none of them. Source: OpenAI API reference,
    "Create chat completion"; Mistral documentation, "Reasoning".
    """
    if not isinstance(content, (list, tuple, Mapping)):
        return Content(_text(content))
    parts = cast("Sequence[Any]", [content] if isinstance(content, Mapping) else content)
    kinds: dict[str, list[str]] = {"text": [], "thought": [], "refusal": []}
    for part in parts:
        if not isinstance(part, Mapping):
            kinds["text"].append(_text(part))
            continue
        fields = cast("Mapping[str, Any]", part)
        match fields.get("type"):
            case "refusal":
                kinds["refusal"].append(_text(fields.get("refusal")))
            case "thinking" | "reasoning":
                inner = fields.get("thinking") or fields.get("reasoning") or fields.get("text")
                kinds["thought"].append(flat_content(inner).text)
            case _:
                kinds["text"].append(_text(fields.get("text")))
    return Content(*map("".join, kinds.values()))


def _message(message: Mapping[str, Any]) -> SimpleNamespace:
    """A message in the form of litellm's classes."""
    calls = [
        SimpleNamespace(
            id=_text(call.get("id")),
            function=SimpleNamespace(
                name=_text(call["function"]["name"]),
                arguments=_text(call["function"].get("arguments")),
            ),
        )
        for call in message.get("tool_calls") or ()
    ]
    content = flat_content(message.get("content"))
    return SimpleNamespace(
        content=content.text,
        tool_calls=calls,
        reasoning_content=message.get("reasoning_content")
        or message.get("reasoning")
        or content.thought,
        provider_specific_fields=message,
        refusal=_text(message.get("refusal")) + content.refusal,
    )


def _text(value: Any) -> str:
    """The value as text: None is empty, other values are JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


class _Usage(NamedTuple):
    """The token counts of a call, as far as they are known."""

    prompt_tokens: int | None
    completion_tokens: int | None


def _reported_usage(usage: Any) -> Any:
    """The usage; None if it is all zeros, which litellm makes up."""
    counts = (getattr(usage, name, 0) for name in ("prompt_tokens", "completion_tokens"))
    return usage if any(counts) else None
