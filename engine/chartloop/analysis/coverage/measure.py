"""`coverage`: which parts of a machine recorded runs have gone through.

Belongs here: reading and counting what a caller gives. Never: what is counted (`targets`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

from chartloop.analysis.coverage.coverage import Coverage, changes, from_json, total
from chartloop.analysis.coverage.gather import Gathering, family
from chartloop.analysis.recorded_runs import Runs, recorded_runs
from chartloop.api.machine import Machine
from chartloop.core.errors import SetupError
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.recorded import Recorded, RecordedRun, Unread

Tick = Callable[[], object]
"""Called after each run, for whoever shows how far it has come."""


def coverage(
    machine: Machine, runs: Runs = (), *, saved: Iterable[Coverage | str | Path] = ()
) -> Coverage:
    """Which states, edges, rules and guard atoms runs have gone through, and which never.

        print(coverage(load("agent"), ".chartloop/journal.db"))

    Every record is decided again, and nothing is run. `runs` are a journal or the path of one,
    runs, exported ``.jsonl`` files, or a list of these; runs of child machines are counted with
    them, in `Coverage.inside`. `saved` are coverages, or files of `chartloop coverage --save`, that
    are added; `OtherItemsError` for one of another machine.
    """
    return coverage_of(machine, recorded_runs(runs, machine.name, children=True), saved)


def coverage_of(
    machine: Machine, runs: Iterable[Recorded], saved: Iterable[Coverage | str | Path] = (),
    tick: Tick | None = None,
) -> Coverage:  # fmt: skip
    """The coverage of a machine by these runs, with what was saved before."""
    gathering = Gathering()
    gathering.know(machine.chart)
    reading = _Reading(machine.chart, gathering)
    for run in runs:
        reading.add(run)
        if tick is not None:
            tick()
    own, *inside = gathering.coverages()
    found = replace(own, inside=total(inside), skipped_runs=tuple(map(str, gathering.skipped)))
    for one in saved:
        found += _read(one, machine.name) if isinstance(one, (str, Path)) else one
    return found


def _read(path: str | Path, machine: str) -> Coverage:
    """The coverage of a machine that a file holds."""
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
    """Counts runs in, also those of the machine as it was where nothing that counts changed."""

    def __init__(self, chart: Chart, gathering: Gathering) -> None:
        self._chart = chart
        self._gathering = gathering
        self._why = cache(self._otherwise)

    def add(self, run: Recorded) -> None:
        """Count one run in, or note why not."""
        if isinstance(run, Unread):
            self._gathering.pass_over(run.run_id, run.why)
        elif why := self._unknown(run):
            self._gathering.pass_over(run.run_id, why)
        else:
            self._gathering.add(run.run_id, run.row.machine_hash, run.records)

    def _unknown(self, run: RecordedRun) -> str:
        if self._gathering.knows(run.row.machine_hash):
            return ""
        return self._why(run.row.machine, run.row.machine_hash, run.machine)

    def _otherwise(self, name: str, machine_hash: str, text: str) -> str:
        """Why runs of a machine are not counted; empty where they are: it is known from now on."""
        now = {chart.name: chart for chart in family(self._chart)}
        if name not in now:
            return f"it is a run of `{name}`, not of `{self._chart.name}`"
        spec = load(text, "<canonical>", self._chart.spec.registry).spec if text else None
        if spec is None:
            return f"the machine that it was started with ({machine_hash[:8]}) cannot be read"
        was = Chart(spec, self._chart.lifecycle)
        if said := changes(was, now[name]):
            return f"the machine has changed since: {said}"
        self._gathering.know(was, machine_hash)
        return ""
