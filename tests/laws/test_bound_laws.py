"""No run ever exceeds its bound, and none goes a way that a query excludes.

Real runs of generated machines under adversaries: each model call may fail in each category, use a
token or a whole window, ask for no tool or for two; tools may fail or stop the run; guards that
Python answers say anything; waits are answered in every way or expire.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chartloop.api import Machine
from chartloop.checker.bound import Assume, Bound, Figure, bound
from chartloop.checker.bound.prove import paid
from chartloop.checker.bound.uncut import uncut_loops
from chartloop.checker.query import Answer, Questions
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


@slowly
@given(costly_machines(), st.integers(0, 10_000), st.booleans())
def test_no_run_exceeds_its_bound(data: Any, seed: int, told: bool) -> None:
    machine = built(json.dumps(data))
    found = bound(machine.chart, assume=Assume(calls_per_reply=2) if told else None)
    assert not found.unknown
    asyncio.run(_played(machine, found, seed))


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


@slowly
@given(costly_machines())
def test_check_names_a_loop_where_the_bound_does(data: Any) -> None:
    chart = built(json.dumps(data)).chart
    found, named = bound(chart, brief=True).loop, list(uncut_loops(chart))
    assert bool(named) == bool({*found} & {*paid(chart.spec)}), (found, named)


QUERIES = (
    "reach {a}", "avoid {a}", "never {a} before {b}", "never {a} after {b}", "always {b} after {a}",
    "reach action:infer", "never action:infer before {a}", "always action:infer after {a}",
)  # fmt: skip


@slowly
@given(costly_machines(), st.integers(0, 10_000), st.data())
def test_no_run_goes_where_a_query_says_that_none_goes(data: Any, seed: int, pick: Any) -> None:
    machine = built(json.dumps(data))
    names = [f"state:{n}" for n in machine.spec.states]
    own = {name: limit.value for name, limit in machine.spec.limits.items()}
    questions = Questions(machine.chart, pick.draw(st.sampled_from([None, own])))
    asked = [
        pick.draw(st.sampled_from(QUERIES)).format(
            a=pick.draw(st.sampled_from(names)), b=pick.draw(st.sampled_from(names))
        )
        for _ in range(6)
    ] + [f"reach {name}" for name in names]
    answers = [questions.ask(text) for text in asked if "action:infer" not in text or _infers(data)]
    asyncio.run(_asked(machine, answers, seed))


def _infers(data: Any) -> bool:
    return any(s.get("do") == "infer" for s in data["states"].values())


async def _asked(machine: Machine, answers: list[Answer], seed: int) -> None:
    for choices in adversaries(seed, 4):
        heard: list[Recorded] = []
        run, _ = await playing(machine, choices, heard=heard)
        went = happened(machine, heard)
        for answer in answers:
            assert agrees(answer, went, ended=run.ended), (answer.query, str(answer), went)


def happened(machine: Machine, heard: list[Recorded]) -> list[str]:
    """What happened in a run, in order: actions that were done, states that were entered."""
    out: list[str] = []
    for record, decision, _ in heard:
        state = machine.spec.states.get(record.state)
        if record.kind == "step" and state is not None and state.action is not None:
            out.append(f"action:{state.action.name}")
        out += [f"state:{name}" for name in decision.path]
    return out


def agrees(answer: Answer, went: list[str], *, ended: bool) -> bool:
    """Whether a run is one of those that the answer speaks of."""
    form, *words = answer.query.split()
    names = [w for w in words if ":" in w]
    if form == "reach":
        return bool(answer) or names[0] not in went
    if not answer:
        return True  # that something can happen is no promise that it does
    if len(names) == 1:
        return names[0] not in went
    if "before" in words:
        a, b = names
        return a not in went or b in went[: went.index(a) + 1]
    if form == "never":
        a, b = names
        return b not in went or a not in went[went.index(b) + 1 :]
    b, a = names
    last = max((n for n, w in enumerate(went) if w == a), default=None)
    return not ended or last is None or b in went[last + 1 :]
