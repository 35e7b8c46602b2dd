"""What only grows cannot fall, whoever reports: a model, an action, a child, a record."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.errors import StatusError
from chartloop.core.facts import FACTS, Facts
from chartloop.core.outcome import Outcome, Spent
from chartloop.core.records import Input
from chartloop.machine.evolve import evolve
from chartloop.run.events import Recorded
from chartloop.run.ports import ModelReply
from tests.support import machine, start
from tests.talks import Listening, talk

GROWING = [name for name, spec in FACTS.items() if spec.type.grows]
odd = st.one_of(
    st.integers(-(10**12), 10**12), st.integers(-3, 3), st.floats(), st.none(), st.booleans(),
    st.sampled_from(["100", "", math.nan, math.inf, -math.inf, 10**30, -(10**30)]),
)  # fmt: skip
"""What somebody may report in the place of an amount."""
spendings = st.builds(
    Spent, odd, odd, odd, odd, tools=st.dictionaries(st.sampled_from("ab"), odd, max_size=2)
)
changes = st.dictionaries(st.sampled_from([*GROWING, "queue.size"]), odd, max_size=2)
replies = st.builds(
    ModelReply, st.sampled_from(["", "some words"]), st.just(()), st.just("stop"), odd, odd, odd
)


def fell(before: Facts, after: Facts) -> list[str]:
    """The facts that only grow, and are less than they were, or no number any more."""
    was, now = dict(before.items()), dict(after.items())
    return [
        name
        for name in GROWING
        if was[name] is not None and not (now[name] is not None and now[name] >= was[name])
    ]


def falls(heard: list[Recorded]) -> list[str]:
    facts = [Facts(), *(moment.position.facts for moment in heard)]
    return [name for a, b in pairwise(facts) for name in fell(a, b)]


TALK = """
model: {name: scripted, input_cost_per_token: 0.5, output_cost_per_token: 2}
states:
  a: {do: receive, next: b}
  b: {do: infer, next: c}
  c: {ask: More?, when: run.steps < 4, then: b, else: z}
  z: {stop: completed}
"""


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.lists(replies, min_size=3, max_size=3))
def test_whatever_a_model_reports_nothing_falls(said: list[ModelReply]) -> None:
    run, heard = talk(TALK, model=Listening(*said)), list[Recorded]()
    for moment in run.stream():
        heard += [moment] if isinstance(moment, Recorded) else []
    assert run.result.reason == "completed"
    assert not falls(heard)
    usage = run.facts.usage
    assert usage.llm_calls == 3
    assert usage.total_tokens > 0
    assert usage.cost is not None
    assert math.isfinite(usage.cost)
    if any(reply.cost is None for reply in said):
        assert usage.cost > 0


ACTS = "states:\n  a: {do: act, next: b, failed: next}\n  b: {do: act, next: z}\n  z: {stop: completed}\n"


@given(spendings, changes)
def test_whatever_an_action_reports_nothing_falls(spent: Spent, changed: dict[str, Any]) -> None:
    first = Outcome(spent=Spent(1, 10, 5, 0.5, tools={"a": 2}))
    run = start(ACTS, {"a": [first], "b": [Outcome(spent=spent, changes=changed)]})
    heard = [moment for moment in run.stream() if isinstance(moment, Recorded)]
    assert not falls(heard)


@given(spendings, changes)
def test_no_input_makes_a_fact_fall_that_only_grows(spent: Spent, changed: dict[str, Any]) -> None:
    chart = machine(ACTS).chart
    position, _ = evolve(chart, chart.position("r"), Input("start", at=10.0))
    first = Outcome(spent=Spent(1, 10, 5, 0.5, tools={"a": 2}))
    position, _ = evolve(chart, position, Input("step", outcome=first, at=11.0))
    given_ = Input("step", outcome=Outcome(spent=spent, changes=changed), at=9.0)
    try:
        after, _ = evolve(chart, position, given_)
    except (StatusError, TypeError):
        return
    assert not fell(position.facts, after.facts)
