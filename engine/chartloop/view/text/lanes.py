"""Which column each lane runs in: the vertical lines at the right.

All arrows to one box that are not drawn straight share one lane, so a line that meets a lane
always joins it, and one that continues crosses it. Short lanes run near the boxes.
"""

from __future__ import annotations

from typing import NamedTuple

from chartloop.view.text.place import Layout

APART = 2
"""Columns from one lane to the next."""


class Lane(NamedTuple):
    """The line that leads to a box."""

    target: str
    column: int
    rows: tuple[int, ...]
    """Where arrows join it, and where it turns to its box; in order."""


def lanes(layout: Layout) -> list[Lane]:
    """A lane for each box that one leads to. Lanes never share a cell."""
    rows: dict[str, set[int]] = {name: {entry.row} for name, entry in layout.entries.items()}
    for run in layout.runs:
        if run.beside is None:
            rows[run.arrow.target].add(run.row)
    found: list[Lane] = []
    taken: dict[int, list[tuple[int, int]]] = {}
    for target, joined in sorted(rows.items(), key=lambda lane: (_length(lane[1]), min(lane[1]))):
        top, bottom = min(joined), max(joined)
        widest = max(layout.extents.get(row, 0) for row in range(top, bottom + 1))
        column = widest + APART + 1 + widest % APART
        while any(top <= last and first <= bottom for first, last in taken.get(column, ())):
            column += APART
        taken.setdefault(column, []).append((top, bottom))
        found.append(Lane(target, column, tuple(sorted(joined))))
    return found


def _length(rows: set[int]) -> int:
    return max(rows) - min(rows)
