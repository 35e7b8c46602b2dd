"""Two runs side by side: where they part, and what differs now."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import Run, load
from chartloop.ui.view_model.two_runs import BEFORE, Comparison, compare_runs

LOOP = """\
chartloop: 1
machine: loop
model: {name: scripted}
vars: {mood: calm}
states:
  take: {do: receive, next: think}
  think: {do: infer, next: [{when: last.text == "stop", to: done}, {to: think}]}
  done: {stop: completed}
"""


def run_of(*replies: str, text: str = LOOP, **more: Any) -> Run:
    run = load(text).start("x", script=[*replies, "stop"], **more)
    run.run()
    return run


def test_two_that_went_the_same_way() -> None:
    found = compare_runs(run_of("a"), run_of("b"))
    assert (found.first, found.summary) == (None, "They went the same way.")
    assert all(step.same for step in found.steps)
    assert {fact.name for fact in found.facts} == set()


def test_one_that_goes_on_longer() -> None:
    found = compare_runs(run_of("a"), run_of("a", "b"))
    assert found.first == 3
    assert found.summary.endswith("up to step 2; step 3 is the first that differs.")
    last = found.steps[-1]
    assert (last.left, last.right is not None, last.same) == (None, True, False)
    facts = {fact.name: (fact.left, fact.right) for fact in found.facts}
    assert facts["run.steps"] == ("3", "4")
    assert "run.elapsed" not in facts
    assert "run.id" not in facts


def test_a_fact_that_only_one_machine_has() -> None:
    other = LOOP.replace("mood: calm", "pace: 3")
    found = compare_runs(run_of(), run_of(text=other))
    facts = {fact.name: (fact.left, fact.right) for fact in found.facts}
    assert (facts["vars.mood"], facts["vars.pace"]) == (('"calm"', ""), ("", "3"))
    assert found.left.machine == "loop"


def test_long_runs_are_given_from_where_they_part() -> None:
    short, long = run_of(*"a" * 30), run_of(*"a" * 60)
    found = compare_runs(short, long, limit=10)
    assert found.first == 32
    assert [found.steps[0].seq, found.next] == [32 - BEFORE, 39]
    assert [row.seq for row in compare_runs(short, long, start=39, limit=100).steps][-1] == 62
    same = compare_runs(long, long, limit=10)
    assert (same.steps[-1].seq, same.next) == (62, None)


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 9))
def test_pages_hold_every_row_once(left: int, right: int, limit: int) -> None:
    a, b = run_of(*"a" * left), run_of(*"b" * right)
    whole, rows, start = compare_runs(a, b, limit=1_000), list[Any](), 0
    while start is not None:
        page: Comparison = compare_runs(a, b, start=start, limit=limit)
        rows, start = [*rows, *page.steps], page.next
    assert rows == list(whole.steps)
    assert whole.first == next((row.seq for row in rows if not row.same), None)
    assert (whole.first is None) == (left == right)
    turned = compare_runs(b, a)
    assert turned.first == whole.first
    assert [(f.name, f.right, f.left) for f in turned.facts] == [
        (f.name, f.left, f.right) for f in whole.facts
    ]


@pytest.mark.parametrize("start", [5, 1_000])
def test_behind_the_last_row_there_is_nothing(start: int) -> None:
    found = compare_runs(run_of(), run_of(), start=start)
    assert (found.steps, found.next) == ((), None)
