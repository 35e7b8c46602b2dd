"""How often, as one of a few colours: a logarithmic scale of one hue.

Belongs here: colours and the ranges that they stand for. Never: a format, a chart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple


class Shade(NamedTuple):
    """One step of the scale."""

    fill: str
    """Of a box."""
    ink: str
    """Of the words in it."""
    line: str
    """Of its border, and of an arrow."""
    width: str
    """Of an arrow."""


SHADES = (
    Shade("#eff6ff", "#1e293b", "#60a5fa", "1.4"),
    Shade("#bfdbfe", "#1e293b", "#3b82f6", "1.8"),
    Shade("#93c5fd", "#1e293b", "#2563eb", "2.3"),
    Shade("#2563eb", "#ffffff", "#1d4ed8", "2.9"),
    Shade("#1e3a8a", "#ffffff", "#1e3a8a", "3.6"),
)
NEVER = Shade("#ffffff", "#b91c1c", "#dc2626", "1.8")
LOST = Shade("#ffffff", "#6b7280", "#9ca3af", "1.2")
"""Of what no run can come to."""

SEEN_INK = "#1d4ed8"
"""Of words on white that stand for something that was seen, however often."""


class Scale:
    """The shades of one picture: from once to the most often, each step the same factor."""

    def __init__(self, counts: Iterable[int]) -> None:
        most = max(counts, default=0)
        steps = len(SHADES)
        ends = sorted({round(most ** (step / steps)) for step in range(1, steps + 1)} - {0})
        self._ends = ends
        self._shades = [SHADES[_spread(n, len(ends))] for n in range(len(ends))]

    def shade(self, times: int) -> Shade:
        """The step that a count falls into."""
        return self._shades[bisect_left(self._ends, times)] if times else NEVER

    @property
    def ranges(self) -> list[tuple[str, Shade]]:
        """Each step with the counts that it stands for: ``3–9``."""
        starts = [1, *(end + 1 for end in self._ends)]
        return [
            (_format_range(start, end), shade)
            for start, end, shade in zip(starts, self._ends, self._shades, strict=False)
        ]


def _spread(number: int, count: int) -> int:
    """Of a few steps which shades: the palest, the darkest, and those between."""
    return round(number * (len(SHADES) - 1) / (count - 1)) if count > 1 else len(SHADES) // 2


def _format_range(start: int, end: int) -> str:
    return f"{start:,}" if start == end else f"{start:,}–{end:,}"
