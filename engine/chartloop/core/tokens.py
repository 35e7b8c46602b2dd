"""How many tokens a text will take, guessed without a tokenizer.

For the moments when no one has counted: a reply without usage, messages added since the last
model call. Pure, and cheap enough to be asked about every message; a real count, where there
is one, always wins (`run.ports.Tokenizer`).

The guess is an eighth of three times the UTF-8 bytes less the characters: a quarter of a token
for an ASCII character, about one for a Chinese one. Measured against the vocabularies of GPT-4
and GPT-4o:

    English prose, Python, YAML    0.9 - 1.3 of the true count
    German, French                 0.9 - 1.3
    Chinese, Japanese, Korean      0.8 - 1.6
    Cyrillic, Greek, Arabic, Thai  0.6 - 2.8, high for the newer vocabulary
    JSON full of numbers           0.4 - 0.8
    emoji; base64                  0.5 - 1.0; 0.3 - 0.4

Source: 004 "Token Counting".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from chartloop.core.outcome import Message

PER_MESSAGE = 4
"""Tokens round the content of each message: its role and separators."""
PER_CALL = 8
"""Tokens round each tool call: its id, type and braces."""
PER_IMAGE = 1_000
"""Tokens of a part that is not a text. Providers charge 85 to 1,600 for an image, by its size."""


def estimate_tokens(text: str) -> int:
    """About how many tokens `text` takes; 0 only for the empty text.

    Joining two texts never costs more than both and never less than the larger.
    """
    if text.isascii():
        return (len(text) + 3) >> 2
    size = len(text.encode("utf-8", "surrogatepass"))
    return (3 * size - len(text) + 7) >> 3


def estimate_message(message: Message) -> int:
    """About how many tokens one message takes in a request, its tool calls included."""
    content = message.get("content")
    if isinstance(content, str):
        tokens = PER_MESSAGE + estimate_tokens(content)
    else:
        tokens = PER_MESSAGE + sum(_part(part) for part in content or ())
    calls: Iterable[Mapping[str, Any]] = message.get("tool_calls") or ()
    for call in calls:
        function = call["function"]
        tokens += PER_CALL + estimate_tokens(function["name"])
        tokens += estimate_tokens(function["arguments"])
    return tokens


def estimate_messages(messages: Iterable[Message]) -> int:
    """The sum of `estimate_message`, so that added messages can be counted by themselves."""
    return sum(map(estimate_message, messages))


def _part(part: object) -> int:
    text = part if isinstance(part, str) else _text_of(part)
    return PER_IMAGE if text is None else estimate_tokens(text)


def _text_of(part: object) -> str | None:
    text: object = part.get("text") if isinstance(part, Mapping) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return text if isinstance(text, str) else None
