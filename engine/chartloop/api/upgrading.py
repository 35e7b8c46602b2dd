"""What a machine means for the runs of an earlier one: `Machine.upgrade`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from chartloop.api.continuing import recorded_chart
from chartloop.machine.build import Chart

if TYPE_CHECKING:
    from chartloop.analysis.upgrade.result import Upgraded
    from chartloop.api.recorded import Runs
    from chartloop.view.of_machine import OfMachine


class HasUpgrade:
    """The face of `Machine` that asks it."""

    chart: Chart

    def upgrade(self, old: OfMachine | None, runs: Runs, *, now: float | None = None) -> Upgraded:
        """For each recorded run of `old`: unchanged, safe, needs a state map, or unsafe, and why.

            print(load("new.yaml").upgrade(load("old.yaml"), ".chartloop/journal.db"))

        Every record is decided again by this machine; nothing is run or written. `old` None takes
        each run's own machine as the journal has it. `runs` is a journal or the path of its file,
        a run, an exported ``.jsonl``, or a list of these. Runs of other machines, and those that
        cannot be read, are in `passed_over`. `now`, in seconds since the epoch, is when runs would
        go on: what is spent by then is spent. A run goes on with `open(run_id, changed=True)`.
        """
        # the rooms above: whoever never asks does not load them
        from chartloop.analysis.upgrade.result import upgraded  # noqa: PLC0415
        from chartloop.api.recorded import recorded_runs  # noqa: PLC0415

        name = self.chart.name if old is None else old.name
        return upgraded(
            self.chart, recorded_runs(runs, name), old=None if old is None else old.chart,
            chart_of=partial(recorded_chart, chart=self.chart), now=now,
        )  # fmt: skip
