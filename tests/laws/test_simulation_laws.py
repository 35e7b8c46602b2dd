"""Simulated runs, the exact chain and the proven bound agree, on generated machines and on loops.

Three ways to the same figures that share only `evolve`: thousands of draws, the absorbing Markov
chain over positions, and the bound, which knows no probability.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop import load
from chartloop.api import Machine
from chartloop.api.simulating import planned, world_for
from chartloop.core.records import Record
from chartloop.simulation.chain import exact
from chartloop.simulation.many import sample
from chartloop.simulation.play import UNFINISHED
from chartloop.simulation.result import Simulation
from chartloop.simulation.solving import expected_visits
from tests.exploring import built
from tests.strategies import costly_machines

slowly = settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
RUNS = 400
LONGEST = 150
"""Steps; machines with longer runs are passed over."""
TRANSITIONS = 5_000


@st.composite
def shares(draw: st.DrawFn) -> dict[str, Any]:
    """What a model, a tool and a person do, in few values, so that there is a chain."""
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
    opaque = any("whim" in (e.when.opaque if e.when else ()) for e in machine.spec.edges())
    opaque = opaque or any("whim" in rule.when.opaque for rule in machine.spec.rules)
    return {
        "world": 1, "actions": {name: what for name, what in said.items() if name in there},
        **({"guards": {"whim": 0.4}} if opaque else {}),
    }  # fmt: skip


def simulated(data: Any, said: dict[str, Any], seed: int) -> Simulation:
    machine = built(json.dumps(data))
    world = world_for(machine, world_of(machine, said))
    plan = replace(planned(machine, world, seed, limits={}, vars={}, tasks=None), longest=LONGEST)
    assume(all(run.reason != UNFINISHED for run in sample(plan, 20).runs))
    chain = exact(plan.player(), most=TRANSITIONS)
    return Simulation(machine.name, machine.hash, sample(plan, RUNS), seed, machine.bound(), chain)


@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_the_simulation_agrees_with_the_chain_and_stays_within_the_bound(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    found = simulated(data, said, seed)
    assert not found.exceeded
    assume(UNFINISHED not in found.reasons)
    assume(not found.exact.why)
    total = sum(found.exact.reasons.values()) + found.exact.left_out
    assert total == pytest.approx(1)
    assert set(found.reasons) <= set(found.exact.reasons)
    assert found.agrees in (True, None), [a for a in found.agreement if not a.holds]


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


@pytest.mark.extra("numpy", install='pip install -e ".[simulate]"')  # noqa: S610 - no Django
@given(st.floats(0.0, 0.95))
@settings(deadline=None, max_examples=20)
def test_a_loop_that_only_the_model_leaves_is_geometric(p: float) -> None:
    found = load(LOOP % "").simulate(world(p), runs=1).exact
    replies = 1 / (1 - p)
    assert found.reasons == {"completed": pytest.approx(1)}
    assert found.expected["llm_calls"] == pytest.approx(replies, abs=1e-6)
    assert found.expected["tool_calls"] == pytest.approx(replies - 1, abs=1e-6)
    assert found.expected["tokens"] == pytest.approx(15 * replies, abs=1e-6)
    assert found.expected["elapsed"] == pytest.approx(3 * replies - 1, abs=1e-6)
    assert found.visits["think"] == pytest.approx(replies, abs=1e-6)


@given(st.floats(0.0, 1.0), st.integers(2, 12))
@settings(deadline=None, max_examples=30)
def test_a_loop_that_a_budget_cuts_is_a_geometric_sum(p: float, steps: int) -> None:
    found = load(LOOP % (CUT % steps)).simulate(world(p), runs=1).exact
    # steps: receive, then think and act in turns; the budget is looked at before the edge
    replies = steps // 2
    stopped = p ** ((steps - 1) // 2) if steps % 2 else p ** (replies - 1)
    assert found.reasons.get("steps_limit", 0.0) == pytest.approx(stopped, abs=1e-9)
    assert found.expected["llm_calls"] == pytest.approx(sum(p**n for n in range(replies)), abs=1e-6)


@given(st.floats(0.0, 1.0), st.integers(0, 3))
@settings(deadline=None, max_examples=30)
def test_retries_are_a_geometric_sum(p: float, times: int) -> None:
    text = LOOP % "" if not times else (LOOP % "").replace(
        "    do: infer\n", f"    do: infer\n    retry: {{times: {times}, base: 1s, factor: 2}}\n"
    )  # fmt: skip
    found = load(text).simulate(world(0.0, fails={"TRANSIENT": p}), runs=1).exact
    assert found.reasons.get("error", 0.0) == pytest.approx(p ** (times + 1), abs=1e-9)
    calls = sum(p**n for n in range(times + 1))
    assert found.expected["llm_calls"] == pytest.approx(calls, abs=1e-6)
    waited = sum(p ** (n + 1) * 2**n for n in range(times))
    assert found.expected["waiting"] == pytest.approx(waited, abs=1e-6)


# chains that cannot be made -----------------------------------------------------------------

MODEL = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\ntools: [conversation_search]\n"
TRAP = """states:
  a: {do: infer, next: [{when: len(last.tool_calls) > 0, to: done}, {to: b}]}
  b: {do: infer, next: c}
  c: {do: infer, next: b}
  done: {stop: completed}
"""
ROUND = "states:\n  b: {do: infer, next: c}\n  c: {do: infer, next: b}\n"
SPIN = "states:\n  a: {do: infer, next: [{when: len(last.tool_calls) > 0, to: a}, {to: done}]}\n  done: {stop: completed}\n"
GROWS = """limits: {steps: 100_000}
vars: {n: 0}
rules: [{when: run.visits.a >= limits.steps, stop: steps_limit}]
states:
  a: {do: infer, set: {vars.n: vars.n + 1}, next: [{when: vars.n > 3 and len(last.tool_calls) > 1, to: done}, {to: a}]}
  done: {stop: completed}
"""


class Unknown(NamedTuple):
    """A machine, how often a reply has no call, and what is said in place of a chain."""

    id: str
    text: str
    without: float
    said: str


@pytest.mark.extra("numpy", install='pip install -e ".[simulate]"')  # noqa: S610 - no Django
@pytest.mark.parametrize(
    "case",
    [
        Unknown("a-loop-that-nothing-leaves", ROUND, 1, "positions that no way leaves"),
        Unknown("a-trap-that-half-of-the-runs-come-to", TRAP, 0.5, "positions that no way leaves"),
        Unknown("an-end-that-no-reply-leads-to", SPIN, 0, "positions that no way leaves"),
        Unknown("an-end-behind-the-last-digit", SPIN, 1e-17, "rounding hides how it ends"),
        Unknown("a-counter-that-tells-all-positions-apart", GROWS, 0.5, "more than 1,000 transitions"),
    ],
    ids=lambda case: case.id,
)  # fmt: skip
def test_where_there_is_no_chain_the_reason_is_said(case: Unknown) -> None:
    machine = load(MODEL + case.text)
    calls = {"counts": {"0": case.without, "1": 1 - case.without}}
    world = {"world": 1, "actions": {"infer": {"fails": {}, "grows": False, "tool_calls": calls}}}
    plan = planned(machine, world_for(machine, world), 0, limits={}, vars={}, tasks=None)
    found = exact(plan.player(), most=1_000)
    assert case.said in found.why
    assert not found.reasons
    simulation = machine.simulate(world, runs=20, longest=40, chain=False)
    assert simulation.agrees is None


@pytest.mark.extra("numpy", install='pip install -e ".[simulate]"')  # noqa: S610 - no Django
def test_runs_that_were_left_are_not_held_against_the_chain() -> None:
    world = {
        "world": 1,
        "actions": {"infer": {"fails": {}, "grows": False, "tool_calls": {"counts": {"0": 0.001, "1": 0.999}}}},
    }  # fmt: skip
    machine = load(MODEL + SPIN)
    found = machine.simulate(world, runs=20, longest=40)
    assert found.exact.reasons == {"completed": pytest.approx(1)}
    assert found.exact.expected["llm_calls"] == pytest.approx(1000)
    assert (found.agrees, found.agreement) == (None, ())
    assert f"not compared, {found.left} of the runs were left" in found.chain_said()
    assert machine.simulate(world, runs=200, longest=100_000).agrees


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 3)), max_size=20),
)
@settings(deadline=None, max_examples=150)
def test_a_chain_is_solved_or_says_that_it_cannot_be(
    size: int, edges: list[tuple[int, int, int]]
) -> None:
    """Against powers of its matrix. Steps of weight 0 are none; `size` stands for the end."""
    weights: list[dict[int, int]] = [{} for _ in range(size)]
    for a, b, weight in edges:
        if weight and a < size:
            to = b if b < size else -1
            weights[a][to] = weights[a].get(to, 0) + weight
    weights = [onward or {-1: 1} for onward in weights]
    steps = [[(to, w / sum(onward.values())) for to, w in onward.items()] for onward in weights]
    found = expected_visits(steps, {0: 1.0})
    mass, visits, ended = [1.0] + [0.0] * (size - 1), [0.0] * size, 0.0
    for _ in range(3_000):
        onward = [0.0] * size
        for number, here in enumerate(mass):
            visits[number] += here
            for to, p in steps[number]:
                if to < 0:
                    ended += here * p
                else:
                    onward[to] += here * p
        mass = onward
    reached = {n for n, times in enumerate(visits) if times > 0}
    if isinstance(found, str):
        trapped = {n for n in range(size) if not _leads_out(steps, n)}
        assert trapped  # also where no run comes: positions are only made where one does
        assert ended < 1 - 1e-6 or not trapped & reached
    else:
        assert found[1][-1] == pytest.approx(ended, abs=1e-6)
        assert found[0] == pytest.approx(visits, rel=1e-5, abs=1e-6)


def _leads_out(steps: list[list[tuple[int, float]]], start: int) -> bool:
    seen, pending = {start}, [start]
    while pending:
        for to, _ in steps[pending.pop()]:
            if to < 0:
                return True
            if to not in seen:
                seen.add(to)
                pending.append(to)
    return False


# chance -------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_runs_in_any_number_of_processes() -> None:
    machine = load("agent")
    one, two = (machine.simulate(runs=1_200, seed=7, jobs=jobs, chain=False) for jobs in (1, 2))
    assert one.sample.runs == two.sample.runs
    assert (one.sample.visits, one.paths) == (two.sample.visits, two.paths)
    assert machine.simulate(runs=50, seed=8, chain=False).sample.runs != one.sample.runs[:50]


@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_what_is_kept_of_earlier_runs_changes_no_run(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    machine = built(json.dumps(data))
    world = world_for(machine, world_of(machine, said))
    plan = replace(planned(machine, world, seed, limits={}, vars={}, tasks=None), longest=40)
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
    run = machine.simulated_run(number, seed=7)
    drawn = machine.simulate(runs=number + 1, seed=7, chain=False).sample.runs[number]
    assert run.replay().same
    assert (run.result.reason, run.result.steps) == (drawn.reason, drawn.actions)
    assert (run.result.tokens, run.result.elapsed) == (drawn.tokens, drawn.elapsed)
