"""The live picture in characters, for where there is no Graphviz.

Belongs here: one line a box with a mark at the present one, its arrows under it with their
counts. Never: a layout.

Imports:      view.flowchart, view.live.plan
Imported by:  view.live.picture
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.view.flowchart import Flowchart, one_line
from interlock.view.live.plan import Plan, say_times


def outline(chart: Flowchart, plan: Plan) -> str:
    """The chart as lines: `▶` stands before the present state, `×3` before what was taken."""
    return "\n".join(_lines(chart, plan)) + "\n"


def _lines(chart: Flowchart, plan: Plan) -> Iterator[str]:
    yield from (line for line in (one_line(chart.title), plan.caption, "") if line or plan.caption)
    for box in chart.boxes:
        mark = "▶" if box.id == plan.now else "•" if box.id in plan.visited else " "
        label = one_line(box.label)
        name = one_line(box.id)
        badge = f"  {plan.badge}" if box.id == plan.now else ""
        yield f"{mark} {name}{f': {label}' if label not in ('', name) else ''}{badge}"
        for place, arrow in enumerate(chart.arrows):
            if arrow.source != box.id:
                continue
            times = plan.counts.get(place)
            count = "" if times is None else say_times(times) or "•"
            said = one_line(arrow.shown)
            yield f"  {count:>6} {f'{said} ' if said else ''}→ {one_line(arrow.target)}"
