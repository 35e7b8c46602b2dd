"""The prompt of `chartloop step`: commands line by line, on a plain terminal or piped.

With piped input each command is echoed, so that the output is a readable transcript.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from chartloop.api import Run
from chartloop.cli import console
from chartloop.cli.drive import Interrupts
from chartloop.cli.step_commands import Commands, StoppedInside
from chartloop.cli.terminal_picture import colour_lines, columns
from chartloop.core.text_table import Line
from chartloop.ui.view_model.build import standing_of
from chartloop.ui.view_model.text import standing_lines

if TYPE_CHECKING:
    from chartloop.core.records import Record
    from chartloop.pictures.picture import Picture


class Prompt:
    """The prompt for one run. `read` returns the next line or raises EOFError."""

    def __init__(self, run: Run, read: Callable[[str], str]) -> None:
        self._read = read
        self._interrupts = Interrupts()
        self.commands = Commands(run, self, _step)

    def loop(self) -> None:
        """Read and execute commands until `quit` or the end of the input."""
        self.commands.show()
        while not self.commands.left:
            try:
                line = self._line(f"{self.commands.run.machine.name}> ")
            except EOFError:
                break
            if (whole := self._whole(line)) is not None:
                self.execute(whole)

    def _whole(self, line: str) -> str | None:
        """Complete an `answer` whose quote spans several lines. None if the user gives up."""
        warned = False
        try:
            while line.split()[:1] == ["answer"] and _has_open_quote(line):
                if not warned:
                    self.say(Line("  a quote is open: close it, or press Ctrl-C to give up", "dim"))
                warned = True
                line = f"{line}\n{self._line('... ')}"
        except EOFError:
            return line
        except KeyboardInterrupt:
            if not warned:
                raise
            console.result()
            return None
        return line

    def _line(self, prompt: str) -> str:
        return self._read(prompt).removesuffix("\n")

    def execute(self, line: str) -> None:
        """Execute a command. Ctrl-C stops `run` before its next action, other commands at once."""
        self._interrupts.count = 0
        if line.split()[:1] == ["run"]:
            with self._interrupts:
                self.commands.execute(line)
        else:
            self.commands.execute(line)

    # the display of commands ----------------------------------------------------------------

    @property
    def width(self) -> int:
        """Columns for tables."""
        return console.width()

    def say(self, line: Line) -> None:
        """Show a line."""
        for part in console.wrap_to_terminal(line.text, sys.stdout):
            console.result(console.style(part, line.colour))

    def hear(self, text: str) -> None:
        """Show a piece of a model's text as it arrives."""
        sys.stdout.write(text if text == "\n" else console.style(text, "dim"))
        sys.stdout.flush()

    def stand(self, run: Run) -> None:
        """Show the status of the run."""
        for line in standing_lines(standing_of(run), self.width):
            self.say(line)
        console.result()

    def look(self, picture: Picture, here: str) -> None:
        """Show the flowchart with the state `here` marked."""
        drawing = picture.drawing(width=columns() or console.WIDEST, here=here)
        lines = picture.outline().splitlines() if drawing is None else colour_lines(drawing.lines)
        for line in lines:
            console.result(line)

    def wants_to_stop(self) -> bool:
        """Whether the user pressed Ctrl-C since the command began."""
        return self._interrupts.count > 0


def _has_open_quote(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError as error:
        return "quotation" in str(error)
    return False


def _step(run: Run) -> Record | None:
    try:
        return run.advance()
    except KeyboardInterrupt:
        raise StoppedInside from None


def read_edited(prompt: str) -> str:
    """Read a line from a terminal, with line editing and history."""
    with contextlib.suppress(ImportError):
        import_module("readline")  # gives them to `input`
    return input(prompt)


def reader() -> Callable[[str], str]:
    """Return a function that reads a line: with editing and history on a terminal, else echoed."""
    if sys.stdin.isatty():
        return read_edited

    def read(prompt: str) -> str:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        console.result(console.plain(f"{prompt}{line.rstrip()}"))
        return line

    return read
