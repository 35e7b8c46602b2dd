"""Views of a run in progress: none, line by line, live, or JSON lines.

A view receives every event of the run, on the thread that drives it.
"""

from __future__ import annotations

import contextlib
import sys
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from chartloop.cli import console
from chartloop.cli.late import at_first_use
from chartloop.core.errors import ChartloopError
from chartloop.run.events import Event, Recorded
from chartloop.run.record_text import action_of, because, outcome_of, shown_path

with at_first_use(__name__):
    from chartloop.cli import live_view

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.cli.options import RunOptions
    from chartloop.core.records import Record


class View(Protocol):
    """The display of a run in progress."""

    def see(self, event: Event) -> None:
        """Receive an event of the run."""
        ...

    def open(self) -> None:
        """Show the view: the run starts, or continues after a question."""
        ...

    def close(self) -> None:
        """Hide the view: the run rests, and others use the terminal. May be called twice."""
        ...

    def notify(self, text: str) -> bool:
        """Show a note in the view. Returns False if the view shows no notes."""
        ...


class Quiet:
    """A view that shows nothing."""

    def see(self, event: Event) -> None:
        """Nothing is shown."""

    def open(self) -> None:
        """Nothing to start."""

    def close(self) -> None:
        """Nothing to end."""

    def notify(self, text: str) -> bool:
        """Return False: this view shows no notes."""
        return False


class Lines(Quiet):
    """A line on stderr for each record."""

    def __init__(self, run: Run) -> None:
        self._chart = run.machine.chart

    def see(self, event: Event) -> None:
        if isinstance(event, Recorded):
            record, chart = event.record, self._chart
            did = " ".join(p for p in (action_of(chart, record), _record_line(record)) if p)
            entered = " → ".join(shown_path(event.decision.path, record))
            why = because(chart, record)
            line = f"{record.seq:>3}  {record.state}  {did}"
            line += f"  → {entered}" if entered else ""
            line += f"  ({why})" if why else ""
            console.say(console.plain(line), "red" if record.failures else "")


def _record_line(record: Record) -> str:
    outcome = outcome_of(record)
    return outcome if record.kind == "step" else f"{record.kind} {outcome}".strip()


class JsonLines(Quiet):
    """Every event as a line of JSON on stdout, for programs.

    Once the reader has gone the run is paused, so that it does not continue to spend unseen.
    """

    def __init__(self, run: Run) -> None:
        self._run: Run | None = run
        self._stream = (
            sys.stdout
        )  # while a run is driven, `sys.stdout` is redirected to stderr for the output of tools

    def see(self, event: Event) -> None:
        if self._run is None:
            return
        try:
            console.result(console.as_json(event.to_dict(), indent=None), self._stream)
            self._stream.flush()
        except BrokenPipeError:
            # in another thread: this one drives the run and must not wait for itself
            Thread(target=_pause, args=(self._run,), daemon=True).start()
            self._run = None


def _pause(run: Run) -> None:
    with contextlib.suppress(ChartloopError):  # the run has just ended
        run.pause()


class Both(Quiet):
    """Two views of one run."""

    def __init__(self, *views: View) -> None:
        self._views = views

    def see(self, event: Event) -> None:
        for view in self._views:
            view.see(event)


def view_for(run: Run, options: RunOptions) -> View:
    """The view that fits the options and the terminal."""
    if options.format == "jsonl":
        return Both(JsonLines(run), Lines(run)) if options.verbose else JsonLines(run)
    if options.verbose:
        return Lines(run)
    if console.is_terminal(sys.stderr):
        return live_view.Live(run)
    return Quiet()
