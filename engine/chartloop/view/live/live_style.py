"""The looks of the live picture: with room to fill, and painted.

Belongs here: what room is kept in boxes, on arrows and under the title, which text is in it
until the painter takes it out; and the same look for one moment alone, without such room, for files
and for formats that know no style. Never: SVG.

Graphviz measures the texts that are in the rooms; nothing moves when others take their place.

Source:       design "look", `live.png`
"""

from __future__ import annotations

from chartloop.view.dot.write import (
    BOLD,
    FONT,
    INK,
    Dress,
    Html,
    Style,
    arrow_style,
    box_style,
    dot_text,
    html_text,
    title_style,
)
from chartloop.view.flowchart import Arrow, Box, Flowchart, one_line
from chartloop.view.live.colours import (
    FAILED,
    PALE,
    PALE_INK,
    TAKEN,
    badge_ink,
    paint_of,
    pale,
    stands_out,
    visited_border,
    width,
)
from chartloop.view.live.plan import Plan, last_boxes, say_times

BADGE = "o NOW"
"""The room for the badge of the state that the run is in."""
REASON = "o stopped by a reason"
"""The same where a run may end: there the badge says why it did."""
COUNT = "x0000"
"""The room for how often an arrow was taken."""
CAPTION = "o how the run stands in a few words"
"""The room under the title."""
LEFT = '<BR ALIGN="LEFT"/>'
SPACE = "\u00a0"
"""A space that browsers keep at the beginning of a text: it holds labels off their arrows."""


class LiveDress(Dress):
    """The plain look, with a line more in each box and a few characters more on each arrow."""

    def __init__(self, chart: Flowchart) -> None:
        self._last = last_boxes(chart)

    def title(self, chart: Flowchart) -> Style:
        """The title, with a line under it."""
        return title_style(chart) | {
            "label": Html(f"<{title_label(chart, self.caption())}{LEFT} {LEFT}>")
        }

    def box(self, box: Box) -> Style:
        """A box with a line for the badge under its label."""
        return box_style(box) | {"label": self.box_label(box)}

    def arrow(self, arrow: Arrow) -> Style:
        """An arrow with its count behind its label, if anybody counts it."""
        style = arrow_style(arrow)
        return style | {"label": self.arrow_label(arrow)} if arrow.id else style

    def box_label(self, box: Box) -> str:
        """What is in a box."""
        listed = box.role == "rules" and "\n" in box.label
        label = "\n".join(part for part in (box.label.strip("\n"), self.badge(box)) if part)
        return dot_text(label, left=listed)

    def arrow_label(self, arrow: Arrow) -> str:
        """What is on an arrow."""
        lines = arrow.drawn_text.strip().splitlines() or [""]
        message = "\n".join(f"{SPACE}{line.strip()} " for line in lines)
        return dot_text(f"{message}{self.count(arrow)} ", left=True)

    def caption(self) -> str:
        """What is under the title."""
        return CAPTION

    def badge(self, box: Box) -> str:
        """What is under a label."""
        return REASON if box.id in self._last else BADGE

    def count(self, arrow: Arrow) -> str:
        """What is behind the label of an arrow."""
        return COUNT


def title_label(chart: Flowchart, caption: str) -> str:
    """The inside of an HTML label: the title, and a smaller line under it."""
    title = f"{html_text(said)}{LEFT}" if (said := one_line(chart.title)) else ""
    # the line is as high as its largest letter
    return f'{title}{under(caption)}<FONT POINT-SIZE="20"> </FONT>'


def under(said: str) -> str:
    """A line in the small letters that are under the title."""
    return f'<FONT FACE="{FONT}" POINT-SIZE="11">{html_text(said)}</FONT>'


class PaintedDress(LiveDress):
    """One moment, with what it has to say and in its colours.

    It will not be painted again, so no room is kept for what other moments would say.
    """

    def __init__(self, chart: Flowchart, plan: Plan) -> None:
        super().__init__(chart)
        self._plan = plan
        self._taken = {chart.arrows[place]: times for place, times in plan.counts.items()}
        self._most = max(plan.counts.values(), default=0)

    def box(self, box: Box) -> Style:
        """A box as the moment paints it."""
        plan, style = self._plan, dict(super().box(box))
        if box.id == plan.now:
            paint = paint_of(plan.how)
            style |= {"fillcolor": paint.fill, "color": paint.border, "penwidth": "2.8"}
            return style | {"fontname": BOLD} if stands_out(box) else style
        if not plan.counted or box.origin == "rule":
            return style
        if box.id in plan.visited:
            return style | {"color": visited_border(box), "penwidth": "1.9"}
        return style | {"color": PALE, "fillcolor": pale(style["fillcolor"]), "fontcolor": PALE_INK}

    def arrow(self, arrow: Arrow) -> Style:
        """An arrow as the moment paints it."""
        style = super().arrow(arrow)
        if not self._plan.counted or not arrow.id:
            return style
        times = self._taken.get(arrow)
        if times is None:
            return {**style, "color": PALE, "fontcolor": PALE_INK}
        return {
            **style,
            "color": TAKEN,
            "penwidth": str(width(times, self._most)),
            "fontcolor": INK,
        }

    def box_label(self, box: Box) -> str:
        """The label, and under it the badge in its colour."""
        if not (said := self.badge(box)):
            return super().box_label(box)
        line = LEFT if box.role == "rules" and "\n" in box.label else "<BR/>"
        badge = f"<B>{html_text(said)}</B>"
        ink = self.ink(box)
        said = [html_text(part) for part in box.label.strip("\n").split("\n") if part]
        lines = [*said, f'<FONT POINT-SIZE="9" COLOR="{ink}">{badge}</FONT>']
        return Html(f"<{''.join(f'{one}{line}' for one in lines)}>")

    def arrow_label(self, arrow: Arrow) -> str:
        """The label, and behind it the count in the colour of what was taken."""
        times = self._taken.get(arrow, 0)
        if not times:
            return super().arrow_label(arrow) if one_line(arrow.drawn_text) else ""
        lines = [f"{SPACE}{html_text(part.strip())} " for part in arrow.drawn_text.split("\n")]
        count = f'<FONT COLOR="{TAKEN}"><B>{say_times(times)}</B></FONT> '
        return Html(f"<{LEFT.join(lines)}{count}{LEFT}>")

    def caption(self) -> str:
        """How the run is doing."""
        return self._plan.caption or " "

    def badge(self, box: Box) -> str:
        """The badge of the present box; of the others what failed there."""
        return self._plan.badge if box.id == self._plan.now else self._plan.failed.get(box.id, "")

    def ink(self, box: Box) -> str:
        """The colour of its badge."""
        return badge_ink(self._plan.how) if box.id == self._plan.now else FAILED

    def count(self, arrow: Arrow) -> str:
        """How often an arrow was taken."""
        times = self._taken.get(arrow, 0)
        return say_times(times)
