"""The CSS of one moment: which parts of the picture are bright, and which are faded.

Belongs here: selectors and declarations. Never: texts, layout, which colour means what.

Every selector starts with an id of this picture, so that pictures on one page do not interfere. A
rule for one part has the same specificity as the rule that fades all parts, and comes after it.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from chartloop.pictures.dot.write import INK, PAINTS, SvgIds, entry_ids
from chartloop.pictures.flowchart import Box, Flowchart
from chartloop.pictures.live.colours import (
    FADE,
    FAILED,
    PALE,
    PALE_INK,
    TAKEN,
    badge_ink,
    paint_of,
    stands_out,
    visited_border,
    width,
)
from chartloop.pictures.live.plan import Plan
from chartloop.pictures.live.progress import How
from chartloop.pictures.live.slots import Slots


class Css:
    """The styles of one laid-out chart. The style of each part is computed once."""

    def __init__(self, chart: Flowchart, ids: SvgIds, slots: Slots) -> None:
        self._ids, self._slots = ids, slots
        whole = f"#{ids.chart}"
        shapes = ",".join(f"{whole} .node {shape}" for shape in ("path", "polygon", "ellipse"))
        self._faded = (
            f"{shapes}{{stroke:{PALE};fill-opacity:{FADE}}}"
            f"{whole} .edge path{{stroke:{PALE}}}"
            f"{whole} .edge polygon{{stroke:{PALE};fill:{PALE}}}"
            f"{whole} .node text,{whole} .edge text{{fill:{PALE_INK}}}"
            # a white outline separates letters from the arrows under them
            f"{whole} .edge text{{paint-order:stroke;stroke:#fff;stroke-width:3}}"
        ) + "".join(self._rule_list_styles(chart))
        self._visited = {box.id: self._visited_style(box) for box in chart.boxes}
        self._wide = frozenset(box.id for box in chart.boxes if not stands_out(box))
        self._arrows: dict[tuple[int, float], str] = {}
        self._badges: dict[How, str] = {how: self._badge(how) for how in get_args(How)}

    def style(self, plan: Plan) -> str:
        """The style of a moment."""
        rules = [self._badges[plan.how]]
        if plan.counted:
            rules.append(self._faded)
            rules += [self._visited[name] for name in self._visited if name in plan.visited]
            most = max(plan.counts.values(), default=0)
            rules += [self._arrow(place, width(n, most)) for place, n in plan.counts.items()]
        rules += [f"#{self._ids.boxes[name]}.node tspan{{fill:{FAILED}}}" for name in plan.failed]
        if plan.now:
            paint, box = paint_of(plan.how), self._ids.boxes[plan.now]
            bold = "" if plan.now in self._wide else f"#{box}.node text{{font-weight:bold}}"
            rules.append(f"{self._box(plan.now, paint.border, 2.8, paint.fill)}{bold}")
        return "".join(rules)

    def _rule_list_styles(self, chart: Flowchart) -> Iterator[str]:
        """The style of parts without counts: lists of rules, which always apply."""
        for box in chart.boxes:
            if box.origin == "rule":
                yield self._box(box.id, PAINTS[box.role].border, 1.2)
        for place, arrow in enumerate(chart.arrows):
            if not arrow.id:
                name = self._ids.arrows[place]
                yield f"#{name}.edge path,#{name}.edge polygon{{stroke:#64748b}}"
                yield f"#{name}.edge polygon{{fill:#64748b}}#{name}.edge text{{fill:{INK}}}"

    def _visited_style(self, box: Box) -> str:
        style = self._box(box.id, visited_border(box), 1.9)
        if not box.entry:
            return style
        dot, way = entry_ids(self._ids.boxes[box.id])
        return f"{style}{self._box_of(dot, PAINTS['start'].border, 1)}{self._way(way, 1.6)}"

    def _box(self, box: str, border: str, wide: float, fill: str = "") -> str:
        name = self._ids.boxes[box]
        return f"{self._box_of(name, border, wide, fill)}#{name}.node text{{fill:{INK}}}"

    def _box_of(self, name: str, border: str, wide: float, fill: str = "") -> str:
        shapes = ",".join(f"#{name}.node {shape}" for shape in self._slots.shapes.get(name, ()))
        filled = f"fill:{fill};" if fill else ""
        return f"{shapes}{{{filled}stroke:{border};stroke-width:{wide};fill-opacity:1}}"

    def _badge(self, how: How) -> str:
        count = f"#{self._ids.chart} .edge tspan{{fill:{TAKEN}}}"
        return f"{count}#{self._ids.chart} .node tspan{{fill:{badge_ink(how)}}}"

    def _arrow(self, place: int, wide: float) -> str:
        """The style of an arrow that was taken, cached by its width."""
        if (found := self._arrows.get((place, wide))) is None:
            found = self._arrows[place, wide] = self._way(self._ids.arrows[place], wide)
        return found

    def _way(self, name: str, wide: float) -> str:
        return (
            f"#{name}.edge path{{stroke:{TAKEN};stroke-width:{wide}}}"
            f"#{name}.edge polygon{{stroke:{TAKEN};fill:{TAKEN}}}"
            f"#{name}.edge text{{fill:{INK}}}"
        )
