"""The heat map: the picture of a machine, coloured by how often runs passed each part.

The counts are also written into the boxes and onto the arrows, because a printed map and a PNG have
no tooltips. The scale is logarithmic, in a few shades of one hue.

Belongs here: looks. Never: counting.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.dot.write import (
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
from chartloop.pictures.flowchart import Arrow, Box, Flowchart, RuleLine, one_line
from chartloop.pictures.from_graph import LISTED, rule_boxes, wrap_label
from chartloop.pictures.live.plan import edge_of, say_times
from chartloop.pictures.mermaid import to_mermaid
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.draw import WIDTH, Drawing
from chartloop.pictures.text.outline import to_outline
from chartloop.studies.coverage.figures import Covered

_BARE = 'BORDER="0" CELLBORDER="0"'
_PALE = "#93c5fd"
"""The darkest fill in formats that always write in black."""


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
        """The title, and under it the legend."""
        rows = "".join(
            f'<TR><TD ALIGN="LEFT">{row}</TD></TR>'
            for row in (html_text(one_line(chart.title)) or " ", self._legend())
        )
        label = f'<<TABLE {_BARE} CELLSPACING="0" CELLPADDING="4">{rows}</TABLE>>'
        return title_style(chart) | {"label": Html(label)}

    def _legend(self) -> str:
        """The legend: small boxes with the fills and borders of the large ones."""
        marks = [_swatch(shade, times) for times, shade in self.scale.ranges]
        if any(not c.times for c in self._found.values()):
            marks.append(_swatch(NEVER, "never", "DASHED"))
        cells = "".join([f"<TD>{_small('times:')}</TD>", *marks])
        return f'<TABLE {_BARE} CELLSPACING="2" CELLPADDING="2"><TR>{cells}</TR></TABLE>'

    def box(self, box: Box) -> Style:
        """The style of a state by its count; of a list of rules line by line."""
        marked = self._marked_box(box)
        style: dict[str, str] = dict(box_style(marked))
        if box.id in self._listed:
            inks = map(self._ink, self._listed[box.id])
            return style | {
                "label": inked_rules(marked, inks, NOT_COUNTED), "tooltip": dot_tip(box.label),
            }  # fmt: skip
        found = self._found.get(("state", box.id))
        if found is None:
            return style
        shade = self.scale.shade(found.times)
        tip = dot_tip(f"{one_line(box.label)}: {_describe_count(found)}")
        style |= {"fillcolor": shade.fill, "color": shade.line, "fontcolor": shade.ink}
        style |= {"tooltip": tip}
        return style if found.times else style | _broken(style.get("style", "rounded,filled"))

    def arrow(self, arrow: Arrow) -> Style:
        """The style of an edge or a rule by how often it was taken."""
        style = dict(arrow_style(self._marked_arrow(arrow)))
        found = self._found.get(("way", edge_of(arrow)))
        if found is None:
            return style
        shade = self.scale.shade(found.times)
        tip = dot_tip(f"{one_line(arrow.tip) or arrow.id}: {_describe_count(found)}")
        style |= {"color": shade.line, "penwidth": shade.width}
        style |= {"tooltip": tip, "labeltooltip": tip}
        if not found.times:
            style |= {"fontcolor": shade.ink, **_broken("")}
        return style

    def _ink(self, rule: RuleLine) -> str:
        """The colour of a rule's line. Seen rules share one: pale shades are hard to read."""
        found = self._found.get(("way", rule.id))
        if found is None or not found.times:
            return NOT_COUNTED if found is None else NEVER.ink
        return SEEN_INK

    def chart_with_counts(self) -> Flowchart:
        """The chart with the counts in its labels, and fills for formats without styles."""
        boxes = tuple(self._marked_box(box) for box in self._chart.boxes)
        arrows = tuple(self._marked_arrow(arrow) for arrow in self._chart.arrows)
        return replace(self._chart, boxes=boxes, arrows=arrows)

    def _marked_box(self, box: Box) -> Box:
        if box.id in self._listed:
            title = box.label.strip("\n").partition("\n")[0]
            return replace(box, label="\n".join((title, *map(self._line, self._listed[box.id]))))
        found = self._found.get(("state", box.id))
        if found is None:
            return box
        shade = self.scale.shade(found.times)
        fill = shade.fill if shade.ink != "#ffffff" else _PALE
        return replace(box, label=f"{box.label}\n{_count(found)}", fill=fill)

    def _line(self, rule: RuleLine) -> str:
        found = self._found.get(("way", rule.id))
        count = "" if found is None else _count(found)
        return wrap_label(f"{rule.text} → {rule.does} {count}".rstrip(), LISTED)

    def _marked_arrow(self, arrow: Arrow) -> Arrow:
        found = self._found.get(("way", edge_of(arrow)))
        if found is None:
            return arrow
        return arrow.saying(f"{arrow.words} {_count(found)}".strip())


def _broken(style: str) -> dict[str, str]:
    return {"style": f"{style},dashed" if style else "dashed", "penwidth": NEVER.width}


def _count(found: Covered) -> str:
    """A count as the map shows it."""
    return say_times(found.times) or "(never)"


def _small(text: str) -> str:
    return f'<FONT FACE="{FONT}" POINT-SIZE="10">{text}</FONT>'


def _swatch(shade: Shade, caption: str, border: str = "SOLID") -> str:
    """Two cells: a small box in a shade, and its caption."""
    look = f'BORDER="1" STYLE="{border}" COLOR="{shade.line}" BGCOLOR="{shade.fill}"'
    size = 'CELLBORDER="0" CELLSPACING="0" FIXEDSIZE="TRUE" WIDTH="18" HEIGHT="11"'
    return f"<TD><TABLE {look} {size}><TR><TD></TD></TR></TABLE></TD><TD>{_small(caption)}</TD>"


def _describe_count(found: Covered) -> str:
    if found.times < 2:
        return "once" if found.times else "never"
    return f"{found.times:,} times"


class Shade(NamedTuple):
    """One step of the scale."""

    fill: str
    """The fill of a box."""
    ink: str
    """The colour of the text in a box."""
    line: str
    """The colour of a border or an arrow."""
    width: str
    """The width of an arrow."""


SHADES = (
    Shade("#eff6ff", "#1e293b", "#60a5fa", "1.4"),
    Shade("#bfdbfe", "#1e293b", "#3b82f6", "1.8"),
    Shade("#93c5fd", "#1e293b", "#2563eb", "2.3"),
    Shade("#2563eb", "#ffffff", "#1d4ed8", "2.9"),
    Shade("#1e3a8a", "#ffffff", "#1e3a8a", "3.6"),
)
NEVER = Shade("#ffffff", "#b91c1c", "#dc2626", "1.8")

NOT_COUNTED = "#6b7280"
"""The colour of the line of a rule that no item stands for."""
SEEN_INK = "#1d4ed8"
"""The colour of text on white for anything that was seen."""


class Scale:
    """The shades of one picture: steps of equal factor from 1 to the highest count."""

    def __init__(self, counts: Iterable[int]) -> None:
        most = max(counts, default=0)
        steps = len(SHADES)
        ends = sorted({round(most ** (step / steps)) for step in range(1, steps + 1)} - {0})
        last = len(ends) - 1
        self._ends = ends
        # spread from palest to darkest
        spread = (round(n * (steps - 1) / last) if last else steps // 2 for n in range(len(ends)))
        self._shades = [SHADES[n] for n in spread]

    def shade(self, times: int) -> Shade:
        """The shade of a count."""
        return self._shades[bisect_left(self._ends, times)] if times else NEVER

    @property
    def ranges(self) -> list[tuple[str, Shade]]:
        """Each step as its range of counts (``3–9``) and its shade."""
        starts = [1, *(end + 1 for end in self._ends)]
        return [
            (f"{start:,}" if start == end else f"{start:,}–{end:,}", shade)
            for start, end, shade in zip(starts, self._ends, self._shades, strict=False)
        ]


class HeatPicture(Picture):
    """The picture of a machine, coloured by how often runs passed each part, with the counts."""

    def __init__(
        self,
        chart: Flowchart,
        covered: tuple[Covered, ...],
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(chart, prefix=prefix, engine=engine)
        self._heat = HeatDress(chart, covered)
        self._dress = self._heat

    def mermaid(self) -> str:
        """Mermaid text, with the counts in its labels."""
        return to_mermaid(self._heat.chart_with_counts())

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with the counts on its arrows."""
        return Picture(self._heat.chart_with_counts()).drawing(width=width, here=here)

    def outline(self) -> str:
        """A line for each box and each arrow, with its count."""
        return to_outline(self._heat.chart_with_counts())
