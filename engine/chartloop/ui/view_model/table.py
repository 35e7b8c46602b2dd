"""Tables of plain characters, free of terminal control sequences.

Cheap to import, since commands that load no machine print tables too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chartloop.core.text_table import Line, Row, lay_out
from chartloop.pictures.flowchart import printable


def table_lines(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    width: int,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
    indent: str = "",
) -> list[Line]:
    """The lines of a table, each with its colour; see `lay_out` for `right` and `spare`."""
    shown = [Row(tuple(head), "dim"), *rows] if head and rows else list(rows)
    clean = [row._replace(cells=tuple(plain_text(cell) for cell in row.cells)) for row in shown]
    return lay_out(clean, width=width, right=right, spare=spare, indent=indent)


def plain_text(text: str) -> str:
    """The text without terminal control characters. Newlines and tabs stay."""
    return "\t".join(printable(part) for part in text.split("\t"))
