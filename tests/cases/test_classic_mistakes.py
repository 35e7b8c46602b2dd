"""The fourteen classic mistakes, and those named beside them: "language", section 9.

All are found in one pass over one file that holds them all, each with its line, column, caret
and cure. Each by itself gives one finding, however much follows from it.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.api import load
from chartloop.core.errors import SpecError
from tests.found import END, HEAD, Fault, Spot, expect, found, spot

ALL = """\
chartloop: 1
machine: wrong
start: begn
limits: {steps: 10, calls: 5}
machines:
  empty: {states: {}}
rules:
  - {when: run.stepz >= limits.steps, stop: steps_limit, at: [begin]}
states:
  begin: {do: receive, next: [{when: last.ok, to: think}, open]}
  think: {do: infer, next: pick}
  pick: {ask: "Tools?", when: len(last.tool_calls > 0, then: act, else: two}
  act: {do: call_tools, next: thnik}
  act: {do: nothing, next: think}
  two: {do: nothing, next: [{to: round}, {to: over}]}
  round: {next: about}
  about: {next: round}
  over: {end: completed, next: begin}
  kind: {do: nothing, next: 5}
  lost: {do: nothing, next: kind}
  open: {do: nothing, lable: Open, next: shut}
  shut:
    next:
      - {when: run.steps > 3, label: "≥ 3", to: open}
      - {when: last.ok, to: stuck}
  stuck: {do: nothing}
"""


class Mistake(NamedTuple):
    """One of the mistakes above: where it is shown, and how to mend it."""

    id: str
    code: str
    spot: Spot
    cure: str


EXPECTED = [
    Mistake("unknown start", "CL303", Spot(3, 8, 4), "did you mean `begin`?"),
    Mistake("a limit that nothing reads", "CL315", Spot(4, 21, 5), "limits.calls"),
    Mistake("no states", "CL302", Spot(6, 11, 6), "add `states:`"),
    Mistake("unknown fact", "CL103", Spot(8, 12, 9), "did you mean `run.steps`?"),
    Mistake("a syntax error in a guard", "CL101", Spot(12, 34, 1), ""),
    Mistake("unknown target", "CL301", Spot(13, 31, 5), "did you mean `think`?"),
    Mistake("duplicate state", "CL002", Spot(14, 3, 3), "rename or remove one"),
    Mistake("two edges that are both always true", "CL321", Spot(15, 29, 11), "move it to the end"),
    Mistake("a loop of passing states", "CL308", Spot(16, 3, 5), "an action or a wait"),
    Mistake("an edge out of an end", "CL306", Spot(18, 26, 4), "remove `next`, or `end`"),
    Mistake("wrong type for next", "CL203", Spot(19, 29, 1), "a state's name"),
    Mistake("unreachable state", "CL304", Spot(20, 3, 4), "lead an edge to it"),
    Mistake("a misspelt key", "CL201", Spot(21, 23, 5), "did you mean `label`?"),
    Mistake("a decision where no edge need hold", "CL309", Spot(23, 5, 4), "no `when`"),
    Mistake(
        "a label that says something else", "CL317", Spot(24, 39, 1), "say what the guard does"
    ),
    Mistake("a dead end", "CL305", Spot(26, 3, 5), "add `next`"),
]
"""In the order of the file. Nothing else is found in it."""


def test_all_are_found_in_one_pass() -> None:
    findings = found(ALL)
    shown = "\n\n".join(f.render() for f in findings)
    assert [(f.code, spot(f)) for f in findings] == [(m.code, m.spot) for m in EXPECTED], shown
    for finding, mistake in zip(findings, EXPECTED, strict=True):
        assert mistake.cure in finding.hint, mistake.id


def test_a_caret_stands_under_the_mistake() -> None:
    texts = [f.place.text[f.place.column - 1 :][: f.place.width] for f in found(ALL)]
    assert texts == [
        "begn", "calls", "states", "run.stepz", "(", "thnik", "act", "{to: round}", "round", "next",
        "5", "lost", "lable", "next", "≥", "stuck",
    ]  # fmt: skip


def test_they_are_sorted_by_place() -> None:
    places = [(f.place.line, f.place.column) for f in found(ALL)]
    assert places == sorted(places)


def test_none_of_them_runs() -> None:
    with pytest.raises(SpecError) as raised:
        load(ALL)
    assert len(raised.value.findings) >= 14


ALONE = [
    Fault("unknown-target", "states:\n  a: {do: nothing, next: «nowhere»}\n" + END, "CL301", "unknown state `nowhere`", "known: `a`, `z`"),
    Fault("unknown-target-misspelt", "states:\n  first: {do: nothing, next: «sceond»}\n  second: {do: nothing, next: z}\n" + END, "CL301", "unknown state `sceond`", "did you mean `second`?"),
    Fault("unknown-target-after-a-rename", "states:\n  a: {do: nothing, next: «think»}\n  reason: {do: nothing, next: b}\n  b: {do: nothing, next: z}\n" + END, "CL301", "unknown state `think`"),
    Fault("no-states", "«states»: {}\n", "CL302", "machine `m` has no states", "add `states:`"),
    Fault("unknown-start", "start: «c»\nstates:\n  a: {do: nothing, next: z}\n" + END, "CL303", "unknown state `c`"),
    Fault("duplicate-state", "states:\n  a: {do: nothing, next: b}\n  b: {do: nothing, next: z}\n  «b»: {do: nothing, next: c}\n  c: {do: nothing, next: z}\n" + END, "CL002", "`b` appears twice"),
    Fault("misspelt-key", "states:\n  a: {do: nothing, «nxt»: z}\n" + END, "CL201", "unknown key `nxt`", "did you mean `next`?"),
    Fault("syntax-in-a-guard", "limits: {n: 5}\nrules:\n  - {when: run.steps «=>» limits.n, stop: steps_limit, to: s}\nstates:\n  a: {do: nothing, next: z}\n  s: {stop: steps_limit}\n" + END, "CL101", "`=>` is not an operator here", "write `>=`"),
    Fault("unknown-fact", "limits: {n: 5}\nrules:\n  - {when: «usage.tokenz» >= limits.n, to: d}\nstates:\n  a: {do: nothing, next: z}\n  d: {do: nothing, next: return}\n" + END, "CL103", "unknown fact `usage.tokenz`", "did you mean `usage.total_tokens`?"),
    Fault("unreachable-state", "states:\n  a: {do: nothing, next: z}\n  «lost»: {do: nothing, next: more}\n  more: {do: nothing, next: z}\n" + END, "CL304", "state `lost` is never reached, nor `more` after it"),
    Fault("dead-end", "states:\n  «a»: {do: nothing}\n  b: {do: nothing, next: z}\n" + END, "CL305", "state `a` has no outgoing edge", "add `next: b`"),
    Fault("dead-end-behind-a-decision", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, b]}\n  «b»: {do: nothing}\n" + END, "CL305", "state `b` has no outgoing edge", "add `next`"),
    Fault("two-edges-that-always-hold", "states:\n  a: {do: nothing, next: [«{to: z}», {to: b}]}\n  b: {do: nothing, next: z}\n" + END, "CL321", "can never be taken", "move it to the end"),
    Fault("two-edges-with-one-guard", "states:\n  a: {do: nothing, next: [{when: last.ok, to: z}, «{when: last.ok, to: b}», z]}\n  b: {do: nothing, next: z}\n" + END, "CL307", "to `b` is never taken", "move it up"),
    Fault("loop-of-passing-states", "states:\n  a: {do: nothing, next: p}\n  «p»: {next: q}\n  q: {next: p}\n" + END, "CL308", "p → q → p", "an action or a wait"),
    Fault("edge-out-of-an-end", "states:\n  a: {do: nothing, next: z}\n  z: {end: completed, «next»: a}\n", "CL306", "`z` is an end", "remove `next`, or `end`"),
    Fault("wrong-type-for-next", "states:\n  a: {do: nothing, next: «5»}\n" + END, "CL203", "`states.a.next` takes text, not a number", "a state's name"),
    Fault("no-edge-need-hold", "states:\n  a: {do: nothing, «next»: [{when: run.steps > 3, to: z}, {when: last.ok, to: z}]}\n" + END, "CL309", "all of them may be false", "give the last edge no `when`"),
    Fault("limit-that-nothing-reads", "limits: {n: 5, «tokens»: 100}\nrules: [{when: run.steps >= limits.n, stop: steps_limit}]\n", "CL315", "it is not enforced", "limits.tokens"),
    Fault("paid-loop-without-a-budget", "states:\n  «a»: {do: infer, next: [{when: last.finish_reason == 'tool_calls', to: b}, z]}\n  b: {do: call_tools, next: a}\n" + END, "CL316", "`a` can repeat without end", "steps_limit"),
    Fault("label-that-says-another-limit", "limits: {n: 5, k: 9}\nrules: [{when: run.steps >= limits.k, stop: steps_limit}]\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: 'Steps ≥ {«limits.k»}?', when: run.steps >= limits.n, then: z, else: a}\n" + END, "CL317", "shows `limits.k`"),
    Fault("label-that-says-another-comparison", "limits: {n: 5}\nstates:\n  a: {do: nothing, next: q}\n  q: {ask: 'Steps «>» {limits.n}?', when: run.steps >= limits.n, then: z, else: a}\n" + END, "CL317", "says `>`"),
]  # fmt: skip


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.id)
def test_alone_it_gives_one_finding(case: Fault) -> None:
    expect(case)


def test_the_first_of_two_duplicates_is_shown_too() -> None:
    finding = found(HEAD + "states:\n  z: {stop: completed}\n  z: {end: error}\n")[0]
    assert finding.related is not None
    assert finding.related[1].line == 4
    assert spot(finding) == Spot(5, 3, 1)
