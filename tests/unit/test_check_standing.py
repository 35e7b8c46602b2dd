"""What holds wherever a guard is looked at: steps were taken, no signal waits."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.knowledge import Knowledge
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.api import load
from chartloop.language.file.unreadable import Unread

HEAD = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nvars: {on: true}\n"


class Case(NamedTuple):
    """A machine, and whether the second atom of an edge's guard is proven never to be false there."""

    id: str
    text: str
    edge: str
    proven: bool
    because: str = ""


STEPS, NONE_WAITS = "`run.steps >= 1` holds", "`signals.count == 0` holds"
CASES = [
    Case("behind-an-action", """\
states:
  a: {do: infer, next: [{when: vars.on and run.steps >= 1, to: b}, b]}
  b: {stop: completed}
""", "a.next.0", True, STEPS),
    Case("behind-an-action-or-two", """\
states:
  a: {do: infer, next: [{when: vars.on and run.steps >= 2, to: b}, b]}
  b: {stop: completed}
""", "a.next.0", False),
    Case("behind-the-start-alone", """\
states:
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: a}
  a: {do: infer, next: q}
  b: {stop: completed}
""", "q.then", False),
    Case("a-question-behind-an-action", """\
states:
  a: {do: infer, next: q}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: a}
  b: {stop: completed}
""", "q.then", True, STEPS),
    Case("a-question-that-a-detour-opens", """\
rules: [{when: vars.on, to: q}]
states:
  a: {do: infer, next: b}
  b: {stop: completed}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: b}
""", "q.then", False),
    Case("a-wait-is-no-action", """\
states:
  w: {ask: Go?, on: {yes: q}}
  q: {ask: Q, when: vars.on and run.steps >= 1, then: b, else: w}
  b: {stop: completed}
""", "q.then", False),
    Case("no-signal-waits", """\
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, b]}
  b: {stop: completed}
""", "a.next.0", True, NONE_WAITS),
    Case("a-signal-rule-raises-one", """\
rules: [{when: run.steps >= 9, signal: custom}]
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "a.next.0", False),
    Case("a-stop-rule-stops", """\
rules: [{when: run.steps >= 9, stop: custom}]
states:
  a: {do: infer, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "a.next.0", True, NONE_WAITS),
    Case("behind-a-stop-one-waits", """\
states:
  a: {do: infer, next: s}
  s: {stop: custom, next: r}
  r: {do: report, next: [{when: vars.on and signals.count == 0, to: e}, e]}
  e: {end: by_reason}
""", "r.next.0", False),
    Case("a-branch-of-a-fork-raises-one", """\
states:
  a: {do: infer, next: f}
  f: {next: g}
  g: {all: [x, y], role: hub}
  x: {ask: X, when: vars.on, then: s, else: a}
  y: {ask: Y, when: vars.on and signals.count == 0, then: t, else: a}
  s: {stop: custom}
  t: {stop: completed}
""", "y.then", False),
    Case("a-continuation-puts-them-off", """\
states:
  a: {do: infer, next: c}
  c: {do: continue_run, next: [{when: vars.on and signals.count == 0, to: b}, a]}
  b: {stop: completed}
""", "c.next.0", False),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_atom_that_holds_wherever_it_is_looked_at(case: Case) -> None:
    context = CheckContext(load(HEAD + case.text).chart, Unread())
    (edge,) = [edge for edge in context.spec.edges() if edge.id == case.edge]
    assert edge.when is not None
    known = Knowledge(context).at(edge.source)
    atom = edge.when.atoms[1].node
    alone, true, false = ((Claim(atom, False),), (Claim(atom),), (*known, Claim(atom, False)))
    assert context.prover.ask(alone).possible is not False
    assert context.prover.ask((*known, *true)).possible is not False
    assert (context.prover.ask(false).possible is False) is case.proven
    said = [f"`{claim.node.text}` holds" for claim in known if claim.holds]
    assert (case.because in said) is case.proven


def test_a_whole_guard_that_every_step_fulfils_is_a_finding() -> None:
    text = (
        HEAD
        + "states:\n  a: {do: infer, next: [{when: run.steps >= 1, to: b}, a]}\n  b: {stop: completed}\n"
    )
    codes = [(f.code, f.message) for f in load(text).findings]
    assert [message for code, message in codes if code == "CL327"] == [
        "`run.steps >= 1` always holds here: the edge of `a` to `a` is never taken"
    ]  # fmt: skip
