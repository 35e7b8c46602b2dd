"""The rows and columns of boxes, and of the places where arrows leave and enter.

Belongs here: numbers. Never: characters, the columns of lanes (`pictures.text.draw`).

A box takes the full width of its column. Its arrows leave at its right border (the first) and
along its trunk, which runs down from its bottom border; they enter by the trunk above it. So in
each row at most one line is open to the right, and lanes can cross such a line but never meet it
by accident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from chartloop.pictures.flowchart import Arrow, Box, Role, one_line, printable
from chartloop.pictures.text.cells import size, wrap_text
from chartloop.pictures.text.order import Column, Exit, Node, all_nodes

TRUNK = 3
"""The distance from the left border of a box to its trunk, in columns."""
HANGING = 2
"""The indentation of the further lines of a label, in columns."""
SAID = 36
"""The most columns of an arrow's label."""
MARKS: Mapping[Role, str] = MappingProxyType({"stop": "■", "completed": "✓"})
ENTRY = "●"
HERE = "▶"


class Form(NamedTuple):
    """A size of picture to try; narrower ones are tried if a wider one does not fit."""

    depth: int
    """The most columns of boxes next to the spine."""
    words: int
    """The width of a box's label, in columns of characters."""


@dataclass(slots=True)
class Area:
    """A box on the canvas. `top` is the row of its upper border."""

    box: Box
    lines: list[str]
    left: int
    top: int
    width: int

    @property
    def right(self) -> int:
        """The column of its right border."""
        return self.left + self.width - 1

    @property
    def bottom(self) -> int:
        """The row of its lower border."""
        return self.top + len(self.lines) + 1

    @property
    def trunk(self) -> int:
        """The column in which arrows enter from above and leave below."""
        return self.left + TRUNK


class Label(NamedTuple):
    """The label of an arrow: lines, downwards from a cell."""

    row: int
    left: int
    lines: list[str]


class Run(NamedTuple):
    """A horizontal line of one arrow, to a lane or to the box beside."""

    arrow: Arrow
    row: int
    left: int
    """The first column, right of its box or trunk."""
    beside: Area | None = None


class Trunk(NamedTuple):
    """A vertical line from the lower border of a box down to its last exit, or to the next box."""

    area: Area
    last: int
    """The row of the last exit; if it leads to the next box, the row above that."""
    leads: bool
    """Whether it leads to the next box."""


class Entry(NamedTuple):
    """The row in which a lane reaches a box."""

    area: Area
    row: int


@dataclass(slots=True)
class Layout:
    """The layout of a picture, without its lanes."""

    areas: dict[str, Area] = field(default_factory=dict[str, Area])
    runs: list[Run] = field(default_factory=list[Run])
    trunks: list[Trunk] = field(default_factory=list[Trunk])
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    labels: list[Label] = field(default_factory=list[Label])
    extents: dict[int, int] = field(default_factory=dict[int, int])
    """The last occupied column of each row."""
    rows: int = 0

    def take(self, row: int, column: int) -> None:
        """Mark a row as occupied up to a column."""
        self.extents[row] = max(self.extents.get(row, 0), column)
        self.rows = max(self.rows, row + 1)


def place_chart(spine: Column, form: Form, *, here: str = "") -> Layout:
    """The layout of a chart. `here` is the box of a run's state."""
    return _Placing(spine, form, here).all()


def arrow_lines(arrow: Arrow) -> list[str]:
    """The label of an arrow in lines; empty without a label."""
    return [line for line in wrap_text(printable(arrow.drawn_text), SAID) if line]


def _wrap_entries(text: str, width: int) -> list[str]:
    """A list of entries in lines, the further lines of each indented."""
    lines: list[str] = []
    for entry in text.split("\n"):
        first, *rest = wrap_text(entry, width)
        lines += [first, *(" " * HANGING + line for line in wrap_text(" ".join(rest), width - 2))]
    return [line for line in lines if line.strip()] or [""]


class _Placing:
    def __init__(self, spine: Column, form: Form, here: str) -> None:
        self._spine, self._here, self._layout = spine, here, Layout()
        nodes = list(all_nodes(spine))
        self._lanes = {w.arrow.target for n in nodes for w in n.exits if w.placement == "lane"}
        self._lines = {n.box.id: self._words(n.box, form) for n in nodes}
        self._lefts, self._widths = self._columns()

    def all(self) -> Layout:
        self._column(self._spine, 0, 0)
        return self._layout

    def _words(self, box: Box, form: Form) -> list[str]:
        """The lines of a box, after its marks."""
        signs = (HERE * (box.id == self._here), ENTRY * box.entry, MARKS.get(box.role, ""))
        mark = "".join(f"{sign} " for sign in signs if sign)
        text = printable(box.label if box.label.split() else box.id)
        if box.role == "rules":
            first, *rest = _wrap_entries(text, form.words + form.words // 2)
        else:
            room = form.words - len(mark)
            joined = one_line(text)
            first, *rest = wrap_text(joined if size(joined) <= room else text, room)
        return [mark + first, *(" " * len(mark) + line for line in rest)]

    def _columns(self) -> tuple[list[int], list[int]]:
        """The left borders and the widths of boxes, by depth."""
        lefts, widths = [0], [0]
        column: list[Column] = [self._spine]
        while column:
            nodes = [node for part in column for node in part]
            wide = max(
                (self._wanted_width(n.box) for n in nodes if n.box.role != "rules"), default=8
            )
            widths[-1] = wide
            between = max((self._between(node, wide) for node in nodes), default=0)
            lefts.append(lefts[-1] + wide + between)
            widths.append(0)
            column = [w.beside for n in nodes for w in n.exits if w.beside is not None]
        return lefts, widths

    def _between(self, node: Node, wide: int) -> int:
        """The distance to the next column that the labels of a box's arrows need."""
        room = 0
        leaving = [exit_ for exit_ in node.exits if exit_.placement != "below"]
        for number, exit_ in enumerate(leaving):
            if exit_.beside is None:
                continue
            words = max(map(size, arrow_lines(exit_.arrow)), default=0)
            at_border = number == 0 and exit_.arrow.target not in self._lanes
            # a line and an arrow around the label, and the distance between trunk and border
            needed = words + 6 if words else 4
            room = max(room, needed if at_border else needed - (wide - TRUNK - 2))
        return room

    def _wanted_width(self, box: Box) -> int:
        return max(size(line) for line in self._lines[box.id]) + (
            6 if box.shape in ("diamond", "hexagon") else 4
        )

    def _column(self, column: Column, depth: int, row: int) -> int:
        """Place a column from a row on; returns the first free row below it."""
        above: Area | None = None
        for node in column:
            name = node.box.id
            enters = name in self._lanes
            area = self._area(node.box, depth, row + enters)
            if enters:
                self._layout.entries[name] = Entry(area, row)
                self._layout.take(row, area.trunk + 1)
            if above is not None:
                self._layout.trunks.append(Trunk(above, area.top - 1, leads=True))
            row, last = self._leave(node, area, depth)
            below = node.below
            above = area if below is not None else None
            if below is not None:
                rows = self._label(below.arrow, row, area.trunk + 2)
                bare = not rows and below.arrow.target not in self._lanes
                row += self._empty(row, area) if bare else rows
            elif last is not None:
                self._layout.trunks.append(Trunk(area, last, leads=False))
            row += below is None and node is not column[-1]
        return row

    def _area(self, box: Box, depth: int, top: int) -> Area:
        width = self._wanted_width(box) if box.role == "rules" else self._widths[depth]
        area = Area(box, self._lines[box.id], self._lefts[depth], top, max(width, 2 * TRUNK))
        self._layout.areas[box.id] = area
        for row in range(top, area.bottom + 1):
            self._layout.take(row, area.right)
        return area

    def _empty(self, row: int, area: Area) -> int:
        """Take a row with nothing but the trunk; returns 1."""
        self._layout.take(row, area.trunk)
        return 1

    def _label(self, arrow: Arrow, row: int, left: int) -> int:
        """Place the label of an arrow; returns how many rows it takes."""
        lines = arrow_lines(arrow)
        if lines:
            self._layout.labels.append(Label(row, left, lines))
        for number, line in enumerate(lines):
            self._layout.take(row + number, left + size(line) + (number > 0) * HANGING)
        return len(lines)

    def _leave(self, node: Node, area: Area, depth: int) -> tuple[int, int | None]:
        """Place the exits that do not continue below.

        Returns the first free row, and the row of the trunk's last exit or None.
        """
        row, last = area.bottom + 1, None
        leaving = [exit_ for exit_ in node.exits if exit_.placement != "below"]
        for number, exit_ in enumerate(leaving):
            if number == 0 and self._has_room(exit_, area, depth):
                row = max(row, self._to_the_right(exit_, area, depth))
            else:
                row, last = self._from_trunk(exit_, area, depth, row)
        return row, last

    def _has_room(self, exit_: Exit, area: Area, depth: int) -> bool:
        """Whether an exit can leave at the right border."""
        if exit_.beside is None:
            return True
        wide = max(map(size, arrow_lines(exit_.arrow)), default=0)
        fits = area.right + wide + 6 <= self._lefts[depth + 1]
        return fits and exit_.arrow.target not in self._lanes

    def _to_the_right(self, exit_: Exit, area: Area, depth: int) -> int:
        row, left = area.top + 1, area.right + 1
        end = row + self._label(exit_.arrow, row, left + 2)
        if exit_.beside is None:
            self._layout.runs.append(Run(exit_.arrow, row, left))
            return end
        end = max(end, self._column(exit_.beside, depth + 1, area.top))
        self._layout.runs.append(Run(exit_.arrow, row, left, self._root(exit_)))
        return end

    def _from_trunk(self, exit_: Exit, area: Area, depth: int, row: int) -> tuple[int, int]:
        left, end = area.trunk + 1, row
        if exit_.beside is not None:
            end = self._column(exit_.beside, depth + 1, row)
            row = self._root(exit_).top + 1
        beside = None if exit_.beside is None else self._root(exit_)
        self._layout.runs.append(Run(exit_.arrow, row, left, beside))
        self._layout.take(row, left)
        return max(end, row + 1, row + self._label(exit_.arrow, row, left + 1)), row

    def _root(self, exit_: Exit) -> Area:
        return self._layout.areas[exit_.arrow.target]
