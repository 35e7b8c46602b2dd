"""The result of an MCP tool, in the parts that a model reads.

Belongs here: text, images and failures of one call. Never: the call (`adapters.mcp_servers`).
Source: Model Context Protocol, "Tools", "Tool Result".
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from chartloop.core.errors import Category, SetupError
from chartloop.core.media_parts import say_parts
from chartloop.core.outcome import ToolResult
from chartloop.language.tool_lock import LockedTool
from chartloop.run.media import MOST, Image
from chartloop.run.sanitize import LONGEST, text_for_model

_MATCHED = 20_000
"""The most characters of data, as JSON, that are matched with the patterns of a schema."""


def failed_call(
    text: str, category: str, warnings: tuple[str, ...] = (), *, in_doubt: bool = False
) -> ToolResult:
    """The result of a call that failed."""
    message = text if text.startswith("error: ") else f"error: {text}"
    return ToolResult(message, ok=False, category=category, warnings=warnings, in_doubt=in_doubt)


def result_of(
    reply: Any, mask: Callable[[Any], Any], tool: LockedTool | None, name: str
) -> ToolResult:
    """The result of a call that the server answered; `mask` hides secrets in its data.

    Data of the server that its texts do not contain follow them as JSON. Data that do not match
    the tool's schema are text only.
    """
    pictures = [picture_of(part) for part in reply.content]
    rest = [part for part, picture in zip(reply.content, pictures, strict=True) if not picture]
    texts: list[str] = mask(list(texts_of(rest)))
    data = mask(reply.structured_content)
    shown = data is None or _contains(texts, data)
    text = "\n".join(texts if shown else [*filter(None, texts), text_for_model(data)])
    if reply.is_error:
        return failed_call(text or "the tool failed", Category.RECOVERABLE)
    images = tuple(picture.part for picture in pictures if picture)
    parts = images[:MOST]
    if len(images) > MOST:
        text = f"{text}\n[{len(images) - MOST:,} more images, not shown]".lstrip()
    warning, fits = _held_against_schema(tool, data)
    if data is None or not fits:
        data = "\n".join(filter(None, (text, say_parts(parts))))
    warnings = (f"{name}: {warning}",) if warning else ()
    return ToolResult(text, result=data, parts=parts, warnings=warnings)


def _contains(texts: Sequence[str], data: Any) -> bool:
    """Whether texts hold the data: as JSON, or as the values of its only field."""
    read: list[Any] = []
    for text in texts:
        try:
            read.append(json.loads(text))
        except (ValueError, RecursionError):
            read.append(text)
    if data in read:
        return True
    values = list(cast("dict[str, Any]", data).values()) if isinstance(data, dict) else []
    return len(values) == 1 and (
        values[0] in (*read, *texts) or (values[0] in (read, list(texts)) and bool(texts))
    )


def _held_against_schema(tool: LockedTool | None, data: Any) -> tuple[str, bool]:
    """A warning about a tool's structured data, and whether they can be used as such."""
    schema = None if tool is None else tool.result_validator
    if schema is None:
        return "", True
    if data is None:
        return "it gave text only, though it declares the schema of its data", True
    size = len(json.dumps(data))
    if size > LONGEST:
        return "", True  # recorded as a text that is cut
    if schema.patterns and size > _MATCHED:
        what = f"its data have more than {_MATCHED:,} characters"
        return f"{what}, and were not matched with the patterns of its schema", True
    faults = "; ".join(str(fault).replace("the reply", "its data") for fault in schema.faults(data))
    return (f"its data do not match its `outputSchema`: {faults}", False) if faults else ("", True)


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
