"""The result of an MCP tool, in the parts that a model reads.

Belongs here: text, images and failures of one call. Never: the call (`adapters.mcp_servers`).
Source: Model Context Protocol, "Tools", "Tool Result".
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any

from chartloop.core.errors import SetupError
from chartloop.core.outcome import ToolResult
from chartloop.run.media import Image


def failed_call(
    text: str, category: str, warnings: tuple[str, ...] = (), *, in_doubt: bool = False
) -> ToolResult:
    """The result of a call that failed."""
    message = text if text.startswith("error: ") else f"error: {text}"
    return ToolResult(message, ok=False, category=category, warnings=warnings, in_doubt=in_doubt)


def picture_of(part: Any) -> Image | None:
    """A part of a result as an image for the model; None if it is not one or too large."""
    if part.type != "image":
        return None
    try:
        return Image(b64decode(part.data, validate=True))
    except (SetupError, ValueError):
        return None


def texts_of(content: Sequence[Any]) -> Iterator[str]:
    """The parts of a result as texts for the model; other parts are only named."""
    for part in content:
        match part.type:
            case "text":
                yield part.text
            case "image" | "audio":
                size = len(part.data) * 3 // 4
                yield f"[{part.type} {part.mime_type}, {size:,} bytes, not shown]"
            case "resource_link":
                yield f"[{part.name}: {part.uri}]"
            case "resource":
                text = getattr(part.resource, "text", None)
                yield text if text is not None else f"[{part.resource.uri}, not shown]"
            case kind:
                yield f"[{kind}, not shown]"
