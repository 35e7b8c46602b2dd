"""The coverage of scenarios that are played inside `collecting`.

    with collecting() as found:
        run_scenario("tests/adds.scenario.yaml")
    print(found.coverages()[0])

Every scenario counts, including failing ones and those of `scenario` in Python tests; the runs of
child machines count with those of their parents.

Belongs here: collecting runs. Never: options, tables.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from chartloop.run.recorded import Unread

if TYPE_CHECKING:
    from chartloop.api import Machine, Run
    from chartloop.studies.coverage.coverage import Coverage
    from chartloop.studies.coverage.gather import Gathering


class Covering:
    """A collector of scenario runs and their coverage so far."""

    def __init__(self, machines: Iterable[Machine] = ()) -> None:
        self._gathering: Gathering | None = None
        self._named: list[str] = []
        for machine in machines:
            self._named.append(machine.name)
            self._counting.know(machine.chart)

    @property
    def _counting(self) -> Gathering:
        """Made with the first run, because its imports are slow."""
        from chartloop.studies.coverage.gather import Gathering  # noqa: PLC0415  see above

        if self._gathering is None:
            self._gathering = Gathering()
        return self._gathering

    def add(self, run: Run) -> None:
        """Count a run and those of its children."""
        from chartloop.studies.recorded_runs import recorded_runs  # noqa: PLC0415  when it is asked for

        counting = self._counting
        counting.know(run.machine.chart)
        for recorded in recorded_runs(run, children=True):
            if isinstance(recorded, Unread):
                counting.pass_over(recorded.run_id, recorded.why)
            else:
                counting.add(recorded.run_id, recorded.row.machine_hash, recorded.records)

    def coverages(self) -> tuple[Coverage, ...]:
        """The coverage of each machine; if machines were named, only theirs."""
        every = self._counting.coverages()
        return tuple(c for c in every if not self._named or c.machine in self._named)

    @property
    def skipped_runs(self) -> tuple[str, ...]:
        """The runs that were not counted, each with the reason."""
        return tuple(map(str, self._counting.skipped))


_COLLECTING: ContextVar[Covering | None] = ContextVar("chartloop_covering", default=None)


@contextmanager
def collecting(covering: Covering | None = None) -> Generator[Covering]:
    """Count every scenario that is played inside the context."""
    made = Covering() if covering is None else covering
    token = _COLLECTING.set(made)
    try:
        yield made
    finally:
        _COLLECTING.reset(token)


def count_run(run: Run) -> None:
    """Count the run of a scenario if coverage is being collected."""
    covering = _COLLECTING.get()
    if covering is not None:
        covering.add(run)
