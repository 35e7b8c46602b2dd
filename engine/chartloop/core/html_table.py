"""Tables for notebooks: plain HTML that stays readable in every viewer.

Belongs here: elements, escaping, the styles of colours. Never: the content of a table, a script,
a stylesheet. JupyterLab removes both from an untrusted notebook, and the rest must still be
complete. So every cell has its own style, in colours that are readable on white and on black.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from chartloop.core.text_table import Cell, Row, Span
from chartloop.core.visible import cut

_STYLES: Mapping[str, str] = MappingProxyType(
    {
        "green": "color:#16a34a",
        "red": "color:#dc2626",
        "yellow": "color:#d97706",
        "cyan": "color:#0891b2",
        "dim": "opacity:0.65",
        "bold": "font-weight:bold",
        "code": "font-family:monospace",
    }
)
"""The styles of the words that colours consist of: ``red bold``."""
_ROOM = "padding:4px 8px"
"""The padding, repeated in every cell because marimo removes styles of the whole table."""
LONGEST = 1_000
"""The most characters of a cell; the displayed object still holds the rest."""
MOST = 200
"""The most rows of a table. Of a longer one, the rows in the middle are left out."""

# Control characters, lone surrogates, and marks that reverse the direction of text.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def escape_html(text: str) -> str:
    """Escape a text for an element's content or a quoted attribute."""
    return html.escape(_UNPRINTABLE.sub("\ufffd", cut(text, LONGEST)))


def table(rows: Sequence[Row], head: Sequence[str] = (), right: Collection[int] = ()) -> str:
    """A table. `right` holds the indices of right-aligned columns."""
    lines = ["<table>"]
    if head:
        lines.append(f"<thead><tr>{_cells(Row(tuple(head), 'bold'), right, 'th')}</tr></thead>")
    lines.append("<tbody>")
    if len(rows) > MOST:
        left_out = Row((f"… {len(rows) - MOST:,} more …", *[""] * (len(rows[0].cells) - 1)), "dim")
        rows = [*rows[: MOST // 2], left_out, *rows[-MOST // 2 :]]
    lines += [f"<tr>{_cells(row, right, 'td')}</tr>" for row in rows]
    lines.append("</tbody></table>")
    return "\n".join(lines)


def line(text: str, colour: str = "", spans: Iterable[Span] = ()) -> str:
    """A paragraph; `spans` are the parts of the text, if they have their own colours."""
    inside = "".join(
        f'<span style="{_style(span.colour)}">{_inner(span.text)}</span>'
        if span.colour
        else _inner(span.text)
        for span in spans
    )
    style = f' style="{_style(colour)}"' if colour else ""
    return f"<p{style}>{inside or _inner(text)}</p>"


def details_element(title: str, inside: str) -> str:
    """A collapsed `<details>` element; `inside` is HTML."""
    return f"<details><summary>{escape_html(title)}</summary>{inside}</details>"


def image(svg: str, alt: str) -> str:
    """An `<img>` of an SVG, whose scripts cannot run and whose styles cannot leak into the page."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{escape_html(alt)}" src="data:image/svg+xml;base64,{data}"'
        ' style="max-width:100%;height:auto">'
    )


def _cells(row: Row, right: Collection[int], tag: str) -> str:
    out: list[str] = []
    for at, cell in enumerate(row.cells):
        colour = f"{row.colour} {cell.colour}" if isinstance(cell, Cell) else row.colour
        side = "right" if at in right else "left"
        style = f"text-align:{side};vertical-align:top;{_ROOM}"
        style += f";{_style(colour)}" if colour.strip() else ""
        name = tag if cell else "td"  # screen readers announce an empty heading
        out.append(f'<{name} style="{style}">{_inner(cell)}</{name}>')
    return "".join(out)


def _style(colour: str) -> str:
    return ";".join(_STYLES[word] for word in colour.split())


def _inner(text: str) -> str:
    return escape_html(text).replace("  ", "&nbsp; ").replace("\n", "<br>")
