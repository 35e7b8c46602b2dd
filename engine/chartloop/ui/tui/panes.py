"""The panes of the screen, each a title and scrolling content."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from chartloop.core.text_table import Line
from chartloop.ui.tui.board import Board
from chartloop.ui.tui.styles import of_changes, of_drawing, of_lines
from chartloop.ui.view_model.table import table_lines
from chartloop.ui.view_model.text import changes, headline, next_rows, output_lines, record_lines

NARROWEST = 40
"""The fewest columns of a drawing; a narrower pane scrolls."""
KEPT = 600
"""The most lines of the log."""

Render = Callable[[Board, int], Content]
"""Renders the content of a pane for a number of columns."""


class Pane(VerticalScroll):
    """A pane that shows one part of the board. It takes the focus, to be scrolled."""

    def __init__(self, name: str, title: str, render: Render) -> None:
        super().__init__(id=name, classes="pane")
        self.border_title = title
        self._render_board = render
        self._content = Static(classes="content")
        self._board: Board | None = None
        self._laid_out = 0

    def compose(self) -> ComposeResult:
        yield self._content

    @property
    def room(self) -> int:
        """The columns of its content."""
        return max(20, self.scrollable_content_region.width or 60)

    def show(self, board: Board) -> None:
        """Show a board."""
        self._board, self._laid_out = board, self.room
        self._content.update(self._render_board(board, self.room))

    def on_resize(self) -> None:
        """Render again after the width has changed."""
        if self._board is not None and self._laid_out != self.room:
            self.show(self._board)


class StatePane(Pane):
    """The pane with a drawing of the state and its neighbours, and the next action below."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(name, title, standing_of)
        self._drawn = Static(classes="drawing")

    def compose(self) -> ComposeResult:
        yield self._drawn
        yield from super().compose()

    def show(self, board: Board) -> None:
        """Show a board."""
        super().show(board)
        around = board.around
        drawing = around(max(NARROWEST, self.room)) if around is not None else None
        self._drawn.set_class(drawing is None, "empty")
        self._drawn.update("" if drawing is None else of_drawing(drawing, board.state))


class MapPane(Pane):
    """The pane with the whole picture. It keeps the current state in sight."""

    def __init__(self, name: str, title: str) -> None:
        super().__init__(name, title, lambda _board, _width: Content(""))
        self._drawn = Static(classes="drawing")

    def compose(self) -> ComposeResult:
        yield self._drawn
        yield from super().compose()

    def show(self, board: Board) -> None:
        """Show a board."""
        self._board, self._laid_out = board, self.room
        if not self.display or not self.size.width:
            return  # a narrow screen opens the picture by a key
        widths = (self.room, 2 * self.room)  # the second is scrolled
        drawn = (board.picture.drawing(width=width, here=board.state) for width in widths)
        drawing = next((one for one in drawn if one is not None), None)
        self._drawn.set_class(drawing is None, "empty")
        if drawing is None:  # too wide for the pane
            self._content.update(of_lines(Line(t) for t in board.picture.outline().splitlines()))
            return
        self._content.update("")
        self._drawn.update(of_drawing(drawing, board.state))
        if (area := drawing.areas.get(board.state)) is not None:
            middle = (area.top + area.bottom) // 2 - self.size.height // 2
            beyond = max(0, area.right - self.room)
            self.call_after_refresh(self.scroll_to, beyond, max(0, middle), animate=False)


def standing_of(board: Board, width: int) -> Content:
    """The next action, or how the run ended."""
    view = board.view
    rows = next_rows(view, edges=False)
    return of_lines([*headline(view), *output_lines(view), *table_lines(rows, width=width)])


def why_of(board: Board, width: int) -> Content:
    """The rules and edges evaluated for the newest record."""
    decision = board.view.decision
    lines = [] if decision is None else decision.explanation.lines(width)[1:]
    return of_lines(lines or [Line("nothing has been decided yet", "dim")])


def facts_of(board: Board, width: int) -> Content:
    """The facts that the newest record changed."""
    return of_changes(changes(board.view), width)


def records_of(board: Board, width: int) -> Content:
    """The records, in brief."""
    return of_lines(record_lines(board.view.records, width, brief=True))


def said_of(board: Board, width: int) -> Content:
    """What was asked, said, called and answered, with arguments and results."""
    return of_lines(board.said.lines(width))


class Log(VerticalScroll):
    """The log: commands, their output, and the model's text as it arrives."""

    def __init__(self) -> None:
        super().__init__(id="log", classes="pane")
        self.border_title = "Log"
        self._lines: deque[Line] = deque(maxlen=KEPT)
        self._partial = ""
        self._content = Static(classes="content")

    def compose(self) -> ComposeResult:
        yield self._content

    def say(self, line: Line) -> None:
        """Add a line."""
        if self._partial:
            self._lines.append(Line(self._partial, "cyan"))
            self._partial = ""
        if line.text.strip() or (self._lines and self._lines[-1].text.strip()):
            self._lines.append(line)

    def hear(self, text: str) -> None:
        """Add a piece of a model's text."""
        *whole, self._partial = (self._partial + text).split("\n")
        self._lines.extend(Line(part, "cyan") for part in whole)

    @property
    def room(self) -> int:
        """The columns of its lines; 0 while it is hidden."""
        return self.scrollable_content_region.width

    @property
    def last(self) -> str:
        """The newest line, even if unfinished."""
        return self._partial or (self._lines[-1].text if self._lines else "")

    def refresh_lines(self) -> None:
        """Show the lines added since the last call."""
        unfinished = [Line(self._partial + "▌", "cyan")] if self._partial else []
        self._content.update(of_lines([*self._lines, *unfinished]))
        self.on_show()

    def on_show(self) -> None:
        """Go to the newest line, once the lines have their places: none has while it is hidden."""
        self.call_after_refresh(self.scroll_end, animate=False)
