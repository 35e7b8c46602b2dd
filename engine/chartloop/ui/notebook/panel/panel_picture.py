"""The picture of a panel: laid out once, then only repainted, until its chart changes.

Belongs here: when a layout is needed. Never: a layout.
"""

from __future__ import annotations

from typing import Any

from chartloop.api import Run
from chartloop.core.errors import ChartloopError
from chartloop.core.html_table import line
from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.live.bundle import describe_picture, on_page
from chartloop.pictures.live.live_picture import LivePicture
from chartloop.pictures.live.progress import Standing
from chartloop.run.progress import standing_of

Json = dict[str, Any]
PATIENCE = 10.0
"""The time limit of a layout, in seconds: orders wait for it."""


def still(run: Run) -> dict[str, str]:
    """The view for a notebook without a kernel: the picture, and text."""
    standing = standing_of(run.session)
    picture = LivePicture(run.draw().chart, timeout=PATIENCE)
    text = f"<Panel of run {run.id}>\n\n{picture.text(standing)}"
    try:
        svg = picture.still(standing, "auto")
    except ChartloopError:  # no Graphviz, or a chart that it cannot lay out in time
        return {"text/plain": text}
    html = on_page(svg, describe_picture(picture, standing)) + line(
        f"{_STILL} {run.id}: {standing.caption}", "dim"
    )
    return {"text/html": html, "image/svg+xml": svg, "text/plain": text}


_STILL = "The panel as it was when its cell was run; run the cell to drive it. Run"


class PanelPicture:
    """The picture of one run and of its forks. `engine` is that of `Picture`."""

    def __init__(self, engine: Engine | None = None, *, timeout: float = PATIENCE) -> None:
        self._engine: Engine | None = engine
        self._timeout = timeout
        self._picture: LivePicture | None = None
        self._missing: str | None = ""
        """Why there is no picture; None if there is one."""

    def sheet(self, run: Run) -> Json:
        """The next update: a whole picture after a new layout, else the changes."""
        chart, standing = run.draw().chart, standing_of(run.session)
        if self._picture is None or self._picture.chart != chart:
            self._picture = LivePicture(chart, engine=self._engine, timeout=self._timeout)
            svg = self._render(self._picture, standing)
            boxes = {element: state for state, element in self._picture.ids.boxes.items()}
            if self._missing is None:
                return {"picture": svg, "boxes": boxes, "outline": "", "paint": self.paint(run)}
        if self._missing is None:
            return {"paint": self.paint(run)}
        outline = f"{self._missing}{self._picture.text(standing)}"
        return {"picture": "", "boxes": {}, "outline": outline, "paint": {}}

    def paint(self, run: Run) -> Json:
        """The changes of style and text for the picture on the page."""
        if self._picture is None or self._missing is not None:
            return {}
        changes = self._picture.changes(standing_of(run.session), "auto")
        return {"style": changes.style, "texts": changes.texts}

    def _render(self, picture: LivePicture, standing: Standing) -> str:
        """The SVG. Empty if there is none; `_missing` then holds the reason."""
        self._missing = ""  # the text of the picture itself names what to install
        if picture.engine == "mermaid":
            return ""
        try:
            svg = picture.svg(standing, "auto")
        except ChartloopError as error:  # too large, say: the run can still be stepped
            self._missing = f"{error.message}\n{error.hint}\n\n"
            return ""
        self._missing = None
        return svg
