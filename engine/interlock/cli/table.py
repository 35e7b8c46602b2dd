"""Tables in plain characters: columns that line up and cells that wrap.

Belongs here: widths and padding. Never: what a table says.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from interlock.cli import out

GAP = "  "
_NARROWEST = 8
"""Columns that a wrapped column keeps at least."""


class Row(NamedTuple):
    """One row; `colour` is that of all its cells."""

    cells: tuple[str, ...]
    colour: str = ""


def size(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def table(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    width: int | None = None,
    right: Collection[int] = (),
    indent: str = "",
) -> list[str]:
    """The lines of a table. `right` are the columns that are aligned at their right."""
    shown = [Row(tuple(head), "dim"), *rows] if head else list(rows)
    if not shown:
        return []
    clean = [Row(tuple(out.plain(c) for c in row.cells), row.colour) for row in shown]
    columns = range(len(clean[0].cells))
    wanted = [max(size(line) for r in clean for line in _lines(r.cells[c])) for c in columns]
    widths = _fitted(wanted, (width or out.width()) - len(indent) - len(GAP) * (len(wanted) - 1))
    return [indent + line for row in clean for line in _drawn(row, widths, right)]


def _lines(cell: str) -> list[str]:
    return cell.split("\n")


def _fitted(wanted: list[int], room: int) -> list[int]:
    """The widths, the widest cut down until all fit."""
    widths = list(wanted)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widest = widths.index(max(widths))
        others = sorted((w for n, w in enumerate(widths) if n != widest), reverse=True)
        least = max(_NARROWEST, others[0] if others else 0)
        over = sum(widths) - room
        widths[widest] = max(widths[widest] - over, min(least, widths[widest] - 1), _NARROWEST)
    return widths


def _drawn(row: Row, widths: list[int], right: Collection[int]) -> Iterator[str]:
    wrapped = [list(_wrap(cell, widths[n])) for n, cell in enumerate(row.cells)]
    for number in range(max(len(lines) for lines in wrapped)):
        parts = [lines[number] if number < len(lines) else "" for lines in wrapped]
        padded = [_pad(part, widths[n], n in right) for n, part in enumerate(parts)]
        yield out.style(GAP.join(padded).rstrip(), row.colour)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - size(text))
    return space + text if right else text + space


def _wrap(cell: str, width: int) -> Iterator[str]:
    for line in _lines(cell):
        if size(line) <= width:
            yield line
        else:
            # a sign of two columns counts once in `textwrap`: half the room is room enough
            room = width if size(line) == len(line) else max(2, width // 2)
            yield from textwrap.wrap(line, room, break_on_hyphens=False) or [""]
