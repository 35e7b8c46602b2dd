"""Tables of plain characters, free of terminal control sequences.

Cheap to import, since commands that load no machine print tables too.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from chartloop.core.reports import Table, text_lines
from chartloop.core.text_table import Line, Row
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
    clean = [row._replace(cells=tuple(map(plain_text, row.cells))) for row in rows]
    table = Table(clean, [*map(plain_text, head)], right, spare, indent=indent)
    return text_lines([table], width)


def plain_text(text: str) -> str:
    """The text without terminal control characters. Newlines and tabs stay."""
    return "\t".join(printable(part) for part in text.split("\t"))
