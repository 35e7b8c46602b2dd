"""The picture of a difference, in every format of `Picture`."""

from __future__ import annotations

from typing import Any

from chartloop.analysis.versions.diff.diff_style import INKS, ReviewDress
from chartloop.analysis.versions.diff.merge import Merged
from chartloop.analysis.versions.diff.mermaid import to_review_mermaid
from chartloop.pictures.dot.engine import Engine
from chartloop.pictures.flowchart import one_line
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.draw import WIDTH, Drawing


class ReviewPicture(Picture):
    """A `Picture` of a merged chart: parts are marked as added, removed or changed."""

    def __init__(
        self,
        merged: Merged,
        *,
        prefix: str | None = None,
        engine: Engine | None = None,
        timeout: float = 30.0,
    ) -> None:
        super().__init__(merged.chart, prefix=prefix, engine=engine, timeout=timeout)
        self.merged = merged
        self._dress = ReviewDress(merged)

    def mermaid(self) -> str:
        """Return Mermaid text of fewer than 50,000 characters, with a count of what did not fit."""
        return to_review_mermaid(self.merged)

    def drawing(self, *, width: int = WIDTH, here: str = "") -> Drawing | None:
        """None: as text, the changes are a list."""
        return None

    def bundle(self, text: str | None = None) -> dict[str, Any]:
        """See `Picture.bundle`; `text` replaces the list."""
        return self._bundle(self.text() if text is None else text)

    def outline(self) -> str:
        """Return a line for each box and arrow that was added, removed or changed."""
        merged = self.merged
        lines = [one_line(self.chart.title)]
        for box in self.chart.boxes:
            marked = merged.of_box(box)
            if marked.mark != "same":
                was = f" (was: {one_line(marked.old)})" if marked.old else ""
                lines.append(f"{INKS[marked.mark].sign} {box.id}: {one_line(box.label)}{was}")
        for arrow in self.chart.arrows:
            marked = merged.of_arrow(arrow)
            if marked.mark != "same":
                text = f" {words}" if (words := one_line(arrow.whole)) else ""
                was = f" (was: {one_line(marked.old)})" if marked.old else ""
                lines.append(f"{INKS[marked.mark].sign} {arrow.source} →{text} {arrow.target}{was}")
        if merged.hidden:
            lines.append(f"… {merged.hidden} unchanged hidden")
        return "\n".join(lines) + "\n"
