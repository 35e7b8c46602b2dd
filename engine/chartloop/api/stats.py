"""`machine.stats`: figures over many recorded runs.

Belongs here: what a caller gives, gathered. Never: the figures (`analysis.stats.gather`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from chartloop.api.whatif import older_charts
from chartloop.machine.build import Chart
from chartloop.view.of_machine import OfMachine

if TYPE_CHECKING:
    from chartloop.analysis.stats.result import Stats
    from chartloop.api.recorded import Runs
    from chartloop.run.recorded import Recorded


class HasStats:
    """What the recorded runs of a `Machine` have in common."""

    def stats(self: OfMachine, runs: Runs) -> Stats:
        """Stop reasons, time and cost of each state, how near runs come to each limit, failures.

            load("agent").stats(".chartloop/journal.db").plot("stats.svg")

        `runs` are a journal or the path of one, runs, exported ``.jsonl`` files, or a list of
        these.
        """
        from chartloop.api.recorded import recorded_runs  # noqa: PLC0415  when it is asked for

        return gathered(self, recorded_runs(runs, self.name))


def gathered(
    machine: OfMachine, runs: Iterable[Recorded], tick: Callable[[], object] | None = None
) -> Stats:
    """The figures of runs of this machine. Each is folded by the machine that it began with."""
    from chartloop.analysis.stats.gather import Gathering  # noqa: PLC0415
    from chartloop.analysis.stats.result import Stats  # noqa: PLC0415
    from chartloop.analysis.whatif.verdict import BROKEN  # noqa: PLC0415
    from chartloop.run.recorded import RecordedRun, Unread  # noqa: PLC0415  when it is asked for

    chart, unread = machine.chart, list[Unread]()
    older = older_charts(chart)

    def chart_of(run: RecordedRun) -> Chart:
        same = not run.machine or run.machine == chart.text
        return chart if same else older(run.machine) or chart

    found = Gathering(chart, chart_of)
    for run in runs:
        if isinstance(run, Unread):
            unread.append(run)
        elif run.row.machine != machine.name:
            name = run.row.machine
            unread.append(Unread(run.run_id, f"it is a run of `{name}`, not of `{machine.name}`"))
        else:
            try:
                found.add(run)
            except BROKEN as error:
                why = f"its records cannot be counted: {type(error).__name__}: {error}"
                unread.append(Unread(run.run_id, why))
        if tick is not None:
            tick()
    return Stats.of(machine.name, found, unread)
