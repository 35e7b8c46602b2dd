"""Parts of a message that are images and files: in words, with their size, in tokens.

They are written in the chat format, ``image_url`` and ``file`` with the data in a ``data:`` URL;
the journal moves what is large into a blob. In text faces such a part reads ``[image 12 kB]``.

Belongs here: parts as they are in messages. Never: how they are made (`run.media`) or sent
(`adapters.model.sent_parts`).
Source: OpenAI API reference, "Images and vision", "File inputs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, cast

from chartloop.core.facts import EMPTY


def with_parts(message: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """A message of plain text with images and files after it."""
    if not parts:
        return message
    text = message["content"]
    return {**message, "content": [*([{"type": "text", "text": text}] if text else []), *parts]}


def say_part(part: object) -> str:
    """A part of a message that is not a text, in words: ``[image 12 kB]``."""
    if not isinstance(part, Mapping):
        return "[part]"
    given = cast("Mapping[str, Any]", part)
    kind = str(given.get("type"))
    size = _size(given)
    note = f" {say_size(size)}" if size else ""
    if kind == "image_url":
        return f"[image{note}]"
    if kind == "file":
        file: Any = given.get("file")
        name = cast("Mapping[str, Any]", file).get("filename") if isinstance(file, Mapping) else ""
        return f"[file{f' {name}' if isinstance(name, str) and name else ''}{note}]"
    return f"[{kind[:40]}]"


def say_parts(parts: Iterable[object]) -> str:
    """Several of them, a line each."""
    return "\n".join(map(say_part, parts))


def is_media(part: object) -> bool:
    """Whether a part of a message is an image or a file."""
    given: Mapping[str, Any] = cast("Any", part) if isinstance(part, Mapping) else EMPTY
    return given.get("type") in ("image_url", "file")


def url_of(part: Mapping[str, Any]) -> str:
    """Where the data of an image or file is: a ``data:`` URL, or an address. May be empty."""
    for kind, name in (("image_url", "url"), ("file", "file_data")):
        holder: Any = part.get(kind)
        found: Any = cast("Any", holder).get(name) if isinstance(holder, Mapping) else holder
        if isinstance(found, str):
            return found
    return ""


def _size(part: Mapping[str, Any]) -> int:
    """Bytes of the data; 0 where they are not here."""
    head, comma, data = url_of(part).partition(",")
    return len(data) * 3 // 4 if comma and head.startswith("data:") else 0


TOKENS = "tokens"
"""In an image's part: about how many tokens it takes. It is ours, and is not sent."""
_MOST_TOKENS = 10_000


def image_tokens(width: int, height: int) -> int:
    """About how many tokens an image of so many pixels takes: the larger of two providers' figures.

    Anthropic shrinks it to 1,568 pixels a side and 1.15 megapixels, and counts 750 pixels a token.
    OpenAI (GPT-4o) shrinks it to 2,048 a side, then to 768 on the shorter one, and counts 170
    tokens for each tile of 512 pixels, and 85. At most about 1,600.

    Source: Anthropic, "Vision", image costs; OpenAI, "Images and vision", calculating costs.
    """
    scale = min(1.0, 1_568 / max(width, height), (1_150_000 / (width * height)) ** 0.5)
    by_area = ceil(width * height * scale * scale / 750)
    scale = min(1.0, 2_048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
    tiles = ceil(width * scale / 512) * ceil(height * scale / 512)
    return max(by_area, 85 + 170 * tiles)


def media_tokens(part: Mapping[str, Any], image: int) -> int:
    """About how many tokens an image or file takes; `image` is what one of unknown size does.

    Of a PDF 50 kB count as a page, and a page as two images: providers send each page as its
    text and as a picture.
    """
    if part.get("type") != "file":
        said: Any = part.get(TOKENS)
        return said if type(said) is int and 0 < said <= _MOST_TOKENS else image
    return 2 * image * (1 + _size(part) // 50_000)


def say_size(size: int) -> str:
    """Bytes in words: ``12 kB``, ``1.4 MB``."""
    if size < 1_000_000:
        return f"{max(1, round(size / 1_000))} kB"
    return f"{size / 1_000_000:.1f} MB"
