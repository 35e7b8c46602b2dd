"""`coverage`: which parts of a machine recorded runs have gone through.

Belongs here: reading runs and counting them. Never: which items are counted (`targets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from chartloop.api.machine import Machine
from chartloop.core.errors import SetupError
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.recorded import Recorded, RecordedRun, Unread
from chartloop.studies.coverage.coverage import Coverage, changes, from_json, total
from chartloop.studies.coverage.gather import Gathering, family
from chartloop.studies.recorded_runs import Runs, recorded_runs

Tick = Callable[[], object]
"""Called after each run, to show progress."""


def coverage(
    machine: Machine, runs: Runs = (), *, saved: Iterable[Coverage | str | Path] = ()
) -> Coverage:
    """Which states, edges, rules and guard atoms runs have gone through, and which never.

        print(coverage(load("agent"), ".chartloop/journal.db"))

    Every record is decided again; nothing runs. `runs` are a journal or its path, runs, exported
    ``.jsonl`` files, or a list of these; the runs of child machines are counted too, in
    `Coverage.inside`. `saved` are coverages, or files of `chartloop coverage --save`, to add;
    `OtherItemsError` for one of another machine.
    """
    return coverage_of(machine, recorded_runs(runs, machine.name, children=True), saved)


def coverage_of(
    machine: Machine, runs: Iterable[Recorded], saved: Iterable[Coverage | str | Path] = (),
    tick: Tick | None = None,
) -> Coverage:  # fmt: skip
    """The coverage of a machine by these runs, added to the saved coverages."""
    gathering = Gathering()
    gathering.know(machine.chart)
    reading = _Reading(machine.chart, gathering)
    for run in runs:
        reading.add(run)
        if tick is not None:
            tick()
    own, *inside = gathering.coverages()
    result = replace(own, inside=total(inside), skipped_runs=tuple(map(str, gathering.skipped)))
    for one in saved:
        result += _read(one, machine.name) if isinstance(one, (str, Path)) else one
    return result


def _read(path: str | Path, machine: str) -> Coverage:
    """Read the coverage of a machine from a file."""
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise SetupError(f"`{path}` cannot be read: {why}") from error
    known = {one.machine: one for one in from_json(text)}
    if machine not in known:
        hint = f"it holds: {', '.join(f'`{name}`' for name in known) or 'nothing'}"
        raise SetupError(f"`{path}` holds no coverage of `{machine}`", hint=hint)
    return known[machine]


class _Reading:
    """Adds runs to a gathering; those of an older text count if its items are the same."""

    def __init__(self, chart: Chart, gathering: Gathering) -> None:
        self._chart = chart
        self._gathering = gathering
        self._why = cache(self._explain_other)

    def add(self, run: Recorded) -> None:
        """Count a run, or note why it is not counted."""
        if isinstance(run, Unread):
            self._gathering.pass_over(run.run_id, run.why)
        elif why := self._explain_unknown(run):
            self._gathering.pass_over(run.run_id, why)
        else:
            self._gathering.add(run.run_id, run.row.machine_hash, run.records)

    def _explain_unknown(self, run: RecordedRun) -> str:
        if self._gathering.knows(run.row.machine_hash):
            return ""
        return self._why(run.row.machine, run.row.machine_hash, run.machine)

    def _explain_other(self, name: str, machine_hash: str, text: str) -> str:
        """Why runs of a machine are not counted; empty if they are, which registers the machine."""
        now = {chart.name: chart for chart in family(self._chart)}
        if name not in now:
            return f"it is a run of `{name}`, not of `{self._chart.name}`"
        spec = load(text, "<canonical>", self._chart.spec.registry).spec if text else None
        if spec is None:
            return f"the machine that it was started with ({machine_hash[:8]}) cannot be read"
        was = Chart(spec, self._chart.lifecycle)
        if differences := changes(was, now[name]):
            return f"the machine has changed since: {differences}"
        self._gathering.know(was, machine_hash)
        return ""
