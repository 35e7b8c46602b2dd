"""Rules with `before`: they are looked at however a run comes to their state."""

from __future__ import annotations

import pytest

from chartloop import load

HEAD = """
chartloop: 1
machine: m
model: {name: scripted}
limits: {few: 2}
"""
FAILS = {"error": {"category": "TRANSIENT", "message": "no"}}


def path(text: str, replies: list[object]) -> tuple[str, str]:
    run = load(HEAD + text).start("x", script=replies)
    return str(run.run().reason), " ".join(run.result.path)


STOP = "{when: errors.total >= limits.few, stop: error_threshold, before: [again]}"
DETOUR = "{when: errors.total >= limits.few, to: aside, before: [again]}"
BY_ON_ERROR = """
on_error: again
rules: [RULE]
states:
  again: {do: receive, next: think}
  think: {do: infer, next: done}
  DETOURED
  done: {stop: completed}
"""


def test_a_stop_before_a_state_that_failures_lead_to() -> None:
    text = BY_ON_ERROR.replace("RULE", STOP).replace("DETOURED", "")
    assert path(text, [FAILS, FAILS]) == ("error_threshold", "again think again think end-error")


def test_a_detour_before_a_state_that_failures_lead_to_comes_back() -> None:
    text = BY_ON_ERROR.replace("RULE", DETOUR)
    text = text.replace("DETOURED", "aside: {do: nothing, next: return}")
    assert path(text, [FAILS, FAILS, "hi"]) == (
        "completed", "again think again think aside again think done"
    )  # fmt: skip


@pytest.mark.parametrize("base", ["0s", "1s"])
def test_a_detour_before_another_attempt_comes_back_to_it(base: str) -> None:
    text = f"""
rules: [{DETOUR}]
states:
  again: {{do: infer, retry: {{times: 3, base: {base}, on: [TRANSIENT]}}, next: done}}
  aside: {{do: nothing, next: return}}
  done: {{stop: completed}}
"""
    assert path(text, [FAILS, FAILS, "hi"]) == ("completed", "again again aside again done")


FORK = """
rules: [RULE]
states:
  fork: {all: [left, right]}
  left: {ask: "Left?", when: errors.total >= 50, then: done, else: again}
  right: {ask: "Right?", when: errors.total >= 60, then: done, else: again}
  DETOURED
  again: {do: infer, failed: next, next: JOIN}
  done: {stop: completed}
"""


def test_a_stop_before_the_state_where_branches_meet() -> None:
    text = FORK.replace("RULE", STOP).replace("DETOURED", "").replace("JOIN", "fork")
    found = path(text, [FAILS, FAILS])
    assert found == (
        "error_threshold",
        "fork left right again fork left right again fork left right end-error",
    )
    # a call that succeeds is not an error: the rule bounds the actions by no figure
    assert load(HEAD + text).bound()["actions"].value is None


def test_a_budget_before_the_state_where_branches_meet_bounds_the_loop() -> None:
    rule = "{when: run.visits.again >= limits.few, stop: custom, before: [again]}"
    text = FORK.replace("RULE", rule).replace("DETOURED", "").replace("JOIN", "fork")
    assert path(text, ["a", FAILS])[0] == "custom"
    assert load(HEAD + text).bound()["actions"].value == 2


def test_a_detour_before_the_state_where_branches_meet_comes_back() -> None:
    rule = "{when: run.visits.aside < limits.few - 1, to: aside, before: [again]}"
    text = FORK.replace("RULE", rule).replace("JOIN", "done")
    text = text.replace("DETOURED", "aside: {do: nothing, next: return}")
    assert path(text, ["hi"]) == ("completed", "fork left right aside again done")
    assert load(HEAD + text).bound()["actions"].value == 2
