"""The picture of a coverage, in whatever format is asked for; it shows itself in a notebook."""

from __future__ import annotations

from chartloop.analysis.coverage.figures import Covered
from chartloop.analysis.coverage.heatmap_style import HeatDress
from chartloop.view.dot.engine import Engine
from chartloop.view.dot.write import to_dot
from chartloop.view.flowchart import Flowchart
from chartloop.view.mermaid import to_mermaid
from chartloop.view.picture import Picture
from chartloop.view.text.draw import WIDTH, Drawing
from chartloop.view.text.outline import to_outline


class HeatPicture(Picture):
    """A machine's picture, coloured by how often runs went where, with the counts on it."""

    def __init__(
        self,
        chart: Flowchart,
        covered: tuple[Covered, ...],
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
    ) -> None:
        super().__init__(chart, prefix=prefix, engine=engine)
        self._dress = HeatDress(chart, covered)

    def dot(self) -> str:
        """Text in the language of Graphviz."""
        return to_dot(self.chart, prefix=self.prefix, dress=self._dress)

    def mermaid(self) -> str:
        """Mermaid text, with the counts in its labels."""
        return to_mermaid(self._dress.chart_with_counts())

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """The picture in characters, with the counts on its arrows."""
        return Picture(self._dress.chart_with_counts()).drawing(width=width, here=here)

    def outline(self) -> str:
        """A line for each box and each arrow, with how often."""
        return to_outline(self._dress.chart_with_counts())
