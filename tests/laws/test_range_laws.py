"""What an expression may be worth holds for every value that it has.

Facts are drawn, and of each only so much is told as a range, a yes-or-no or nothing. Whatever the
expression is worth then lies within what the checker said of it: guards and bounds rest on that.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chartloop.core.facts import Facts
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Fact, facts_of
from chartloop.language.intervals.arithmetic import arithmetic, round_range
from chartloop.language.intervals.evaluate import Known, judge
from chartloop.language.intervals.interval import Range, Truth, Value, of_plain
from tests.laws.test_expression_laws import (
    NOTHING,
    TRUTHS,
    VALUES,
    all_facts,
    checked,
    value_of,
)

TOLD = ["nothing", "itself", "from below", "from above", "about"]


def told(value: Any, how: str) -> Value | None:
    """So much of a fact that has this value."""
    if how == "itself":
        return of_plain(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    match how:
        case "from below":
            return Range(value, math.inf)
        case "from above":
            return Range(-math.inf, value)
        case "about":
            return Range(value - 3, value + 2)
        case _:
            return None


def known(expression: Expression, facts: Facts, ways: list[str]) -> Known:
    """What is told of the facts of an expression."""
    paths = sorted(facts_of(expression.root))
    how = {path: ways[n % len(ways)] for n, path in enumerate(paths)}

    def of(node: Fact) -> Value | None:
        value = value_of(checked(node.path, guard=False), facts)
        return None if value is NOTHING else told(value, how[node.path])

    return of


def holds(value: Value, actual: Any) -> bool:
    """Whether a value is one of those that may be."""
    if actual is None:
        return value.none
    if isinstance(value, Truth):
        return value.true if actual else value.false
    if isinstance(value, Range):
        return value.some and value.low <= actual <= value.high
    return value.some


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(VALUES | TRUTHS, all_facts(), st.lists(st.sampled_from(TOLD), min_size=1, max_size=4))
@example("vars.x % vars.n", Facts(vars={"x": -1e-20, "n": 3}), ["itself"])
@example("vars.x // 0.1", Facts(vars={"x": 1.0}), ["itself"])
@example("(0 - 12) % vars.n", Facts(vars={"n": -5}), ["about"])
def test_no_value_lies_outside_of_what_was_said(text: str, facts: Facts, ways: list[str]) -> None:
    expression = checked(text, guard=False)
    actual = value_of(expression, facts)
    if actual is not NOTHING:
        said = judge(expression.root, known(expression, facts, ways))
        assert holds(said, actual), (text, actual, said)


ENDS = st.integers(-(2**70), 2**70) | st.integers(-9, 9) | st.floats(allow_nan=False, width=64)


@given(st.sampled_from(["+", "-", "*", "/", "//", "%"]), ENDS, ENDS, ENDS, ENDS, st.data())
def test_a_result_lies_between_the_ends(
    op: str, a: float, b: float, c: float, d: float, pick: Any
) -> None:
    left, right = Range(min(a, b), max(a, b)), Range(min(c, d), max(c, d))
    x, y = pick.draw(st.sampled_from([a, b])), pick.draw(st.sampled_from([c, d]))
    whole = all(isinstance(n, int) for n in (a, b, c, d)) and op != "/"
    try:
        found: float = eval(f"x {op} y", {"x": x, "y": y})  # noqa: S307  six operators
    except (ZeroDivisionError, OverflowError):
        return
    if math.isfinite(x) and math.isfinite(y) and math.isfinite(found):
        said = arithmetic(op, left, right, whole=whole)
        assert said.low <= found <= said.high, (x, y, found, said)


class Row(NamedTuple):
    """A result that is exact."""

    op: str
    a: tuple[float, float]
    b: tuple[float, float]
    result: tuple[float, float]


@pytest.mark.parametrize(
    "row",
    [
        Row("+", (1, 2), (3, 5), (4, 7)),
        Row("-", (1, 2), (3, 5), (-4, -1)),
        Row("*", (-1, 2), (3, 5), (-5, 10)),
        Row("*", (0, math.inf), (0, 3), (0, math.inf)),
        Row("//", (7, 9), (2, 3), (2, 4)),
        Row("//", (-7, 9), (2, math.inf), (-4, 4)),
        Row("//", (0, math.inf), (1, math.inf), (0, math.inf)),
        Row("%", (0, 3), (5, 9), (0, 3)),
        Row("%", (-4, math.inf), (3, 3), (0, 2)),
        Row("%", (0, 9), (-3, -2), (-2, 0)),
        Row("//", (1, 2), (-1, 1), (-math.inf, math.inf)),
    ],
    ids=str,
)
def test_whole_numbers_are_exact(row: Row) -> None:
    assert arithmetic(row.op, Range(*row.a), Range(*row.b), whole=True) == Range(*row.result)


def test_rounding_keeps_the_order() -> None:
    assert round_range(Range(0.4, 2.5), None) == Range(0, 2)
    assert round_range(Range(-math.inf, 2.6), None) == Range(-math.inf, 3)
