"""The colours of a run: the current state, the path taken, the parts not reached.

Belongs here: colours and widths, and their meaning. Never: a format.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from chartloop.core.phase import PHASES, Colour
from chartloop.pictures.dot.write import INK, PAINTS, Paint
from chartloop.pictures.flowchart import Box
from chartloop.pictures.live.plan import Plan

NOW = Paint("#fde68a", "#b45309")
TAKEN = "#2563eb"
PALE = "#858e9b"
"""Borders and arrows of parts not reached."""
PALE_INK = "#5b6472"
"""The text of parts not reached: faded, with a contrast of 4.5 to 1 on every faded fill."""
FADE = 0.45
"""The share of its fill that a box not reached keeps."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_BOLD = 24
"""The longest line that has room to be bold, in characters."""
SURVIVED = "#92400e"
"""The colour of texts about failures after which a run went on, and of where it is now."""
FAILED = "#b91c1c"
"""The colour of texts about what failed for good."""
_ENDS: Mapping[Colour, tuple[Paint, str, float]] = MappingProxyType({
    "green": (PAINTS["completed"], "#166534", 2.8),
    "orange": (Paint("#ffedd5", "#c2410c"), "#9a3412", 2.2),
    "violet": (Paint("#ede9fe", "#7c3aed"), "#5b21b6", 2.2),
    "red": (PAINTS["stop"], FAILED, 3.4),
})  # fmt: skip
"""The box in which a run ended, by the colour of its phase: its paint, the ink of its badge, and
the width of its border. What failed stands out the most."""

MANY = 200
"""The count above which an arrow was taken by many runs, or by a very long one."""


class PartLook(NamedTuple):
    """How a moment shows a part that it does not leave as it is."""

    line: str
    """The colour of its border or arrow."""
    wide: float = 0
    """The width of that; 0 for its own."""
    ink: str = INK
    fill: str = ""
    """Empty for its own; paler in `FADED`."""
    bold: bool = False


FADED = PartLook(PALE, ink=PALE_INK)
"""A part that was not reached."""


def look_of_box(box: Box, plan: Plan) -> PartLook | None:
    """How a moment shows a box: amber or as the run ended, visited, or faded; None as it is."""
    if box.id == plan.now:
        bold = max(map(len, box.label.split("\n"))) <= _BOLD  # a longer label would overflow
        paint, _, wide = _ENDS[PHASES[plan.how].colour] if plan.how else (NOW, "", 2.8)
        return PartLook(paint.border, wide, fill=paint.fill, bold=bold)
    if box.id in plan.visited:  # stops keep the colour of a stop
        return PartLook(
            PAINTS[box.role].border if box.role in ("stop", "completed") else TAKEN, 1.9
        )
    return FADED if plan.counted and box.origin != "rule" else None


def look_of_arrow(times: int | None, most: int, *, colour: str = TAKEN) -> PartLook:
    """How an arrow looks that was taken `times` times, and none more than `most` times."""
    return FADED if times is None else PartLook(colour, width(times, most))


def badge_ink(how: str) -> str:
    """The colour of the badge."""
    return _ENDS[PHASES[how].colour][1] if how else SURVIVED


def width(times: int, most: int = 0) -> float:
    """The width of an arrow taken `times` times, where no arrow was taken more than `most` times.

    For one run it grows with the logarithm of the count. For many runs, whose logarithms would all
    be similar, it grows with the share of the most.
    """
    if most > MANY:
        return round(1.0 + 3.4 * math.sqrt(times / most), 2)
    return round(1.6 + 1.1 * math.log10(max(times, 1)), 2)


def pale(fill: str) -> str:
    """A fill faded on white. Names of colours, which documents use, become white."""
    if not _HEX.fullmatch(fill):
        return "#ffffff"
    parts = (int(fill[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - FADE * (255 - part)):02x}" for part in parts)
