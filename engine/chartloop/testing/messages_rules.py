"""The rules of Anthropic's Messages format: refused requests.

A thinking block must come back unchanged or not at all, and a turn with tool calls must still
start with its thinking block.

Belongs here: the validation of requests. Never: HTTP, or the format of replies.
Source: Anthropic API reference, "Create a message", "Extended thinking", "Prompt caching".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from chartloop.testing.chat_rules import FAULTS, REFUSALS, Refusal, fields_of

__all__ = ["refuse_messages"]

_KINDS = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset({"text", "thinking", "redacted_thinking", "tool_use"}),
}
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CALLED = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_THINKING = ("thinking", "redacted_thinking")
MOST_MARKS = 4


def refuse_messages(
    body: Mapping[str, Any], models: Collection[str], signed: Collection[str]
) -> Refusal | None:
    """Anthropic's refusal of a request, or None. `signed` are the signatures sent so far.

    >>> refuse_messages({"model": "m", "messages": []}, ["m"], ()).message
    'max_tokens: Field required'
    """
    if not isinstance(body.get("max_tokens"), int):
        return Refusal(400, "max_tokens: Field required")
    name = str(body.get("model"))
    if name not in models and name.removeprefix("fault-") not in FAULTS:
        return REFUSALS["not_found"]
    fault = next(_faults(body, signed), "")
    return Refusal(400, fault) if fault else None


def _faults(body: Mapping[str, Any], signed: Collection[str]) -> Iterator[str]:
    given: Any = body.get("messages")
    if not isinstance(given, list) or not given:
        yield "messages: at least one message is required"
        return
    messages = [fields_of(message) for message in cast("list[Any]", given)]
    budget = fields_of(body.get("thinking")).get("budget_tokens")
    if isinstance(budget, int) and budget >= body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    if _marks(body) > MOST_MARKS:
        yield f"A maximum of {MOST_MARKS} blocks with cache_control may be provided."
    if messages[0].get("role") != "user":
        yield 'messages: first message must use the "user" role'
    for number, message in enumerate(messages):
        if not message.get("content") and number + 1 < len(messages):
            yield f"messages.{number}: all messages must have non-empty content"
        yield from _message(f"messages.{number}", message, signed)
    yield from _order(messages)
    if fields_of(body.get("thinking")).get("type") == "enabled":
        yield from _begins_with_thinking(messages)


def _message(at: str, message: Mapping[str, Any], signed: Collection[str]) -> Iterator[str]:
    kinds = _KINDS.get(str(message.get("role")))
    if kinds is None:
        yield f"{at}.role: Input should be 'user' or 'assistant'"
        return
    for number, block in enumerate(_blocks(message)):
        here, kind = f"{at}.content.{number}", block.get("type")
        if kind not in kinds:
            yield f"{here}: Input tag '{kind}' found using 'type' does not match any expected tag"
        yield from _block(here, block, signed)
        if kind == "image":
            yield from _image(here, block)
        if kind == "tool_result" and isinstance(block.get("content"), list):
            for part in block["content"]:
                if fields_of(part).get("type") == "image":
                    yield from _image(here, fields_of(part))


def _block(at: str, block: Mapping[str, Any], signed: Collection[str]) -> Iterator[str]:
    match block.get("type"):
        case "text" if not str(block.get("text") or "").strip():
            yield f"{at}.text: text content blocks must be non-empty"
        case "tool_use":
            if not isinstance(block.get("input"), dict):
                yield f"{at}.tool_use.input: Input should be a valid dictionary"
            for name, pattern in (("id", _ID), ("name", _CALLED)):
                if not pattern.fullmatch(str(block.get(name))):
                    yield f"{at}.tool_use.{name}: String should match pattern '{pattern.pattern}'"
        case "thinking" if block.get("signature") not in signed:
            yield f"{at}: Invalid `signature` in `thinking` block"
        case "redacted_thinking" if block.get("data") not in signed:
            yield f"{at}: Invalid `data` in `redacted_thinking` block"
        case _:
            pass


def _image(at: str, block: Mapping[str, Any]) -> Iterator[str]:
    source = fields_of(block.get("source"))
    if source.get("type") == "base64" and source.get("media_type") not in _IMAGES:
        listed = ", ".join(f"'{kind}'" for kind in _IMAGES)
        yield f"{at}.image.source.base64.media_type: Input should be {listed}"
    if source.get("type") == "base64" and not source.get("data"):
        yield f"{at}.image.source.base64.data: Could not process image"


def _order(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Check that each call has its result in the next message, and each result its call."""
    for number, message in enumerate(messages):
        asked = {b.get("id") for b in _blocks(message) if b.get("type") == "tool_use"}
        after: Mapping[str, Any] = messages[number + 1] if number + 1 < len(messages) else {}
        answered = {b.get("tool_use_id") for b in _blocks(after) if b.get("type") == "tool_result"}
        if missing := sorted(map(str, asked - answered)):
            yield (
                f"messages.{number}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}"
            )
        if unasked := sorted(map(str, answered - asked)):
            yield f"messages.{number + 1}: unexpected `tool_use_id` found: {', '.join(unasked)}"


def _begins_with_thinking(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Check, with thinking enabled, that the current turn still starts with a thinking block."""
    last = max((n for n, m in enumerate(messages) if m.get("role") == "assistant"), default=None)
    if last is None:
        return
    kinds = [str(block.get("type")) for block in _blocks(messages[last])]
    if "tool_use" in kinds and kinds[0] not in _THINKING:
        yield (
            f"messages.{last}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{kinds[0]}`. When `thinking` is enabled, a final `assistant` message must "
            "start with a thinking block"
        )


def _blocks(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [fields_of(block) for block in cast("list[Any]", content or ())]


def _marks(body: Mapping[str, Any]) -> int:
    """The number of cache marks in a request."""
    count, stack = 0, list[Any]([body])
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            count += "cache_control" in node
            stack += cast("dict[str, Any]", node).values()
        elif isinstance(node, list):
            stack += cast("list[Any]", node)
    return count
