"""What holds wherever a guard is looked at: steps were taken, no signal waits."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.api import Machine, load
from chartloop.studies.coverage.targets import items_of
from chartloop.studies.coverage.unreachable import unreachable

HEAD = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nvars: {on: true}\n"


class Case(NamedTuple):
    """A machine, and whether an atom is proven never to decide by being false."""

    id: str
    text: str
    atom: str
    proven: bool
    because: str = ""


STEPS, NONE_WAITS = "`run.steps >= 1` holds", "`signals.count == 0` holds"
CASES = [
    Case("behind-an-action", """\
states:
  a: {do: infer, next: [{when: vars.on and run.steps >= 1, to: b}, b]}
  b: {stop: completed}
""", "a.next.0#1", True, STEPS),
    Case("behind-an-action-or-two", """\
states:
  a: {do: infer, next: [{when: vars.on and run.steps >= 2, to: b}, b]}
  b: {stop: completed}
""", "a.next.0#1", False),
    Case("behind-the-start-alone", """\
states:
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: a}
  a: {do: infer, next: q}
  b: {stop: completed}
""", "q.then#1", False),
    Case("a-question-behind-an-action", """\
states:
  a: {do: infer, next: q}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: a}
  b: {stop: completed}
""", "q.then#1", True, STEPS),
    Case("a-question-that-a-detour-opens", """\
rules: [{when: vars.on, to: q}]
states:
  a: {do: infer, next: b}
  b: {stop: completed}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: b}
""", "q.then#1", False),
    Case("a-wait-is-no-action", """\
states:
  w: {ask: Go?, on: {yes: q}}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: w}
  b: {stop: completed}
""", "q.then#1", False),
    Case("rule-behind-an-action", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, at: [b]}]
states: {a: {do: infer, next: b}, b: {do: infer, next: c}, c: {stop: completed}}
""", "rules.0#1", True, STEPS),
    Case("rule-at-the-start-is-looked-at-before-it", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, at: [a]}]
states: {a: {do: infer, next: b}, b: {do: infer, next: c}, c: {stop: completed}}
""", "rules.0#1", False),
    Case("rule-that-is-always-looked-at", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom}]
states: {a: {do: infer, next: b}, b: {do: infer, next: c}, c: {stop: completed}}
""", "rules.0#1", False),
    Case("rule-before-a-start-that-decides", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, before: [q]}]
states: {q: {ask: Q, when: vars.on, then: a, else: b}, a: {do: infer, next: q}, b: {stop: completed}}
""", "rules.0#1", True, STEPS),
    Case("rule-before-a-start-that-acts", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, before: [a]}]
states: {a: {do: infer, next: q}, q: {ask: Q, when: vars.on, then: a, else: b}, b: {stop: completed}}
""", "rules.0#1", False),
    Case("rule-before-what-follows-a-question", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, before: [a]}]
states: {q: {ask: Q, when: vars.on, then: a, else: b}, a: {do: infer, next: q}, b: {stop: completed}}
""", "rules.0#1", False),
    Case("rule-before-where-a-detour-comes-back-to", """\
rules: [{when: vars.on and run.steps >= 1, stop: custom, before: [q]}, {when: run.visits.d < 1, to: d}]
states:
  q: {ask: Q, when: vars.on, then: a, else: b}
  a: {do: infer, next: q}
  b: {stop: completed}
  d: {ask: D, when: usage.prunable, then: b, else: return}
""", "rules.0#1", False),
    Case("no-signal-waits", """\
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, b]}
  b: {stop: completed}
""", "a.next.0#1", True, NONE_WAITS),
    Case("a-signal-rule-raises-one", """\
rules: [{when: run.steps >= 9, signal: custom}]
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "a.next.0#1", False),
    Case("a-stop-rule-stops", """\
rules: [{when: run.steps >= 9, stop: custom}]
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "a.next.0#1", True, NONE_WAITS),
    Case("behind-a-stop-one-waits", """\
states:
  a: {do: infer, next: s}
  s: {stop: custom, next: r}
  r: {do: report, next: [{when: vars.on and signals.count == 0, to: e}, e]}
  e: {end: by_reason}
""", "r.next.0#1", False),
    Case("a-branch-of-a-fork-raises-one", """\
states:
  a: {do: infer, next: f}
  f: {next: g}
  g: {all: [x, y], role: hub}
  x: {ask: X, when: vars.on, then: s, else: a}
  y: {ask: Y, when: vars.on and signals.count == 0, then: t, else: a}
  s: {stop: custom}
  t: {stop: completed}
""", "y.then#1", False),
    Case("a-continuation-puts-them-off", """\
states:
  a: {do: infer, next: c}
  c: {do: continue_run, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "c.next.0#1", False),
]  # fmt: skip


def lost(machine: Machine) -> dict[str, str]:
    return unreachable(machine.chart, items_of(machine.chart))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_atom_that_holds_wherever_it_is_looked_at(case: Case) -> None:
    found = lost(load(HEAD + case.text))
    said = found.get(f"atom:{case.atom}=false", "")
    assert said == (
        f"proven: never false while it decides, as {case.because} then" if case.proven else ""
    )
    assert f"atom:{case.atom}=true" not in found


def test_a_whole_guard_that_every_step_fulfils_is_a_finding() -> None:
    text = (
        HEAD
        + "states:\n  a: {do: infer, next: [{when: run.steps >= 1, to: b}, a]}\n  b: {stop: completed}\n"
    )
    codes = [(f.code, f.message) for f in load(text).findings]
    assert [message for code, message in codes if code == "CL327"] == [
        "`run.steps >= 1` always holds here: the edge of `a` to `a` is never taken"
    ]  # fmt: skip
