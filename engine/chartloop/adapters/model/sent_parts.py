"""Images and files on their way to a provider.

litellm translates parts of the chat format for each provider. Two cases remain: a tool's result
with an image, which the chat format does not allow, and data in which the journal hid a secret.

Belongs here: the parts of messages as sent. Never: their definition (`core.media_parts`).
Source: OpenAI API reference, "Create chat completion"; Anthropic API reference, "Tool use".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from chartloop.core.conversation import text_of
from chartloop.core.media_parts import TOKENS, is_media, say_part, url_of
from chartloop.core.outcome import Message
from chartloop.run.redact import has_marks

SHOWS = frozenset({"anthropic", "bedrock", "vertex_ai", "vertex_ai_beta", "gemini"})
"""Providers whose tool results may contain images."""
_OF_TOOL = "What the tool `{}` returned:"


def with_media(messages: list[Message], provider: str) -> tuple[list[Message], bool]:
    """The messages in the form of this provider, and whether they contain images or files.

    If the provider takes only text as a tool's result, its images follow in a user message after
    the results of all calls of the reply.
    """
    if not any(isinstance(message.get("content"), (list, tuple)) for message in messages):
        return messages, False
    out: list[Message] = []
    aside: list[Message] = []
    has_media = False
    for message in messages:
        tool = message.get("role") == "tool"
        if aside and not tool:
            out += aside
            aside = []
        content = message.get("content")
        if not isinstance(content, (list, tuple)):
            out.append(message)
            continue
        parts = [_sendable(part) for part in cast("Iterable[Any]", content)]
        media = [part for part in parts if is_media(part)]
        has_media = has_media or bool(media)
        if not (tool and media and provider not in SHOWS):
            out.append({**message, "content": parts})
            continue
        out.append({**message, "content": text_of({"content": parts})})
        head = {"type": "text", "text": _OF_TOOL.format(message.get("name", ""))}
        aside.append({"role": "user", "content": [head, *media]})
    return [*out, *aside], has_media


def _sendable(part: Any) -> Mapping[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if is_media(part) and has_marks(url_of(part)):
        hidden = f"{say_part(part)[:-1]}, hidden: the journal found a secret in it]"
        return {"type": "text", "text": hidden}
    if isinstance(part, Mapping) and TOKENS in part:
        fields = cast("Mapping[str, Any]", part)
        return {name: value for name, value in fields.items() if name != TOKENS}
    return cast("Mapping[str, Any]", part)
