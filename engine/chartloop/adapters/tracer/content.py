"""Messages of models and tools in the format of the conventions.

Belongs here: messages as parts. Never: whether they are exported, or their redaction.
Source: `names.CONVENTION`, model/gen-ai/gen-ai-input-messages.json and -output-messages.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message, Reply
from chartloop.core.reasoning import reasoning_text


def input_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages sent to a model."""
    return [{"role": str(m.get("role", "")), "parts": _parts(m)} for m in messages]


def output_messages(reply: Reply) -> list[dict[str, Any]]:
    """The reply of a model, as a list of one message."""
    parts = [*_thoughts(reply.reasoning), *_texts(reply.text), *map(_call, reply.tool_calls)]
    return [{"role": "assistant", "parts": parts, "finish_reason": reply.finish_reason}]


def data_of(text: str) -> Any:
    """The data of a JSON text, or the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parts(message: Message) -> list[dict[str, Any]]:
    if message.get("role") == "tool":
        content = message.get("content")
        result = content if isinstance(content, str) else _texts(content)
        return [{"type": "tool_call_response", "id": message.get("tool_call_id"), "result": result}]
    calls = cast("Sequence[Mapping[str, Any]]", message.get("tool_calls") or ())
    return [
        *_thoughts(message.get("reasoning")), *_texts(message.get("content")),
        *(_call(_tool_call(call)) for call in calls),
    ]  # fmt: skip


def _thoughts(reasoning: Any) -> list[dict[str, Any]]:
    """The readable part of a model's reasoning."""
    if not isinstance(reasoning, Mapping) or not reasoning:
        return []
    text = reasoning_text(cast("Mapping[str, Any]", reasoning))
    return [{"type": "reasoning", "content": text}] if text else []


def _texts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    if not isinstance(content, (list, tuple)):
        return []
    return [_part(part) for part in cast("Sequence[Any]", content)]


def _part(part: Any) -> dict[str, Any]:
    """A part of a message. An image or file is reduced to its kind, because it may be large."""
    if not isinstance(part, Mapping):
        return {"type": "text", "content": str(part)}
    fields = cast("Mapping[str, Any]", part)
    if fields.get("type") == "text":
        return {"type": "text", "content": fields.get("text", "")}
    return {"type": str(fields.get("type", "unknown"))}


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    function: Mapping[str, Any] = call.get("function") or {}
    return ToolCall(
        str(call.get("id", "")), str(function.get("name", "")), str(function.get("arguments", ""))
    )


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = data_of(call.arguments)
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}
