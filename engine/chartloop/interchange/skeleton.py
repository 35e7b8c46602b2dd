"""A flowchart as the skeleton of a machine.

Belongs here: boxes and arrows to states and edges. Never: YAML (`machine_text`), documents.

The arrows that leave a box decide what it becomes:

- nothing: an end. A red box stops for a reason that its words name, a green one is `completed`;
  where a chart has no colours the words alone decide.
- one arrow: a state that acts, `do: nothing` for now. A red or green box that leads straight to an
  end stops on the way. The pill where a run starts, if nothing leads to it, only passes.
- several arrows, or one out of a diamond: a wait with an event for each arrow. It asks a person,
  so that the machine can be stepped before its guards are written.

A machine draws boxes, diamonds and pills, ends as pills, and fills by the kind of a state. Other
shapes and fills of a chart become declared deviations of the file.

Source:       docs/language.md, section 2
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from chartloop.core.digraph import Digraph, reachable
from chartloop.interchange.machine_names import as_name, name_of, once
from chartloop.pictures.flowchart import FILLS, Arrow, Box, Flowchart, one_line

_RESERVED = frozenset({"advance", "check", "expired"})
_ROUND = frozenset(
    "pill round circle ellipse diamond double_circle filled_circle framed_circle"
    " small_circle".split()
)
"""Shapes of an end that are drawn as a pill; any other is drawn as a box."""
_BEGINS = re.compile(r"\b(?:start|begin|entry|init)", re.IGNORECASE)


@dataclass(slots=True)
class Edge:
    """An edge of the skeleton."""

    to: str
    label: str
    event: str = ""
    """The event of a wait; empty for the only edge of a state."""


@dataclass(slots=True)
class State:
    """One state of the skeleton."""

    name: str
    box: Box
    line: int | None = None
    """The line in the document; None if unknown."""
    asks: bool = False
    hub: bool = False
    shape: str = ""
    """`pill` or `rect` where the machine's default shape would differ."""
    acts: bool = False
    stop: str = ""
    end: str = ""
    edges: list[Edge] = field(default_factory=list[Edge])


@dataclass(slots=True)
class Skeleton:
    """A machine that draws a flowchart and does nothing yet."""

    states: list[State]
    start: str
    unreached: tuple[str, ...]
    """States that no arrow leads to from the start."""

    @property
    def names(self) -> Mapping[str, str]:
        """The id that the document gives each state's box, by the name of the state."""
        return {state.name: state.box.id for state in self.states}


def skeleton(chart: Flowchart, lines: Mapping[str, int] | None = None) -> Skeleton:
    """The skeleton of a chart with at least one box. `lines` are the lines of boxes, by id."""
    return _Maker(chart, lines or {}).make()


class _Maker:
    """Makes the states of one chart."""

    def __init__(self, chart: Flowchart, lines: Mapping[str, int]) -> None:
        self.chart = chart
        self.lines = lines
        self.coloured = any(box.fill for box in chart.boxes)
        self.leaving: dict[str, list[Arrow]] = {box.id: [] for box in chart.boxes}
        for arrow in chart.arrows:
            self.leaving[arrow.source].append(arrow)
        self.entered = {a.target for a in chart.arrows if a.source != a.target}
        self.names: dict[str, str] = {}
        for box in chart.boxes:
            taken = set(self.names.values())
            self.names[box.id] = name_of(box.id, one_line(box.label), other="state", taken=taken)
        drawn = Digraph(self.leaving, (
            (arrow.source, arrow.target) for arrows in self.leaving.values() for arrow in arrows
        ))  # fmt: skip
        self.endless = drawn.leading_to(*(box for loop in drawn.loops() for box in loop))
        """The boxes from which an arrow leads round, or into a circle, sooner or later."""

    def make(self) -> Skeleton:
        """The whole skeleton. A run starts at the likeliest of the boxes that nothing leads to."""
        boxes = self.chart.boxes
        first = [box for box in boxes if box.id not in self.entered] or list(boxes)
        connected = [box for box in first if self.leaving[box.id]] or first
        start = max(connected, key=self._likely).id
        states = [self._state(box, start) for box in self.chart.boxes]
        stopping = [s.name for s in states if s.stop and s.edges]
        edges = {state.name: [edge.to for edge in state.edges] for state in states}
        begin = [self.names[start]]
        unstopped = set(reachable(begin, lambda name: () if name in stopping else edges[name]))
        after = set(reachable(stopping, edges.__getitem__))
        for state in states:
            if state.end and state.name in after and state.name not in unstopped:
                state.end = "by_reason"
        reached = set(reachable(begin, edges.__getitem__))
        missed = tuple(state.name for state in states if state.name not in reached)
        return Skeleton(states, self.names[start], missed)

    def _likely(self, box: Box) -> tuple[bool, bool, bool]:
        named = _BEGINS.search(box.label) or _BEGINS.search(box.id)
        return box.fill == FILLS["start"], named is not None, box.shape == "pill"

    # states ---------------------------------------------------------------------------------

    def _state(self, box: Box, start: str) -> State:
        state = State(self.names[box.id], box, self.lines.get(box.id))
        arrows = self.leaving[box.id]
        state.hub = box.role == "hub"
        if not arrows:
            self._end(state)
            return state
        state.asks = box.shape == "diamond"
        state.shape = "pill" if box.shape == "pill" else ""
        if state.asks or len(arrows) > 1:
            # An event for each arrow, named by its label, else by where it leads.
            taken = set(_RESERVED)
            edges: list[Edge] = []
            for arrow in arrows:
                target = self.names[arrow.target]
                wanted = as_name(one_line(arrow.label)) or f"to_{target}"
                event = once(wanted, other="is", taken=taken)
                taken.add(event)
                edges.append(Edge(target, arrow.label, event))
            state.edges = edges
            return state
        state.edges = [Edge(self.names[arrows[0].target], arrows[0].label)]
        if box.role in ("stop", "completed") and box.id not in self.endless:
            # a stop with more behind it: a report, say, and then an end
            state.stop = self._reason(box)
        led_to = box.id in self.entered or arrows[0].target == box.id
        state.acts = not (box.id == start and state.shape and not led_to)
        return state

    def _end(self, state: State) -> None:
        state.shape = "" if state.box.shape in _ROUND else "rect"
        reason = self._reason(state.box)
        state.hub = state.hub and not reason
        if reason:
            state.stop = reason
        else:
            state.end = "completed"

    def _reason(self, box: Box) -> str:
        """Why a run stops at a box; nothing where it only ends there."""
        if box.role == "completed":
            return "completed"
        if box.role == "stop":
            return reason_of(box.label)
        if self.coloured or box.role == "hub":
            return ""
        words, reason = box.label.lower(), reason_of(box.label)
        if _WELL.search(words):
            return "completed"
        return reason if _STOPS.search(words) or reason != "custom" else ""


_WORDS = (
    (r"token", "token_limit"),
    (r"cost|budget|money|price|spend", "cost_limit"),
    (r"diminish", "diminishing_returns"),
    (r"health", "health_critical"),
    (r"context|overflow|window", "context_overflow"),
    (r"stagnat", "stagnation"),
    (r"no progress|stuck|same again", "no_progress"),
    (r"unresponsive|no (?:answer|response|reply)|nobody", "user_unresponsive"),
    (
        r"\b(?:user|human|person|operator|manual\w*|abort\w*|cancel\w*|interrupt\w*)\b",
        "user_requested",
    ),
    (r"retr(?:y|ies)", "retry_limit"),
    (r"error rate", "error_rate"),
    (r"(?:too many|consecutive|max\w*) (?:errors|failures)|error threshold", "error_threshold"),
    (r"\b(?:run)?time(?:out| ?limit)?\b|runtime|deadline|duration|\bhours?\b", "time_limit"),
    (r"turns|iterations|\bsteps\b|rounds|cycles|attempts|\bmax", "steps_limit"),
    (r"critical|fatal", "critical_failure"),
    (r"\b(?:fail\w*|errors?|crash\w*|exception|reject\w*|invalid|denied)\b", "error"),
)
_WELL = re.compile(r"\b(?:complet\w*|done|success\w*|succeed\w*|achiev\w*|finish\w*|approved)\b")
_STOPS = re.compile(r"\b(?:stop\w*|terminat\w*|halt\w*|abort\w*|giv\w* up)\b")


def reason_of(label: str) -> str:
    """The stop reason that the words of a box name; `custom` where they name none."""
    words = label.lower()
    return next((reason for pattern, reason in _WORDS if re.search(pattern, words)), "custom")
