"""A chart as a picture in characters: boxes, and each arrow as a line that can be followed.

Belongs here: the characters and their places, and the width of a picture. Never: terminals, colours
(the viewer chooses them by the `kind` of a `Span`).

How to read it: a box has its arrows at its right border and along the trunk below it, in order;
a line that leads away to the right ends in a lane, which leads to one box only, where `◀` enters
the trunk above it. `┼` is a crossing, never a junction.

Source: issue 4, item 5
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from chartloop.pictures.flowchart import Flowchart, Shape, one_line
from chartloop.pictures.text.canvas import Canvas, Span
from chartloop.pictures.text.cells import wrap_text
from chartloop.pictures.text.order import order_chart
from chartloop.pictures.text.place import HANGING, Area, Form, Layout, Run, place_chart

WIDTH = 100
"""The default width of a picture, in columns."""
MOST = 150
"""The most boxes of a picture: lines cannot be followed through more, so use an outline."""

FORMS = (
    *(Form(2, words) for words in (34, 30, 26)),
    *(Form(1, words) for words in (34, 30, 26, 22, 18, 16)),
    *(Form(0, words) for words in (34, 26, 16)),
)
"""The sizes to try, the most readable first."""


class Frame(NamedTuple):
    """The border of a box."""

    corners: str
    across: str
    left: str
    right: str


_PLAIN = Frame("┌┐└┘", "─", "│", "│")
_HEAVY = Frame("┏┓┗┛", "━", "┃", "┃")
_ROUND = Frame("╭╮╰╯", "─", "│", "│")
_FRAMES: Mapping[Shape, Frame] = MappingProxyType(
    {
        "pill": _ROUND, "round": _ROUND, "circle": _ROUND,
        "subroutine": Frame("╔╗╚╝", "═", "║", "║"), "flag": Frame("┌┐└┘", "─", "│", ">"),
    }
)  # fmt: skip
_LEAVING: Mapping[str, str] = MappingProxyType({"│": "├", "┃": "┠", "║": "╟", "╎": "├"})
"""The right borders of a box where an arrow leaves."""
_RULES = Frame("┌┐└┘", "╌", "╎", "╎")


class Drawing(NamedTuple):
    """A picture in characters."""

    lines: tuple[tuple[Span, ...], ...]
    areas: Mapping[str, Area]
    """The area of each box, by id; rows count from the first line."""

    def text(self) -> str:
        """The picture without colours; it ends with a newline."""
        return "".join("".join(s.text for s in line).rstrip() + "\n" for line in self.lines)


def draw(
    chart: Flowchart, *, width: int = WIDTH, here: str = "", forms: tuple[Form, ...] = FORMS
) -> Drawing | None:
    """The picture of a chart in at most `width` columns; None if it does not fit.

    `here` is the id of the box where a run is: it has a heavy border and a `▶`.
    """
    orders = {depth: order_chart(chart, depth=depth) for depth in {form.depth for form in forms}}
    for form in forms:
        layout = place_chart(orders[form.depth], form, here=here)
        found = lanes(layout)
        wide = max([*layout.extents.values(), *(lane.column for lane in found)], default=0)
        if wide < width:
            canvas = Canvas()
            for area in layout.areas.values():
                draw_box(canvas, area, heavy=area.box.id == here)
            _lines(canvas, layout, found)
            for label in layout.labels:
                first, *rest = label.lines
                canvas.put(label.row, label.left - 1, f" {first} ", "label")
                for number, line in enumerate(rest, start=1):
                    canvas.put(label.row + number, label.left + HANGING, line, "label")
            title = one_line(chart.title)
            head = (
                [(Span(line, "title"),) for line in wrap_text(title, width)] + [()] if title else []
            )
            for area in layout.areas.values():
                area.top += len(head)
            return Drawing((*head, *canvas.lines(layout.rows)), layout.areas)
    return None


# boxes --------------------------------------------------------------------------------------


def draw_box(canvas: Canvas, area: Area, *, heavy: bool) -> None:
    """Draw a box with its text."""
    box, inner = area.box, area.width - 2
    if box.shape in ("diamond", "hexagon"):
        _draw_decision(canvas, area, heavy=heavy)
        return
    frame = _HEAVY if heavy else _RULES if box.role == "rules" else _FRAMES.get(box.shape, _PLAIN)
    corners, across = frame.corners, frame.across
    rows = [corners[0] + across * inner + corners[1]]
    rows += [frame.left + " " * inner + frame.right for _ in area.lines]
    rows += [corners[2] + across * inner + corners[3]]
    for number, row in enumerate(rows):
        canvas.put(area.top + number, area.left, row, box.role, box.id)
    for number, line in enumerate(area.lines, start=1):
        canvas.put(area.top + number, area.left + 2, line, "", box.id)


def _draw_decision(canvas: Canvas, area: Area, *, heavy: bool) -> None:
    """Draw a decision, whose sides lean outwards towards the middle."""
    box, across = area.box, ("━" if heavy else "─") * (area.width - 4)
    canvas.put(area.top, area.left + 1, f"╱{across}╲", box.role, box.id)
    canvas.put(area.bottom, area.left + 1, f"╲{across}╱", box.role, box.id)
    last = len(area.lines) - 1
    for number, line in enumerate(area.lines):
        left, right = (
            "<>" if not last else "╱╲" if number == 0 else "╲╱" if number == last else "││"
        )
        if box.shape == "hexagon":
            left, right = "││"
        row = area.top + 1 + number
        canvas.put(row, area.left, left, box.role, box.id)
        canvas.put(row, area.right, right, box.role, box.id)
        canvas.put(row, area.left + 3, line, "", box.id)


# lines --------------------------------------------------------------------------------------


def _lines(canvas: Canvas, layout: Layout, found: list[Lane]) -> None:
    columns = {lane.target: lane.column for lane in found}
    for trunk in layout.trunks:
        area = trunk.area
        canvas.down(area.trunk, area.bottom, trunk.last + trunk.leads)
        canvas.put(area.bottom, area.trunk, "┬", area.box.role, area.box.id)
        if trunk.leads:
            canvas.put(trunk.last + 1, area.trunk, "▼", "line")
    for entry in layout.entries.values():
        area = entry.area
        canvas.across(entry.row, area.trunk, columns[area.box.id])
        canvas.down(area.trunk, entry.row, area.top)
        canvas.put(entry.row, area.trunk + 1, "◀", "line")
        canvas.put(area.top, area.trunk, "▼", "line")
    for run in layout.runs:
        _run(canvas, run, layout.areas[run.arrow.source], columns)
    for lane in found:
        canvas.down(lane.column, lane.rows[0], lane.rows[-1])


def _run(canvas: Canvas, run: Run, source: Area, columns: Mapping[str, int]) -> None:
    border = run.left == source.right + 1 and run.row <= source.bottom
    first = run.left if border else run.left - 1
    if border:
        side = canvas.at(run.row, source.right)
        canvas.put(run.row, source.right, _LEAVING.get(side, side), source.box.role, source.box.id)
    if run.beside is None:
        canvas.across(run.row, first, columns[run.arrow.target])
    else:
        canvas.across(run.row, first, run.beside.left - 1)
        canvas.put(run.row, run.beside.left - 1, "▶", "line")


APART = 2
"""The distance between lanes, in columns."""


class Lane(NamedTuple):
    """The line that leads to a box."""

    target: str
    column: int
    rows: tuple[int, ...]
    """The rows where arrows join it and where it turns to its box, in order."""


def lanes(layout: Layout) -> list[Lane]:
    """The lanes, one for each box that needs one. Lanes never share a cell."""
    rows: dict[str, set[int]] = {name: {entry.row} for name, entry in layout.entries.items()}
    for run in layout.runs:
        if run.beside is None:
            rows[run.arrow.target].add(run.row)
    found: list[Lane] = []
    taken: dict[int, list[tuple[int, int]]] = {}
    for target, joined in sorted(
        rows.items(), key=lambda lane: (max(lane[1]) - min(lane[1]), min(lane[1]))
    ):
        top, bottom = min(joined), max(joined)
        widest = max(layout.extents.get(row, 0) for row in range(top, bottom + 1))
        column = widest + APART + 1 + widest % APART
        while any(top <= last and first <= bottom for first, last in taken.get(column, ())):
            column += APART
        taken.setdefault(column, []).append((top, bottom))
        found.append(Lane(target, column, tuple(sorted(joined))))
    return found
