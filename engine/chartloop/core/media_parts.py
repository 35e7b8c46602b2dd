"""Images and files in messages: their description, size and tokens.

They have the chat format, ``image_url`` and ``file`` with the data in a ``data:`` URL; the journal
moves large data into a blob. Text faces print such a part as ``[image 12 kB]``.

Belongs here: parts as messages hold them. Never: how they are made (`run.media`) or sent
(`adapters.model.sent_parts`).
Source: OpenAI API reference, "Images and vision", "File inputs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, cast

from chartloop.core.facts import EMPTY


def with_parts(message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Append images and files to a message of plain text."""
    if not parts:
        return message
    text = message["content"]
    return {**message, "content": [*([{"type": "text", "text": text}] if text else []), *parts]}


def say_part(part: object) -> str:
    """Describe a part that is not text: ``[image 12 kB]``."""
    if not isinstance(part, Mapping):
        return "[part]"
    fields = cast("Mapping[str, Any]", part)
    kind = str(fields.get("type"))
    size = _size(fields)
    note = f" {say_size(size)}" if size else ""
    if kind == "image_url":
        return f"[image{note}]"
    if kind == "file":
        file: Any = fields.get("file")
        name = cast("Mapping[str, Any]", file).get("filename") if isinstance(file, Mapping) else ""
        return f"[file{f' {name}' if isinstance(name, str) and name else ''}{note}]"
    return f"[{kind[:40]}]"


def say_parts(parts: Iterable[object]) -> str:
    """Describe several parts, one a line."""
    return "\n".join(map(say_part, parts))


def is_media(part: object) -> bool:
    """Whether a part of a message is an image or a file."""
    fields: Mapping[str, Any] = cast("Any", part) if isinstance(part, Mapping) else EMPTY
    return fields.get("type") in ("image_url", "file")


def url_of(part: Mapping[str, Any]) -> str:
    """The URL of an image or file: ``data:`` or an address. Empty if there is none."""
    for kind, name in (("image_url", "url"), ("file", "file_data")):
        holder: Any = part.get(kind)
        url: Any = cast("Any", holder).get(name) if isinstance(holder, Mapping) else holder
        if isinstance(url, str):
            return url
    return ""


def _size(part: Mapping[str, Any]) -> int:
    """The size of the data in bytes; 0 unless the part contains it."""
    head, comma, data = url_of(part).partition(",")
    return len(data) * 3 // 4 if comma and head.startswith("data:") else 0


TOKENS = "tokens"
"""The key of an image part for its estimated tokens. It is ours, and is not sent."""
_MOST_TOKENS = 10_000


def image_tokens(width: int, height: int) -> int:
    """Estimate the tokens of an image from its pixels: the larger figure of two providers.

    Anthropic scales it down to 1,568 pixels a side and 1.15 megapixels, and counts a token per
    750 pixels. OpenAI (GPT-4o) scales it down to 2,048 pixels a side, then to 768 on the shorter
    side, and counts 85 tokens and 170 per tile of 512 by 512 pixels. The result is at most about
    1,600.

    Source: Anthropic, "Vision", image costs; OpenAI, "Images and vision", calculating costs.
    """
    scale = min(1.0, 1_568 / max(width, height), (1_150_000 / (width * height)) ** 0.5)
    by_area = ceil(width * height * scale * scale / 750)
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = ceil(width * scale / 512) * ceil(height * scale / 512)
    return max(by_area, 85 + 170 * tiles)


def media_tokens(part: Mapping[str, Any], image: int) -> int:
    """Estimate the tokens of an image or file; an image of unknown size takes `image` tokens.

    Every 50 kB of a PDF count as a page, and a page as two images, because providers send each
    page as text and as a picture.
    """
    if part.get("type") != "file":
        tokens: Any = part.get(TOKENS)
        return tokens if type(tokens) is int and 0 < tokens <= _MOST_TOKENS else image
    return 2 * image * (1 + _size(part) // 50_000)


def say_size(size: int) -> str:
    """Bytes in words: ``12 kB``, ``1.4 MB``."""
    if size < 1_000_000:
        return f"{max(1, round(size / 1_000))} kB"
    return f"{size / 1_000_000:.1f} MB"
