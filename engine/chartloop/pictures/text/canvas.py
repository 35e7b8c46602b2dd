"""A sheet of characters: lines that join where they meet, and texts over them.

Belongs here: cells. Never: the meaning of lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Literal, NamedTuple

from chartloop.pictures.flowchart import Role
from chartloop.pictures.text.cells import clusters, size, wrap_text

Kind = Literal["", "title", "line", "label", "held", "not-held", "dim"] | Role
"""The kind of a character: of a line, a label, or the border of a box with this role."""

_UP, _DOWN, _LEFT, _RIGHT = 1, 2, 4, 8
_LINES: Mapping[int, str] = MappingProxyType(
    {
        _UP: "│", _DOWN: "│", _UP | _DOWN: "│", _LEFT: "─", _RIGHT: "─", _LEFT | _RIGHT: "─",
        _UP | _RIGHT: "╰", _UP | _LEFT: "╯", _DOWN | _RIGHT: "╭", _DOWN | _LEFT: "╮",
        _UP | _DOWN | _RIGHT: "├", _UP | _DOWN | _LEFT: "┤",
        _LEFT | _RIGHT | _DOWN: "┬", _LEFT | _RIGHT | _UP: "┴", 15: "┼",
    }
)  # fmt: skip


class Span(NamedTuple):
    """A part of a line, with the kind of its characters."""

    text: str
    kind: Kind = ""
    box: str | None = None
    """The id of its box; None outside of boxes."""


_BLANK = Span(" ")
_COVERED = Span("")
"""The second cell of a wide character."""


class Canvas:
    """Cells by row and column, unbounded to the right and below."""

    def __init__(self) -> None:
        self._links: dict[tuple[int, int], int] = {}
        self._texts: dict[tuple[int, int], Span] = {}

    def put(
        self, row: int, column: int, text: str, kind: Kind = "", box: str | None = None
    ) -> None:
        """Write a text, over any other."""
        for cluster, columns in clusters(text):
            self._texts[row, column] = Span(cluster, kind, box)
            for covered in range(1, columns):
                self._texts[row, column + covered] = _COVERED
            column += columns

    def say(self, row: int, column: int, text: str, room: int, kind: Kind) -> int:
        """Write a text into at most `room` columns, cut if longer; returns the column after it."""
        if size(text) > room:
            text = wrap_text(text.replace(" ", "\xa0"), max(1, room - 1))[0] + "…"
        self.put(row, column, text, kind)
        return column + size(text)

    def at(self, row: int, column: int) -> str:
        """The text of a cell, or empty."""
        return self._texts.get((row, column), _COVERED).text

    def across(self, row: int, first: int, last: int) -> None:
        """Draw a line from one column to another on its right."""
        for column in range(first, last + 1):
            self._link(row, column, _RIGHT * (column < last) | _LEFT * (column > first))

    def down(self, column: int, first: int, last: int) -> None:
        """Draw a line from one row to another below."""
        for row in range(first, last + 1):
            self._link(row, column, _DOWN * (row < last) | _UP * (row > first))

    def _link(self, row: int, column: int, links: int) -> None:
        self._links[row, column] = self._links.get((row, column), 0) | links

    def lines(self, rows: int) -> Iterator[tuple[Span, ...]]:
        """The first rows, each in spans of equal kind and box."""
        ends = [0] * rows
        for row, column in (*self._links, *self._texts):
            ends[row] = max(ends[row], column + 1)
        for row, end in enumerate(ends):
            cells = [self._cell(row, column) for column in range(end)]
            groups = groupby((c for c in cells if c.text), lambda cell: cell[1:])
            yield tuple(Span("".join(c.text for c in same), *key) for key, same in groups)

    def _cell(self, row: int, column: int) -> Span:
        if (text := self._texts.get((row, column))) is not None:
            return text
        links = self._links.get((row, column), 0)
        return Span(_LINES[links], "line") if links else _BLANK
