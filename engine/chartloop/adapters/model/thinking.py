"""Thinking blocks, as received from a provider and as sent back to it.

litellm passes them on under its own names, whole or as pieces of a stream. This module joins pieces
into the blocks of the whole reply, and restores litellm's names from a message's ``reasoning``,
only for the provider that sent it.

Belongs here: litellm's names for reasoning. Never: what a run stores of it (`core.reasoning`).
Source: litellm, "Reasoning content"; Anthropic API reference, "Streaming", "Extended thinking".
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from chartloop.adapters.model.wire import Wire
from chartloop.core.outcome import Message
from chartloop.core.reasoning import unknown_kinds
from chartloop.run.payload import too_deep
from chartloop.run.redact import has_marks
from chartloop.run.sanitize import is_sound

_WHOLE = ("thinking_blocks", "reasoning_items")
_SPECIFIC = ("reasoning_details", "thought_signatures")
_GROWING = ("thinking", "text", "summary", "data")
_SIGNATURE = "thought_signature"
_IN_ID = "__thought__"
"""The separator with which litellm appends a call's signature to its id."""

UNKNOWN = "a reply came with a block of an unknown kind `{}`: it is kept, and given back unchanged"
"""A warning: the provider may refuse it."""
LOST = (
    "a reply came with a block of an unknown kind `{}`, which litellm does not hand on: the run "
    "goes on without it; a newer litellm may know it"
)
"""A warning: only the kind is known."""
BROKEN = "the reasoning of a reply is not JSON data: it is not kept"
"""A warning: the next call goes without it."""
HIDDEN = (
    "the reasoning of an earlier reply holds a secret, which the journal hid: it is not sent again"
)
"""A warning: the provider would refuse the changed block."""


class _Watched:
    """A stream that passes the delta of each piece to `look` before litellm reads it."""

    def __init__(self, source: Any, look: Callable[[Any], None]) -> None:
        self._source, self._pieces, self._look = source, source.__aiter__(), look

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        piece = await self._pieces.__anext__()
        for choice in (_field(piece, "choices") or ())[:1]:
            if (delta := _field(choice, "delta")) is not None:
                self._look(delta)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


class ReceivedReasoning:
    """The reasoning of one reply, received whole or in pieces."""

    def __init__(self) -> None:
        self.watches = False
        """Whether `take_details` gets the pieces of a stream before litellm."""
        self._plain: list[str] = []
        self._lists: dict[str, list[Any]] = {}
        self._calls: dict[int, dict[str, Any]] = {}

    def watch(self, stream: Any, look: Callable[[Any], None]) -> None:
        """Have `look` read each delta before litellm does, which drops those without text."""
        source = getattr(stream, "completion_stream", None)
        if hasattr(source, "__aiter__"):
            self.watches = True
            stream.completion_stream = _Watched(source, look)

    def take_details(self, delta: Any) -> None:
        """Take the details of a piece that litellm has not read yet."""
        self._extend("reasoning_details", _field(delta, "reasoning_details"))

    def add(self, part: Any) -> tuple[str, int]:
        """Add the reasoning of a message or piece; return its text and its size in characters."""
        text = _field(part, "reasoning_content")
        text = text if isinstance(text, str) else ""
        size = 0
        if text:
            self._plain.append(text)
        for name in _WHOLE:
            size += self._extend(name, _field(part, name))
        specific = _field(part, "provider_specific_fields")
        for name in _SPECIFIC:
            if self.watches and name == "reasoning_details":
                continue
            blocks = _field(specific, name) if specific is not None else None
            size += self._extend(name, _field(part, name) if blocks is None else blocks)
        return text, size or len(text)

    def call(self, number: int, call: Any) -> None:
        """Add the signature of a tool call, which some providers require back."""
        for holder in (call, _field(call, "function")):
            signature = _field(_field(holder, "provider_specific_fields"), _SIGNATURE)
            if isinstance(signature, str) and signature:
                self._calls.setdefault(number, {})[_SIGNATURE] = signature

    def id_of(self, number: int, given: str) -> str:
        """The id of a call without the signature that litellm appends."""
        return given.partition(_IN_ID)[0] if number in self._calls else given

    def _extend(self, name: str, pieces: Any) -> int:
        if not isinstance(pieces, (list, tuple)):
            return 0
        blocks = self._lists.setdefault(name, [])
        size = 0
        for number, piece in enumerate(cast("Sequence[Any]", pieces)):
            block = _plain(piece)
            size += _size(block)
            fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
            # Several blocks in one piece are different blocks.
            if number or not (fields and blocks and _continues(blocks[-1], fields)):
                blocks.append(block)
                continue
            for key, value in fields.items():
                if key in _GROWING and isinstance(value, str):
                    blocks[-1][key] = blocks[-1].get(key, "") + value
                elif value is not None:
                    blocks[-1][key] = value
        return size

    def whole(self, provider: str, model: str, calls: int) -> dict[str, Any]:
        """The `reasoning` of the message; empty if the reply had none."""
        reasoning: dict[str, Any] = {n: self._lists[n] for n in _WHOLE if self._lists.get(n)}
        if blocks := reasoning.get("thinking_blocks"):
            reasoning["thinking_blocks"] = [_without_index(block) for block in blocks]
        more = {n: self._lists[n] for n in _SPECIFIC if self._lists.get(n)}
        if more:
            reasoning["provider_specific_fields"] = more
        if self._plain and not (reasoning.keys() & set(_WHOLE) or "reasoning_details" in more):
            reasoning["reasoning_content"] = "".join(self._plain)
        if self._calls:
            reasoning["calls"] = [self._calls.get(n) for n in range(calls)]
        return {"provider": provider, "model": model, **reasoning} if reasoning else {}


def _without_index(block: Any) -> Any:
    """A block as the provider sent it: litellm 1.109 and later adds its index in the stream."""
    if not isinstance(block, dict):
        return block
    fields = cast("dict[str, Any]", block)
    return {name: value for name, value in fields.items() if name != "index"}


def check_reasoning(reasoning: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The reasoning, or nothing if a journal cannot store it, with warnings."""
    if not reasoning:
        return reasoning, ()
    if not is_sound(reasoning) or too_deep(json.dumps(reasoning)):
        return {}, (BROKEN,)
    return reasoning, tuple(UNKNOWN.format(kind) for kind in unknown_kinds(reasoning))


_HANDED_ON = re.compile(
    r"text|thinking|redacted_thinking|compaction|tool_use|\w+_tool_use|\w+_tool_result"
)
_STARTS = re.compile(rb'"content_block":\s*\{[^{}]{0,400}?"type":\s*"([^"\\]{1,60})"')


def lost_blocks(wire: Wire) -> tuple[str, ...]:
    """Warnings about blocks of an Anthropic reply that litellm drops."""
    begun = filter(None, map(_STARTS.search, wire.starts))
    kinds = [match[1].decode("utf-8", "replace") for match in begun]
    if wire.whole:
        with contextlib.suppress(ValueError, RecursionError):
            content = _field(json.loads(b"".join(wire.whole)), "content")
            blocks = cast("list[Any]", content) if isinstance(content, list) else []
            kinds = [str(_field(block, "type"))[:60] for block in blocks]
    odd = dict.fromkeys(kind for kind in kinds if not _HANDED_ON.fullmatch(kind))
    return tuple(LOST.format(kind) for kind in odd)


class Sent(NamedTuple):
    """Messages in litellm's form, with warnings."""

    messages: list[Message]
    warnings: tuple[str, ...] = ()
    thoughtless: bool = False
    """Whether the newest calls have no reasoning of this model before them. Providers refuse that
    where a model thinks, so it cannot think in this request."""


def with_reasoning(messages: Iterable[Message], provider: str, model: str) -> Sent:
    """The messages with the reasoning that this model sent, under litellm's names.

    Another model of the same provider refuses it, since it is signed. Plain reasoning text is sent
    back only with replies after the last user message: servers that think between tool calls need
    it there, and others refuse it in older turns.
    """
    given = list(messages)
    last = max((n for n, m in enumerate(given) if m.get("role") == "user"), default=-1)
    newest = max((n for n, m in enumerate(given) if m.get("role") == "assistant"), default=-1)
    hidden = thoughtless = False
    for n, message in enumerate(given):
        reasoning = message.get("reasoning")
        own = reasoning is not None and _is_from(reasoning, provider, model)
        if n == newest and message.get("tool_calls"):
            thoughtless = not own
        if reasoning is None:
            continue
        rest = {name: value for name, value in message.items() if name != "reasoning"}
        if own:
            if _is_hidden(reasoning):
                hidden = True
            else:
                rest |= _reasoning_fields(rest, reasoning, current=n > last)
        given[n] = rest
    return Sent(given, (HIDDEN,) if hidden else (), thoughtless)


def _is_from(reasoning: Mapping[str, Any], provider: str, model: str) -> bool:
    """Whether this model sent it; journals of old runs have the provider alone."""
    return reasoning.get("provider") == provider and reasoning.get("model", model) == model


def _reasoning_fields(
    message: Message, reasoning: Mapping[str, Any], *, current: bool
) -> dict[str, Any]:
    fields = {name: reasoning[name] for name in _WHOLE if name in reasoning}
    if current and "reasoning_content" in reasoning:
        fields["reasoning_content"] = reasoning["reasoning_content"]
    specific: object = reasoning.get("provider_specific_fields")
    more: Mapping[str, Any] = (
        cast("Mapping[str, Any]", specific) if isinstance(specific, Mapping) else {}
    )
    if "reasoning_details" in more:
        fields["reasoning_details"] = more["reasoning_details"]
    if "thought_signatures" in more:
        fields["provider_specific_fields"] = {"thought_signatures": more["thought_signatures"]}
    signed: object = reasoning.get("calls")
    if isinstance(signed, (list, tuple)) and (calls := message.get("tool_calls")):
        pairs = zip(calls, [*cast("Sequence[Any]", signed), *[None] * len(calls)], strict=False)
        fields["tool_calls"] = [
            {**call, "provider_specific_fields": own} if own else call for call, own in pairs
        ]
    return fields


def _is_hidden(value: Any) -> bool:
    """Whether the journal hid a secret in a value."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if has_marks(node):
                return True
        elif isinstance(node, Mapping):
            stack += cast("Mapping[str, Any]", node).values()
        elif isinstance(node, (list, tuple)):
            stack += cast("Sequence[Any]", node)
    return False


def _continues(block: Any, piece: Mapping[str, Any]) -> bool:
    """Whether a piece of a stream belongs to the block before it.

    A signature ends a thinking block. A piece of another kind, or a whole one, is its own block.
    """
    before = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    if not before or before.get("type") != piece.get("type"):
        return False
    match piece.get("type"):
        case "thinking":
            return not before.get("signature")
        case "reasoning.text" | "reasoning.summary":
            return piece.get("index") is not None and before.get("index") == piece.get("index")
        case _:
            return False


def _field(holder: Any, name: str) -> Any:
    """A field of an object of litellm's or of a mapping; None if it is missing."""
    if isinstance(holder, Mapping):
        return cast("Mapping[str, Any]", holder).get(name)
    return getattr(holder, name, None)


def _size(block: Any) -> int:
    """The characters of a block, as `reply_limit` counts them."""
    if isinstance(block, str):
        return len(block)
    if isinstance(block, Mapping):
        return sum(map(_size, cast("Mapping[str, Any]", block).values()))
    return sum(map(_size, cast("list[Any]", block))) if isinstance(block, list) else 1


def _plain(piece: Any) -> Any:
    """A block as plain data, copied."""
    dump = getattr(piece, "model_dump", None)
    if callable(dump):
        return dump()
    return dict(cast("Mapping[str, Any]", piece)) if isinstance(piece, Mapping) else piece
