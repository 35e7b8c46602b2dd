"""Lines and drawings in the colours of textual's theme, light or dark.

Belongs here: the colours. They are never the only sign: shapes and marks carry the same meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from textual.content import Content

from chartloop.core.text_table import Line
from chartloop.core.visible import cut
from chartloop.pictures.text.draw import Drawing

LINES: Mapping[str, str] = MappingProxyType(
    {
        "red": "$text-error", "green": "$text-success", "yellow": "$text-warning",
        "dim": "$foreground-muted", "bold": "bold", "cyan": "$text-primary",
    }
)  # fmt: skip
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "stop": "$text-error", "completed": "$text-success", "decision": "$text-secondary",
        "start": "$text-primary", "end": "$text-primary", "hub": "$text-warning",
        "label": "$text-primary", "title": "bold", "held": "bold $text-success",
        **dict.fromkeys(("rules", "line", "dim", "not-held"), "$foreground-muted"),
    }
)  # fmt: skip
HERE = "bold $text-warning"
"""The style of the current state's box."""


def of_lines(lines: Iterable[Line]) -> Content:
    """Lines of a table or of the log."""
    parts = [Content.styled(line.text, LINES.get(line.colour, "")) for line in lines]
    return Content("\n").join(parts)


def of_drawing(drawing: Drawing, here: str) -> Content:
    """A picture in characters, with the box `here` highlighted."""
    rows: list[Content] = []
    for line in drawing.lines:
        spans = [(s.text, HERE if s.box == here else _KINDS.get(s.kind, "")) for s in line]
        rows.append(Content.assemble(*spans))
    return Content("\n").join(rows)


def of_changes(changes: Sequence[tuple[str, str, str]], width: int) -> Content:
    """Changed facts: the name, the old value, the new value."""
    if not changes:
        return Content.styled("nothing has changed yet", "$foreground-muted")
    wide = min(max(len(name) for name, _, _ in changes), max(12, width // 2))
    rows: list[Content] = []
    for name, old, new in changes:
        rows.append(
            Content.assemble(
                (f"{_shorten(name, wide):<{wide}}  ", ""),
                (_shorten(old, 24), "$foreground-muted"),
                (" → ", "$foreground-muted"),
                (_shorten(new, max(24, width - wide - 32)), "bold"),
            )
        )
    return Content("\n").join(rows)


def _shorten(text: str, width: int) -> str:
    line = " ".join(text.split())
    return cut(line, width)
