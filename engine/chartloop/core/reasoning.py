"""The reasoning of a model before its reply: thinking blocks, kept as the provider sent them.

A provider may sign these blocks or encrypt them, and refuses a changed one. So a run keeps them
beside the text of a reply and never reads them to decide anything: they are in no fact and in no
result. The mapping is a message's ``reasoning``:

    provider                 who sent it, as litellm calls it: only that provider gets it back
    thinking_blocks          Anthropic's, Bedrock's, Gemini's: whole, in order
    reasoning_content        a plain text, where there are no such blocks
    reasoning_items          of OpenAI's Responses API
    provider_specific_fields ``reasoning_details`` of OpenRouter, ``thought_signatures`` of Gemini
    calls                    what belongs to a tool call (Gemini's signature), in the order of calls

Belongs here: what the mapping holds, as text and in words. Never: how it comes off the wire or
goes back (`adapters.model.thinking`).
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
"""Kinds of blocks that providers document."""

_LISTS = ("thinking_blocks", "reasoning_items")
_TEXTS = ("thinking", "text", "summary")


def blocks_of(reasoning: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every block, in order."""
    more = reasoning.get("provider_specific_fields")
    given: Mapping[str, Any] = cast("Any", more) if isinstance(more, Mapping) else {}
    for blocks in (*map(reasoning.get, _LISTS), given.get("reasoning_details")):
        if isinstance(blocks, (list, tuple)):
            for block in cast("list[Any]", blocks):
                if isinstance(block, Mapping):
                    yield cast("Mapping[str, Any]", block)


def unknown_kinds(reasoning: Mapping[str, Any]) -> list[str]:
    """The kinds of blocks that no provider documents, each once."""
    kinds = (str(block.get("type"))[:60] for block in blocks_of(reasoning))
    return list(dict.fromkeys(kind for kind in kinds if kind not in KNOWN))


def reasoning_text(reasoning: Mapping[str, Any]) -> str:
    """The readable part. Signatures and encrypted data are left out."""
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
    """It in a few words: ``reasoning of 1,204 characters``, ``reasoning, hidden``; empty: none."""
    if not reasoning:
        return ""
    size = len(reasoning_text(reasoning))
    return f"reasoning of {size:,} characters" if size else "reasoning, hidden by the provider"
