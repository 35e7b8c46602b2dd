"""A chart as an outline in characters: for terminals, logs and reviews of plain text.

Belongs here: a line for each box, its arrows under it. Never: colours, the width of a terminal,
boxes drawn with lines.

Source: docs/pictures.md
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine, Shape, one_line

_MARKS: Mapping[Shape, tuple[str, str]] = MappingProxyType(
    {
        "rect": ("[", "]"),
        "diamond": ("<", ">"),
        "pill": ("(", ")"),
        "round": ("(", ")"),
        "circle": ("((", "))"),
        "subroutine": ("[[", "]]"),
        "hexagon": ("{", "}"),
        "flag": (">", "]"),
    }
)


def to_outline(chart: Flowchart) -> str:
    """The chart as an outline that ends with a newline.

    The title and the rules come first; then each box with its id in the mark of its shape, its
    label, and under it its arrows: ``Yes → stop_tokens``. ``•`` marks where a run starts.
    """
    blocks = [[title]] if (title := one_line(chart.title)) else []
    if chart.rules:
        blocks.append(["rules", *(f"    {_rule(line)}" for line in chart.rules)])
    leaving: dict[str, list[Arrow]] = {}
    for arrow in chart.arrows:
        leaving.setdefault(arrow.source, []).append(arrow)
    states = (box for box in chart.boxes if box.origin != "rule")
    blocks.append([line for box in states for line in _lines_of(box, leaving.get(box.id, []))])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def name_of(box: Box) -> str:
    """The id of a box in the mark of its shape: `<ask>`."""
    opening, closing = _MARKS.get(box.shape, _MARKS["rect"])
    return f"{opening}{one_line(box.id)}{closing}"


def _rule(line: RuleLine) -> str:
    moments = [f"after {', '.join(line.at)}"] if line.at else []
    moments += [f"before {', '.join(line.before)}"] if line.before else []
    when = f"{' and '.join(moments)}: " if moments else ""
    does = ", ".join(part for part in (line.does, f"to {line.to}" if line.to else "") if part)
    return one_line(f"{when}{line.text} → {does}")


def _lines_of(box: Box, arrows: list[Arrow]) -> Iterator[str]:
    label = one_line(box.label)
    start = "• " if box.entry else ""
    shown_label = f" {label}" if label not in ("", one_line(box.id)) else ""
    yield f"{start}{name_of(box)}{shown_label}"
    for arrow in arrows:
        caption = one_line(arrow.whole)
        to = "where the run was going" if arrow.kind == "return" else one_line(arrow.target)
        yield f"    {f'{caption} ' if caption else ''}→ {to}"
