"""Simulated runs stay within the proven bound, and come to what arithmetic says of loops.

The bound knows no probability, and a loop that chance leaves is a geometric sum: two ways to the
figures of a simulation that share nothing with it but `evolve`.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop import load, simulate, simulated_run
from chartloop.api import Machine
from chartloop.core.records import Record
from chartloop.studies.simulation.play import UNFINISHED
from chartloop.studies.simulation.sample import sample
from chartloop.studies.simulation.simulate import make_plan, world_for
from chartloop.studies.simulation.simulation import Simulation
from chartloop.studies.simulation.statistics import Spread
from tests.exploring import built
from tests.strategies import costly_machines

slowly = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
RUNS = 400
LONGEST = 150
"""Steps; machines with longer runs are passed over."""
FAR = 5.0
"""Standard errors that chance does not explain."""
MANY = 4_000


@st.composite
def shares(draw: st.DrawFn) -> dict[str, Any]:
    """What a model, a tool and a person do."""
    fails = draw(st.sampled_from([{}, {"TRANSIENT": 0.3}, {"RECOVERABLE": 0.2, "CRITICAL": 0.1}]))
    return {
        "infer": {
            "fails": fails, "tool_calls": {"counts": {"0": 1, "1": draw(st.integers(0, 2)), "2": 0.5}},
            "repeats": draw(st.sampled_from([0, 0.3])), "prompt_tokens": draw(st.sampled_from([1, [1, 2], [1, 9]])),
            "completion_tokens": draw(st.sampled_from([0, [0, 1], [0, 3]])), "grows": draw(st.booleans()),
            "duration": draw(st.sampled_from(["0s", "3s", ["1s", "45s"]])),
        },
        "call_tools": {"call_fails": draw(st.sampled_from([0, 0.4])), "adds": 1, "duration": "2s"},
        "call_tool": {"call_fails": draw(st.sampled_from([0, 0.4])), "adds": 1, "duration": "2s"},
        "run_machine": {"fails": {"RECOVERABLE": 0.2}, "calls": 0},
    }  # fmt: skip


def world_of(machine: Machine, said: dict[str, Any]) -> dict[str, Any]:
    there = {s.action.name for s in machine.spec.states.values() if s.action is not None}
    calling = {s.action.name for s in machine.spec.states.values()
               if s.action is not None and s.traits.runs == "calls"}  # fmt: skip
    said = {**said, **{name: {**said.get(name, {}), "calls": 0} for name in calling}}
    opaque = any("whim" in (e.when.opaque if e.when else ()) for e in machine.spec.edges())
    opaque = opaque or any("whim" in rule.when.opaque for rule in machine.spec.rules)
    return {
        "world": 1, "actions": {name: what for name, what in said.items() if name in there},
        **({"guards": {"whim": 0.4}} if opaque else {}),
    }  # fmt: skip


def simulated(data: Any, said: dict[str, Any], seed: int) -> Simulation:
    machine = built(json.dumps(data))
    world = world_for(machine, world_of(machine, said))
    plan = replace(make_plan(machine, world, seed, limits={}, vars={}, tasks=None), longest=LONGEST)
    assume(all(run.reason != UNFINISHED for run in sample(plan, 20).runs))
    return Simulation(machine.name, machine.hash, sample(plan, RUNS), seed, machine.bound())


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_no_simulated_run_exceeds_the_bound(data: Any, said: dict[str, Any], seed: int) -> None:
    found = simulated(data, said, seed)
    assert not found.bound_violations
    assert sum(share.count for share in found.reasons.values()) == RUNS


# closed forms -------------------------------------------------------------------------------

LOOP = """chartloop: 1
machine: loop
model: {name: scripted}
tools: [conversation_search]
%s
states:
  question: {do: receive, next: think}
  think:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
CUT = "limits: {steps: %d}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]"


def world(p: float, **think: Any) -> dict[str, Any]:
    """Of every reply a share of `p` asks for a tool."""
    return {
        "world": 1,
        "states": {
            "think": {
                "fails": {}, "tool_calls": {"counts": {"0": 1 - p, "1": p}}, "grows": False,
                "prompt_tokens": 10, "completion_tokens": 5, "duration": "2s", **think,
            },
            "act": {"call_fails": 0, "duration": "1s"},
        },
    }  # fmt: skip


def near(found: Spread, expected: float) -> bool:
    """Whether chance explains the difference between a mean and what it should be.

    Where all runs are alike, nothing rarer than a few in so many can have been seen.
    """
    unseen = FAR * (found.most + expected) / MANY if not found.error else 0.0
    return abs(found.mean - expected) <= FAR * found.error + unseen + 1e-6


def near_share(found: Simulation, reason: str, p: float) -> bool:
    """The same of a share; of one that is too rare to be seen, anything small."""
    seen = found.reasons[reason].value if reason in found.reasons else 0.0
    return abs(seen - p) <= FAR * math.sqrt(max(p * (1 - p), 1 / MANY) / MANY)


@given(st.floats(0.0, 0.9))
@settings(deadline=None, max_examples=10)
def test_a_loop_that_only_the_model_leaves_is_geometric(p: float) -> None:
    found = simulate(load(LOOP % ""), world(p), runs=MANY)
    replies = 1 / (1 - p)
    assert [*found.reasons] == ["completed"]
    assert near(found.figures["requests"], replies)
    assert near(found.figures["tool_calls"], replies - 1)
    assert near(found.figures["tokens"], 15 * replies)
    assert near(found.figures["elapsed"], 3 * replies - 1)


@given(st.floats(0.0, 1.0), st.integers(2, 12))
@settings(deadline=None, max_examples=15)
def test_a_loop_that_a_budget_cuts_is_a_geometric_sum(p: float, steps: int) -> None:
    found = simulate(load(LOOP % (CUT % steps)), world(p), runs=MANY)
    # steps: receive, then think and act in turns; the budget is looked at before the edge
    replies = steps // 2
    stopped = p ** ((steps - 1) // 2) if steps % 2 else p ** (replies - 1)
    assert near_share(found, "steps_limit", stopped)
    assert near(found.figures["requests"], sum(p**n for n in range(replies)))


@given(st.floats(0.0, 1.0), st.integers(0, 3))
@settings(deadline=None, max_examples=15)
def test_retries_are_a_geometric_sum(p: float, times: int) -> None:
    text = LOOP % "" if not times else (LOOP % "").replace(
        "    do: infer\n", f"    do: infer\n    retry: {{times: {times}, base: 1s, factor: 2}}\n"
    )  # fmt: skip
    found = simulate(load(text), world(0.0, fails={"TRANSIENT": p}), runs=MANY)
    assert near_share(found, "error", p ** (times + 1))
    assert near(found.figures["requests"], sum(p**n for n in range(times + 1)))
    assert near(found.figures["waiting"], sum(p ** (n + 1) * 2**n for n in range(times)))


# chance -------------------------------------------------------------------------------------


@pytest.mark.slow("starts processes for seconds")
def test_the_same_seed_gives_the_same_runs_in_any_number_of_processes() -> None:
    machine = load("agent")
    one, two = (simulate(machine, runs=1_200, seed=7, jobs=jobs) for jobs in (1, 2))
    assert one.sample.runs == two.sample.runs
    assert (one.sample.visits, one.paths) == (two.sample.visits, two.paths)
    assert simulate(machine, runs=50, seed=8).sample.runs != one.sample.runs[:50]


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_what_is_kept_of_earlier_runs_changes_no_run(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    machine = built(json.dumps(data))
    world = world_for(machine, world_of(machine, said))
    plan = replace(make_plan(machine, world, seed, limits={}, vars={}, tasks=None), longest=40)
    keeping, forgetting = plan.player(), plan.player()
    forgetting.room = 0
    for number in range(40):
        records: tuple[list[Record], list[Record]] = [], []
        assert keeping.play(seed, number, records[0]) == forgetting.play(seed, number, records[1])
        assert records[0] == records[1]
    assert (keeping.visits, keeping.taken) == (forgetting.visits, forgetting.taken)


@pytest.mark.parametrize("number", [0, 3, 17])
def test_one_simulated_run_is_a_run(number: int) -> None:
    machine = load("agent")
    run = simulated_run(machine, number, seed=7)
    drawn = simulate(machine, runs=number + 1, seed=7).sample.runs[number]
    assert run.replay().same
    assert (run.result.reason, run.result.steps) == (drawn.reason, drawn.actions)
    assert (run.result.tokens, run.result.elapsed) == (drawn.tokens, drawn.elapsed)
