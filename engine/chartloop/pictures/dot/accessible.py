"""Accessibility of an SVG: its role, title, description, and the names of its parts.

Belongs here: text for screen readers. Never: the look of a picture.

Source: https://www.w3.org/TR/svg-aam-1.0/, "Accessible Name and Description Computation"
"""

from __future__ import annotations

import html
import re

from chartloop.pictures.dot.write import svg_ids
from chartloop.pictures.flowchart import Flowchart, one_line, printable

_LONGEST = 8_000
"""The most characters of a description: half an hour of speech."""
_NAMED = re.compile(
    r'(<g id="([^"]+)" class="(?:graph|node|edge)"[^>]*>\s*<title>)[^<]*(?=</title>)'
)


def add_description(svg: str, chart: Flowchart, *, prefix: str, outline: str) -> str:
    """The `<svg>` element with a title, and the outline as its description.

    The titles by Graphviz, `%3` and `think->done`, become the title and `think → done: Yes`.
    """
    parts = svg_ids(chart, prefix)
    labels = {box.id: one_line(box.label) or box.id for box in chart.boxes}
    names = {parts.chart: _title(chart)}  # escaped, by the ids in the SVG
    for box, name in parts.boxes.items():
        names[name] = _escape_text(labels[box])
    for arrow, name in zip(chart.arrows, parts.arrows, strict=True):
        ends = f"{labels[arrow.source]} → {labels[arrow.target]}"
        caption = one_line(arrow.tip)
        names[name] = _escape_text(f"{ends}: {caption}" if caption else ends)
    svg = _NAMED.sub(lambda found: found[1] + names.get(found[2], "start"), svg)
    ids = parts.prefix
    role = f'role="img" aria-labelledby="{ids}title" aria-describedby="{ids}desc"'
    head = f'<title id="{ids}title">{_title(chart)}</title>\n'
    head += f'<desc id="{ids}desc">{_escape_text(_shorten_outline(outline))}</desc>\n'
    opening, closing, rest = svg.partition(">\n")
    return f"{opening.replace('<svg', f'<svg {role}', 1)}{closing}{head}{rest}"


def _title(chart: Flowchart) -> str:
    return _escape_text(one_line(chart.title) or "Flowchart")


def _shorten_outline(outline: str) -> str:
    if len(outline) <= _LONGEST:
        return outline
    kept = outline[:_LONGEST].rpartition("\n")[0]
    return f"{kept}\n… and more: `--format outline` has all of it\n"


def _escape_text(text: str) -> str:
    return html.escape(printable(text), quote=False)
