"""The colours of a run: the present state, the way that was taken, what was not reached.

Belongs here: colours and widths, and what each stands for. Never: a format.

Source:       design "look", `live.png`
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType

from chartloop.view.dot.write import PAINTS, Paint
from chartloop.view.flowchart import Box
from chartloop.view.live.progress import How

NOW = Paint("#fde68a", "#b45309")
TAKEN = "#2563eb"
PALE = "#858e9b"
"""Borders and arrows of what was not reached."""
PALE_INK = "#5b6472"
"""Their texts: faded, and still 4.5 to 1 on every faded fill."""
FADE = 0.45
"""How much of its fill a box keeps that was not reached."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_BOLD = 24
"""Characters of a line that has room to be bold."""
_BADGE_INK: Mapping[How, str] = MappingProxyType({"": "#92400e", "natural": "#166534"})
FAILED = "#b91c1c"
"""The words of what failed."""

MANY = 200
"""An arrow that was taken more often than this was taken by many runs, or by a very long one."""


def paint_of(how: How) -> Paint:
    """The colours of the box that a run is in: amber, and by how it ended where it has."""
    if not how:
        return NOW
    return PAINTS["completed" if how == "natural" else "stop"]


def badge_ink(how: How) -> str:
    """The colour of the badge."""
    return _BADGE_INK.get(how, FAILED)


def visited_border(box: Box) -> str:
    """The border of a box that the run was in: stops keep the colour of a stop."""
    return PAINTS[box.role].border if box.role in ("stop", "completed") else TAKEN


def stands_out(box: Box) -> bool:
    """Whether the label may be bold while the run is in the box: a long one would leave it."""
    return max(map(len, box.label.split("\n"))) <= _BOLD


def width(times: int, most: int = 0) -> float:
    """The width of an arrow that was taken so often, where none was more often than `most`.

    In a run it grows by the logarithm of the count. Of the counts of many runs the logarithms are
    all alike: there it is a share of the most.
    """
    if most > MANY:
        return round(1.0 + 3.4 * math.sqrt(times / most), 2)
    return round(1.6 + 1.1 * math.log10(max(times, 1)), 2)


def pale(fill: str) -> str:
    """A fill as it looks faded on white. Names of colours, which documents use, become white."""
    if not _HEX.fullmatch(fill):
        return "#ffffff"
    parts = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - FADE * (255 - part)):02x}" for part in parts)
