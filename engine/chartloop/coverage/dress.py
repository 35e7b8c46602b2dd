"""The heat map: the plain picture in colours that say how often runs were where.

Boxes, words and arrows stand where the plain picture has them: a colour, a width and a dash take
no room, and the legend stands in the line that is empty there.

Belongs here: looks. Never: counts, the scale (`heat`).

Imports:      view.dot.write, coverage.heat
Imported by:  coverage.picture
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from chartloop.coverage.figures import Covered
from chartloop.coverage.heat import LOST, NEVER, SEEN_INK, Scale, Shade
from chartloop.view.dot.write import (
    FONT,
    Dress,
    Html,
    Style,
    arrow_style,
    box_style,
    dot_tip,
    html_text,
    inked_rules,
    title_style,
)
from chartloop.view.flowchart import Arrow, Box, Flowchart, RuleLine, one_line
from chartloop.view.from_graph import rule_boxes
from chartloop.view.live.plan import edge_of, say_times

_LEFT = '<BR ALIGN="LEFT"/>'
_PALE = "#93c5fd"
"""The darkest fill where a format always writes in black."""


class HeatDress(Dress):
    """The look of one chart, by how often each item was seen."""

    def __init__(self, chart: Flowchart, covered: tuple[Covered, ...]) -> None:
        self._chart = chart
        drawn = [c for c in covered if c.item.kind in ("state", "edge", "rule")]
        self._found: Mapping[tuple[str, str], Covered] = {
            ("state" if c.item.kind == "state" else "way", c.item.id): c for c in drawn
        }
        self.scale = Scale(c.times for c in drawn)
        arrows = {arrow.id for arrow in chart.arrows}
        listed = rule_boxes(chart)
        self._listed: dict[str, list[RuleLine]] = {}
        for rule in chart.rules:
            if rule.id not in arrows and rule.id in listed:
                self._listed.setdefault(listed[rule.id], []).append(rule)

    def title(self, chart: Flowchart) -> Style:
        """The title, and the legend in the line that the plain picture leaves empty."""
        title = f"{html_text(one_line(chart.title))}{_LEFT}"
        room = '<FONT POINT-SIZE="18"> </FONT>'  # the line is as high as its largest letter
        legend = f'<FONT FACE="{FONT}" POINT-SIZE="9">{self._legend()}</FONT>{room}{_LEFT}'
        return title_style(chart) | {"label": Html(f"<{title}{legend}>")}

    def _legend(self) -> str:
        """What the colours mean."""
        marks = [
            f'<FONT COLOR="{shade.line}">■</FONT>&#160;{times}'
            for times, shade in self.scale.ranges
        ]
        missing = [c for c in self._found.values() if not c.times]
        if any(not c.unreachable for c in missing):
            marks.append(f'<FONT COLOR="{NEVER.line}"><B>╌</B>&#160;never</FONT>')
        if any(c.unreachable for c in missing):
            marks.append(f'<FONT COLOR="{LOST.ink}">┈&#160;cannot be</FONT>')
        return "times: " + "  ".join(marks)

    def box(self, box: Box) -> Style:
        """A state by its entries; a list of rules line by line."""
        style: dict[str, str] = dict(box_style(box))
        if box.id in self._listed:
            return style | {"label": self._rules(box)}
        found = self._found.get(("state", box.id))
        if found is None:
            return style
        shade, tip = self._shade(found), dot_tip(f"{one_line(box.label)}: {_said(found)}")
        style |= {"fillcolor": shade.fill, "color": shade.line, "fontcolor": shade.ink}
        style |= {"tooltip": tip}
        return (
            style if found.times else style | _broken(style.get("style", "rounded,filled"), found)
        )

    def arrow(self, arrow: Arrow) -> Style:
        """An edge or a rule by how often it was taken."""
        style = dict(arrow_style(arrow))
        found = self._found.get(("way", edge_of(arrow)))
        if found is None:
            return style
        shade = self._shade(found)
        tip = dot_tip(f"{one_line(arrow.tip) or arrow.id}: {_said(found)}")
        style |= {"color": shade.line, "penwidth": shade.width}
        style |= {"tooltip": tip, "labeltooltip": tip}
        if not found.times:
            style |= {"fontcolor": shade.ink, **_broken("", found)}
        return style

    def _shade(self, found: Covered) -> Shade:
        return LOST if found.unreachable else self.scale.shade(found.times)

    def _rules(self, box: Box) -> str:
        """The lines of a box of rules, each in the colour of what it says."""
        return inked_rules(box, map(self._ink, self._listed[box.id]), LOST.ink)

    def _ink(self, rule: RuleLine) -> str:
        """The colour of words: the pale shades are for borders."""
        found = self._found.get(("way", rule.id))
        if found is None or not found.times:
            return LOST.ink if found is None else self._shade(found).ink
        return SEEN_INK

    def marked(self) -> Flowchart:
        """The chart with the counts in its labels, for formats that know no such style."""
        boxes = tuple(self._marked_box(box) for box in self._chart.boxes)
        arrows = tuple(self._marked_arrow(arrow) for arrow in self._chart.arrows)
        return replace(self._chart, boxes=boxes, arrows=arrows)

    def _marked_box(self, box: Box) -> Box:
        found = self._found.get(("state", box.id))
        if found is None:
            return box
        if not found.times:
            return replace(box, label=f"{box.label} ({_word(found)})", fill="#ffffff")
        shade = self._shade(found)
        return replace(box, fill=shade.fill if shade.ink != "#ffffff" else _PALE)

    def _marked_arrow(self, arrow: Arrow) -> Arrow:
        found = self._found.get(("way", edge_of(arrow)))
        if found is None:
            return arrow
        said = say_times(found.times) or f"({_word(found)})"
        return arrow.saying(f"{arrow.words} {said}".strip())


def _broken(style: str, found: Covered) -> dict[str, str]:
    line = "dotted" if found.unreachable else "dashed"
    return {"style": f"{style},{line}" if style else line, "penwidth": NEVER.width}


def _word(found: Covered) -> str:
    return "cannot be" if found.unreachable else "never"


def _said(found: Covered) -> str:
    if found.unreachable:
        return f"cannot be reached, {found.unreachable}"
    if found.times < 2:
        return "once" if found.times else "never"
    return f"{found.times:,} times"
