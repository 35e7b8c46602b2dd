"""Explanations: the table that people read, and what is left of a budget."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.core.text_table import size
from chartloop.machine.explain import Explanation
from chartloop.run.ports import ModelReply
from chartloop.testing import ManualClock
from tests.talks import Listening

HEAD = """\
chartloop: 1
machine: m
model: {name: scripted}
limits: {steps: 9, time: 1h}
vars: {score: 0}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  a: {do: infer, next: b}
  b:
    ask: Enough?
    when: GUARD
    then: c
    else: a
  c: {stop: completed}
"""


PRINTED = """\
step at a

   rules at a                  values                 left  leads to
✗  run.steps >= limits.steps   1 against 9               8  stop: steps_limit
✗  run.working >= limits.time  0 ms against 1 hour  1 hour  stop: time_limit

   edges of a
✓  otherwise                                                b

   edges of b
✗  len(last.text) > 5          2 against 5                  c
✓  otherwise                                                a

warning  a reply came without usage; its tokens were estimated
led to   a → b → a, running"""


def explained(guard: str, text: str = "hm", seq: int = 1) -> Explanation:
    machine = load(HEAD.replace("GUARD", guard))
    said = ModelReply(text)
    run = machine.start("x", model=Listening(said, said), clock=ManualClock(0.0))
    run.advance()
    run.advance()
    return run.why(seq)


def test_printed_it_is_a_table() -> None:
    assert str(explained("len(last.text) > 5")) == PRINTED


def test_a_session_shows_it_in_a_line() -> None:
    assert repr(explained("len(last.text) > 5")) == ("<Explanation of step at a: next a, running>")


def test_a_start_names_its_state_once() -> None:
    assert str(explained("run.steps >= 5", seq=0)).splitlines()[-1] == "led to  a, running"


def test_columns_that_say_nothing_are_left_out() -> None:
    run = load(
        "chartloop: 1\nmachine: m\nstates:\n  a: {do: nothing, next: b}\n  b: {end: completed}\n"
    ).start()
    run.run()
    assert str(run.why(1)).splitlines()[2:4] == ["   edges of a  leads to", "✓  otherwise   b"]


class Left(NamedTuple):
    """A guard that was looked at, and what its row says is left."""

    id: str
    guard: str
    left: str


@pytest.mark.parametrize(
    "case",
    [
        Left("counter-against-a-number", "run.steps >= 5", "4"),
        Left("counter-against-a-limit", "run.steps >= limits.steps", "8"),
        Left("turned-round", "limits.steps <= run.steps", "8"),
        Left("past-its-bound", "run.steps > 5", "5"),
        Left("past-its-bound-at-it", "run.steps > 1", "1"),
        Left("spent", "run.steps >= 1", ""),
        Left("below", "run.steps < 5", ""),
        Left("at-most", "run.steps <= 5", ""),
        Left("not-below", "not (run.steps < 5)", ""),
        Left("falls-back-against-a-limit", "errors.consecutive >= limits.steps", "9"),
        Left("variable-against-a-number", "vars.score >= 5", ""),
        Left("length", "len(last.text) > 5", ""),
        Left("length-of-nothing", "len(last.tool_calls) > 0", ""),
        Left("equal", "run.steps == 5", ""),
        Left("text", 'last.text == "x"', ""),
    ],
    ids=lambda case: case.id,
)
def test_what_is_left_of_a_budget(case: Left) -> None:
    row = next(r for r in explained(case.guard).rows if r.state == "b" and r.atoms)
    assert [atom.margin for atom in row.atoms] == [case.left]


def test_what_a_guard_did_not_need_is_no_error() -> None:
    found = explained('last.error is not None and last.error.category == "CRITICAL"')
    row = next(r for r in found.rows if r.state == "b" and r.atoms)
    assert (row.mark, row.holds) == ("✗", False)
    assert [(atom.holds, atom.error) for atom in row.atoms] == [(False, ""), (None, "")]
    assert "AttributeError" not in str(found)


def test_a_guard_that_raised_is_marked_with_its_error() -> None:
    found = explained("10 // (run.steps - 1) > 3")
    row = next(r for r in found.rows if r.state == "b" and r.atoms)
    assert row.mark == "!"
    assert "ZeroDivisionError" in row.atoms[0].error


FORK = """\
chartloop: 1
machine: m
limits: {steps: 9}
states:
  f: {do: nothing, all: [p, q]}
  p: {ask: P?, when: run.steps >= limits.steps, then: x, else: j}
  q: {ask: Q?, when: run.steps >= limits.steps, then: x, else: j}
  j: {do: nothing, next: z}
  x: {stop: custom}
  z: {stop: completed}
"""


def test_no_branch_of_a_fork_is_said_to_be_left_out() -> None:
    run = load(FORK).start()
    run.run()
    rows = [(r.mark, r.text, r.to) for r in run.why(1).rows if r.state == "f"]
    assert rows == [("✓", "branch 1", "p"), ("✓", "branch 2", "q")]


def test_what_others_said_cannot_steer_a_terminal() -> None:
    failure = {"error": {"category": "CRITICAL", "message": "no\x1b[2J\u202e\x9b\nkey"}}
    run = load(HEAD.replace("GUARD", "run.steps > 5")).start("x", script=[failure])
    run.run()
    said = str(run.why(1))
    assert "no\ufffd[2J\ufffd\ufffd key" in said
    assert not {"\x1b", "\x9b", "\u202e"} & set(said)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.text(max_size=40), st.integers(50, 120))
def test_the_table_is_never_wider_than_it_may_be(text: str, width: int) -> None:
    lines = explained("len(last.text) > 5 and not (last.text == 'x')", text=text or "x").lines(
        width
    )
    assert all(size(line.text) <= width for line in lines)


def test_each_python_guard_keeps_its_own_answer() -> None:
    """The second of two is not said to have answered what the first did."""
    machine = load(
        """
chartloop: 1
machine: m
title: Two guards of the application's own
model: {name: scripted}
limits: {steps: 5}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  a:
    do: receive
    next:
      - {when: never(), to: b}
      - {when: always() and run.steps >= 9, to: c}
      - {to: b}
  b: {do: measure, next: c}
  c: {stop: completed}
""",
        guards=[never, always],
    )
    run = machine.start("x", clock=ManualClock(0.0))
    run.run()
    atoms = [atom for row in run.why(1).rows for atom in row.atoms]
    assert [(a.text, a.holds) for a in atoms if "()" in a.text] == [
        ("never()", False), ("always()", True),
    ]  # fmt: skip


def never() -> bool:
    return False


def always() -> bool:
    return True


def test_a_rule_that_raised_does_not_hold() -> None:
    text = HEAD.replace("GUARD", "run.steps > 5").replace(
        "rules:\n", 'rules:\n  - {when: "10 // (run.steps - 1) > 3", stop: error}\n'
    )
    run = load(text).start("x", model=Listening(ModelReply("hm")), clock=ManualClock(0.0))
    run.advance()
    run.advance()
    row = next(r for r in run.why(1).rows if r.kind == "rule")
    assert (row.mark, row.holds, row.taken) == ("!", None, False)
