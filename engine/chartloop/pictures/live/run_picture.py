"""A picture of one moment of a run, in every format of a picture.

Belongs here: the looks, and the text form. Does not decide where the run is: `run.progress` does.

Source: docs/notebook.md, "A picture of one moment"
"""

from __future__ import annotations

from typing import Literal

from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.flowchart import Flowchart
from chartloop.pictures.live.annotate import annotate_chart
from chartloop.pictures.live.live_style import PaintedDress
from chartloop.pictures.live.outline import Outline
from chartloop.pictures.live.plan import Planner
from chartloop.pictures.live.progress import Standing
from chartloop.pictures.mermaid import to_mermaid
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.draw import WIDTH, Drawing

Look = Literal["plain", "live"]
"""`plain`: the machine. `live`: also the run's place and path."""


class RunPicture(Picture):
    """One moment of a run: the picture stays the same when the run continues."""

    def __init__(
        self,
        chart: Flowchart,
        standing: Standing,
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(chart, prefix=prefix, engine=engine)
        self._plan = Planner(chart).plan(standing)
        self._dress = PaintedDress(chart, self._plan)

    def mermaid(self) -> str:
        """Mermaid text, with the badge and the counts in its labels."""
        return to_mermaid(annotate_chart(self.chart, self._plan))

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with the run's place and the counts of arrows."""
        chart = annotate_chart(self.chart, self._plan)
        return Picture(chart).drawing(width=width, here=here or self._plan.now)

    def outline(self) -> str:
        """An outline in characters, with a mark at the current state and counts."""
        return Outline(self.chart).text(self._plan)
