"""A picture of one moment of a run, in every format of a picture.

Belongs here: the looks, and the text form. Never: the source of values.

Source: docs/notebook.md, "The report picture"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.dot.write import Html, Style, html_text, title_style
from chartloop.pictures.flowchart import Arrow, Box, Flowchart
from chartloop.pictures.from_graph import LISTED, wrap_label
from chartloop.pictures.live.annotate import annotate_chart
from chartloop.pictures.live.colours import FADED, PALE_INK, TAKEN, look_of_box
from chartloop.pictures.live.live_style import LEFT, SPACE, PaintedDress, title_label
from chartloop.pictures.live.outline import Outline
from chartloop.pictures.live.plan import Plan, Planner, say_times
from chartloop.pictures.live.progress import Meter, Standing
from chartloop.pictures.mermaid import to_mermaid
from chartloop.pictures.picture import Picture
from chartloop.pictures.report.cells import SMALL_INK, bar, cells, legend, row, small, table, word
from chartloop.pictures.report.measure import add_meters, listed_rules, place_meters
from chartloop.pictures.text.draw import WIDTH, Drawing

Look = Literal["plain", "live", "report"]
"""`plain`: the machine. `live`: also the run's place and path. `report`: also values."""


class RunPicture(Picture):
    """One moment of a run: the picture stays the same when the run continues.

    With `meters` it is the report picture, which shows the value of each decision and rule.
    """

    def __init__(
        self,
        chart: Flowchart,
        standing: Standing,
        *,
        meters: Mapping[str, Meter] | None = None,
        prefix: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(chart, prefix=prefix, engine=engine)
        self._standing, self._meters = standing, meters
        self._plan = Planner(chart).plan(standing)
        self._valued = chart if meters is None else add_meters(chart, meters)
        self._dress = (
            PaintedDress(chart, self._plan)
            if meters is None
            else ReportDress(chart, self._plan, meters)
        )

    def of(self, chart: Flowchart) -> Picture:
        """A picture of another chart at the same moment."""
        return RunPicture(chart, self._standing, meters=self._meters, engine=self._engine)

    def mermaid(self) -> str:
        """Mermaid text, with the badge, the counts and the values in its labels."""
        return to_mermaid(annotate_chart(self._valued, self._plan))

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with the run's place and the counts of arrows."""
        chart = annotate_chart(self._valued, self._plan)
        return Picture(chart).drawing(width=width, here=here or self._plan.now)

    def outline(self) -> str:
        """An outline in characters, with a mark at the current state and counts."""
        return Outline(self._valued).text(self._plan)


class ReportDress(PaintedDress):
    """The painted look, with values, bars and a legend; its layout is its own."""

    def __init__(self, chart: Flowchart, plan: Plan, meters: Mapping[str, Meter]) -> None:
        super().__init__(chart, plan)
        self._meters = place_meters(chart, meters)
        self._lines = listed_rules(chart)

    def title(self, chart: Flowchart) -> Style:
        """The title, the run's status, and the legend."""
        message = f"{title_label(chart, self.caption())}{LEFT}{legend()}{LEFT} {LEFT}"
        return title_style(chart) | {"label": Html(f"<{message}>")}

    def box_label(self, box: Box) -> str:
        """The label, the badge, the value and its bar, each in a line."""
        if box.id in self._lines:
            # A list of rules is a table: the guard, value and bar of each.
            rows = [row(f"<B>{html_text(_lines_of(box.label)[0])}</B>", "LEFT", 3)]
            for line in self._lines[box.id]:
                parts = wrap_label(f"{line.text} → {line.does}", LISTED).split("\n")
                meter = self._meters.get(line.id, Meter(""))
                measured = "" if meter.share is None else bar(meter.share)
                caption = small(f"{SPACE * 3}{meter.text}{word(meter.share)}{SPACE * 2}", SMALL_INK)
                shown = "".join(f"{html_text(part)}{LEFT}" for part in parts)
                rows.append(cells(shown, caption, measured))
            return table([*rows, *self._badge_row(box, "LEFT", 3)])
        rows = [row(html_text(line) or " ") for line in _lines_of(box.label)]
        rows += self._badge_row(box)
        if (meter := self._meters.get(box.id)) is not None:
            rows += self._meter(meter, faded=look_of_box(box, self._plan) is FADED)
        return table(rows)

    def arrow_label(self, arrow: Arrow) -> str:
        """The label with its count; for a rule also the value and its bar."""
        lines = _lines_of(arrow.drawn_text)
        times = self._taken.get(arrow, 0)
        count = f'<FONT COLOR="{TAKEN}"><B>{SPACE}{say_times(times)}</B></FONT>' if times else ""
        rows = [row(f"{SPACE}{html_text(line)} ", "LEFT") for line in lines[:-1]]
        rows.append(row(f"{SPACE}{html_text(lines[-1])}{count} ", "LEFT"))
        if (meter := self._meters.get(arrow.id)) is not None and arrow.kind == "rule":
            rows += self._meter(meter, align="LEFT")
        return table(rows)

    def _meter(self, meter: Meter, *, align: str = "CENTER", faded: bool = False) -> Iterator[str]:
        ink = PALE_INK if faded else SMALL_INK
        yield row(small(f"{SPACE}{meter.text}{word(meter.share)} ", ink), align)
        if meter.share is not None:
            yield row(bar(meter.share, bright=not faded, align=align), align)

    def _badge_row(self, box: Box, align: str = "CENTER", span: int = 1) -> Iterator[str]:
        if text := self.badge(box):
            badge = f"<B>{html_text(text)}</B>"
            yield row(f'<FONT POINT-SIZE="9" COLOR="{self.ink(box)}">{badge}</FONT>', align, span)


def _lines_of(label: str) -> list[str]:
    return label.strip("\n").split("\n")
