"""The thread on which a run is stepped, so that the screen lives while a model answers.

Belongs here: the way to and from that thread. Never: a widget. What is said is kept until the
screen takes it; a board is made on this thread only, between two records.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from queue import SimpleQueue
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.text_table import Line
from chartloop.tui.board import Board, Controls
from chartloop.view.picture import Picture

AGAIN = 0.15
"""Seconds between two boards while a run continues by itself, at least."""
SPARED = 10
"""How much of the time of a run is left to it: a board takes one part of so many."""


class ModelText(NamedTuple):
    """A piece of what a model says."""

    text: str


class PictureWanted(NamedTuple):
    """The picture is wanted."""


class Failed(NamedTuple):
    """A command could not be done."""

    text: str


class Crashed(NamedTuple):
    """Something that is not an error of the run: the screen closes with it."""

    error: BaseException


News = Line | ModelText | PictureWanted | Failed | Crashed | Board


class Worker:
    """Does commands one after the other. A `StepDisplay`."""

    def __init__(self, controls: Controls) -> None:
        self.news: deque[News] = deque()
        self.width = 80
        self.busy = ""
        """The command that is being done."""
        self.since = 0.0
        self._controls = controls
        self._orders: SimpleQueue[str | None] = SimpleQueue()
        self._halt = threading.Event()
        self._next_board = 0.0
        self._last_red = ""
        controls.show_on(self)
        self._thread = threading.Thread(target=self._work, name="chartloop-step", daemon=True)

    def start(self) -> None:
        """Start, with the board as it is."""
        self._thread.start()

    def order(self, line: str) -> None:
        """Do this command, after those before it."""
        self._halt.clear()
        self.busy, self.since = line or "do", time.monotonic()
        self._orders.put(line)

    def pause(self) -> bool:
        """Stop before the next action; asked twice, in the middle of it. Whether asked twice."""
        twice = self._halt.is_set()
        self._halt.set()
        if twice:
            self._controls.stop_now()
        return twice

    def close(self, patience: float = 2.0) -> bool:
        """Stop now; whether the thread has come to rest."""
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
        """Show a piece of what a model says."""
        self.news.append(ModelText(text))

    def stand(self, run: Run) -> None:
        """Where the run is: the next board has it."""

    def look(self, picture: Picture, here: str) -> None:
        """Show the picture: the next board has it."""
        self.news.append(PictureWanted())

    def wants_to_stop(self) -> bool:
        """Whether the person asked for it."""
        return self._halt.is_set()
