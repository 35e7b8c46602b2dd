"""The live view: the state of a run, its limits, its decisions and the model's text.

Drawn in place on stderr; erased when the run rests. The only module that imports rich.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live as RichLive
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from chartloop.cli.console import WIDEST, behind, clean, open_doors, plain
from chartloop.core.phase import PHASES
from chartloop.core.units import say_elapsed
from chartloop.machine.budget_use import budgets
from chartloop.run.events import (
    Delta,
    Event,
    FromChild,
    ReasoningDelta,
    Recorded,
    Rewound,
    Started,
    ToolCallDelta,
)
from chartloop.run.record_text import because, outcome_of, shown_path
from chartloop.ui.view_model import build

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.core.facts import Facts

TAIL = 600
"""The most characters of streamed text that are kept."""
LINES = 4
"""The most lines of streamed text that are shown."""
BARS = 6
"""The most budgets that are shown: those used most."""


class Echo:
    """Terminal echo, off while the view is painted: an echoed `^C` would shift the frame."""

    def __init__(self) -> None:
        self._before: Any = None

    def off(self) -> None:
        """Turn echo off. Does nothing if stdin is not a terminal."""
        with contextlib.suppress(OSError, ValueError, termios.error):
            before = termios.tcgetattr(sys.stdin.fileno())
            quiet = [*before]
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, quiet)
            self._before = before

    def on(self) -> None:
        """Restore the terminal."""
        if self._before is not None:
            with contextlib.suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, self._before)
            self._before = None


class Live:
    """The live view of one run, repainted eight times a second by a thread of rich."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._chart = run.machine.chart
        self._console = Console(file=behind(sys.stderr), highlight=False, markup=False, emoji=False)
        self._live: RichLive | None = None
        self._echo = Echo()
        self._doing = ""
        self._last = ""
        self._failed = ""
        """The failure in the newest record, or empty."""
        self._text = ""
        self._notice = "Ctrl-C stops before the next action"

    def open(self) -> None:
        """Show the view."""
        self._live = RichLive(
            self, console=self._console, refresh_per_second=8, transient=True,
            vertical_overflow="crop",
        )  # fmt: skip
        self._live.start()
        open_doors()  # around the streams of rich, which print the output of tools above the frame
        self._echo.off()

    def close(self) -> None:
        """Erase the view."""
        if self._live is not None:
            self._live.stop()
            self._live = None
            self._echo.on()

    def notify(self, text: str) -> bool:
        """Show a note in the frame."""
        self._notice = text
        return self._live is not None

    def see(self, event: Event) -> None:
        """Update the view from an event."""
        match event:
            case Started():
                self._doing = f"step {event.step}: {event.action}"
                self._text = ""
            case Delta():
                self._text = (self._text + event.text)[-TAIL:]
            case FromChild():
                self._see_child(event)
            case Recorded():
                record = event.record
                path = " → ".join([record.state, *shown_path(event.decision.path, record)])
                why = because(self._chart, record)
                self._last = f"{path}  because {why}" if why else path
                self._failed = outcome_of(record) if record.failures else ""
                self._doing = ""
            case Rewound() | ReasoningDelta() | ToolCallDelta():  # the next record shows it
                pass

    def _see_child(self, event: FromChild) -> None:
        name = event.run.removeprefix(f"{self._run.id}/")
        match event.event:
            case Started() as began:
                self._doing, self._text = f"{name}: {began.action}", ""
            case Delta() as piece:
                self._text = (self._text + piece.text)[-TAIL:]
            case FromChild() as below:
                self._see_child(below)
            case Recorded() | Rewound() | ReasoningDelta() | ToolCallDelta():
                pass

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        run = self._run
        phase = PHASES[build.head_of(run).phase]
        title = Text(f" {run.machine.name} · {run.id} ", style="bold")
        parts: list[RenderableType] = [self._where(), self._bars()]
        if self._last:
            parts.append(Text(f"last   {plain(self._last)}", style="dim"))
        if self._failed:
            parts.append(Text(f"✗ {plain(self._failed)}", style="red"))
        if lines := self._tail_lines(options.max_width - 4):
            parts.append(Text("\n".join(lines), style="italic"))
        width = min(WIDEST, options.max_width)
        frame = Panel(
            Group(*parts), title=title, title_align="left", width=width,
            subtitle=Text(f" {self._notice} ", style="dim"), subtitle_align="left",
            border_style=phase.ink or "cyan",
        )  # fmt: skip
        for part in console.render(frame, options):
            yield part._replace(text=clean(part.text))

    def _facts_now(self) -> Facts:
        """The facts of the last record plus the time since then, so that time budgets move."""
        facts, now = self._run.facts, self._run.session.ports.clock.now()
        run, begun = facts.run, facts.marks.now
        since = max(0.0, now - begun) if begun and self._run.status != "idle" else 0.0
        return facts.replace(
            run=run.replace(elapsed=run.elapsed + since, working=run.working + since)
        )

    def _where(self) -> Table:
        grid = Table.grid(expand=True)
        grid.add_column(ratio=1, no_wrap=True)
        grid.add_column(justify="right", no_wrap=True)
        run = self._run
        head = build.head_of(run)
        elapsed = say_elapsed(self._facts_now().run.elapsed)
        stands = PHASES[head.phase].word
        left = Text.assemble((head.at, "bold"), "  ", (stands, "dim"), "  ", self._doing)
        grid.add_row(left, Text(elapsed))
        return grid

    def _bars(self) -> Table:
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        grid.add_column(no_wrap=True)
        all_budgets = budgets(self._chart, self._facts_now())
        fullest = sorted(all_budgets, key=lambda b: b.share, reverse=True)[:BARS]
        for budget in (b for b in all_budgets if b in fullest):
            bar = budget.bar
            if self._console.options.ascii_only:
                bar = bar.replace("█", "#").replace("░", ".")
            grid.add_row(budget.fact, Text(bar, style=budget.colour), budget.text)
        return grid

    def _tail_lines(self, width: int) -> list[str]:
        lines: list[str] = []
        for line in plain(self._text).rstrip().split("\n"):
            lines += [line[n : n + width] for n in range(0, len(line), width)] or [""]
        return [line for line in lines if line.strip()][-LINES:]
