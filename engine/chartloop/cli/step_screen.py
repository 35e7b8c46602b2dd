"""The full screen of `chartloop step`: a run as `tui` shows it, and what it can be told.

Belongs here: what a `Board` is made of. Never: widgets and keys (`tui`), what a command does
(`stepping`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chartloop.cli.step_commands import COMMANDS, Commands, StoppedInside
from chartloop.cli.value_options import read_value
from chartloop.core.text_table import Line
from chartloop.core.types import accepts
from chartloop.run.sync import loop_thread
from chartloop.tui.board import Board
from chartloop.view_model.build import view_run
from chartloop.view_model.state_drawing import state_now
from chartloop.view_model.step_display import StepDisplay

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.records import Record


class _NoDisplay:
    """Stands in until the screen is there."""

    @property
    def width(self) -> int:
        """As wide as it may be: no one looks."""
        return 80

    def say(self, line: Line) -> None:
        """Nothing is shown."""

    def hear(self, text: str) -> None:
        """Nothing is shown."""

    def stand(self, run: object) -> None:
        """Nothing is shown."""

    def look(self, picture: object, here: str) -> None:
        """Nothing is shown."""

    def wants_to_stop(self) -> bool:
        """It does not."""
        return False


class StepControls:
    """A run in the hands of a person at a full screen: the `Controls` of `tui`."""

    commands: Sequence[tuple[str, str]] = COMMANDS

    def __init__(self, run: Run) -> None:
        self._step = _Step()
        self._commands = Commands(run, _NoDisplay(), self._step)

    @property
    def run(self) -> Run:
        """The run that is stepped: after `fork`, another one."""
        return self._commands.run

    @property
    def has_quit(self) -> bool:
        """Whether the person said `quit`."""
        return self._commands.left

    def show_on(self, display: StepDisplay) -> None:
        """From now on show what comes of commands here."""
        self._commands.display = display

    def execute(self, line: str) -> bool:
        """Do a command, and say what came of it; whether it was done."""
        return self._commands.execute(line)

    def stop_now(self) -> None:
        """Leave the current action undone, if one is being done."""
        self._step.stop()

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """The error in an answer; empty if there is none."""
        types = self.run.answers.get(event, {})
        wrong = (n for n, t in types.items() if not accepts(t, read_value(t, fields.get(n, ""))))
        return ", ".join(f"`{name}` is not of type {types[name]}" for name in wrong)

    def board(self) -> Board:
        """The run as it is now."""
        run = self.run
        picture = run.draw(look="live")
        before = run.facts if self._commands.before is None else self._commands.before
        return Board(view_run(run, before=before), picture, state_now(run, picture.chart))


class _Step:
    """Does one record on the loop of the sync method, where it can be left undone."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Record | None] | None = None

    def __call__(self, run: Run) -> Record | None:
        return asyncio.run_coroutine_threadsafe(self._once(run), loop_thread()).result()

    async def _once(self, run: Run) -> Record | None:
        self._task = asyncio.ensure_future(run.aadvance())
        try:
            return await self._task
        except asyncio.CancelledError:
            raise StoppedInside from None
        finally:
            self._task = None

    def stop(self) -> None:
        """Cancel what is being done. From any thread."""
        if (task := self._task) is not None:
            loop_thread().call_soon_threadsafe(task.cancel)
