"""The thread on which a run is stepped, so that the screen stays responsive during a model call.

Belongs here: passing orders to that thread and news back. Never: a widget. News wait in a queue
until the screen takes them; a board is made on this thread only, between two records.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.text_table import Line
from chartloop.pictures.picture import Picture
from chartloop.ui.tui.board import Board, Controls

AGAIN = 0.15
"""The fewest seconds between two boards while a run continues by itself."""
SPARED = 10
"""A board may take at most one part in this many of a run's time."""


class ModelText(NamedTuple):
    """A piece of a model's text."""

    text: str


class PictureWanted(NamedTuple):
    """A request to show the whole picture."""


class Failed(NamedTuple):
    """A command failed."""

    text: str


class Crashed(NamedTuple):
    """An internal error, with which the screen closes."""

    error: BaseException


News = Line | ModelText | PictureWanted | Failed | Crashed | Board


class Worker:
    """The thread that does commands one after the other. A `StepDisplay`."""

    def __init__(self, controls: Controls) -> None:
        self.news: deque[News] = deque()
        self.width = 80
        self.busy = ""
        """The command in progress; empty if there is none."""
        self.since = 0.0
        self._controls = controls
        self._orders: SimpleQueue[str | None] = SimpleQueue()
        self._halt = threading.Event()
        self._next_board = 0.0
        self._last_red = ""
        controls.show_on(self)
        self._thread = threading.Thread(target=self._work, name="chartloop-step", daemon=True)

    def start(self) -> None:
        """Start the thread, which first makes a board."""
        self._thread.start()

    def order(self, line: str) -> None:
        """Queue a command."""
        self._halt.clear()
        self.busy, self.since = line or "do", time.monotonic()
        self._orders.put(line)

    def pause(self) -> bool:
        """Stop before the next action; on the second call, at once. Returns whether at once."""
        twice = self._halt.is_set()
        self._halt.set()
        if twice:
            self._controls.stop_now()
        return twice

    def close(self, patience: float = 2.0) -> bool:
        """Stop at once; returns whether the thread has ended."""
        self._halt.set()
        self._orders.put(None)
        end = time.monotonic() + patience
        while self._thread.is_alive() and time.monotonic() < end:
            self._controls.stop_now()
            self._thread.join(0.05)
        return not self._thread.is_alive()

    # on the thread --------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self.news.append(self._controls.board())
            while (line := self._orders.get()) is not None:
                self._last_red = ""
                if not self._controls.execute(line) and self._last_red:
                    self.news.append(Failed(self._last_red))
                self.busy = "" if self._orders.empty() else self.busy
                self.news.append(self._controls.board())
        except BaseException as error:  # noqa: BLE001  the screen shows it and closes
            self.news.append(Crashed(error))

    def say(self, line: Line) -> None:
        """Show a line."""
        self.news.append(line)
        if line.colour == "red" and not self._last_red:
            self._last_red = line.text
        began = time.monotonic()
        if began > self._next_board:
            self.news.append(self._controls.board())
            took = time.monotonic() - began  # it grows with the run, which must not wait for it
            self._next_board = time.monotonic() + max(AGAIN, SPARED * took)

    def hear(self, text: str) -> None:
        """Show a piece of a model's text."""
        self.news.append(ModelText(text))

    def stand(self, run: Run) -> None:
        """Do nothing: the next board shows the run."""

    def look(self, picture: Picture, here: str) -> None:
        """Show the picture of the next board."""
        self.news.append(PictureWanted())

    def wants_to_stop(self) -> bool:
        """Whether the user asked to pause."""
        return self._halt.is_set()
