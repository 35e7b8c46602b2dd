"""A chart with a moment of a run written into it, for formats that only know charts.

Belongs here: labels and fills. Never: a format.
"""

from __future__ import annotations

from dataclasses import replace

from chartloop.pictures.dot.write import PAINTS
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line
from chartloop.pictures.live.colours import FADED, look_of_box, pale
from chartloop.pictures.live.plan import Plan, say_times

TAKEN = "•"
"""Marks an arrow that was taken an unknown number of times."""


def annotate_chart(chart: Flowchart, plan: Plan) -> Flowchart:
    """The chart with the badge in its box, counts on its arrows, and unvisited parts pale."""
    boxes = tuple(_box(box, plan) for box in chart.boxes)
    arrows = tuple(_arrow(arrow, plan.counts.get(at)) for at, arrow in enumerate(chart.arrows))
    title = ": ".join(part for part in (one_line(chart.title), plan.caption) if part)
    return replace(chart, title=title, boxes=boxes, arrows=arrows)


def _box(box: Box, plan: Plan) -> Box:
    look = look_of_box(box, plan)
    if look is not None and look.fill:
        label = f"{box.label}\n{plan.badge}".strip()
        return replace(box, label=label, fill=look.fill)
    if box.id in plan.failed:
        box = replace(box, label=f"{box.label}\n{plan.failed[box.id]}".strip())
    return replace(box, fill=pale(box.fill or PAINTS[box.role].fill)) if look is FADED else box


def _arrow(arrow: Arrow, times: int | None) -> Arrow:
    if times is None:
        return arrow
    return arrow.saying(f"{arrow.words} {say_times(times) or TAKEN}".strip())
