"""The picture of a panel: laid out once, then only painted; laid out anew when a limit changes.

Belongs here: when a layout is needed. Never: a layout.

Imports:      view.live
Imported by:  notebook.panel.desk
"""

from __future__ import annotations

from typing import Any

from interlock.core.errors import InterlockError
from interlock.notebook.panel.stepped import Stepped
from interlock.run.standing import standing_of
from interlock.view.flowchart import Flowchart
from interlock.view.live.picture import LivePicture

Json = dict[str, Any]


class Paper:
    """The picture of one run, or of those that it goes on as."""

    def __init__(self) -> None:
        self._picture: LivePicture | None = None
        self._chart: Flowchart | None = None

    def sheet(self, run: Stepped) -> Json:
        """The picture as it is now: whole when it was laid out anew, else what has changed."""
        chart = run.draw().chart
        if self._picture is not None and chart == self._chart:
            return {"paint": self.paint(run)}
        self._picture, self._chart = LivePicture(chart), chart
        standing = standing_of(run.session)
        try:
            if self._picture.engine != "mermaid":
                svg = self._picture.svg(standing)
                boxes = {found: name for name, found in self._picture.ids.boxes.items()}
                return {"picture": svg, "boxes": boxes, "paint": self.paint(run), "outline": ""}
        except InterlockError as error:  # too large, say: the run can be stepped all the same
            note = f"{error.message}\n\n{error.hint}\n\n"
            return self._in_characters(run, note)
        return self._in_characters(run)

    def paint(self, run: Stepped) -> Json:
        """What has to be put into the picture that is on the page."""
        if self._picture is None or self._picture.engine == "mermaid":
            return {}
        changes = self._picture.changes(standing_of(run.session))
        prefix = self._picture.prefix
        return {"style": changes.style, "texts": changes.texts, "prefix": prefix}

    def _in_characters(self, run: Stepped, note: str = "") -> Json:
        assert self._picture is not None
        outline = note + self._picture.text(standing_of(run.session))
        self._picture, self._chart = None, None
        return {"picture": "", "boxes": {}, "paint": {}, "outline": outline}
