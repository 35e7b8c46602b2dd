"""The CSS of one moment: which parts of the picture are bright, and which are faded.

Belongs here: selectors and declarations. Never: texts, layout, which colour means what.

Every selector starts with an id of this picture, so that pictures on one page do not interfere. A
rule for one part has the same specificity as the rule that fades all parts, and comes after it.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

from chartloop.pictures.dot.write import PAINTS, SvgIds, entry_ids
from chartloop.pictures.flowchart import Flowchart
from chartloop.pictures.live.colours import (
    FADE,
    FADED,
    FAILED,
    PALE,
    PALE_INK,
    TAKEN,
    PartLook,
    badge_ink,
    look_of_arrow,
    look_of_box,
)
from chartloop.pictures.live.plan import Plan
from chartloop.pictures.live.slots import RAISED, Slots


class Css:
    """The styles of one laid-out chart."""

    def __init__(self, chart: Flowchart, ids: SvgIds, slots: Slots) -> None:
        self._chart, self._ids, self._slots = chart, ids, slots
        whole = f"#{ids.chart}"
        shapes = ",".join(f"{whole} .node {shape}" for shape in ("path", "polygon", "ellipse"))
        arrows = zip(chart.arrows, ids.arrows, strict=True)
        self._faded = "".join(
            (
                f"{shapes}{{stroke:{PALE};fill-opacity:{FADE}}}",
                f"{whole} .edge path{{stroke:{PALE}}}",
                f"{whole} .edge polygon{{stroke:{PALE};fill:{PALE}}}",
                f"{whole} .node text,{whole} .edge text{{fill:{PALE_INK}}}",
                # a white outline separates letters from the arrows under them
                f"{whole} .edge text{{paint-order:stroke;stroke:#fff;stroke-width:3}}",
                # lists of rules, and arrows that nothing counts, stay as they are
                *(
                    self._box(ids.boxes[box.id], PartLook(PAINTS[box.role].border, 1.2))
                    for box in chart.boxes
                    if box.origin == "rule"
                ),
                *(self._arrow(name, PartLook("#64748b")) for arrow, name in arrows if not arrow.id),
            )
        )

    def style(self, plan: Plan) -> str:
        """The style of a moment."""
        whole, boxes = f"#{self._ids.chart}", self._ids.boxes
        rules = [
            f"{whole} .edge tspan{{fill:{TAKEN}}}{whole} .node tspan{{fill:{badge_ink(plan.how)}}}"
        ]
        if plan.counted:
            rules.append(self._faded)
            most = max(plan.counts.values(), default=0)
            rules += [
                self._arrow(self._ids.arrows[place], look_of_arrow(times, most))
                for place, times in plan.counts.items()
            ]
        if marked := [boxes[name] for name in (plan.now, *plan.failed) if name]:
            texts = ",".join(f"#{name}.node text" for name in marked)
            rules.append(f"{texts}{{translate:0 -{RAISED:g}px}}")
        for box in self._chart.boxes:
            name, look = boxes[box.id], look_of_box(box, plan)
            if look is not None and look is not FADED:
                rules.append(self._box(name, look))
            if box.entry and box.id in plan.visited:
                dot, way = entry_ids(name)
                rules.append(self._box(dot, PartLook(PAINTS["start"].border, 1)))
                rules.append(self._arrow(way, PartLook(TAKEN, 1.6)))
            if box.id in plan.failed:
                rules.append(f"#{name}.node tspan{{fill:{FAILED}}}")
        return "".join(rules)

    def _box(self, name: str, look: PartLook) -> str:
        shapes = ",".join(f"#{name}.node {shape}" for shape in self._slots.shapes.get(name, ()))
        fill = f"fill:{look.fill};" if look.fill else ""
        bold = ";font-weight:bold" if look.bold else ""
        return (
            f"{shapes}{{{fill}stroke:{look.line};stroke-width:{look.wide};fill-opacity:1}}"
            f"#{name}.node text{{fill:{look.ink}{bold}}}"
        )

    def _arrow(self, name: str, look: PartLook) -> str:
        width = f";stroke-width:{look.wide}" if look.wide else ""
        return (
            f"#{name}.edge path{{stroke:{look.line}{width}}}"
            f"#{name}.edge polygon{{stroke:{look.line};fill:{look.line}}}"
            f"#{name}.edge text{{fill:{look.ink}}}"
        )
