"""What the screen shows of a run, and what it can ask for: plain data and one protocol.

Belongs here: no widget, and nothing of textual: whoever makes these needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from chartloop.core.text_table import Line
from chartloop.view.picture import Picture
from chartloop.view.text.draw import Drawing

Lines = Callable[[int], Sequence[Line]]
"""Lines for a pane of so many columns. It may be called at any time, from any thread."""


class Board(NamedTuple):
    """A run at one moment."""

    run: str
    """Its id."""
    machine: str
    title: str
    state: str
    status: str
    step: int
    """The number of the step to come."""
    ended: bool
    standing: Lines
    """What its action is, or how it ended, and its budgets."""
    around: Callable[[int], Drawing] | None
    """The state with its neighbours; None where it is in no picture."""
    why_title: str
    why: Lines
    """Everything that was looked at for the newest record."""
    changes: tuple[tuple[str, str, str], ...]
    """The facts that the newest record changed: name, old value, new value."""
    records: Lines
    picture: Picture
    question: str
    wait: str
    """The id of the wait that asks it."""
    answers: Mapping[str, Mapping[str, str]]
    """What may be answered: events, each with its fields and their types."""
    states: tuple[tuple[str, str], ...]
    """All states: name and label."""
    breakpoints: tuple[str, ...]


class Watcher(Protocol):
    """Who steps the run, as `Controls` know it: called from the thread that steps."""

    @property
    def width(self) -> int: ...
    def say(self, line: Line) -> None: ...
    def hear(self, text: str) -> None: ...
    def stand(self, lines: Sequence[Line]) -> None: ...
    def look(self, picture: Picture, here: str) -> None: ...
    def wants_to_stop(self) -> bool: ...


class Controls(Protocol):
    """A run in the hands of a person. All but `stop_now` are called from one thread."""

    @property
    def left(self) -> bool:
        """Whether the person said `quit`."""
        ...

    @property
    def commands(self) -> Sequence[tuple[str, str]]:
        """How each command is written, and what it does."""
        ...

    def watched_by(self, watcher: Watcher) -> None:
        """From now on this is who is told."""
        ...

    def board(self) -> Board:
        """The run as it is now."""
        ...

    def obey(self, line: str) -> bool:
        """Do a command, and say what came of it; whether it was done."""
        ...

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """What is wrong with an answer; empty when nothing is."""
        ...

    def stop_now(self) -> None:
        """Leave the action at hand undone, if one is being done. From any thread."""
        ...
