"""The live picture in characters, for use without Graphviz.

Belongs here: a line for each box with a mark at the current one, and under it its arrows with
counts. Never: a layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.pictures.flowchart import Box, Flowchart, one_line
from chartloop.pictures.live.plan import Plan, say_times


class Outline:
    """The lines of one chart. Parts that do not change between steps are computed once."""

    def __init__(self, chart: Flowchart) -> None:
        self._title = one_line(chart.title)
        self._boxes = [(box.id, *_box_lines(box)) for box in chart.boxes]
        self._leaving: dict[str, list[tuple[int, str]]] = {}
        for place, arrow in enumerate(chart.arrows):
            message = " ".join(part for part in (one_line(arrow.whole), "→") if part)
            leaving = self._leaving.setdefault(arrow.source, [])
            leaving.append((place, f"{message} {one_line(arrow.target)}"))

    def text(self, plan: Plan) -> str:
        """The chart as lines: `▶` marks the current state, `×3` an arrow that was taken."""
        head = "\n".join(part for part in (self._title, plan.caption) if part)
        body = "\n".join(self._lines(plan))
        return f"{head}\n\n{body}\n" if head else f"{body}\n"

    def _lines(self, plan: Plan) -> Iterator[str]:
        for name, head, more in self._boxes:
            if name == plan.now:
                yield f"▶ {head}  {plan.badge}"
            else:
                failed = f"  {plan.failed[name]}" if name in plan.failed else ""
                yield f"{'•' if name in plan.visited else ' '} {head}{failed}"
            yield from more
            for place, to in self._leaving.get(name, ()):
                times = plan.counts.get(place)
                count = "" if times is None else say_times(times) or "•"
                yield f"  {count:>6} {to}"


def _box_lines(box: Box) -> tuple[str, list[str]]:
    """The line of a box, and the lines of the rules that it lists."""
    name = one_line(box.id)
    listed = box.label.strip("\n").split("\n") if box.role == "rules" else [box.label]
    label, *rules = map(one_line, listed)
    head = name if label in ("", name) else f"{name}: {label}"
    return head, [f"         {rule}" for rule in rules]
