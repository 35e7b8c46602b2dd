"""A picture of one moment of a run, in every format of a picture.

Belongs here: which look draws it, and what its text form is. Never: where values come from.

Source:       design "look", `live.png`
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from chartloop.view.dot.engine import Engine
from chartloop.view.dot.write import to_dot
from chartloop.view.flowchart import Flowchart
from chartloop.view.live.annotate import annotate_chart
from chartloop.view.live.live_style import PaintedDress
from chartloop.view.live.outline import Outline
from chartloop.view.live.plan import Planner
from chartloop.view.live.progress import Meter, Standing
from chartloop.view.mermaid import to_mermaid
from chartloop.view.picture import Picture
from chartloop.view.report.measure import add_meters
from chartloop.view.report.report_style import ReportDress
from chartloop.view.text.draw import WIDTH, Drawing

Look = Literal["plain", "live", "report"]
"""`plain`: the machine. `live`: where the run is and how it came there. `report`: with values."""


class RunPicture(Picture):
    """One moment of a run: its picture goes on to be what it was when the run continues.

    With `meters` it is the report picture, which shows what each decision and rule reads.
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
        """Another chart at the same moment."""
        return RunPicture(chart, self._standing, meters=self._meters, engine=self._engine)

    def dot(self) -> str:
        """Text in the language of Graphviz."""
        return to_dot(self.chart, prefix=self.prefix, dress=self._dress)

    def mermaid(self) -> str:
        """Mermaid text, with the badge, the counts and the values in its labels."""
        return to_mermaid(annotate_chart(self._valued, self._plan))

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with where the run is and how often it went which way."""
        chart = annotate_chart(self._valued, self._plan)
        return Picture(chart).drawing(width=width, here=here or self._plan.now)

    def outline(self) -> str:
        """An outline in characters, with a mark at the present state and how often what was."""
        return Outline(self._valued).text(self._plan)
