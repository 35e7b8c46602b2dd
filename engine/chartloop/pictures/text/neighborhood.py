"""One state with its incoming and outgoing arrows, for stepping and for a close look.

Belongs here: a box, its arrows, and notes on them. Never: the outcome of a guard (see `Note`).

Source: issue 4, item 5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line, printable
from chartloop.pictures.text.canvas import Canvas, Kind
from chartloop.pictures.text.cells import size, wrap_text
from chartloop.pictures.text.draw import WIDTH, Drawing, draw_box
from chartloop.pictures.text.outline import name_of
from chartloop.pictures.text.place import HERE, TRUNK, Area

IN = 5
"""The most incoming arrows shown; the rest is counted."""
_KINDS: Mapping[str, Kind] = MappingProxyType({"✓": "held", "✗": "not-held", "·": "dim"})
_SHORTEST = 12
"""The least width of an arrow's label, in columns."""


class Note(NamedTuple):
    """A note on an arrow."""

    mark: str = ""
    """The outcome of its guard: `✓` held, `✗` did not, `·` was not evaluated."""
    text: str = ""
    """A text, such as the values that the guard read."""


_NO_NOTE = Note()
_NO_NOTES: Mapping[str, Note] = MappingProxyType({})


def neighbourhood(
    chart: Flowchart,
    state: str,
    *,
    width: int = WIDTH,
    notes: Mapping[str, Note] = _NO_NOTES,
    inside: Sequence[str] = (),
) -> Drawing:
    """A state, the arrows that lead to it above, and those that leave it below, in order.

    `notes` are keyed by arrow id, `inside` are further lines of the box. The picture has at most
    `width` columns, if that is at least 40. `KeyError` if the chart has no such state.
    """
    boxes = {box.id: box for box in chart.boxes}
    box, canvas = boxes[state], Canvas()
    row = _arriving(canvas, [a for a in chart.arrows if a.target == state], boxes, width)
    label, name = one_line(box.label), one_line(box.id)
    first = name if label in ("", name) else f"{name} · {label}"
    room = width - 8
    lines = [line for text in (first, *map(printable, inside)) for line in wrap_text(text, room)]
    area = Area(box, [f"{HERE} {lines[0]}", *(f"  {line}" for line in lines[1:])], 0, row, 0)
    area.width = max(map(size, area.lines)) + (6 if box.shape in ("diamond", "hexagon") else 4)
    draw_box(canvas, area, heavy=True)
    if row:
        canvas.put(area.top, TRUNK, "▼", "line")
    leaving = [a for a in chart.arrows if a.source == state]
    end = _Leaving(canvas, boxes, width, notes).put(leaving, area) if leaving else area.bottom + 1
    return Drawing(tuple(canvas.lines(end)), {state: area})


def _arriving(canvas: Canvas, arrows: list[Arrow], boxes: Mapping[str, Box], width: int) -> int:
    """Draw the incoming arrows; returns the row of the box."""
    shown = arrows if len(arrows) <= IN else arrows[: IN - 1]
    rows = [(_label_of(boxes[a.source]), one_line(a.drawn_text)) for a in shown]
    if len(arrows) > len(shown):
        rows.append((f"and {len(arrows) - len(shown)} more", ""))
    for row, (name, label) in enumerate(rows):
        canvas.across(row, TRUNK, TRUNK + 2)
        room = width - TRUNK - 4
        most = max(room // 2, room - size(label) - 2) if label else room
        column = canvas.say(row, TRUNK + 4, name, most, "")
        if label:
            canvas.say(row, column + 2, label, width - column - 2, "label")
    if rows:
        canvas.down(TRUNK, 0, len(rows))
    return len(rows)


def _label_of(box: Box) -> str:
    return f"({one_line(box.label)})" if box.role == "rules" else name_of(box)


class _Leaving:
    """The outgoing arrows in columns: mark and label, an arrow to a name, the note."""

    def __init__(
        self, canvas: Canvas, boxes: Mapping[str, Box], width: int, notes: Mapping[str, Note]
    ) -> None:
        self._canvas, self._boxes, self._width, self._notes = canvas, boxes, width, notes

    def put(self, arrows: list[Arrow], area: Area) -> int:
        """Draw all of them, in the order of evaluation; returns the first free row."""
        names = [self._to(arrow) for arrow in arrows]
        labels = [self._label(arrow) for arrow in arrows]
        left = TRUNK + 3
        widest = max(map(size, labels), default=0)
        most = max(_SHORTEST, self._width - left - 5 - min(max(map(size, names)), self._width // 3))
        wide = min(widest, most)
        name_at = left + wide + (4 if wide else 1)
        note_at = name_at + max(map(size, names)) + 4
        row = last = area.bottom + 1
        for arrow, name, label in zip(arrows, names, labels, strict=True):
            last = row
            row = self._one(row, arrow, (left, name_at, note_at), (label, name, wide))
        self._canvas.down(TRUNK, area.bottom, last)
        self._canvas.put(area.bottom, TRUNK, "┯", area.box.role, area.box.id)
        return row

    def _one(
        self, row: int, arrow: Arrow, columns: tuple[int, int, int], said: tuple[str, str, int]
    ) -> int:
        (left, name_at, note_at), (label, name, wide), canvas = columns, said, self._canvas
        note = self._notes.get(arrow.id, _NO_NOTE)
        kind = _KINDS.get(note.mark, "label")
        canvas.across(row, TRUNK, name_at - 2)
        canvas.put(row, name_at - 2, "▶ ", "line")
        canvas.say(row, name_at, name, max(4, self._width - name_at), "")
        lines = wrap_text(label, wide) if label else []
        if lines:
            canvas.put(row, left - 1, f" {lines[0]} ", kind)
        for number, line in enumerate(lines[1:], start=1):
            canvas.put(row + number, left + (2 if note.mark else 0), line, kind)
        end = row + max(1, len(lines))
        if note.text and note_at + size(note.text) <= self._width:
            canvas.put(row, note_at, printable(note.text), "dim")
        elif note.text:
            for line in wrap_text(printable(note.text), self._width - left - 2):
                canvas.put(end, left + 2, line, "dim")
                end += 1
        return end

    def _label(self, arrow: Arrow) -> str:
        mark = self._notes.get(arrow.id, _NO_NOTE).mark
        return " ".join(part for part in (mark, one_line(arrow.drawn_text)) if part)

    def _to(self, arrow: Arrow) -> str:
        back = arrow.kind == "return"
        return "where the run was going" if back else _label_of(self._boxes[arrow.target])
