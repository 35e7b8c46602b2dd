"""The arithmetic of docs/scale.md: what a fleet needs, and what the simulation says of one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PATH = Path(__file__).resolve().parents[2] / "benchmarks" / "fleet_model.py"


@pytest.fixture(scope="module")
def model() -> ModuleType:
    """The module, which is in no package."""
    spec = importlib.util.spec_from_file_location("fleet_model", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # named tuples look their module up
    spec.loader.exec_module(module)
    return module


def service(model: Any, **given: float) -> Any:
    times = {
        "step_cpu": 0.002, "server_cpu": 0.001, "commit": 0.004, "event": 0.0, "appends": 1.0,
        "stored": 1000.0, "alone": 0.003, **given,
    }  # fmt: skip
    return model.Service(**times)


def test_a_run_alone_takes_the_sum_of_its_times(model: Any) -> None:
    found = model.simulate(
        model.Fleet(1, 1, 1, 10, model_seconds=1.0, round_trip=0.001), service(model)
    )
    assert found.seconds == pytest.approx(5 * 1.0 + 10 * (0.002 + 2 * 0.001 + 0.001 + 0.004))
    assert found.group == 1.0


def test_runs_of_one_worker_share_commits(model: Any) -> None:
    found = model.simulate(
        model.Fleet(1, 50, 200, 10), service(model, step_cpu=1e-6, server_cpu=1e-6)
    )
    assert found.group == 25.0  # one half waits while the other is written
    assert found.steps_per_second > 24 / 0.004  # a commit holds the counter for 4 ms


def test_a_second_worker_doubles_what_waits_for_the_model(model: Any) -> None:
    one, two = (
        model.simulate(model.Fleet(count, 10, 40, 8, model_seconds=1.0), service(model))
        for count in (1, 2)
    )
    assert 1.9 < one.seconds / two.seconds <= 2.0


def test_a_second_worker_gains_nothing_where_the_counter_is_full(model: Any) -> None:
    times = service(model, step_cpu=1e-6, server_cpu=1e-6)
    one, two = (model.simulate(model.Fleet(count, 1, 40, 10), times) for count in (1, 2))
    assert one.seconds / two.seconds == pytest.approx(1.0, rel=0.01)


def test_a_plan_grows_with_its_demand(model: Any) -> None:
    small, large = (model.plan(model.Demand(runs, 10, 2.0), service(model)) for runs in (1e5, 1e6))
    assert large.steps_per_second == pytest.approx(1e6 * 10 / 86_400 * 3)
    assert large.workers > small.workers
    assert large.counter == pytest.approx(10 * small.counter)
    assert large.gb_per_day == pytest.approx(10.0)
    assert large.connections == 5 * large.workers


def test_a_demand_beyond_one_counter_is_split(model: Any) -> None:
    asked = model.Demand(1e8, 10, 2.0)
    plan = model.plan(asked, service(model, event=0.0001))
    assert plan.counter > plan.counter_in_groups > 0.6
    assert plan.journals == -(-plan.counter_in_groups // 0.6)


def test_groups_end_where_rows_take_all_the_time(model: Any) -> None:
    times = service(model, event=0.0001)
    rates = [model.counter_rate(times, size) for size in (1, 10, 100, 10_000)]
    assert rates == sorted(rates)
    assert rates[0] == pytest.approx(1 / 0.0041)
    assert rates[-1] < 1 / 0.0001


def test_a_longer_way_costs_two_round_trips_a_group(model: Any) -> None:
    assert model.rate_from_afar(1000.0, 50, 0.0) == pytest.approx(1000.0)
    assert model.rate_from_afar(1000.0, 50, 0.025) == pytest.approx(500.0)
