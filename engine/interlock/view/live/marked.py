"""A chart with a moment of a run written into it, for formats that only know charts.

Belongs here: labels and fills. Never: a format.

Imports:      view.flowchart, view.live
Imported by:  view.report.picture
"""

from __future__ import annotations

from dataclasses import replace

from interlock.view.dot.write import PAINTS
from interlock.view.flowchart import Arrow, Box, Flowchart
from interlock.view.live.colours import paint_of, pale
from interlock.view.live.plan import Plan, say_times


def marked(chart: Flowchart, plan: Plan) -> Flowchart:
    """The chart with the badge in its box, counts on its arrows, and what was not reached pale."""
    boxes = tuple(_box(box, plan) for box in chart.boxes)
    arrows = tuple(_arrow(arrow, plan.counts.get(at, 0)) for at, arrow in enumerate(chart.arrows))
    return replace(chart, boxes=boxes, arrows=arrows)


def _box(box: Box, plan: Plan) -> Box:
    if box.id == plan.now:
        label = f"{box.label}\n{plan.badge}".strip()
        return replace(box, label=label, fill=paint_of(plan.how).fill)
    if not plan.counted or box.id in plan.visited or box.origin == "rule":
        return box
    return replace(box, fill=pale(box.fill or PAINTS[box.role].fill))


def _arrow(arrow: Arrow, times: int) -> Arrow:
    return replace(arrow, label=f"{arrow.label} {say_times(times)}".strip()) if times else arrow
