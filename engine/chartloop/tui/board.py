"""What the screen shows of a run, and what it asks for: plain data and one protocol.

Belongs here: no widget, and nothing of textual: whoever makes these needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from chartloop.view.flowchart import one_line
from chartloop.view.picture import Picture
from chartloop.view.text.draw import Drawing
from chartloop.view_model.run_view import RunView
from chartloop.view_model.step_display import StepDisplay


class Board(NamedTuple):
    """A run at one moment, and its pictures in characters."""

    view: RunView
    picture: Picture
    around: Callable[[int], Drawing] | None
    """The state with its neighbours, in so many columns; None where it is in no picture."""

    @property
    def title(self) -> str:
        """The title of the picture, on one line."""
        return one_line(self.picture.chart.title)

    @property
    def state(self) -> str:
        """Where the run is."""
        return self.view.head.state

    @property
    def labels(self) -> Mapping[str, str]:
        """What is written in the box of each state that is drawn."""
        return {box.id: one_line(box.label) for box in self.picture.chart.boxes}


class Controls(Protocol):
    """A run in the hands of a person. All but `stop_now` are called from one thread."""

    @property
    def has_quit(self) -> bool:
        """Whether the person said `quit`."""
        ...

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """How each command is written, and what it does."""
        ...

    def show_on(self, display: StepDisplay) -> None:
        """From now on show what comes of commands here."""
        ...

    def board(self) -> Board:
        """The run as it is now."""
        ...

    def execute(self, line: str) -> bool:
        """Do a command, and say what came of it; whether it was done."""
        ...

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """What is wrong with an answer; empty when nothing is."""
        ...

    def stop_now(self) -> None:
        """Leave the current action undone, if one is being done. From any thread."""
        ...
