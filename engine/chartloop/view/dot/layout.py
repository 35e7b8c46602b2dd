"""How Graphviz is asked to lay a chart out, so that the way ahead can be followed.

Belongs here: order, weights and effort, all of them read off the chart. Never: looks, ids.

Source:       design "look", `plain.png`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from chartloop.view.flowchart import Arrow, Box, Flowchart, Role

_MANY, _VERY_MANY, _TOO_MANY = 1_500, 8_000, 25_000
"""Rows that all arrows of a chart pass together; the shipped machines have at most 302."""
_NO_ROWS = {"layout": "sfdp", "overlap": "prism", "splines": "line"}
"""A layout by forces between the boxes: seconds where rows would take minutes and gigabytes."""


def as_reached(chart: Flowchart) -> list[Box]:
    """The boxes in the order in which they are reached, breadth first.

    Graphviz keeps to the order of declaration where it can: so stops gather on one side and ways
    back on the other, wherever a file has its states.
    """
    boxes = {box.id: box for box in chart.boxes}
    ahead: dict[str, list[str]] = {}
    for arrow in chart.arrows:
        ahead.setdefault(arrow.source, []).append(arrow.target)
    reached: dict[str, Box] = {}
    for first in (*list(boxes)[:1], *(box.id for box in panels(chart)), *boxes):
        waiting = [first]
        for name in waiting:
            if name not in reached:
                reached[name] = boxes[name]
                waiting += ahead.get(name, ())
    return list(reached.values())


_ENDS: frozenset[Role] = frozenset({"stop", "completed", "end"})


def pulling(chart: Flowchart, reached: Sequence[Box]) -> Callable[[Arrow], str]:
    """How much an arrow wants to be short and straight: more where the chart continues.

    Then the way ahead is a line; ends are next to it, and ways back make the detours. Several
    arrows between two boxes pull as one would. Every picture of a chart has the same weights,
    whatever its dress.
    """
    place = {box.id: number for number, box in enumerate(reached)}
    ends = {box.id for box in reached if box.role in _ENDS}
    between = Counter((arrow.source, arrow.target) for arrow in chart.arrows)

    def pull(arrow: Arrow) -> str:
        ahead = place[arrow.target] > place[arrow.source]
        alone = between[arrow.source, arrow.target] == 1
        return "2" if ahead and alone and not ends & {arrow.source, arrow.target} else "1"

    return pull


def effort(chart: Flowchart) -> dict[str, str]:
    """How much care a layout gets. What Graphviz does for a long arrow it does at each row passed.

    Beyond some thousands of these its best layout takes minutes: then fewer rounds are made, and
    where there are very many, arrows are straight lines, which pass behind boxes. Where there are
    too many for that, there are no rows: every box and arrow is there, but no way down.
    """
    place = {box.id: number for number, box in enumerate(chart.boxes)}
    row = dict.fromkeys(place, 0)
    for arrow in sorted(chart.arrows, key=lambda arrow: place[arrow.source]):
        if place[arrow.target] > place[arrow.source]:
            row[arrow.target] = max(row[arrow.target], row[arrow.source] + 1)
    passed = sum(abs(row[arrow.target] - row[arrow.source]) for arrow in chart.arrows)
    if passed <= _MANY:
        return {}
    few_rounds = {"nslimit": "2"}
    hurried = {"nslimit": "1", "mclimit": "0.2", "splines": "line"}
    if passed <= _TOO_MANY:
        return few_rounds if passed <= _VERY_MANY else hurried
    return _NO_ROWS


def panels(chart: Flowchart) -> list[Box]:
    """Where what rules do starts; an arrow may lead back there from a detour."""
    led_to = {arrow.target for arrow in chart.arrows if arrow.kind != "return"}
    return [box for box in chart.boxes if box.role == "rules" and box.id not in led_to]


def stands_above(panel: Box, chart: Flowchart) -> Box:
    """The box above which a panel stands: the state that its rules are about, or the first one."""
    moments = dict.fromkeys((rule.at, rule.before) for rule in chart.rules)
    named = {f"rules-{n}": (*before, *at) for n, (at, before) in enumerate(moments, start=1)}
    states = {box.id: box for box in chart.boxes}
    known = (states[name] for name in named.get(panel.id, ()) if name in states)
    return next(known, chart.boxes[0])
