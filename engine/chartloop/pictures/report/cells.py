"""Pieces of labels in the HTML of Graphviz: rows, small print, bars, the legend.

Belongs here: elements of that language. Never: escapes (texts come from `html_text`), the content
of a label.

Source: docs/notebook.md, "The report picture" (ten cells; green, amber from 80 % on, red at 100 %)
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.pictures.dot.write import FONT, PAINTS, Html, html_text
from chartloop.pictures.live.colours import NOW, TAKEN

CELLS = 10
"""The number of cells of a bar."""
AMBER, RED = 0.8, 1.0
"""The shares of a bound from which on a bar is amber or red."""
GREEN_CELL, AMBER_CELL, RED_CELL, EMPTY_CELL = "#15803d", "#b45309", "#b91c1c", "#e2e8f0"
OUTLINE = "#64748b"
"""The outline of a bar, which shows its end without relying on colours."""
SMALL_INK = "#475569"
_BARE = 'BORDER="0" CELLBORDER="0"'


def table(rows: Iterable[str]) -> Html:
    """A whole label."""
    return Html(f'<<TABLE {_BARE} CELLSPACING="0" CELLPADDING="1">{"".join(rows)}</TABLE>>')


def row(inside: str, align: str = "CENTER", span: int = 1) -> str:
    """A row of one cell."""
    across = f' COLSPAN="{span}"' if span > 1 else ""
    return f'<TR><TD ALIGN="{align}"{across}>{inside}</TD></TR>'


def cells(*inside: str) -> str:
    """A row of several cells, all of them at the left."""
    return "<TR>" + "".join(f'<TD ALIGN="LEFT">{cell}</TD>' for cell in inside) + "</TR>"


def small(text: str, ink: str) -> str:
    """A text in small print."""
    return f'<FONT POINT-SIZE="8" COLOR="{ink}">{html_text(text)}</FONT>' if text.strip() else " "


def full_cells(share: float) -> int:
    """The number of full cells of a bar. The last one is full only once the bound is reached."""
    return min(CELLS, int(max(0.0, share) * CELLS + 1e-9))


def bar(share: float, *, bright: bool = True, align: str = "CENTER") -> str:
    """A bar of ten cells."""
    full = full_cells(share) if bright else 0
    colour = RED_CELL if share >= RED else AMBER_CELL if share >= AMBER else GREEN_CELL
    size = 'FIXEDSIZE="TRUE" WIDTH="6" HEIGHT="4"'
    drawn = "".join(
        f'<TD {size} BGCOLOR="{colour if at < full else EMPTY_CELL}"></TD>' for at in range(CELLS)
    )
    # without a fixed size it is stretched over its cell
    whole = f'FIXEDSIZE="TRUE" WIDTH="{7 * CELLS + 3}" HEIGHT="8"'
    edge = f'BORDER="1" COLOR="{OUTLINE}" CELLBORDER="0"'
    lined = f'<TABLE {edge} {whole} CELLSPACING="1" CELLPADDING="0"><TR>{drawn}</TR></TABLE>'
    if align == "CENTER":
        return lined
    # Graphviz draws the outline of a left-aligned table where the centred table would be
    frame = f'{_BARE} {whole} ALIGN="{align}" CELLSPACING="0" CELLPADDING="0"'
    return f"<TABLE {frame}><TR><TD>{lined}</TD></TR></TABLE>"


def word(share: float | None) -> str:
    """The meaning of a bar's colour in a word: nothing, `near` or `reached`."""
    if share is None or share < AMBER:
        return ""
    return " · reached" if share >= RED else " · near"


def legend() -> str:
    """The legend of a run's colours, in one line."""
    marks = (
        ("now", NOW.border), ("visited", TAKEN), ("stop", PAINTS["stop"].border),
        ("completed", PAINTS["completed"].border),
    )  # fmt: skip
    shown = "".join(f'<FONT COLOR="{ink}">■</FONT>&#160;{name}    ' for name, ink in marks)
    times = f'<FONT COLOR="{TAKEN}">×3</FONT>&#160;times taken'
    space = '<FONT POINT-SIZE="18"> </FONT>'
    return f'<FONT FACE="{FONT}" POINT-SIZE="10">{shown}{times}</FONT>{space}'
