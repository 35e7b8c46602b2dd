"""Marks for a provider's prompt cache: the parts of a request that stay the same between calls.

Anthropic's models cache only marked parts; other providers find the longest common prefix
themselves and get no marks.

Belongs here: the position of the marks. Never: the content of a request.
Source: Anthropic API reference, "Prompt caching"; litellm, "Prompt caching".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast

_MARK = {"type": "ephemeral"}
_MARKED = frozenset({"anthropic", "bedrock", "vertex_ai", "azure_ai", "databricks", "openrouter"})
"""Providers through which Anthropic's models are reached."""


def mark_for_cache(request: dict[str, Any], wanted: Collection[str], provider: str) -> None:
    """Mark the wanted parts of a request in place, if its model takes marks.

    A mark covers everything before it: tools, then instructions, then the conversation.
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
    """Mark the last part of a message, unless it is empty: providers refuse marks on those."""
    content = message.get("content")
    if isinstance(content, str) and content and message["role"] != "tool":
        message["content"] = [{"type": "text", "text": content, "cache_control": dict(_MARK)}]
    elif isinstance(content, list) and content and message["role"] != "tool":
        cast("list[dict[str, Any]]", content)[-1]["cache_control"] = dict(_MARK)
    elif content and message["role"] == "tool":
        message["cache_control"] = dict(_MARK)
