"""Tables on a terminal: laid out by `core.columns`, cleaned and coloured here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from interlock.cli import out
from interlock.core.columns import Row, lay_out

__all__ = ["Row", "table"]


def table(
    rows: Sequence[Row],
    head: Sequence[str] = (),
    *,
    width: int | None = None,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
    indent: str = "",
) -> list[str]:
    """The lines of a table; see `lay_out` for `right` and `spare`."""
    shown = [Row(tuple(head), "dim"), *rows] if head and rows else list(rows)
    clean = [Row(tuple(out.plain(c) for c in row.cells), row.colour) for row in shown]
    found = lay_out(clean, width=width or out.width(), right=right, spare=spare, indent=indent)
    return [out.style(line.text, line.colour) for line in found]
