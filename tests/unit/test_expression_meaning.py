"""What an expression knows of itself: directions, kind, bounds, what it implies, its readings."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import pytest

from chartloop.core.facts import ErrorFacts, ProgressFacts, RunFacts, UsageFacts
from chartloop.language.expression import Bound, Reading, parse
from tests.unit.test_expression_world import SCOPE, facts, no

AT = facts(
    run=RunFacts(steps=40, elapsed=150.0, visits={"plan": 2}),
    usage=UsageFacts(total_tokens=1_200, context_ratio=0.5),
    errors=ErrorFacts(consecutive=1),
)


class Moved(NamedTuple):
    """How a text moves as a fact grows."""

    text: str
    fact: str
    way: Literal["+", "-", "", "?"]


MOVED = [
    Moved("run.steps >= limits.steps", "run.steps", "+"),
    Moved("run.steps >= limits.steps", "limits.steps", "-"),
    Moved("run.steps >= limits.steps", "usage.total_tokens", ""),
    Moved("limits.steps <= run.steps", "run.steps", "+"),
    Moved("run.steps < limits.steps", "run.steps", "-"),
    Moved("run.steps < limits.off", "run.steps", "-"),
    Moved("not run.steps < limits.steps", "run.steps", "+"),
    Moved("run.steps == 5", "run.steps", "?"),
    Moved("5 < run.steps < 9", "run.steps", "?"),
    Moved("5 < run.steps <= usage.total_tokens", "usage.total_tokens", "+"),
    Moved("run.steps in [5]", "run.steps", "?"),
    Moved("run.steps >= 5 and last.ok", "run.steps", "+"),
    Moved("run.steps >= 5 or run.steps < 2", "run.steps", "?"),
    Moved("last.ok", "last.ok", "+"),
    Moved("not last.ok", "last.ok", "-"),
    Moved("run.visits.plan >= 5", "run.visits.plan", "+"),
    Moved("run.visits.plan >= 5", "run.visits.act", ""),
    Moved("run.visits.plan >= 5", "run.visits", "?"),
    Moved("vars.names['k'] == 'a'", "vars.names", "?"),
    Moved("vars.text == 'a'", "vars.text", "?"),
    Moved("len(vars.words) > 5", "vars.words", "?"),
    Moved("usage.cost >= limits.cost", "usage.cost", "+"),
    Moved("usage.cost is not None and usage.cost >= 5", "usage.cost", "+"),
    Moved("usage.cost is None or usage.cost >= 5", "usage.cost", "?"),
    Moved("usage.cost is None", "usage.cost", "-"),
    Moved("run.steps + 1", "run.steps", "+"),
    Moved("5 - run.steps", "run.steps", "-"),
    Moved("-run.steps", "run.steps", "-"),
    Moved("run.steps * 2", "run.steps", "+"),
    Moved("run.steps * -2", "run.steps", "-"),
    Moved("run.steps * vars.n", "run.steps", "?"),
    Moved("run.steps * vars.n", "vars.n", "+"),
    Moved("vars.n * vars.n", "vars.n", "?"),
    Moved("run.steps * usage.messages", "run.steps", "+"),
    Moved("run.steps / usage.messages", "usage.messages", "-"),
    Moved("vars.n / usage.messages", "usage.messages", "?"),
    Moved("vars.n / usage.messages", "vars.n", "+"),
    Moved("1 / vars.n", "vars.n", "?"),
    Moved("run.steps // 3", "run.steps", "+"),
    Moved("run.elapsed // duration('1s')", "run.elapsed", "?"),
    Moved("run.steps % 3", "run.steps", "?"),
    Moved("min(run.steps, vars.n)", "vars.n", "+"),
    Moved("max(run.steps, 5 - run.steps)", "run.steps", "?"),
    Moved("abs(run.steps)", "run.steps", "+"),
    Moved("abs(vars.n)", "vars.n", "?"),
    Moved("round(vars.x)", "vars.x", "+"),
    Moved("round(vars.x, 2)", "vars.x", "+"),
    Moved("1 if run.steps > 5 else 0", "run.steps", "+"),
    Moved("0.5 if run.steps > 5 else 1", "run.steps", "-"),
    Moved("1 if run.steps > 5 else 1", "run.steps", ""),
    Moved("1 if run.steps > 5 else run.steps", "run.steps", "?"),
    Moved("1 if run.steps > 5 else None", "run.steps", "?"),
    Moved("run.steps if last.ok else 2 * run.steps", "run.steps", "+"),
    Moved("run.steps if last.ok else 3", "last.ok", "?"),
    Moved("any(run.steps > n for n in vars.numbers)", "run.steps", "+"),
    Moved("all(n > 1 for n in vars.numbers if n < run.steps)", "run.steps", "-"),
    Moved("any(n > 1 for n in vars.numbers if n < run.steps)", "run.steps", "+"),
    Moved("count(n < run.steps for n in vars.numbers)", "run.steps", "+"),
    Moved("count(n for n in vars.numbers if n < run.steps)", "run.steps", "+"),
    Moved("sum(n * run.steps for n in vars.numbers)", "run.steps", "?"),
    Moved("sum(n + run.steps for n in vars.numbers)", "run.steps", "+"),
    Moved("any(n > 1 for n in vars.numbers)", "vars.numbers", "?"),
    Moved("my_check(vars.text, 1) or run.steps > 5", "run.steps", "?"),
    Moved("health", "usage.total_tokens", "-"),
    Moved("health", "limits.tokens", "+"),
    Moved("vars.text.upper() == 'A'", "run.steps", ""),
]


@pytest.mark.parametrize("case", MOVED, ids=lambda case: f"{case.text} by {case.fact}")
def test_direction(case: Moved) -> None:
    assert parse(case.text, SCOPE).direction(case.fact) == case.way


BUDGETS = [
    "run.steps >= limits.steps",
    "run.steps > 5",
    "limits.steps <= run.steps",
    "run.elapsed >= limits.time",
    "run.steps >= limits.off",
    "usage.cost >= limits.cost",
    "not run.steps < limits.steps",
    "limits.steps - run.steps <= 0",
    "usage.total_tokens / limits.tokens >= 0.95",
    "1 - usage.total_tokens / limits.tokens < 0.1",
    "health < 0.1",
    "run.steps * 2 + run.visits.plan > 5",
    "run.steps >= 5 or last.ok",
    "run.steps >= 5 and run.visits.plan >= 5",
    "not (run.steps < 5 and last.ok)",
    "not (run.steps < 5 or run.visits.plan < 5)",
    "limits.off is not None and run.steps >= limits.off",
    "not (limits.off is None or run.steps < limits.off)",
    "usage.cost is not None and usage.cost >= 5",
    "max(run.steps, run.visits.plan) >= 5",
    "min(run.steps, run.visits.plan) >= 5",
    "min(-run.steps, 3) < -5",
    "round(run.steps / 3) >= 5",
    "run.steps // 3 >= 5",
    "busy",
    "5 < run.steps > 3",
    "run.steps >= 5 or my_check(vars.text, 1)",
]
SIGNALS = [
    "errors.consecutive >= limits.steps",
    "run.steps < limits.steps",
    "run.steps >= 5 and last.ok",
    "run.steps >= 5 and my_check(vars.text, 1)",
    "not (run.steps < 5 or last.ok)",
    "run.steps >= vars.n",
    "run.steps - vars.n >= 5",
    "run.steps - run.visits.plan >= 5",
    "usage.total_tokens / run.steps >= 5",
    "min(run.steps, 3) >= 5",
    "run.steps * 0 >= 5",
    "run.steps * vars.x >= 5",
    "run.steps * -1 >= 5",
    "run.steps % 3 >= 5",
    "run.steps == 5",
    "5 < run.steps < 9",
    "usage.context_ratio >= limits.context",
    "usage.cost is not None",
    "run.steps",
    "last.ok",
    "True",
    "any(run.steps > n for n in vars.numbers)",
    "run.steps >= 5 if last.ok else run.steps >= 9",
    "limits.steps >= 5",
    "len(vars.words) >= 5",
]


@pytest.mark.parametrize("text", BUDGETS)
def test_a_budget_must_come_true_if_the_run_goes_on(text: str) -> None:
    expression = parse(text, SCOPE)
    assert expression.kind == "budget"
    late = 10**9
    spent = facts(
        run=RunFacts(steps=late, elapsed=float(late), visits={"plan": late}),
        usage=UsageFacts(total_tokens=late, cost=float(late)),
        limits={**AT.limits, "off": 7},
    )
    assert expression.value(spent, no) is True


@pytest.mark.parametrize("text", SIGNALS)
def test_everything_else_is_a_signal(text: str) -> None:
    assert parse(text, SCOPE).kind == "signal"


class Bounded(NamedTuple):
    """A text and its bounds."""

    text: str
    bounds: list[Bound]


def bound(
    text: str,
    fact: str,
    value: str,
    *,
    strict: bool = False,
    grows: bool = True,
    alone: bool = True,
) -> Bound:
    return Bound(fact, value, strict, text, grows, alone)


STEPS = "run.steps >= limits.steps"
BOUNDED = [
    Bounded(STEPS, [bound(STEPS, "run.steps", "limits.steps")]),
    Bounded("run.steps > 5", [bound("run.steps > 5", "run.steps", "5", strict=True)]),
    Bounded("5 <= run.steps", [bound("5 <= run.steps", "run.steps", "5")]),
    Bounded("busy", [bound(STEPS, "run.steps", "limits.steps")]),
    Bounded("run.steps < 5", []),
    Bounded("not run.steps < 5", [bound("run.steps < 5", "run.steps", "5")]),
    Bounded("run.steps == 5", []),
    Bounded(
        "errors.consecutive >= 3",
        [bound("errors.consecutive >= 3", "errors.consecutive", "3", grows=False)],
    ),
    Bounded(
        "usage.context_tokens >= usage.context_window * 0.9",
        [
            bound(
                "usage.context_tokens >= usage.context_window * 0.9",
                "usage.context_tokens",
                "usage.context_window * 0.9",
                grows=False,
            )
        ],
    ),
    Bounded(
        "run.steps * 2 + 1 >= limits.steps",
        [bound("run.steps * 2 + 1 >= limits.steps", "run.steps", "limits.steps")],
    ),
    Bounded("min(run.steps, 3) >= 5", []),
    Bounded("run.steps - vars.n >= 5", []),
    Bounded("errors.consecutive * 2 >= 5", []),
    Bounded("limits.steps >= 5", []),
    Bounded("vars.text >= 'a'", []),
    Bounded(
        "run.steps >= 5 and run.visits.plan >= 2",
        [
            bound("run.steps >= 5", "run.steps", "5", alone=False),
            bound("run.visits.plan >= 2", "run.visits.plan", "2", alone=False),
        ],
    ),
    Bounded(
        "run.steps >= 5 or not (run.visits.plan < 2 and last.ok)",
        [
            bound("run.steps >= 5", "run.steps", "5"),
            bound("run.visits.plan < 2", "run.visits.plan", "2"),
        ],
    ),
    Bounded(
        "1 < run.steps >= 5",
        [
            bound("1 < run.steps", "run.steps", "1", strict=True, alone=False),
            bound("run.steps >= 5", "run.steps", "5", alone=False),
        ],
    ),
    Bounded(
        "(run.steps >= 5 if last.ok else last.ok)",
        [bound("run.steps >= 5", "run.steps", "5", alone=False)],
    ),
    Bounded("(last.ok if run.steps >= 5 else last.ok)", []),
]


@pytest.mark.parametrize("case", BOUNDED, ids=lambda case: case.text)
def test_bounds(case: Bounded) -> None:
    assert list(parse(case.text, SCOPE).bounds) == case.bounds


class Implied(NamedTuple):
    """A text, and what cannot be None when it is true and when it is false."""

    text: str
    true: str
    false: str


IMPLIED = [
    Implied("errors.last is not None", "errors.last", ""),
    Implied("errors.last is None", "", "errors.last"),
    Implied("last.ok", "", "errors.last last.error"),
    Implied("not last.ok", "errors.last last.error", ""),
    Implied("errors.consecutive >= limits.steps", "errors.last", ""),
    Implied("errors.consecutive >= limits.off", "errors.last limits.off", ""),
    Implied("errors.total >= 1", "errors.last", ""),
    Implied("errors.total >= 0", "", ""),
    Implied("errors.retries > 0", "errors.last", ""),
    Implied("0 < errors.retries", "errors.last", ""),
    Implied("errors.total != 0", "errors.last", ""),
    Implied("errors.total == 0", "", "errors.last"),
    Implied("errors.total == 2", "errors.last", ""),
    Implied("errors.total < 1", "", "errors.last"),
    Implied("errors.total >= vars.n", "", ""),
    Implied("errors.total < limits.steps", "", "errors.last"),
    Implied("run.steps >= limits.steps", "", ""),
    Implied("run.steps >= limits.off", "limits.off", ""),
    Implied("run.steps < limits.off", "", "limits.off"),
    Implied("usage.cost >= limits.cost", "usage.cost limits.cost", ""),
    Implied("usage.cost >= 5", "usage.cost", ""),
    Implied("0 < run.steps >= limits.off", "limits.off", ""),
    Implied("errors.total >= 1 and last.ok", "errors.last", ""),
    Implied("errors.total >= 1 and not last.ok", "errors.last last.error", ""),
    Implied("errors.total < 1 or last.ok", "", "errors.last last.error"),
    Implied("errors.total >= 1 or errors.retries >= 1", "errors.last", ""),
    Implied("errors.total >= 1 or last.ok", "", "errors.last last.error"),
    Implied("errors.total < 1 and errors.retries < 1", "", "errors.last"),
    Implied("errors.last is not None and errors.last.category == 'CRITICAL'", "errors.last", ""),
    Implied("errors.last is None or errors.last.category == 'CRITICAL'", "", "errors.last"),
    Implied("last.ok if errors.total < 1 else vars.flag", "", "errors.last"),
    Implied("errors.total >= 1 if last.ok else errors.last is not None", "errors.last", ""),
    Implied("any(w == 'a' for w in vars.words)", "", ""),
    Implied("usage.cost is not None and cheap", "usage.cost", ""),
]


@pytest.mark.parametrize("case", IMPLIED, ids=lambda case: case.text)
def test_what_cannot_be_none_behind_it(case: Implied) -> None:
    expression = parse(case.text, SCOPE)
    assert expression.implies(True) == set(case.true.split())
    assert expression.implies(False) == set(case.false.split())


class Read(NamedTuple):
    """A text and what its atoms say."""

    text: str
    readings: list[Reading]


def told(text: str, holds: bool | None, *values: Any, error: str = "") -> Reading:
    return Reading(text, holds, *values, error=error)


READ = [
    Read(STEPS, [told(STEPS, False, 40, 50, 10, 0.8)]),
    Read("limits.steps <= run.steps", [told("limits.steps <= run.steps", False, 50, 40, 10, 0.8)]),
    Read(
        "usage.total_tokens >= limits.tokens",
        [told("usage.total_tokens >= limits.tokens", True, 1200, 1000, -200, 1.2)],
    ),
    Read("run.visits.plan < 8", [told("run.visits.plan < 8", True, 2, 8, 6, 0.25)]),
    Read(
        "run.elapsed > limits.time",
        [told("run.elapsed > limits.time", False, 150.0, 600.0, 450.0, 0.25)],
    ),
    Read("run.steps >= 0", [told("run.steps >= 0", True, 40, 0, -40, None)]),
    Read("vars.n >= 8", [told("vars.n >= 8", False, -4, 8, 12, 0.0)]),
    Read("run.steps >= limits.off", [told("run.steps >= limits.off", False, 40, None)]),
    Read("run.steps < limits.off", [told("run.steps < limits.off", True, 40, None)]),
    # a limit that is off decides before the other side is looked at
    Read("1 / (vars.n + 4) >= limits.off", [told("1 / (vars.n + 4) >= limits.off", False)]),
    Read("usage.cost > 1.0", [told("usage.cost > 1.0", False, None, 1.0)]),
    Read("run.steps == 40", [told("run.steps == 40", True, 40, 40)]),
    Read("limits.steps > 5", [told("limits.steps > 5", True, 50, 5)]),
    Read("vars.text < 'Z'", [told("vars.text < 'Z'", True, "Running", "Z")]),
    Read("vars.words == ['a']", [told("vars.words == ['a']", False, ["a", "b"], ["a"])]),
    Read("vars.words != ['a']", [told("vars.words != ['a']", True, ["a", "b"], ["a"])]),
    Read("vars.text not in ['a']", [told("vars.text not in ['a']", True, "Running", ["a"])]),
    Read("errors.last is None", [told("errors.last is None", True, None, None)]),
    Read("vars.flag is not None", [told("vars.flag is not None", True, True, None)]),
    Read(
        "not last.ok or vars.flag and found",
        [
            told("last.ok", True, True),
            told("vars.flag", True, True),
            told("any(w == 'a' for w in vars.words)", True, True),
        ],
    ),
    Read(
        "5 < run.steps < limits.steps",
        [
            told("5 < run.steps", True, 5, 40, -35, 8.0),
            told("run.steps < limits.steps", True, 40, 50, 10, 0.8),
        ],
    ),
    Read(
        "busy and progress.magnitude is not None and progress.magnitude < 0.1",
        [
            told(STEPS, False, 40, 50, 10, 0.8),
            told("progress.magnitude is not None", False, None, None),
            told("progress.magnitude < 0.1", None, None, 0.1, error="`progress.magnitude` is None"),
        ],
    ),
    Read(
        "last.ok or 1 / (vars.n + 4) > 2",
        [
            told("last.ok", True, True),
            told("1 / (vars.n + 4) > 2", None, error="ZeroDivisionError: division by zero"),
        ],
    ),
    Read(
        "vars.flag if run.steps > 5 else last.ok",
        [
            told("vars.flag", True, True),
            told("run.steps > 5", True, 40, 5, -35, 8.0),
            told("last.ok", True, True),
        ],
    ),
    Read(
        "severity", [told("health < 0.2", True, 1 - 1200 / 1000, 0.2, 0.2 - (1 - 1200 / 1000), 0.0)]
    ),
    Read("my_check(vars.text, 1)", [told("my_check(vars.text, 1)", False, False)]),
    Read("run.steps", []),
]


@pytest.mark.parametrize("case", READ, ids=lambda case: case.text)
def test_readings(case: Read) -> None:
    assert list(parse(case.text, SCOPE).readings(AT, no)) == case.readings


def test_a_guard_that_nobody_answers_for_is_told() -> None:
    (reading,) = parse("my_check(vars.text, 1)", SCOPE).readings(AT)
    assert reading.holds is None
    assert "my_check" in reading.error


def test_what_is_read_and_compared_goes_through_definitions() -> None:
    expression = parse("busy or any(c.name == 'x' for c in last.tool_calls)", SCOPE)
    assert expression.reads == {"run.steps", "limits.steps", "last.tool_calls"}
    assert expression.ops == {">=", "=="}
    assert not expression.constant
    assert expression.opaque == ()


def test_a_constant_reads_nothing() -> None:
    assert parse("never", SCOPE).constant
    assert parse("1 + 1 > 2 or len('a') == 1", SCOPE).constant
    assert not parse("my_check('a', 1)", SCOPE).constant


def test_a_field_of_a_fact_is_read_as_the_fact() -> None:
    expression = parse("errors.last.category == 'CRITICAL'", SCOPE.narrow({"errors.last"}))
    assert expression.reads == {"errors.last"}


def test_the_margin_keeps_its_unit_when_progress_falls_back() -> None:
    at = AT.replace(progress=ProgressFacts(stalled_for=90.0))
    (reading,) = parse("progress.stalled_for >= duration('2m')", SCOPE).readings(at)
    assert (reading.margin, reading.share) == (30.0, 0.75)
