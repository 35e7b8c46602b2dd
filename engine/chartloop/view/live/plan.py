"""What is shown where, once a chart and a standing are laid side by side. Pure.

Belongs here: which box is the present one, what was visited and taken, what badge, counts and
caption say. Never: how any of it looks; CSS, DOT and plain text each have a module.

Source:       design "look", `live.png`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chartloop.view.flowchart import Arrow, Box, Flowchart, shorten
from chartloop.view.from_graph import rule_boxes
from chartloop.view.live.progress import How, Standing

_MARKS: Mapping[How, str] = {"": "●", "natural": "✓", "human": "■", "limit": "■", "error": "✗"}
_REASON = 22
"""Characters of a reason that fit into the room for it."""
_CAPTION = 60
"""Characters that fit under the title."""


class Plan(NamedTuple):
    """One picture of one moment."""

    now: str
    """The id of the box that the run is in; empty when it is in none that is drawn."""
    how: How
    badge: str
    """What is in that box: `● NOW`, or how the run ended."""
    failed: Mapping[str, str]
    """What is in the boxes of other states in which something failed: `✗ 2 failed`."""
    caption: str
    visited: frozenset[str]
    """The boxes that the run was in."""
    counts: Mapping[int, int]
    """How often each arrow was taken, by its place in the chart; 0 for one of several arrows of
    one edge, of which it is only known that they were taken together so often."""
    counted: bool
    """Whether anybody counted: else nothing is faded."""


class Planner:
    """The plans of one chart. What does not change between two steps is looked up once."""

    def __init__(self, chart: Flowchart) -> None:
        self.boxes: Mapping[str, Box] = {box.id: box for box in chart.boxes}
        self.last = last_boxes(chart)
        """The boxes in which a run may end."""
        self._listed = rule_boxes(chart)
        self._alone: list[tuple[int, str]] = []
        self._shared: list[tuple[int, str, str]] = []
        edges: dict[str, list[int]] = {}
        for place, arrow in enumerate(chart.arrows):
            if arrow.id:
                edges.setdefault(edge_of(arrow), []).append(place)
        for edge, places in edges.items():
            if len(places) == 1:
                self._alone.append((places[0], edge))
            else:
                self._shared += [(place, edge, chart.arrows[place].source) for place in places]

    def plan(self, standing: Standing) -> Plan:
        """What this standing looks like."""
        now = standing.state if standing.state in self.boxes else ""
        if not now and standing.how:  # it ended where nothing is drawn: a rule in its box did it
            now = self._listed.get(standing.by, "")
        visits = standing.visits
        visited = frozenset(name for name in self.boxes if visits.get(name))
        taken = standing.taken
        return Plan(
            now, standing.how, self._badge(now, standing), self._failure_counts(now, standing),
            shorten(standing.said, _CAPTION), visited,
            {} if taken is None else self._counts(taken, visited), taken is not None,
        )  # fmt: skip

    def _counts(self, taken: Mapping[str, int], visited: frozenset[str]) -> dict[int, int]:
        counts = {place: times for place, edge in self._alone if (times := taken.get(edge))}
        for place, edge, source in self._shared:
            if taken.get(edge) and source in visited:
                counts[place] = 0
        return counts

    def _failure_counts(self, now: str, standing: Standing) -> dict[str, str]:
        counts = standing.failed.items()
        return {name: f"✗ {n} failed" for name, n in counts if name != now and name in self.boxes}

    def _badge(self, now: str, standing: Standing) -> str:
        mark = _MARKS[standing.how]
        if not standing.how:
            return f"{mark} NOW"
        if now not in self.last or not standing.reason:
            return f"{mark} END"
        return f"{mark} {shorten(standing.reason, _REASON)}"


def last_boxes(chart: Flowchart) -> frozenset[str]:
    """The boxes that nothing leads out of, and the lists of rules, of which some end a run."""
    leaving = {arrow.source for arrow in chart.arrows if arrow.kind != "rule"}
    asked = {box.id for box in chart.boxes if box.origin == "rule" and box.role == "decision"}
    return frozenset(box.id for box in chart.boxes) - leaving - asked


def edge_of(arrow: Arrow) -> str:
    """The edge of the machine that an arrow draws, as a run counts it.

    The arrows of one way back stand for one edge: each says behind its id where it leads.
    """
    return arrow.id.partition("→")[0] if arrow.kind == "return" else arrow.id


def say_times(times: int) -> str:
    """How often, in at most six characters: `×3`, `×9999`, `×12k`."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if times >= 10 * size:
            return f"×{times // size}{unit}"
    return f"×{times}" if times else ""
