"""The live picture in characters, for where there is no Graphviz.

Belongs here: one line a box with a mark at the present one, its arrows under it with their
counts. Never: a layout.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.view.flowchart import Box, Flowchart, one_line
from chartloop.view.live.plan import Plan, say_times


class Outline:
    """The lines of one chart. What does not change between two steps is written once."""

    def __init__(self, chart: Flowchart) -> None:
        self._title = one_line(chart.title)
        self._boxes = [(box.id, *_box_lines(box)) for box in chart.boxes]
        self._leaving: dict[str, list[tuple[int, str]]] = {}
        for place, arrow in enumerate(chart.arrows):
            message = " ".join(part for part in (one_line(arrow.whole), "→") if part)
            leaving = self._leaving.setdefault(arrow.source, [])
            leaving.append((place, f"{message} {one_line(arrow.target)}"))

    def text(self, plan: Plan) -> str:
        """The chart as lines: `▶` is before the present state, `×3` before what was taken."""
        head = "\n".join(part for part in (self._title, plan.caption) if part)
        body = "\n".join(self._lines(plan))
        return f"{head}\n\n{body}\n" if head else f"{body}\n"

    def _lines(self, plan: Plan) -> Iterator[str]:
        for name, said, more in self._boxes:
            if name == plan.now:
                yield f"▶ {said}  {plan.badge}"
            else:
                failed = f"  {plan.failed[name]}" if name in plan.failed else ""
                yield f"{'•' if name in plan.visited else ' '} {said}{failed}"
            yield from more
            for place, to in self._leaving.get(name, ()):
                times = plan.counts.get(place)
                count = "" if times is None else say_times(times) or "•"
                yield f"  {count:>6} {to}"


def _box_lines(box: Box) -> tuple[str, list[str]]:
    """The line of a box, and below it the rules that it lists."""
    name = one_line(box.id)
    listed = box.label.strip("\n").split("\n") if box.role == "rules" else [box.label]
    label, *rules = map(one_line, listed)
    head = name if label in ("", name) else f"{name}: {label}"
    return head, [f"         {rule}" for rule in rules]
