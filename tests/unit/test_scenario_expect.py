"""What scenarios expect, and what a failure says: both sides, beside each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.scenarios.expectation import same
from chartloop.scenarios.side_by_side import WIDEST, beside
from tests.playing import JSON, played

# expectations ----------------------------------------------------------------------------------

HELLO = """machine: agent
task: Hello.
replies:
  - {text: Hi., usage: {prompt_tokens: 40, completion_tokens: 2}}
expect: %s
"""


class Expected(NamedTuple):
    """An expectation of the shortest run there is, and whether it is met."""

    id: str
    expect: str
    met: bool = True


EXPECTED = [
    Expected("reason", "{reason: completed}"),
    Expected("other-reason", "{reason: steps_limit}", met=False),
    Expected("no-reason", "{reason: null}", met=False),
    Expected("kind", "{kind: natural}"),
    Expected("other-kind", "{kind: limit}", met=False),
    Expected("path", "{path: [user_message, llm_inference, done]}"),
    Expected("shorter-path", "{path: [user_message, llm_inference]}", met=False),
    Expected("longer-path", "{path: [user_message, llm_inference, done, done]}", met=False),
    Expected("output", "{output: Hi.}"),
    Expected("other-output", "{output: Hi}", met=False),
    Expected("output-of-another-kind", "{output: [Hi.]}", met=False),
    Expected("no-output", "{output: null}", met=False),
    Expected("count", "{facts: {run.steps: 2}}"),
    Expected("other-count", "{facts: {run.steps: 3}}", met=False),
    Expected("large-number", "{facts: {limits.tokens: 100_000}}"),
    Expected("comparison", '{facts: {run.steps: ">= 2"}}'),
    Expected("comparison-not-met", '{facts: {run.steps: "> 2"}}', met=False),
    Expected("comparison-with-a-limit", '{facts: {usage.total_tokens: "< limits.tokens"}}'),
    Expected("comparison-of-both-ends", '{facts: {run.steps: ">= 1 and run.steps <= 2"}}'),
    Expected("one-of", """{facts: {last.text: 'in ["Hi.", "Ho."]'}}"""),
    Expected("none", "{facts: {usage.cost: null, errors.last: is None}}"),
    Expected("not-none", "{facts: {usage.cost: is not None}}", met=False),
    Expected("bound-of-none", '{facts: {usage.cost: ">= 0.5"}}', met=False),
    Expected("never-none", "{facts: {run.steps: null}}", met=False),
    Expected("field-of-none", "{facts: {errors.last.message: x}}", met=False),
    Expected("duration", "{facts: {limits.time: 10m, run.elapsed: 0s}}"),
    Expected("fraction", "{facts: {limits.context: 95%}}"),
    Expected("other-fraction", "{facts: {limits.context: 96%}}", met=False),
    Expected("words", "{facts: {run.status: completed, last.finish_reason: stop}}"),
    Expected("bool", "{facts: {last.ok: true}}"),
    Expected("other-bool", "{facts: {last.ok: false}}", met=False),
    Expected("list", "{facts: {signals.reasons: [completed], last.tool_calls: []}}"),
    Expected("other-list", "{facts: {signals.reasons: []}}", met=False),
    Expected("text-like-a-comparison", "{facts: {run.task: '!= \"in doubt\"'}}"),
    Expected("text-that-begins-like-a-word", "{facts: {run.task: is that so}}", met=False),
]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case.id)
def test_expectations(case: Expected, tmp_path: Path) -> None:
    report = played(tmp_path, HELLO % case.expect)
    assert report.passed is case.met, str(report)
    assert bool(report.problems) is not case.met


def test_a_failure_shows_both_sides_the_places_and_the_last_decision(tmp_path: Path) -> None:
    text = HELLO % "\n  path: [user_message, done]\n  facts: {run.steps: 3}\n  output: Ho."
    assert str(played(tmp_path, text)) == (
        f"""it failed:

path  ({tmp_path}/it.scenario.yaml:6:9)
    expected       got
    user_message   user_message
  ≠                llm_inference
    done           done

run.steps  ({tmp_path}/it.scenario.yaml:7:22)
    expected   got
  ≠ 3          2

output  ({tmp_path}/it.scenario.yaml:8:11)
    expected   got
  ≠ Ho.        Hi.

Done at `done` after 2 steps and 0 ms.

The last decision: record 2, step at `llm_inference` to `done`
    rules.0               no     run.steps >= limits.steps (2 against 50)
    rules.1               no     usage.total_tokens >= limits.tokens (42 against 100,000)
    rules.2               no     run.working >= limits.time (0 ms against 10 min)
    rules.3               no     progress.stalled_steps >= limits.stalled (1 against 5)
    rules.4               no     errors.consecutive >= limits.errors (0 against 4)
    llm_inference.retry   no     retry ≤ 3
    llm_inference.next.0  no     last.wants_memory
    llm_inference.next.1  no     len(last.tool_calls) > 0 (0 against 0)
  → llm_inference.next.2  holds  otherwise → done"""
    )


# side by side ----------------------------------------------------------------------------------

lines = st.lists(st.text("ab", max_size=70), max_size=12)


@given(expected=lines, got=lines)
def test_a_table_marks_differences_and_nothing_else(expected: list[str], got: list[str]) -> None:
    table = beside(expected, got)
    assert any(line.startswith("≠") for line in table) is (expected != got)
    assert max(map(len, table)) <= 2 + WIDEST + 3 + WIDEST


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(["same", "other"]))
def test_a_table_of_long_lists_is_short(left: int, right: int, tail: str) -> None:
    assert len(beside(["same"] * left, [*["same"] * right, tail])) <= 830


def test_long_lines_are_cut_where_they_differ() -> None:
    (_, row) = beside(["x" * 100 + "left"], ["x" * 100 + "right"])
    assert "left" in row
    assert "right" in row


class Pair(NamedTuple):
    """Two pieces of data, and whether they say the same."""

    id: str
    one: Any
    other: Any
    is_same: bool


PAIRS = [
    Pair("bool-and-number", True, 1, False),
    Pair("no-and-zero", 0, False, False),
    Pair("whole-float", 1, 1.0, True),
    Pair("nearly", 0.1 + 0.2, 0.3, True),
    Pair("not-nearly", 0.3, 0.3001, False),
    Pair("number-and-text", 1, "1", False),
    Pair("bool-inside", {"a": [True]}, {"a": [1]}, False),
    Pair("float-inside", {"a": [1.0]}, {"a": [1]}, True),
    Pair("more-keys", {"a": 1}, {"a": 1, "b": None}, False),
    Pair("shorter", [1], [1, 2], False),
]


@pytest.mark.parametrize("case", PAIRS, ids=lambda case: case.id)
def test_what_is_the_same(case: Pair) -> None:
    assert same(case.one, case.other) is case.is_same


@given(JSON)
def test_data_is_the_same_as_itself(data: Any) -> None:
    text = json.dumps(data)
    if "NaN" not in text:
        assert same(json.loads(text), json.loads(text))


@given(JSON, JSON)
def test_what_is_the_same_is_so_both_ways_and_equal(one: Any, other: Any) -> None:
    assert same(one, other) == same(other, one)
    if isinstance(one, (str, bool, type(None))) or isinstance(other, (str, bool, type(None))):
        assert same(one, other) == (type(one) is type(other) and one == other)
