"""The full screen of `chartloop step`: a run as `tui` shows it, and what it can be told.

Belongs here: what a `Board` is made of. Never: widgets and keys (`tui`), what a command does
(`stepping`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.around import as_it_is
from chartloop.cli.record_table import records_lines
from chartloop.cli.standing import standing_head, standing_rows
from chartloop.cli.step_commands import COMMANDS, Commands, StoppedInside
from chartloop.cli.table import table_lines
from chartloop.cli.values import read_value
from chartloop.core.text_table import Line
from chartloop.core.types import accepts
from chartloop.run.sync import loop_thread
from chartloop.tui.board import Board, Watcher
from chartloop.view.flowchart import one_line

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.records import Record


LISTED = 200
"""Records that are listed: the newest."""


class _Nobody:
    """Who watches before the screen is there."""

    @property
    def width(self) -> int:
        """As wide as it may be: nobody looks."""
        return 80

    def say(self, line: Line) -> None:
        """Nothing is shown."""

    def hear(self, text: str) -> None:
        """Nothing is shown."""

    def stand(self, lines: object) -> None:
        """Nothing is shown."""

    def look(self, picture: object, here: str) -> None:
        """Nothing is shown."""

    def wants_to_stop(self) -> bool:
        """It does not."""
        return False


class Stepping:
    """A run in the hands of a person at a full screen: the `Controls` of `tui`."""

    commands: Sequence[tuple[str, str]] = COMMANDS

    def __init__(self, run: Run) -> None:
        self._step = _Step()
        self._commands = Commands(run, _Nobody(), self._step)

    @property
    def run(self) -> Run:
        """The run that is stepped: after `fork`, another one."""
        return self._commands.run

    @property
    def left(self) -> bool:
        """Whether the person said `quit`."""
        return self._commands.left

    def watched_by(self, watcher: Watcher) -> None:
        """From now on this is who is told."""
        self._commands.person = watcher

    def obey(self, line: str) -> bool:
        """Do a command, and say what came of it; whether it was done."""
        return self._commands.obey(line)

    def stop_now(self) -> None:
        """Leave the action at hand undone, if one is being done."""
        self._step.stop()

    def fault(self, event: str, fields: Mapping[str, str]) -> str:
        """What is wrong with an answer; empty when nothing is."""
        types = self.run.answers.get(event, {})
        wrong = (n for n, t in types.items() if not accepts(t, read_value(t, fields.get(n, ""))))
        return ", ".join(f"`{name}` is no {types[name]}" for name in wrong)

    def board(self) -> Board:
        """The run as it is now."""
        run, machine = self.run, self.run.machine
        picture = run.draw(look="live")
        records = run.records
        found = run.why() if records else None
        labels = {box.id: one_line(box.label) for box in picture.chart.boxes}
        head = [*standing_head(run), *_output(run)]
        rows = standing_rows(run, ways=False)

        def standing(width: int) -> list[Line]:
            return [*head, *table_lines(rows, width=width)]

        def why(width: int) -> list[Line]:
            return found.lines(width)[1:] if found is not None else []

        def listed(width: int) -> list[Line]:
            return records_lines(machine.chart, records[-LISTED:], width, brief=True)

        return Board(
            run=run.id,
            machine=machine.name,
            title=one_line(picture.chart.title),
            state=run.state,
            status=run.status,
            step=run.facts.run.steps + 1,
            ended=run.ended,
            standing=standing,
            around=as_it_is(run, picture.chart),
            why_title=f"Why: record {records[-1].seq}, {found.title}" if found else "Why",
            why=why,
            changes=tuple(self._commands.changes()),
            records=listed,
            picture=picture,
            question=run.result.question or "" if run.result.events else "",
            wait=run.result.wait or "",
            answers={e: {n: str(t) for n, t in f.items()} for e, f in run.answers.items()},
            states=tuple((n, labels.get(n, n)) for n in machine.spec.states),
            breakpoints=tuple(point.text for point in run.breakpoints),
        )


def _output(run: Run) -> list[Line]:
    """What an ended run gave."""
    output = run.result.output if run.ended else None
    if output is None:
        return []
    text = output if isinstance(output, str) else console.as_json(output)
    return [Line(part, "cyan") for part in ["", *console.plain(text).split("\n")]]


class _Step:
    """Does one record on the loop of the sync face, where it can be left undone."""

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
