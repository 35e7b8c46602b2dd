"""Tables on a terminal: laid out by `core.text_table`, cleaned and coloured here."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

from chartloop.cli import console
from chartloop.core.text_table import Line, Row
from chartloop.view_model import table as plain_table

__all__ = ["Line", "Row", "print_lines", "style_lines", "table", "table_lines"]


def table(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    width: int | None = None,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
    indent: str = "",
) -> list[str]:
    """The lines of a table, in colours; see `lay_out` for `right` and `spare`."""
    return style_lines(
        table_lines(rows, head, width=width, right=right, spare=spare, indent=indent)
    )


def print_lines(lines: Iterable[Line]) -> None:
    """Print lines of a result in their colours; what is too long for the terminal is wrapped."""
    for line in lines:
        for part in console.wrap_to_terminal(console.plain(line.text), sys.stdout):
            console.result(console.style(part, line.colour))


def style_lines(lines: Iterable[Line]) -> list[str]:
    """The lines in their colours, where stdout takes them."""
    return [console.style(line.text, line.colour) for line in lines]


def table_lines(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    width: int | None = None,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
    indent: str = "",
) -> list[Line]:
    """The lines of a table, each with its colour for whoever shows it."""
    columns = width or console.width()
    return plain_table.table_lines(
        rows, head, width=columns, right=right, spare=spare, indent=indent
    )
