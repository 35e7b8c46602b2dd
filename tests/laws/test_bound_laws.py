"""No run ever exceeds its bound, and none goes a way that a query excludes.

Real runs of generated machines under adversaries: each model call may fail in each category, use a
token or a whole window, ask for no tool or for two; tools may fail or stop the run; guards that
Python answers say anything; waits are answered in every way or expire.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.analysis.proofs.bound import Assume, Bound, Figure, bound
from chartloop.analysis.proofs.bound.prove import paid
from chartloop.analysis.proofs.bound.unbounded_loops import uncut_loops
from chartloop.api import Machine
from chartloop.core.facts import Facts
from chartloop.run.events import Recorded
from tests.exploring import LONGEST, Spent, adversaries, built, playing
from tests.harder import harder_machines
from tests.strategies import costly_machines

SIZES = {"model call": 5, "batch": 2}
"""How large things are at most of which a machine does not say it."""
slowly = settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])


def most(figure: Figure) -> float | None:
    """The figure as a number; None where there is none."""
    if figure.value is not None:
        return figure.value
    return figure.rest + figure.units * SIZES[figure.unit] if figure.unit else None


def exceeded(found: Bound, spent: Spent) -> list[str]:
    """The figures that a run went past."""
    return [
        f"{name}: {used} and not {figure.text}"
        for name, used in spent._asdict().items()
        if (figure := found.figures.get(name)) is not None
        and (least := most(figure)) is not None
        and used > least + 1e-9
    ]


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines(), st.integers(0, 10_000), st.booleans())
def test_no_run_exceeds_its_bound(data: Any, seed: int, told: bool) -> None:
    machine = built(json.dumps(data))
    found = bound(machine.chart, assume=Assume(calls_per_reply=2) if told else None)
    assert not found.unknown
    asyncio.run(_played(machine, found, seed))


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(harder_machines(), st.integers(0, 10_000))
def test_no_run_of_a_harder_machine_exceeds_its_bound(data: Any, seed: int) -> None:
    machine = built(json.dumps(data))
    found = bound(machine.chart, assume=Assume(calls_per_reply=2))
    assert not found.unknown
    asyncio.run(_played(machine, found, seed))


async def _played(machine: Machine, found: Bound, seed: int) -> None:
    actions = found["actions"].value
    longest = LONGEST if actions is None else int(4 * actions) + LONGEST
    for choices in adversaries(seed, 12):
        heard: list[Recorded] = []
        run, spent = await playing(machine, choices, longest, heard=heard)
        assert not exceeded(found, spent), (run.result.path, exceeded(found, spent))
        assert not overshot(found, run.facts), (run.result.path, overshot(found, run.facts))
        assert not wrapped_beyond(found, heard), (run.result.path, wrapped_beyond(found, heard))


def counted(facts: Facts, counter: str) -> float:
    """The value of a counter; None, an unknown cost, counts as nothing."""
    root, _, name = counter.partition(".")
    return getattr(getattr(facts, root), name) or 0.0


def overshot(found: Bound, facts: Facts) -> list[str]:
    """The limits that a run went further past than it can."""
    return [
        f"{over.guard}: {counted(facts, over.counter)} and not {over.text}"
        for over in found.overshoots
        if over.past is not None and counted(facts, over.counter) > over.limit + over.past + 1e-9
    ]


WRAPPED = {"actions": "run.steps", "tool_calls": "usage.tool_calls", "tokens": "usage.total_tokens"}


def wrapped_beyond(found: Bound, heard: list[Recorded]) -> list[str]:
    """What was used behind a stop beyond what its wrap-up costs at most."""
    opened = next((n for n, moment in enumerate(heard) if moment.position.stopping), None)
    if opened is None:
        return []
    begun, last = heard[opened], heard[-1].position.facts
    wraps = [w for w in found.wraps if w.to in begun.decision.path]
    out: list[str] = []
    for figure, counter in WRAPPED.items():
        costs = [w.costs.get(figure, 0) for w in wraps]
        used = counted(last, counter) - counted(begun.position.facts, counter)
        known = [c for c in costs if c is not None]
        if wraps and len(known) == len(costs) and used > max(known):
            out.append(f"{figure}: {used} and not {max(known)}")
    return out


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines())
def test_check_names_a_loop_where_the_bound_does(data: Any) -> None:
    chart = built(json.dumps(data)).chart
    found, named = bound(chart, brief=True).loop, list(uncut_loops(chart))
    assert bool(named) == bool({*found} & {*paid(chart.spec)}), (found, named)
