"""Laws of coverage: sums, JSON, and counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.api import Machine
from chartloop.studies.coverage.coverage import Coverage, from_json, to_json, total
from chartloop.studies.coverage.gather import Gathering
from tests.laws.test_run_laws import Made, begin, machine_of, made, to_the_end
from tests.strategies import machines

Runs = Sequence[Sequence[Made]]
several = st.lists(made, min_size=1, max_size=3)


def coverage_of(machine: Machine, records: Sequence[Any]) -> Coverage:
    gathering = Gathering()
    gathering.know(machine.chart)
    for number, found in enumerate(records):
        gathering.add(f"r{number}", machine.hash, found)
    assert not gathering.skipped, gathering.skipped
    (one,) = gathering.coverages()
    return one


def runs_of(data: Any, what: Runs) -> tuple[Machine, list[Any]]:
    """A machine, and the records of some runs of it with different outcomes."""
    records: list[Any] = []
    for outcomes in what:
        machine = machine_of(data, outcomes)
        run, clock = begin(machine)
        to_the_end(run, clock, type(run).run)
        records.append(run.records)
    return machine_of(data, what[0]), records


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), several)
@settings(max_examples=30)
def test_coverages_add_up(data: Any, what: Runs) -> None:
    machine, records = runs_of(data, what)
    whole = coverage_of(machine, records)
    parts = [coverage_of(machine, [one]) for one in records]
    assert total(parts) == (whole,)
    assert total(reversed(parts)) == (whole,)
    nothing = coverage_of(machine, [])
    assert nothing + whole == whole == whole + nothing


@given(machines(), several)
@settings(max_examples=30)
def test_it_is_the_same_after_json(data: Any, what: Runs) -> None:
    whole = coverage_of(*runs_of(data, what))
    assert from_json(to_json([whole])) == (whole,)
    assert Coverage.from_dict(json.loads(json.dumps(whole.to_dict()))) == whole


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), several)
@settings(max_examples=30)
def test_counts_are_those_of_the_records(data: Any, what: Runs) -> None:
    machine, records = runs_of(data, what)
    whole = coverage_of(machine, records)
    taken = [edge for run in records for record in run for edge in record.taken]
    for one in (*whole.of("edge"), *whole.of("rule")):
        if one.item.role != "signal":
            assert one.times == taken.count(one.item.id)
    assert whole.records == sum(map(len, records))
    entered = sum(whole.times("state").values())
    beside = sum(n for key, n in whole.beside.items() if key.startswith("state:"))
    assert entered + beside >= len(records)
