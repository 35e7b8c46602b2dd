"""The full screen of `chartloop step`: the board of a run and its controls, for `tui`.

Belongs here: making a `Board`. Never: widgets and keys (`tui`), what a command does
(`step_commands`).
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
from chartloop.ui.tui.board import Board
from chartloop.ui.view_model.build import view_run
from chartloop.ui.view_model.conversation_report import conversation
from chartloop.ui.view_model.state_drawing import state_now
from chartloop.ui.view_model.step_display import StepDisplay

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.records import Record


class _NoDisplay:
    """The display until the screen is open: it shows nothing."""

    @property
    def width(self) -> int:
        """An arbitrary width."""
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
        """Never."""
        return False


class StepControls:
    """The `Controls` of `tui` for one run."""

    commands: Sequence[tuple[str, str]] = COMMANDS

    def __init__(self, run: Run) -> None:
        self._step = _Step()
        self._commands = Commands(run, _NoDisplay(), self._step)

    @property
    def run(self) -> Run:
        """The run being stepped; after `fork`, the new one."""
        return self._commands.run

    @property
    def has_quit(self) -> bool:
        """Whether the user gave the command `quit`."""
        return self._commands.left

    def show_on(self, display: StepDisplay) -> None:
        """Set the display that shows the output of commands."""
        self._commands.display = display

    def execute(self, line: str) -> bool:
        """Do a command and show its output; returns whether it succeeded."""
        return self._commands.execute(line)

    def stop_now(self) -> None:
        """Abandon the action in progress, if there is one."""
        self._step.stop()

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """The error in an answer; empty if there is none."""
        asked = self.run.question
        types = asked.fields(event) if asked is not None else self.run.answers.get(event, {})
        asks = ((n, t) for n, t in types.items() if n in fields or not t.nullable)
        wrong = (n for n, t in asks if not accepts(t, read_value(t, fields.get(n, ""))))
        return ", ".join(f"`{name}` is not of type {types[name]}" for name in wrong)

    def board(self) -> Board:
        """The run as it is now."""
        run = self.run
        picture = run.draw(look="live")
        before = run.facts if self._commands.before is None else self._commands.before
        around = state_now(run, picture.chart)
        return Board(view_run(run, before=before), picture, conversation(run), around)


class _Step:
    """Does one step on the loop of the sync methods, where it can be cancelled."""

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
        """Cancel the step in progress. Safe from any thread."""
        if (task := self._task) is not None:
            loop_thread().call_soon_threadsafe(task.cancel)
