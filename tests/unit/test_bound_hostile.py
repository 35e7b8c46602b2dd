"""Machines that were written to break a bound: no run goes past it, whatever the model does."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.analysis.proofs.bound import Assume, bound
from chartloop.core.errors import LimitError, SetupError
from tests.exploring import adversaries, built, playing
from tests.laws.test_bound_laws import exceeded, overshot

MODEL = (
    "model: {name: scripted, context_window: 5, max_tokens: 2, input_cost_per_token: 0.5,"
    " output_cost_per_token: 2.0}"
)
LONGEST = 60


class Case(NamedTuple):
    """A machine, and figures that it must not be given less than, for a run comes to them."""

    id: str
    body: str
    reached: dict[str, float | None]


def counting_child(each: str) -> str:
    """A child for each item, that goes round until its variable says that it is enough."""
    return f"""
states:
  a:
    do: run_machines
    with: {{machine: c, each: {each}}}
    failed: next
    next: done
  done: {{stop: completed}}
machines:
  c:
    {MODEL}
    vars: {{n: 0}}
    states:
      t: {{do: infer, failed: next, set: {{vars.n: vars.n + 1}}, next: d}}
      d: {{ask: Enough?, when: vars.n >= 2, then: e, else: t}}
      e: {{stop: completed}}
"""


FEWER = f"""
limits: {{calls: 4}}
rules:
  - {{when: usage.llm_calls >= limits.calls, stop: steps_limit}}
vars: {{things: [a, b, c, d, e]}}
states:
  few: {{do: infer, failed: next, set: {{vars.things: '["a"]'}}, next: all}}
  all:
    do: run_machines
    with: {{machine: c, each: vars.things}}
    failed: next
    next: done
  done: {{stop: completed}}
machines:
  c:
    {MODEL}
    limits: {{calls: 9}}
    rules:
      - {{when: usage.llm_calls >= limits.calls, stop: steps_limit}}
    states:
      t: {{do: infer, next: t}}
"""


CASES = [
    Case("an-item-gives-a-child-its-variables",
         counting_child("""'[{"task": "x", "vars": {"n": -5}}]'"""), {"requests": None}),
    Case("an-item-that-is-a-text-gives-none",
         counting_child("""'["x", run.task]'"""), {"requests": 4}),
    Case("few-children-share-what-many-would", FEWER, {}),
    Case("a-list-that-is-empty-in-the-file", "start: all" + FEWER.replace(
        "[a, b, c, d, e]", '{type: "list[str]", value: []}').replace("few: {", "never: {").replace(
            """set: {vars.things: '["a"]'}, """, ""), {}),
    Case("a-time-limit-at-one-state-cuts-no-back-off", """
limits: {time: 40s}
rules:
  - {when: run.elapsed >= limits.time, stop: custom, at: [s]}
states:
  s: {do: infer, retry: {times: 2}, next: done}
  done: {stop: completed}
""", {}),
    Case("a-rule-is-judged-before-the-signals-of-the-same-moment", """
limits: {steps: 3}
rules:
  - {when: signals.count >= 1, stop: completed}
  - {when: run.steps >= limits.steps, signal: custom}
states:
  t: {do: infer, failed: next, next: t}
""", {"actions": None}),
    Case("a-detour-is-judged-before-the-signals-of-the-same-moment", """
limits: {steps: 3}
rules:
  - {when: run.steps >= limits.steps, signal: custom}
  - {when: signals.count == 0, to: aside}
states:
  t: {do: infer, failed: next, next: d}
  d: {ask: Enough?, when: signals.count >= 1, then: x, else: t}
  aside: {do: infer, failed: next, next: return}
  x: {stop: completed}
""", {}),
    Case("a-budget-of-what-the-parent-has-spent", f"""
limits: {{tokens: 18}}
rules:
  - {{when: usage.total_tokens >= limits.tokens, stop: token_limit}}
states:
  a: {{do: infer, failed: next, next: b}}
  b:
    do: run_machine
    with: {{machine: c, task: x}}
    failed: next
    next: done
  done: {{stop: completed}}
machines:
  c:
    {MODEL}
    limits: {{tokens: 18, steps: 20}}
    rules:
      - {{when: usage.total_tokens >= 20 - limits.tokens, stop: token_limit}}
      - {{when: run.steps >= limits.steps, stop: steps_limit}}
    states:
      t: {{do: infer, failed: next, next: t}}
""", {}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_no_run_goes_past_its_bound(case: Case) -> None:
    machine = built(f"chartloop: 1\nmachine: m\ntools: [poke]\n{MODEL}\n{case.body}")
    found = bound(machine.chart, assume=Assume(calls_per_reply=2))
    assert not found.unknown
    for name, value in case.reached.items():
        assert found[name].value == value, str(found)
    for choices in adversaries(1, 20):
        run, spent = asyncio.run(playing(machine, choices, LONGEST))
        assert not exceeded(found, spent), run.result.path
        assert not overshot(found, run.facts), run.result.path


ONE_CALL = f"""
chartloop: 1
machine: m
{MODEL}
states: {{a: {{do: infer, failed: next, next: b}}, b: {{stop: completed}}}}
"""


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({"output_cost_per_token": 100.0}, {"usd": 20}),
        ({"input_cost_per_token": 100.0}, {"usd": 20}),
        ({"max_tokens": 5}, {"usd": 8.5}),
        ({"context_window": 50}, {"tokens": 5}),
        ({"fallbacks": ["scripted"]}, {"calls": 1}),
    ],
    ids=["dearer-replies", "dearer-requests", "longer-replies", "a-larger-window", "fallbacks"],
)
def test_settings_over_the_file_are_part_of_the_proof(
    settings: dict[str, object], wanted: dict[str, float]
) -> None:
    machine = load(ONE_CALL)
    script = [{"text": "hi", "usage": {"prompt_tokens": 0, "completion_tokens": 2}}]
    assert machine.start("x", script=script, require_bound=wanted).run().success
    with pytest.raises(SetupError, match="is not started"):
        machine.start("x", script=script, settings=settings, require_bound=wanted)


@pytest.mark.parametrize("wanted", [float("nan"), float("inf")], ids=["nan", "inf"])
def test_what_is_no_figure_cannot_be_required(wanted: float) -> None:
    with pytest.raises(LimitError, match="is a number"):
        load(ONE_CALL).start("x", script=["x"], require_bound={"usd": wanted})


@pytest.mark.parametrize(
    "assumptions",
    [
        {"tokens_per_call": -5}, {"tokens_per_call": 0}, {"tokens_per_call": 10**13},
        {"calls_per_reply": 0}, {"calls_per_reply": 0.5}, {"prices": (-1.0, 1.0)},
        {"prices": (1.0, float("nan"))},
    ],
    ids=str,
)  # fmt: skip
def test_an_invalid_size_or_price_is_refused(assumptions: dict[str, Any]) -> None:
    with pytest.raises(LimitError, match="must be"):
        Assume(**assumptions)
