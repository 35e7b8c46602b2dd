"""What is known when a state is reached, whichever way a run came there."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.core.specs import ActionSpec
from chartloop.core.types import INT, STR, struct
from chartloop.language.readers.flow import Moment, flow
from tests.found import END, found, spec, whole

ONE = ActionSpec("one", None, result=struct({"n": INT}, keyed=True))
TWO = ActionSpec("two", None, result=struct({"s": STR}, keyed=True))
OWN = [ONE, TWO]


class Case(NamedTuple):
    """A machine, one moment of it, and what is known then."""

    id: str
    body: str
    state: str
    moment: Moment
    facts: frozenset[str] | set[str] = frozenset()
    absent: frozenset[str] | set[str] = frozenset()
    results: set[str] | None = None
    answers: set[str] | None = None


CHAIN = (
    "states:\n  a: {do: one, next: b}\n  b: {do: nothing, next: c}\n  c: {do: nothing, next: z}\n"
    + END
)
TEST = (
    "states:\n  a: {do: one, next: [{when: errors.last is not None, to: b}, z]}\n  b: {%s}\n  c: {do: nothing, next: z}\n"
    + END
)
CASES = [
    Case("nothing-at-the-start", CHAIN, "a", "entry", absent={"errors.last"}, results={""}),
    Case("the-result-of-the-action-before", CHAIN, "b", "entry", results={"a"}),
    Case("the-result-of-its-own-action", CHAIN, "b", "after", results={"b"}),
    Case("a-test-is-remembered", TEST % "next: c", "c", "entry", facts={"errors.last"}),
    Case("a-test-outlasts-an-action", TEST % "do: nothing, next: c", "c", "entry", facts={"errors.last"}),
    Case("what-falls-back-is-forgotten", "states:\n  a: {do: one, next: [{when: last.error is not None, to: b}, z]}\n  b: {do: two, next: c}\n  c: {do: nothing, next: z}\n" + END, "c", "entry", absent={"last.error"}),
    Case("two-ways-know-what-both-know", "states:\n  a: {do: one, next: [{when: errors.last is not None, to: c}, b]}\n  b: {do: two, next: c}\n  c: {do: nothing, next: z}\n" + END, "c", "entry", absent={"errors.last"}, results={"a", "b"}),
    Case("the-edge-before-did-not-hold", "states:\n  a: {do: one, next: [{when: errors.last is None, to: z}, b]}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"errors.last"}),
    Case("else", "states:\n  a: {ask: Q?, when: errors.last is None, then: z, else: b}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"errors.last"}),
    Case("counted-errors-are-errors", "states:\n  a: {do: one, next: [{when: last.error is not None, to: b}, z]}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"last.error"}),
    Case("failed", "states:\n  a: {do: one, failed: b, next: z}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"last.error", "errors.last"}, results={""}),
    Case("on-error", "on_error: b\nstates:\n  a: {do: one, next: z}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"last.error", "errors.last"}),
    Case("an-action-that-took-too-long", "states:\n  a: {do: one, within: 5s, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"last.error"}, results={""}),
    Case("a-wait-that-expired", "states:\n  a: {on: {yes: z}, within: 5s, expired: b}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", absent={"last.error", "last.answer"}),
    Case("an-answer", "states:\n  a: {on: {yes: {to: b, data: {n: int}}}}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", facts={"last.answer"}, answers={"a.on.yes"}),
    Case("an-answer-outlasts-an-action", "states:\n  a: {on: {yes: b}}\n  b: {do: nothing, next: c}\n  c: {do: nothing, next: z}\n" + END, "c", "entry", facts={"last.answer"}, answers={"a.on.yes"}),
    Case("another-event-knows-nothing-of-a-guard", "states:\n  a: {on: {yes: [{to: z, when: errors.last is None}, z], no: b}}\n  b: {do: nothing, next: z}\n" + END, "b", "entry", absent={"errors.last"}),
    Case("a-retry-begins-again", "states:\n  a: {do: one, next: b}\n  b: {do: two, retry: {times: 1}, next: z}\n" + END, "b", "entry", results={"a", ""}),
    Case("a-rule", "rules: [{when: errors.last is not None, to: d}]\nstates:\n  a: {do: one, next: z}\n  d: {do: nothing, next: return}\n" + END, "d", "entry", facts={"errors.last"}),
    Case("a-rule-may-hold-at-the-start", "rules: [{when: run.steps >= 0, to: d}]\nstates:\n  a: {next: b}\n  b: {do: one, next: z}\n  d: {do: nothing, next: return}\n" + END, "d", "entry", results={"", "b", "d"}),
    Case("a-rule-before-a-state", "rules: [{when: run.steps >= 0, to: d, before: [b]}]\nstates:\n  a: {next: b}\n  b: {do: one, next: z}\n  d: {do: two, next: return}\n" + END, "d", "entry", results={"", "b", "d"}),
    Case("the-way-back-of-a-detour", "rules: [{when: run.steps >= 5, to: d}]\nstates:\n  a: {do: one, next: b}\n  b: {do: nothing, next: z}\n  d: {do: two, next: return}\n" + END, "b", "entry", results={"a", "d"}),
    Case("a-stop-from-outside", "states:\n  a: {do: one, next: b}\n  b: {do: two, next: [{when: errors.last is not None, to: s}, z]}\n  s: {stop: custom}\n" + END, "s", "entry", absent={"errors.last"}),
    Case("a-state-that-nothing-reaches", CHAIN + "  x: {end: error}\n", "x", "entry"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_known(case: Case) -> None:
    body = case.body
    if case.id == "a-state-that-nothing-reaches":
        body = "ignore: [{code: CL304, reason: for this test}]\n" + body
    made = flow(spec(body, own=OWN))
    known = made.entry if case.moment == "entry" else made.after
    if case.state not in known:
        assert case.id == "a-state-that-nothing-reaches"
        return
    at = known[case.state]
    assert case.facts <= at.facts
    assert not case.absent & at.facts
    assert case.results is None or at.results == case.results
    assert case.answers is None or at.answers == case.answers


@pytest.mark.parametrize(
    ("first", "passing", "failures"),
    [
        ("do: nothing", None, set[str]()),  # cannot fail
        ("do: report", None, {"last.error", "errors.last"}),
        ("do: report", set[str](), set[str]()),  # its failure stops the run
        ("do: call_tools", set[str](), {"errors.last"}),  # a call within it may fail
        ("do: report, retry: {times: 1}", set[str](), {"errors.last"}),
    ],
)
def test_what_may_have_failed(first: str, passing: set[str] | None, failures: set[str]) -> None:
    body = f"states:\n  a: {{{first}, next: b}}\n  b: {{do: nothing, next: z}}\n" + END
    assert flow(spec(body, own=OWN), passing=passing).entry["b"].failures == failures


class Text(NamedTuple):
    """A machine, and the codes of what is found in it."""

    id: str
    body: str
    codes: list[str]


OTHER = "  y: {do: nothing, next: z}\n"
LAST = "states:\n  a: {do: one, next: [{when: last.result.n > 3, to: z}, y]}\n" + END + OTHER
TEXTS = [
    Text("the-result-is-typed", LAST, []),
    Text("behind-a-decision-too", "states:\n  a: {do: one, next: q}\n  q: {ask: Q?, when: last.result.n > 3, then: z, else: y}\n" + END + OTHER, []),
    Text("two-states-with-one-action", "states:\n  a: {do: one, next: [{when: last.ok, to: b}, q]}\n  b: {do: one, next: q}\n  q: {ask: Q?, when: last.result.n > 3, then: z, else: y}\n" + END + OTHER, []),
    Text("two-actions", "states:\n  a: {do: one, next: [{when: last.ok, to: b}, q]}\n  b: {do: two, next: q}\n  q: {ask: Q?, when: last.result.n > 3, then: z, else: y}\n" + END + OTHER, ["CL110"]),
    Text("no-action", "states:\n  q: {ask: Q?, when: last.result == 3, then: z, else: y}\n" + END + OTHER, ["CL110"]),
    Text("an-error-that-was-counted", "states:\n  a: {do: one, next: [{when: errors.consecutive >= 3, to: q}, z]}\n  q: {ask: Q?, of: errors.last.category, cases: {TRANSIENT: z, RECOVERABLE: z, CRITICAL: y}}\n" + END + OTHER, []),
    Text("an-error-that-may-not-be", "states:\n  a: {do: one, next: q}\n  q: {ask: Q?, of: errors.last.category, cases: {TRANSIENT: z, RECOVERABLE: z, CRITICAL: y}}\n" + END + OTHER, ["CL105"]),
    Text("an-answer-is-typed", "states:\n  a: {on: {yes: {to: q, data: {n: int}}}}\n  q: {ask: Q?, when: last.answer.n > 3, then: z, else: y}\n" + END + OTHER, []),
    Text("an-answer-that-may-not-be", "states:\n  q: {ask: Q?, when: last.answer.n > 3, then: z, else: y}\n" + END + OTHER, ["CL110"]),
]  # fmt: skip


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.id)
def test_what_is_known_lets_guards_read(case: Text) -> None:
    findings = found(whole(case.body), own=OWN)
    assert [f.code for f in findings] == case.codes, "\n\n".join(f.render() for f in findings)
