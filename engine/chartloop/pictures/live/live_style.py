"""The looks of the live picture: with placeholders, and painted.

Belongs here: the placeholders in boxes, on arrows and under the title, which the painter replaces;
and the same look for a single moment, without placeholders, for files and for formats without
styles. Never: SVG.

Graphviz measures the placeholders, so that nothing moves when other texts replace them.

Source: docs/notebook.md, "A picture that follows the run"
"""

from __future__ import annotations

from chartloop.pictures.dot.write import (
    BOLD,
    FONT,
    Dress,
    Html,
    Style,
    arrow_style,
    box_style,
    dot_text,
    html_text,
    title_style,
)
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, one_line
from chartloop.pictures.live.colours import (
    FADED,
    SURVIVED,
    TAKEN,
    PartLook,
    badge_ink,
    look_of_arrow,
    look_of_box,
    pale,
)
from chartloop.pictures.live.plan import Plan, last_boxes, say_times

BADGE = "o NOW"
"""The placeholder of the badge of the current state."""
FAILURES = "o 12 recovered"
"""The placeholder of the badge where an action may fail, which counts what was recovered."""
COMPLETED = "o completed"
"""The placeholder of the badge in an end for runs that are completed."""
REASON = "o user_requested"
"""The placeholder of the badge where else a run may end: the reason, as far as it fits."""
COUNT = "x0000"
"""The placeholder of an arrow's count."""
CAPTION = "o how the run stands in a few words"
"""The placeholder of the caption under the title."""
LEFT = '<BR ALIGN="LEFT"/>'
SPACE = "\u00a0"
"""A space that browsers keep at the start of a text. It separates labels from their arrows."""


class LiveDress(Dress):
    """The plain look, with one more line in each box and a few more characters on each arrow."""

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
        """An arrow with its count after its label, if arrows of its kind are counted."""
        style = arrow_style(arrow)
        return style | {"label": self.arrow_label(arrow)} if arrow.id else style

    def box_label(self, box: Box) -> str:
        """The text in a box."""
        listed = box.role == "rules" and "\n" in box.label
        label = "\n".join(part for part in (box.label.strip("\n"), self.badge(box)) if part)
        return dot_text(label, left=listed)

    def arrow_label(self, arrow: Arrow) -> str:
        """The text on an arrow."""
        lines = arrow.drawn_text.strip().splitlines() or [""]
        message = "\n".join(f"{SPACE}{line.strip()} " for line in lines)
        return dot_text(f"{message}{self.count(arrow)} ", left=True)

    def caption(self) -> str:
        """The text under the title."""
        return CAPTION

    def badge(self, box: Box) -> str:
        """The text under a label."""
        ends = COMPLETED if box.role == "completed" else REASON
        if box.id in self._last:
            return ends
        return FAILURES if box.role == "action" else BADGE

    def count(self, arrow: Arrow) -> str:
        """The text after the label of an arrow."""
        return COUNT


def title_label(chart: Flowchart, caption: str) -> str:
    """The inside of an HTML label: the title, and a smaller line under it."""
    title = f"{html_text(text)}{LEFT}" if (text := one_line(chart.title)) else ""
    # the large space sets the height of the line
    return f'{title}{under(caption)}<FONT POINT-SIZE="20"> </FONT>'


def under(text: str) -> str:
    """A line in the small print under the title."""
    return f'<FONT FACE="{FONT}" POINT-SIZE="11">{html_text(text)}</FONT>'


def with_look(style: Style, look: PartLook | None) -> dict[str, str]:
    """The attributes of a part in a look."""
    if look is None:
        return dict(style)
    fill = look.fill or (pale(style["fillcolor"]) if look is FADED and "fillcolor" in style else "")
    changed = {
        "color": look.line, "penwidth": str(look.wide or ""), "fontcolor": look.ink,
        "fillcolor": fill, "fontname": BOLD if look.bold else "",
    }  # fmt: skip
    return {**style, **{name: value for name, value in changed.items() if value}}


class PaintedDress(LiveDress):
    """The look of one moment, with its texts and colours.

    It will not be repainted, so it has no placeholders.
    """

    def __init__(self, chart: Flowchart, plan: Plan) -> None:
        super().__init__(chart)
        self._plan = plan
        self._taken = {chart.arrows[place]: times for place, times in plan.counts.items()}
        self._most = max(plan.counts.values(), default=0)

    def box(self, box: Box) -> Style:
        """A box as the moment paints it."""
        return with_look(super().box(box), look_of_box(box, self._plan))

    def arrow(self, arrow: Arrow) -> Style:
        """An arrow as the moment paints it."""
        counted = self._plan.counted and arrow.id
        look = look_of_arrow(self._taken.get(arrow), self._most) if counted else None
        return with_look(super().arrow(arrow), look)

    def box_label(self, box: Box) -> str:
        """The label, and under it the badge in its colour."""
        if not (text := self.badge(box)):
            return super().box_label(box)
        line = LEFT if box.role == "rules" and "\n" in box.label else "<BR/>"
        badge = f"<B>{html_text(text)}</B>"
        ink = self.ink(box)
        label = [html_text(part) for part in box.label.strip("\n").split("\n") if part]
        lines = [*label, f'<FONT POINT-SIZE="9" COLOR="{ink}">{badge}</FONT>']
        return Html(f"<{''.join(f'{one}{line}' for one in lines)}>")

    def arrow_label(self, arrow: Arrow) -> str:
        """The label, and after it the count in colour."""
        times = self._taken.get(arrow, 0)
        if not times:
            return super().arrow_label(arrow) if one_line(arrow.drawn_text) else ""
        lines = [f"{SPACE}{html_text(part.strip())} " for part in arrow.drawn_text.split("\n")]
        count = f'<FONT COLOR="{TAKEN}"><B>{say_times(times)}</B></FONT> '
        return Html(f"<{LEFT.join(lines)}{count}{LEFT}>")

    def caption(self) -> str:
        """The status of the run."""
        return self._plan.caption or " "

    def badge(self, box: Box) -> str:
        """The badge of the current box; for others, the failures there."""
        return self._plan.badge if box.id == self._plan.now else self._plan.failed.get(box.id, "")

    def ink(self, box: Box) -> str:
        """The colour of a box's badge."""
        return badge_ink(self._plan.how) if box.id == self._plan.now else SURVIVED

    def count(self, arrow: Arrow) -> str:
        """How often an arrow was taken."""
        times = self._taken.get(arrow, 0)
        return say_times(times)
