"""A chart as Mermaid text that Mermaid reads back without loss.

Belongs here: ids, escapes, brackets and style lines of Mermaid flowcharts. Never: reading them, or
a layout. A label is always quoted and shows exactly the text of the chart: anything that Mermaid
would take for an entity, a tag, Markdown, an icon, a formula, a directive or a comment is written
as character codes.

Source: mermaid 12.3, `flow.jison`, `preprocessDiagram`, `maxTextSize`
and `maxEdges`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from chartloop.pictures.flowchart import (
    COLOUR,
    Arrow,
    Box,
    Direction,
    Flowchart,
    Shape,
    one_line,
    printable,
    summary,
)
from chartloop.pictures.ids import safe_ids
from chartloop.pictures.mermaid_shapes import NAMES

MOST = 50_000
"""The most characters of a text that Mermaid draws by default."""
ARROWS = 500
"""The most arrows that Mermaid draws by default."""

BRACKETS: Mapping[Shape, tuple[str, str]] = MappingProxyType(
    {
        "pill": ("([", "])"),
        "subroutine": ("[[", "]]"),
        "cylinder": ("[(", ")]"),
        "double_circle": ("(((", ")))"),
        "circle": ("((", "))"),
        "hexagon": ("{{", "}}"),
        "ellipse": ("(-", "-)"),
        "lean_right": ("[/", "/]"),
        "lean_left": ("[\\", "\\]"),
        "trapezoid": ("[/", "\\]"),
        "inverted_trapezoid": ("[\\", "/]"),
        "rect": ("[", "]"),
        "round": ("(", ")"),
        "diamond": ("{", "}"),
        "flag": (">", "]"),
    }
)
"""The brackets of the shapes that have some; other shapes are named after the label."""

NUMBERED = re.compile(r"(\d{1,9}) ·(?: |$)")
"""The order of evaluation before a label, before codes are decoded."""

_SPECIAL = re.compile(
    r"""["#&<`\\\ufb02\xb6]           # quotes, entities, tags, Markdown, Mermaid's own marks
    | %(?=%) | (?<=%)%                # comments and directives: %%{init: ...}%%
    | \$(?=\$) | (?<=\$)\$            # formulas: $$x$$
    | d(?=irection\s+(?:TB|BT|RL|LR|TD))
    | :(?=fa-)                        # icons: fa:fa-bell
    | C(?=4(?:Container|Component|Dynamic|Deployment))  # taken for another kind of chart
    """,
    re.VERBOSE,
)
_NAMED = {'"': "#quot;", "&": "#amp;", "<": "#lt;"}
WAYS: Mapping[Direction, str] = MappingProxyType({"tb": "TD", "lr": "LR", "bt": "BT", "rl": "RL"})
"""The directions in Mermaid text."""
WIDE = '%%{init: {"flowchart": {"wrappingWidth": 480}}}%%'
"""Precedes a chart with lists of rules, whose lines are long. By default Mermaid breaks lines at
200 pixels."""
_EMPTY = "#160;"
"""The empty label: Mermaid refuses one without any character."""

_LINK = re.compile(r"^    \w+ -(?:-|\.-)>", re.MULTILINE | re.ASCII)
"""A link as written here. Only links have a space after an id."""

# Mermaid drops the last `;` of a line that looks like a style.
_LIKE_A_STYLE = re.compile(r":(?=\S*#)")


def to_mermaid(chart: Flowchart) -> str:
    """The chart as Mermaid text, ending with a newline. Equal charts give equal texts."""
    ids = safe_ids(box.id for box in chart.boxes)
    listed = any(box.role == "rules" and "<br/>" in escape(box.label) for box in chart.boxes)
    lines = [*([WIDE] if listed else []), f"flowchart {WAYS[chart.direction]}"]
    if title := one_line(chart.title):
        lines += [f"    accTitle: {escape(title)}", f"    accDescr: {escape(summary(chart))}"]
    lines += [f"    {_node(box, ids[box.id])}" for box in chart.boxes]
    lines += [f"    {_link(arrow, ids)}" for arrow in chart.arrows]
    lines += [f"    style {ids[box.id]} {style}" for box in chart.boxes if (style := _style(box))]
    return "\n".join(lines) + "\n"


def too_large(text: str) -> str:
    """Why Mermaid does not draw a text by default; empty if it does."""
    if (arrows := len(_LINK.findall(text))) > ARROWS:
        return (
            f"{arrows:,} arrows: Mermaid draws more than {ARROWS} only where `maxEdges` is raised"
        )
    if len(text) > MOST:
        long = f"{len(text):,} characters: Mermaid takes more than {MOST:,}"
        return f"{long} only where `maxTextSize` is raised"
    return ""


def escape(label: str) -> str:
    """The label for use between the quotes of a Mermaid node or link."""
    text = printable(label).strip()
    text = _SPECIAL.sub(lambda m: _NAMED.get(m.group(), f"#{ord(m.group())};"), text)
    text = _LIKE_A_STYLE.sub("#58;", text.replace("\n", "<br/>"))
    return text or _EMPTY


def _node(box: Box, name: str) -> str:
    opening, closing = BRACKETS.get(box.shape, BRACKETS["rect"])
    named = "" if box.shape in BRACKETS else f"@{{ shape: {NAMES[box.shape].short} }}"
    return f'{name}{opening}"{escape(box.label)}"{closing}{named}'


def _link(arrow: Arrow, ids: Mapping[str, str]) -> str:
    sign = "-.->" if arrow.kind in ("rule", "return") else "-->"
    label = f'|"{text}"|' if (text := _link_label(arrow)) else ""
    return f"{ids[arrow.source]} {sign}{label} {ids[arrow.target]}"


def _link_label(arrow: Arrow) -> str:
    label = escape(arrow.words) if one_line(arrow.words) else ""
    if arrow.number is not None:
        return f"{arrow.number} · {label}".rstrip()
    if NUMBERED.match(label):
        return f"#{ord(label[0])};{label[1:]}"
    return label


def _style(box: Box) -> str:
    fill = (box.fill or "").lower()
    styles = [f"fill:{fill}"] if COLOUR.fullmatch(fill) else []
    if box.role == "rules":
        styles.append("stroke-dasharray:5 4")
    if box.entry:
        styles.append("stroke-width:3px")
    return ",".join(styles)
