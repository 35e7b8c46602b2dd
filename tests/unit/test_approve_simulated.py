"""Made-up runs of a machine with `approve` ask, wait, and are denied as real ones."""

from __future__ import annotations

from chartloop import load, simulate
from tests.unit.test_approve import TEXT, TOOLS


def test_a_simulation_asks_and_waits_and_carries_out_what_was_approved_only() -> None:
    machine = load(TEXT, tools=TOOLS)
    runs = simulate(machine, runs=100, seed=1).sample
    assert max(run.waiting for run in runs.runs) > 0
    assert {"approve.on.accept", "approve.on.deny", "approve.expired"} <= set(runs.taken)
