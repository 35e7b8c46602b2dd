"""`stats`: figures over many recorded runs.

Belongs here: gathering what a caller gives. Never: the figures (`analysis.stats.gather`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chartloop.analysis.recorded_runs import Runs, recorded_runs
from chartloop.analysis.stats.gather import Gathering
from chartloop.analysis.stats.result import Stats
from chartloop.analysis.whatif.verdict import BROKEN
from chartloop.analysis.whatif.whatif import older_charts
from chartloop.api.machine import Machine
from chartloop.machine.build import Chart
from chartloop.run.recorded import Recorded, RecordedRun, Unread


def stats(machine: Machine, runs: Runs) -> Stats:
    """Stop reasons, time and cost of each state, how near runs come to each limit, failures.

        stats(load("agent"), ".chartloop/journal.db").plot("stats.svg")

    `runs` are a journal or the path of one, runs, exported ``.jsonl`` files, or a list of these.
    """
    return stats_of(machine, recorded_runs(runs, machine.name))


def stats_of(
    machine: Machine, runs: Iterable[Recorded], tick: Callable[[], object] | None = None
) -> Stats:
    """The figures of runs of this machine. Each is folded by the machine that it began with."""
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
