"""A reader of pictures in characters: it follows lines, as a person does.

It knows nothing of how a picture is laid out. It sees characters, which of them are words, and
where each box is; the rules by which it follows are those that `pictures.text.draw` states.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chartloop.pictures.text.cells import clusters
from chartloop.pictures.text.draw import Drawing
from chartloop.pictures.text.place import Area

WORDS = ("label",)


class Found(NamedTuple):
    """An arrow as it was read; its label without spaces."""

    source: str
    target: str
    label: str


class Reader:
    """Reads one drawing."""

    def __init__(self, drawing: Drawing) -> None:
        self._areas = drawing.areas
        self._cells: dict[tuple[int, int], tuple[str, bool]] = {}
        for row, line in enumerate(drawing.lines):
            column = 0
            for span in line:
                for cluster, columns in clusters(span.text):
                    for covered in range(columns):
                        self._cells[row, column + covered] = (
                            "" if covered else cluster,
                            span.kind in WORDS,
                        )
                    column += columns

    def boxes(self) -> dict[str, str]:
        """What stands in each box, without spaces."""
        return {
            name: "".join(
                self._cells.get((row, column), (" ", False))[0].strip()
                for row in range(a.top + 1, a.bottom)
                for column in range(a.left + 1, a.right)
            )
            for name, a in self._areas.items()
        }

    def arrows(self) -> Iterator[Found]:
        """Every arrow, found from its box."""
        for name, area in self._areas.items():
            for row in range(area.top + 1, area.bottom):
                if self._line(row, area.right + 1) in ("─", "▶", "┼"):
                    yield Found(name, *self._along(row, area.right + 1))
            if self._line(area.bottom, area.trunk, any_kind=True) == "┬":
                yield from (Found(name, *rest) for rest in self._down(area))

    def _down(self, area: Area) -> Iterator[tuple[str, str]]:
        row, column, said = area.bottom + 1, area.trunk, ""
        while True:
            sign = self._line(row, column, any_kind=True)
            if sign == "▼":
                yield self._box(row, column), said
                return
            enters = self._line(row, column + 1) == "◀"
            if sign in ("├", "╰") and not enters:
                yield self._along(row, column + 1)
            elif sign == "│" and self._is_word(row, column + 2):
                said += self._words(row, column + 2)[0] if not said else ""
            assert sign in "├│╰", f"{sign!r} at {row},{column} is not a trunk"
            if sign == "╰":
                return
            row += 1

    def _along(self, row: int, column: int) -> tuple[str, str]:
        """Where a line leads that goes to the right, and the words on it."""
        said = ""
        while True:
            if self._is_word(row, column):
                if not said and self._cells[row, column][0] == " ":
                    column += 1
                said, column = self._words(row, column)
                continue
            sign = self._line(row, column)
            if sign in ("╮", "╯", "┤"):
                return self._lane(row, column), said
            if sign == "▶":
                return self._box(row, column + 1), said
            assert sign in ("─", "┼"), f"{sign!r} at {row},{column} is not a line"
            column += 1

    def _lane(self, row: int, column: int) -> str:
        """The only box that a lane leads to."""
        joined = [row]
        for step, ends in ((-1, "╮"), (1, "╯")):
            at = row
            while self._line(at, column) != ends:
                at += step
                sign = self._line(at, column)
                assert sign in set("│┼┤╮╯"), f"{sign!r} at {at},{column} is not a lane"
                joined += [at] if sign in "┤╮╯" else []
        targets = [name for at in joined if (name := self._back(at, column - 1)) is not None]
        assert len(targets) == 1, f"the lane at {row},{column} leads to {targets}"
        return targets[0]

    def _back(self, row: int, column: int) -> str | None:
        """The box that a line enters, followed to the left; None where it comes from one."""
        while not self._is_word(row, column) and self._line(row, column) in ("─", "┼"):
            column -= 1
        if self._line(row, column) != "◀" or self._is_word(row, column):
            return None
        while self._line(row, column - 1, any_kind=True) != "▼":
            row += 1
        return self._box(row, column - 1)

    def _words(self, row: int, column: int) -> tuple[str, int]:
        """A label from its first cell on, with the lines below it; and the column behind it."""
        said, end = self._piece(row, column)
        below = row + 1
        while (
            self._is_word(below, column + 2)
            and not self._is_word(below, column + 1)
            and not self._is_word(below, column)
        ):
            said += self._piece(below, column + 2)[0]
            below += 1
        return said, end

    def _piece(self, row: int, column: int) -> tuple[str, int]:
        said = ""
        while self._is_word(row, column):
            said += self._cells[row, column][0].strip()
            column += 1
        return said, column

    def _box(self, row: int, column: int) -> str:
        """The box at whose border a cell is."""
        inside = [
            name
            for name, a in self._areas.items()
            if a.left <= column <= a.right and a.top <= row <= a.bottom
        ]
        assert len(inside) == 1, f"{inside} at {row},{column}"
        return inside[0]

    def _line(self, row: int, column: int, *, any_kind: bool = False) -> str:
        sign, word = self._cells.get((row, column), ("", False))
        return "" if word and not any_kind else sign

    def _is_word(self, row: int, column: int) -> bool:
        return self._cells.get((row, column), ("", False))[1]
