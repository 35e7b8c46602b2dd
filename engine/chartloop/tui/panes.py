"""The panes of the screen: a title, and content that scrolls."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from chartloop.core.text_table import Line
from chartloop.tui.board import Board
from chartloop.tui.styles import of_changes, of_drawing, of_lines
from chartloop.view_model.table import table_lines
from chartloop.view_model.text import changes, headline, next_rows, output_lines, record_lines

NARROWEST = 40
"""Columns of a drawing at least; what is cut off can be scrolled to."""
KEPT = 600
"""Lines of the log that are kept."""

Shown = Callable[[Board, int], Content]
"""What a pane shows of a board in so many columns."""


class Pane(VerticalScroll):
    """A part of the board. It can be focused, to be scrolled."""

    def __init__(self, name: str, title: str, shown: Shown) -> None:
        super().__init__(id=name, classes="pane")
        self.border_title = title
        self._shown = shown
        self._content = Static(classes="content")
        self._board: Board | None = None
        self._laid_out = 0

    def compose(self) -> ComposeResult:
        yield self._content

    @property
    def room(self) -> int:
        """Columns for its content."""
        return max(20, self.scrollable_content_region.width or 60)

    def show(self, board: Board) -> None:
        """Show this board."""
        self._board, self._laid_out = board, self.room
        self._content.update(self._shown(board, self.room))

    def on_resize(self) -> None:
        """Lay out anew what is shown, where the columns are others."""
        if self._board is not None and self._laid_out != self.room:
            self.show(self._board)


class StatePane(Pane):
    """The state with its neighbours, drawn, and below what comes next."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(name, title, standing_of)
        self._drawn = Static(classes="drawing")

    def compose(self) -> ComposeResult:
        yield self._drawn
        yield from super().compose()

    def show(self, board: Board) -> None:
        """Show this board."""
        super().show(board)
        around = board.around
        drawing = around(max(NARROWEST, self.room)) if around is not None else None
        self._drawn.update("" if drawing is None else of_drawing(drawing, board.state))


def standing_of(board: Board, width: int) -> Content:
    """What comes next, or how the run ended."""
    view = board.view
    rows = next_rows(view, edges=False)
    return of_lines([*headline(view), *output_lines(view), *table_lines(rows, width=width)])


def why_of(board: Board, width: int) -> Content:
    """Everything that was evaluated for the newest record."""
    decision = board.view.decision
    lines = [] if decision is None else decision.found.lines(width)[1:]
    return of_lines(lines or [Line("nothing has been decided yet", "dim")])


def facts_of(board: Board, width: int) -> Content:
    """The facts that the newest record changed."""
    return of_changes(changes(board.view), width)


def records_of(board: Board, width: int) -> Content:
    """What has been recorded."""
    return of_lines(record_lines(board.view.records, width, brief=True))


class Log(VerticalScroll):
    """What was said: commands, records, the model's words as they come."""

    def __init__(self) -> None:
        super().__init__(id="said", classes="pane")
        self.border_title = "Said"
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._words = ""
        self._content = Static(classes="content")

    def compose(self) -> ComposeResult:
        yield self._content

    def say(self, line: Line) -> None:
        """A line."""
        self._end()
        if line.text.strip() or (self._lines and self._lines[-1].text.strip()):
            self._lines.append(line)

    def hear(self, text: str) -> None:
        """A piece of what a model says."""
        *whole, self._words = (self._words + text).split("\n")
        self._lines.extend(Line(part, "cyan") for part in whole)

    def _end(self) -> None:
        if self._words:
            self._lines.append(Line(self._words, "cyan"))
            self._words = ""

    @property
    def room(self) -> int:
        """Columns for its lines; 0 while it is not shown."""
        return self.scrollable_content_region.width

    @property
    def last(self) -> str:
        """The newest line, also an unfinished one."""
        return self._words or (self._lines[-1].text if self._lines else "")

    def refresh_lines(self) -> None:
        """Show what has come."""
        going_on = [Line(self._words + "▌", "cyan")] if self._words else []
        self._content.update(of_lines([*self._lines, *going_on]))
        self.scroll_end(animate=False)
