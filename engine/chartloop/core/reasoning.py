"""A model's reasoning before its reply: thinking blocks, kept as the provider sent them.

A provider may sign or encrypt these blocks, and refuses them if they are changed. So a run keeps
them with the reply and never decides by them: no fact and no result contains them. The mapping is
a message's ``reasoning``:

    provider                 the sender, as litellm names it
    model                    its model, as litellm names it; only this one gets it back
    thinking_blocks          of Anthropic, Bedrock and Gemini: whole, in order
    reasoning_content        plain text, if there are no such blocks
    reasoning_items          of OpenAI's Responses API
    provider_specific_fields ``reasoning_details`` of OpenRouter, ``thought_signatures`` of Gemini
    calls                    data of single tool calls (Gemini's signature), in the order of calls

Belongs here: the content of the mapping, as text and in words. Never: how it is received or sent
(`adapters.model.thinking`).
Source: Anthropic API reference, "Extended thinking"; litellm, "Reasoning content"; OpenRouter,
"Reasoning tokens".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

KNOWN = frozenset({
    "thinking", "redacted_thinking", "reasoning",
    "reasoning.text", "reasoning.summary", "reasoning.encrypted",
})  # fmt: skip
"""The kinds of blocks that providers document."""

_LISTS = ("thinking_blocks", "reasoning_items")
_TEXTS = ("thinking", "text", "summary")


def blocks_of(reasoning: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All blocks, in order."""
    specific = reasoning.get("provider_specific_fields")
    fields: Mapping[str, Any] = cast("Any", specific) if isinstance(specific, Mapping) else {}
    for blocks in (*map(reasoning.get, _LISTS), fields.get("reasoning_details")):
        if isinstance(blocks, (list, tuple)):
            for block in cast("list[Any]", blocks):
                if isinstance(block, Mapping):
                    yield cast("Mapping[str, Any]", block)


def unknown_kinds(reasoning: Mapping[str, Any]) -> list[str]:
    """The undocumented kinds of blocks, each once."""
    kinds = (str(block.get("type"))[:60] for block in blocks_of(reasoning))
    return list(dict.fromkeys(kind for kind in kinds if kind not in KNOWN))


def reasoning_text(reasoning: Mapping[str, Any]) -> str:
    """The readable text, without signatures and encrypted data."""
    plain = reasoning.get("reasoning_content")
    if isinstance(plain, str):
        return plain
    return "\n".join(part for block in blocks_of(reasoning) for part in _texts(block))


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    for name in _TEXTS:
        value = block.get(name)
        if isinstance(value, str) and value:
            yield value
        elif isinstance(value, (list, tuple)):  # the summary of an item of the Responses API
            for part in cast("list[Any]", value):
                text: Any = cast("Any", part).get("text") if isinstance(part, Mapping) else None
                if isinstance(text, str):
                    yield text


def say_reasoning(reasoning: Mapping[str, Any]) -> str:
    """Describe the reasoning: ``reasoning of 1,204 characters``. Empty if there is none."""
    if not reasoning:
        return ""
    size = len(reasoning_text(reasoning))
    return f"reasoning of {size:,} characters" if size else "reasoning, hidden by the provider"
