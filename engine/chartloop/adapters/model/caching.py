"""Marks for a provider's prompt cache: what of a request stays the same from call to call.

Anthropic's models cache only what is marked; other providers find the longest common beginning
by themselves and get no marks.

Belongs here: where the marks stand. Never: what is sent.
Source: Anthropic API reference, "Prompt caching"; litellm, "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

__all__ = ["mark_for_cache"]

_MARK = {"type": "ephemeral"}
_MARKED = frozenset({"anthropic", "bedrock", "vertex_ai", "azure_ai", "databricks", "openrouter"})
"""Providers through which Anthropic's models are reached."""


def mark_for_cache(request: dict[str, Any], wanted: Collection[str], provider: str) -> None:
    """Mark the parts of a request that are wanted, in place, where its model takes marks.

    A mark covers all that is before it: tools, then instructions, then the conversation.
    """
    name = str(request["model"]).lower()
    if provider not in _MARKED or not ("claude" in name or provider == "anthropic"):
        return
    messages: list[dict[str, Any]] = request["messages"]
    if "tools" in wanted and request.get("tools"):
        request["tools"][-1]["cache_control"] = dict(_MARK)
    if "instructions" in wanted:
        first = [message for message in messages if message["role"] == "system"][:1]
        for message in first:
            _mark(message)
    if "conversation" in wanted and messages and messages[-1]["role"] != "system":
        _mark(messages[-1])


def _mark(message: dict[str, Any]) -> None:
    """Mark the last part of a message. One without any stays unmarked: providers refuse that."""
    content = message.get("content")
    if isinstance(content, str) and content and message["role"] != "tool":
        message["content"] = [{"type": "text", "text": content, "cache_control": dict(_MARK)}]
    elif isinstance(content, list) and content and message["role"] != "tool":
        cast("list[dict[str, Any]]", content)[-1]["cache_control"] = dict(_MARK)
    elif content and message["role"] == "tool":
        message["cache_control"] = dict(_MARK)
