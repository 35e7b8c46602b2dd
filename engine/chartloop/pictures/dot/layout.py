"""Hints for Graphviz's layout, so that the main path can be followed.

Belongs here: order, weights and effort, all computed from the chart. Never: looks, ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from chartloop.pictures.flowchart import Arrow, Box, Flowchart, Role

_MANY, _VERY_MANY, _TOO_MANY = 1_500, 8_000, 25_000
"""Rows passed by all arrows of a chart in total; the shipped machines have at most 302."""
_NO_ROWS = {"layout": "sfdp", "overlap": "prism", "splines": "line"}
"""A force-directed layout: seconds where one in rows would take minutes and gigabytes."""


def as_reached(chart: Flowchart) -> list[Box]:
    """The boxes in the order in which they are reached, breadth first.

    Graphviz keeps the order of declaration where it can: so stops gather on one side and ways back
    on the other, whatever the order of states in the file.
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
    """A function for the weight of an arrow; heavier ones are drawn shorter and straighter.

    Arrows ahead are heavy: the main path becomes a line, ends are next to it, and ways back make
    the detours. Parallel arrows together weigh as much as one. Every picture of a chart has the
    same weights, whatever its dress.
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
    """Attributes that limit the effort of a layout. Its cost grows with the rows passed by arrows.

    Beyond some thousands of rows the best layout takes minutes: then fewer rounds are made. With
    very many, arrows are straight lines, which pass behind boxes. With even more, the layout is
    force-directed: complete, but without rows.
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
    """The first boxes of rules; only an arrow back from a detour may lead to one."""
    led_to = {arrow.target for arrow in chart.arrows if arrow.kind != "return"}
    return [box for box in chart.boxes if box.role == "rules" and box.id not in led_to]


def stands_above(panel: Box, chart: Flowchart) -> Box:
    """The box above which a panel is placed: a state that its rules name, or the first box."""
    moments = dict.fromkeys((rule.at, rule.before) for rule in chart.rules)
    named = {f"rules-{n}": (*before, *at) for n, (at, before) in enumerate(moments, start=1)}
    states = {box.id: box for box in chart.boxes}
    known = (states[name] for name in named.get(panel.id, ()) if name in states)
    return next(known, chart.boxes[0])
