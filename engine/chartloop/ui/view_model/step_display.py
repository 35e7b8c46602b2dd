"""The display of a stepped run: a prompt or a full screen."""

from __future__ import annotations

from typing import Protocol

from chartloop.api import Run
from chartloop.core.text_table import Line
from chartloop.pictures.picture import Picture


class StepDisplay(Protocol):
    """The port through which a stepped run is shown. Called from the thread that steps."""

    @property
    def width(self) -> int:
        """Columns for tables."""
        ...

    def say(self, line: Line) -> None:
        """Show a line."""
        ...

    def hear(self, text: str) -> None:
        """Show a piece of a model's text as it arrives."""
        ...

    def stand(self, run: Run) -> None:
        """Show the status of the run."""
        ...

    def look(self, picture: Picture, here: str) -> None:
        """Show the flowchart with the state `here` marked."""
        ...

    def wants_to_stop(self) -> bool:
        """Whether the user asked to stop the run before its next action."""
        ...
