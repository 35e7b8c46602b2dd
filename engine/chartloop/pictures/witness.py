"""The witness of a proof: a path through a machine, drawn on its plain picture.

The path is blue, with the count of each arrow; arrows that close a loop are red, and so is the rule
that stops it; everything else is faded. Counts are beside their arrows and move nothing: boxes and
arrows are at the same places as in the plain picture.

Belongs here: the look of a path. Never: its meaning, or how it was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import NamedTuple

from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.dot.write import (
    Dress,
    Html,
    Style,
    arrow_style,
    box_style,
    inked_rules,
    title_style,
)
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.from_graph import rule_boxes
from chartloop.pictures.live.colours import (
    FADED,
    PALE_INK,
    TAKEN,
    look_of_arrow,
    look_of_box,
)
from chartloop.pictures.live.live_style import LEFT, title_label, under, with_look
from chartloop.pictures.live.plan import Plan, edge_of, say_times
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.live.run_picture import RunPicture

CLOSING = "#dc2626"
"""The colour of arrows that close a loop, and of the rule that ends the path."""
_LINE = 72
"""The most characters in a line under the title."""
FOR_EVER = "×∞"
_ROOM = (
    '<TABLE BORDER="0" CELLPADDING="0" CELLSPACING="0" BGCOLOR="white"><TR><TD>'
    '<FONT COLOR="{}"><B>{}</B></FONT></TD></TR></TABLE>'
)
"""A count, on white, since it may lie over another arrow."""


class WitnessPath(NamedTuple):
    """A path through a chart, as it is drawn."""

    states: Mapping[str, int]
    """How often each state is entered."""
    edges: Mapping[str, int] | None
    """How often each edge and rule is taken, by id; None without a path: nothing is faded."""
    closing: frozenset[str] = frozenset()
    """The edges that close a loop."""
    endless: bool = False
    """Nothing bounds how often the closing edges are taken."""
    text: str = ""
    """Its meaning, for the lines under the title; text formats show only the first line."""


class WitnessDress(Dress):
    """The plain look with the colours of a path."""

    def __init__(self, chart: Flowchart, plan: Plan, path: WitnessPath) -> None:
        self._path = path
        self._plan = plan
        self._taken = {chart.arrows[place]: times for place, times in plan.counts.items()}
        self._most = max(plan.counts.values(), default=0)
        listed, arrows = rule_boxes(chart), {arrow.id for arrow in chart.arrows}
        self._rules: dict[str, list[bool]] = {}
        """For each box that lists rules: whether the path takes each rule, in order."""
        for rule in chart.rules:
            if rule.id in listed and rule.id not in arrows:
                fires = bool((path.edges or {}).get(rule.id))
                self._rules.setdefault(listed[rule.id], []).append(fires)

    def title(self, chart: Flowchart) -> Style:
        """The title, with the meaning of the path under it."""
        lines = [part for text in self._path.text.split("\n") for part in wrap(text, _LINE)]
        if not lines:
            return title_style(chart)
        small = LEFT.join(
            title_label(chart, line) if n == 0 else under(line) for n, line in enumerate(lines)
        )
        return title_style(chart) | {"label": Html(f"<{small}{LEFT}>")}

    def box(self, box: Box) -> Style:
        """A box: blue on the path, else faded. In a list, rules that stop the path are red."""
        style = box_style(box)
        if any(self._rules.get(box.id, ())):
            inks = (CLOSING if fires else PALE_INK for fires in self._rules[box.id])
            return style | {"label": inked_rules(box, inks, PALE_INK)}
        return with_look(style, look_of_box(box, self._plan))

    def arrow(self, arrow: Arrow) -> Style:
        """An arrow: blue on the path, red if it closes a loop, else faded."""
        style, times = arrow_style(arrow), self._taken.get(arrow)
        if times is None:
            return with_look(style, FADED if arrow.id and self._plan.counted else None)
        closes = edge_of(arrow) in self._path.closing
        colour = CLOSING if closes else TAKEN
        style = with_look(style, look_of_arrow(max(times, 2), self._most, colour=colour))
        caption = FOR_EVER if closes and self._path.endless else say_times(times)
        if times < 2 and caption != FOR_EVER:
            return style
        # Graphviz places an `xlabel` after everything else, so that it moves nothing
        return style | {"xlabel": Html(f"<{_ROOM.format(colour, caption)}>")}


class WitnessPicture(RunPicture):
    """A path through a chart, in every format of a picture."""

    def __init__(
        self,
        chart: Flowchart,
        path: WitnessPath,
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        standing = Standing(
            visits=path.states, taken=path.edges, caption=path.text.partition("\n")[0]
        )
        super().__init__(chart, standing, prefix=prefix, engine=engine)
        self._dress = WitnessDress(chart, self._plan, path)
        self._stays = True
