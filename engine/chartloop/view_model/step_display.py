"""Where the person who steps a run sees what happens: a prompt or a full screen."""

from __future__ import annotations

from typing import Protocol

from chartloop.api import Run
from chartloop.core.text_table import Line
from chartloop.view.picture import Picture


class StepDisplay(Protocol):
    """Where the person who steps a run sees what comes of it. Called from the thread that steps."""

    @property
    def width(self) -> int:
        """Columns for tables."""
        ...

    def say(self, line: Line) -> None:
        """Show a line."""
        ...

    def hear(self, text: str) -> None:
        """Show a piece of a model's text, as it comes."""
        ...

    def stand(self, run: Run) -> None:
        """Show where the run is."""
        ...

    def look(self, picture: Picture, here: str) -> None:
        """Show the flowchart, and where the run is in it."""
        ...

    def wants_to_stop(self) -> bool:
        """Whether the person asked that the run stop before its next action."""
        ...
