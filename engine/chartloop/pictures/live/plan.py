"""The plan of a live picture: what to show at each box and arrow. Pure.

Belongs here: the current box, the parts visited and taken, the texts of badge, counts and caption.
Never: their look; CSS, DOT and plain text each have a module.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from chartloop.core.phase import FAILED, PHASES
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, shorten
from chartloop.pictures.from_graph import rule_boxes
from chartloop.pictures.live.progress import Standing

_REASON = len("user_requested")
"""The characters of a reason for which an end has room; one with a wide label has more."""
_SHORT = 9
"""The most characters of a reason that fit into a box out of which arrows lead."""
_CAPTION = 60
"""The most characters that fit under the title."""


class Plan(NamedTuple):
    """One picture of one moment."""

    now: str
    """The id of the box that the run is in; empty if that is not drawn."""
    how: str
    """The name of the phase in which the run ended; empty while it continues."""
    badge: str
    """The text in that box: `● NOW`, or how the run ended."""
    failed: Mapping[str, str]
    """The texts in the boxes of other states with failures, after which the run went on."""
    caption: str
    visited: frozenset[str]
    """The boxes that the run visited."""
    counts: Mapping[int, int]
    """How often each arrow was taken, by its place in the chart; 0 for one of several arrows of the
    same edge, for which only the total is known."""
    counted: bool
    """Whether there are counts; without them nothing is faded."""


class Planner:
    """Makes the plans of one chart. Parts that do not change between steps are computed once."""

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
        """The plan for a standing."""
        now = standing.state if standing.state in self.boxes else ""
        if not now and standing.how:  # it ended in a state not drawn
            died = standing.last_state if standing.last_state in self.boxes else ""
            rule = self._listed.get(standing.by, "")  # a limit is not where the run was, but why
            now = died or rule if standing.how == FAILED.name else rule or died
        visits = standing.visits
        visited = frozenset(name for name in self.boxes if visits.get(name))
        taken = standing.taken
        failed = {
            name: f"↻ {n} recovered"
            for name, n in standing.failed.items()
            if name != now and name in self.boxes
        }
        return Plan(
            now, standing.how, self._badge(now, standing), failed,
            shorten(standing.caption, _CAPTION), visited,
            {} if taken is None else self._counts(taken, visited), taken is not None,
        )  # fmt: skip

    def _counts(self, taken: Mapping[str, int], visited: frozenset[str]) -> dict[int, int]:
        counts = {place: times for place, edge in self._alone if (times := taken.get(edge))}
        for place, edge, source in self._shared:
            if taken.get(edge) and source in visited:
                counts[place] = 0
        return counts

    def _badge(self, now: str, standing: Standing) -> str:
        if not standing.how:
            return "● NOW"
        mark, reason = PHASES[standing.how].sign, standing.reason
        if now in self.last and reason:
            box = self.boxes[now]
            room = len("completed") if box.role == "completed" else _REASON
            widest = max(map(len, box.label.split("\n")))
            return f"{mark} {shorten(reason, max(room, widest))}"
        if standing.how == FAILED.name:
            return f"{mark} {reason if 0 < len(reason) <= _SHORT else 'error'}"
        return f"{mark} END"


def last_boxes(chart: Flowchart) -> frozenset[str]:
    """The boxes that nothing leads out of, and the lists of rules, of which some end a run."""
    leaving = {arrow.source for arrow in chart.arrows if arrow.kind != "rule"}
    asked = {box.id for box in chart.boxes if box.origin == "rule" and box.role == "decision"}
    return frozenset(box.id for box in chart.boxes) - leaving - asked


def edge_of(arrow: Arrow) -> str:
    """The id of the machine's edge that an arrow draws, as a run counts it.

    Several arrows may draw one way back; the id of each ends with its target.
    """
    return arrow.id.partition("→")[0] if arrow.kind == "return" else arrow.id


def say_times(times: int) -> str:
    """A count in at most six characters: `×3`, `×9999`, `×12k`."""
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if times >= 10 * size:
            return f"×{times // size}{unit}"
    return f"×{times}" if times else ""
