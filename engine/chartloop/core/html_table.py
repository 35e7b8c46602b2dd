"""Tables for notebooks: plain HTML that stays readable in every viewer.

Belongs here: elements, escaping, the tones of cells. Never: the content of a table, a script, a
stylesheet. JupyterLab removes both from an untrusted notebook, and the rest must still be complete.
So every cell has its own style, in colours that are readable on white and on black.

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
"""The padding, repeated in every cell because marimo removes styles of the whole table."""
LONGEST = 1_000
"""The most characters of a cell; the displayed object still holds the rest."""
MOST = 200
"""The most rows of a table. Of a longer one, the rows in the middle are left out."""

# Control characters, lone surrogates, and marks that reverse the direction of text.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Cell(NamedTuple):
    """A text and its tone. The text is escaped: markup in it is displayed, not interpreted."""

    text: str
    tone: Tone = ""
    code: bool = False
    """Whether the text is also in a monospaced font."""


Cells = Sequence[str | Cell]


def escape_html(text: str) -> str:
    """Escape a text for an element's content or a quoted attribute."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1]}…"
    return html.escape(_UNPRINTABLE.sub("\ufffd", text))


def table(rows: Iterable[Cells], *, head: Sequence[str] = (), right: Collection[int] = ()) -> str:
    """A table. `right` holds the indices of right-aligned columns."""
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
    """A table of names and values, without the rows whose value is empty."""
    cells = [(name, value if isinstance(value, Cell) else Cell(value)) for name, value in rows]
    return table([(Cell(name, "strong"), value) for name, value in cells if value.text])


def line(text: str, tone: Tone = "") -> str:
    """A paragraph."""
    style = f' style="{_STYLES[tone]}"' if tone else ""
    return f"<p{style}>{_inner(text)}</p>"


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


def bundle(view: str, text: str) -> dict[str, str]:
    """The MIME bundle for a notebook: HTML, and text for viewers without HTML."""
    return {"text/html": view, "text/plain": text}


def _limit_rows(rows: list[Cells]) -> Iterator[Cells]:
    if len(rows) <= MOST:
        yield from rows
        return
    left_out = f"… {len(rows) - MOST:,} more …"
    yield from rows[: MOST // 2]
    yield [Cell(left_out if at == 0 else "", "dim") for at, _ in enumerate(rows[0])]
    yield from rows[-MOST // 2 :]


def _cells(cells: Iterable[str | Cell], right: Collection[int], tag: str) -> Iterator[str]:
    for at, content in enumerate(cells):
        cell = content if isinstance(content, Cell) else Cell(content)
        side = "right" if at in right else "left"
        style = f"text-align:{side};vertical-align:top;{_ROOM}"
        style += f";{_STYLES[cell.tone]}" if cell.tone else ""
        style += f";{_STYLES['code']}" if cell.code else ""
        name = tag if cell.text else "td"  # screen readers announce an empty heading
        yield f'<{name} style="{style}">{_inner(cell.text)}</{name}>'


def _inner(text: str) -> str:
    return escape_html(text).replace("\n", "<br>")
