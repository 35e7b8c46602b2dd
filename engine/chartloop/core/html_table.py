"""Tables for notebooks: plain HTML that stays readable wherever it is shown.

Belongs here: elements, escapes, the few tones that a cell may have. Never: what a table says, a
script, a stylesheet. JupyterLab takes both out of a notebook that is not trusted, and what is left
must still be whole: so every cell has its own style, in colours that show on white and on black.

Source: design "traps" (pictures and notebooks)
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple

Tone = Literal["", "code", "dim", "good", "bad", "warn", "strong"]

_STYLES: Mapping[Tone, str] = MappingProxyType(
    {
        "": "",
        "code": "font-family:monospace",
        "dim": "opacity:0.65",
        "good": "color:#16a34a",
        "bad": "color:#dc2626",
        "warn": "color:#d97706",
        "strong": "font-weight:bold",
    }
)
_ROOM = "padding:4px 8px"
"""Said in every cell: marimo takes away what a table says for all of them."""
LONGEST = 1_000
"""Characters of a cell; what is cut off is in the object that is shown."""
MOST = 200
"""Rows of a table. Of a longer one the first and the last half are shown."""

# Controls, halves of surrogate pairs, and what turns the direction of writing round.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Cell(NamedTuple):
    """A text and its tone. Whatever is in the text, it is shown and never obeyed."""

    text: str
    tone: Tone = ""
    code: bool = False
    """Whether it is also set in the letters of code."""


Cells = Sequence[str | Cell]


def escape_html(text: str) -> str:
    """A text for the inside of an element, or of an attribute in quotes."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return html.escape(_UNPRINTABLE.sub("\ufffd", text))


def table(rows: Iterable[Cells], *, head: Sequence[str] = (), right: Collection[int] = ()) -> str:
    """A table. `right` are the columns that are aligned there."""
    all_rows = list(rows)
    lines = ["<table>"]
    if head:
        cells = (Cell(name, "strong") for name in head)
        lines.append(f"<thead><tr>{''.join(_cells(cells, right, 'th'))}</tr></thead>")
    lines.append("<tbody>")
    lines += [f"<tr>{''.join(_cells(row, right, 'td'))}</tr>" for row in _limit_rows(all_rows)]
    lines.append("</tbody></table>")
    return "\n".join(lines)


def pairs(rows: Iterable[tuple[str, str | Cell]]) -> str:
    """A table of names and values; a row without a value is left out."""
    shown = [(name, value if isinstance(value, Cell) else Cell(value)) for name, value in rows]
    return table([(Cell(name, "strong"), value) for name, value in shown if value.text])


def line(text: str, tone: Tone = "") -> str:
    """A paragraph."""
    style = f' style="{_STYLES[tone]}"' if tone else ""
    return f"<p{style}>{_inner(text)}</p>"


def details_element(title: str, inside: str) -> str:
    """A `<details>` element, closed at first; `inside` is HTML."""
    return f"<details><summary>{escape_html(title)}</summary>{inside}</details>"


def image(svg: str, alt: str) -> str:
    """An image with an SVG inside: nothing of it runs, and nothing of it styles the page."""
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img alt="{escape_html(alt)}" src="data:image/svg+xml;base64,{data}"'
        ' style="max-width:100%;height:auto">'
    )


def bundle(shown: str, text: str) -> dict[str, str]:
    """The bundle for a notebook: HTML, and text where HTML is not shown."""
    return {"text/html": shown, "text/plain": text}


def _limit_rows(rows: list[Cells]) -> Iterator[Cells]:
    if len(rows) <= MOST:
        yield from rows
        return
    left_out = f"… {len(rows) - MOST:,} more …"
    yield from rows[: MOST // 2]
    yield [Cell(left_out if at == 0 else "", "dim") for at, _ in enumerate(rows[0])]
    yield from rows[-MOST // 2 :]


def _cells(cells: Iterable[str | Cell], right: Collection[int], tag: str) -> Iterator[str]:
    for at, given in enumerate(cells):
        cell = given if isinstance(given, Cell) else Cell(given)
        side = "right" if at in right else "left"
        style = f"text-align:{side};vertical-align:top;{_ROOM}"
        style += f";{_STYLES[cell.tone]}" if cell.tone else ""
        style += f";{_STYLES['code']}" if cell.code else ""
        name = tag if cell.text else "td"  # a heading of nothing would be read out as one
        yield f'<{name} style="{style}">{_inner(cell.text)}</{name}>'


def _inner(text: str) -> str:
    return escape_html(text).replace("\n", "<br>")
