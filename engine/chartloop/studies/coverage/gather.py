"""The coverages of several machines, gathered from their runs.

A machine is identified by its name and its items: texts that differ only in tools, limits or
labels count as one machine.

Belongs here: which runs belong together. Never: reading a journal, words for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.run.journal import digest
from chartloop.studies.coverage.collect import NotDecided, Seeing
from chartloop.studies.coverage.coverage import Coverage, Covered
from chartloop.studies.coverage.targets import Item, items_of


class UncountedRun(NamedTuple):
    """A run that was not counted."""

    run_id: str
    why: str

    def __str__(self) -> str:
        return f"run `{self.run_id}` is not counted: {self.why}"


def family(chart: Chart) -> Iterator[Chart]:
    """Yield a chart and the charts of all its descendants."""
    yield chart
    for name in chart.spec.machines:
        yield from family(chart.child(name))


class Gathering:
    """A collector of runs; `coverages` computes their coverages so far."""

    def __init__(self) -> None:
        self._seen: dict[str, Seeing] = {}
        self.skipped: list[UncountedRun] = []
        """Runs that were not counted, each with the reason."""

    def know(self, chart: Chart, machine_hash: str = "") -> None:
        """Register a machine and its children, to be reported even without runs.

        `machine_hash` is the hash that its runs are recorded under, if not that of its text.
        """
        for one in family(chart):
            hash = machine_hash if machine_hash and one is chart else digest(one.text)
            if hash not in self._seen:
                self._seen[hash] = Seeing(one)

    def knows(self, machine_hash: str) -> bool:
        """Whether runs of this machine can be counted."""
        return machine_hash in self._seen

    def add(self, run_id: str, machine_hash: str, records: Iterable[Record]) -> None:
        """Count a run of a registered machine; skip one that is decided differently."""
        try:
            self._seen[machine_hash].add(run_id, records)
        except NotDecided as error:
            self.pass_over(run_id, error.message)

    def pass_over(self, run_id: str, why: str) -> None:
        """Note a run that is not counted."""
        self.skipped.append(UncountedRun(run_id, why))

    def coverages(self) -> tuple[Coverage, ...]:
        """The coverage of each registered machine, in the order of registration."""
        groups: dict[tuple[str, tuple[str, ...]], list[Seeing]] = {}
        items: dict[tuple[str, tuple[str, ...]], tuple[Item, ...]] = {}
        for seeing in self._seen.values():
            mine = items_of(seeing.chart)
            same = (seeing.chart.name, tuple(f"{i.key} {i.meaning}" for i in mine))
            groups.setdefault(same, []).append(seeing)
            items.setdefault(same, mine)
        return tuple(self._coverage(items[same], ones) for same, ones in groups.items())

    def _coverage(self, items: tuple[Item, ...], seen: list[Seeing]) -> Coverage:
        counts = sum((one.counts for one in seen), Counter[str]())
        chart = seen[0].chart
        # the counters of the machines that have this chart as their lifecycle machine
        beside = [one for one in self._seen.values() if one.chart.lifecycle == chart.spec]
        counts = sum((one.status for one in beside), counts)
        keys = {item.key for item in items}
        return Coverage(
            chart.name, tuple(Covered(i, counts[i.key]) for i in items),
            sum(one.runs for one in (*seen, *beside)), sum(one.records for one in (*seen, *beside)),
            {key: times for key, times in sorted(counts.items()) if key not in keys},
            chart=chart,
        )  # fmt: skip
