"""The data that the screen shows and the port through which it controls a run.

Belongs here: plain data and a protocol. Never: a widget, an import of textual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from chartloop.pictures.flowchart import one_line
from chartloop.pictures.picture import Picture
from chartloop.pictures.text.draw import Drawing
from chartloop.ui.view_model.conversation_report import Conversation
from chartloop.ui.view_model.run_view import RunView
from chartloop.ui.view_model.step_display import StepDisplay


class Board(NamedTuple):
    """A run at one moment, and its pictures in characters."""

    view: RunView
    picture: Picture
    said: Conversation
    """What was said in it, the newest at the end."""
    around: Callable[[int], Drawing] | None
    """Draws the state and its neighbours in a number of columns; None if the picture lacks it."""

    @property
    def title(self) -> str:
        """The title of the picture, on one line."""
        return one_line(self.picture.chart.title)

    @property
    def state(self) -> str:
        """The current state of the run."""
        return self.view.head.state

    @property
    def labels(self) -> Mapping[str, str]:
        """The label of each drawn state."""
        return {box.id: one_line(box.label) for box in self.picture.chart.boxes}


class Controls(Protocol):
    """The controls of a stepped run. All but `stop_now` are called from one thread."""

    @property
    def has_quit(self) -> bool:
        """Whether the user gave the command `quit`."""
        ...

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """The usage of each command and its description."""
        ...

    def show_on(self, display: StepDisplay) -> None:
        """Set the display that shows the output of commands."""
        ...

    def board(self) -> Board:
        """The run as it is now."""
        ...

    def execute(self, line: str) -> bool:
        """Do a command and show its output; returns whether it succeeded."""
        ...

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """The error in an answer; empty if it is valid."""
        ...

    def stop_now(self) -> None:
        """Abandon the action in progress, if there is one. Safe from any thread."""
        ...
