"""Ways of looking at a run while it goes: not at all, line by line, live, as JSON lines.

A view is told every event of the run, from whatever thread drives it.
Imported by: drive. The live one, which needs rich, is in `live`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

from interlock.cli import out, words
from interlock.run.events import Event, Recorded

if TYPE_CHECKING:
    from interlock.api import Run
    from interlock.cli.options import How


class View(Protocol):
    """Somebody who looks on."""

    def see(self, event: Event) -> None:
        """Something has happened."""
        ...

    def open(self) -> None:
        """The run goes on, for the first time or after a question."""
        ...

    def close(self) -> None:
        """The run rests: the terminal belongs to others. May be called twice."""
        ...


class Quiet:
    """Nobody looks on."""

    def see(self, event: Event) -> None:
        """Nothing is shown."""

    def open(self) -> None:
        """Nothing to begin."""

    def close(self) -> None:
        """Nothing to end."""


class Lines(Quiet):
    """A line on stderr for each record."""

    def __init__(self, run: Run) -> None:
        self._chart = run.machine.chart

    def see(self, event: Event) -> None:
        if isinstance(event, Recorded):
            record, chart = event.record, self._chart
            did = " ".join(p for p in (words.action_of(chart, record), _said(record)) if p)
            entered = " → ".join(event.decision.path)
            why = words.because(chart, record)
            line = f"{record.seq:>3}  {record.state}  {did}"
            line += f"  → {entered}" if entered else ""
            out.say(out.plain(line + (f"  ({why})" if why else "")))


def _said(record: Recorded | object) -> str:
    from interlock.core.records import Record

    assert isinstance(record, Record)
    said = words.outcome_of(record)
    return said if record.kind == "step" else f"{record.kind} {said}".strip()


class JsonLines(Quiet):
    """Every event as a line of JSON on stdout, for programs."""

    def see(self, event: Event) -> None:
        out.result(out.as_json(event.to_dict(), indent=None))
        sys.stdout.flush()


def view_for(run: Run, how: How) -> View:
    """The view that fits the options and the terminal."""
    if how.format == "jsonl":
        return JsonLines()
    if how.verbose:
        return Lines(run)
    if out.is_terminal(sys.stderr):
        from interlock.cli.live import Live

        return Live(run)
    return Quiet()
