"""Which limits may be skipped ahead of, and how far."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop.api import load
from chartloop.core.position import Position
from chartloop.machine.evolve import evolve
from chartloop.studies.whatif.unaffected import CounterHistory, counters_of

HEAD = "chartloop: 1\nmachine: m\nmodel: {name: scripted}\nlimits: {n: 5}\nvars: {x: 0}\n"
LOOP = "  a: {do: infer, next: a}\n"


class Case(NamedTuple):
    """A machine, and the counters that `limits.n` is held against; None where it is read besides."""

    id: str
    text: str
    counters: tuple[str, ...] | None


CASES = [
    Case("a-rule", "rules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n" + LOOP, ("run.steps",)),
    Case(
        "two-rules",
        "rules: [{when: run.steps > limits.n, stop: custom}, {when: errors.total >= limits.n, signal: custom}]\n"
        "states:\n" + LOOP,
        ("run.steps", "errors.total"),
    ),
    Case("a-decision", "states:\n  a: {do: infer, next: q}\n  q: {ask: Q, when: run.visits.a < limits.n, then: a, else: z}\n  z: {stop: completed}\n", ("run.visits.a",)),
    Case("through-a-definition", "define: {late: run.steps >= limits.n}\nrules: [{when: late, stop: custom}]\nstates:\n" + LOOP, ("run.steps",)),
    Case("with-a-label", "rules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n  a: {label: \"{limits.n}\", do: infer, next: a}\n", ("run.steps",)),
    Case("what-can-fall-back", "rules: [{when: errors.consecutive >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("a-variable", "rules: [{when: vars.x >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("a-share-of-it", "rules: [{when: run.steps * 2 >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("whether-it-is-just-that", "rules: [{when: run.steps == limits.n or run.steps >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("put-into-a-variable", "rules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n  a: {set: {vars.x: limits.n}, do: infer, next: a}\n", None),
    Case("told-in-a-prompt", "instructions: \"{{ limits.n }}\"\nrules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("all-limits-told", "instructions: \"{{ limits }}\"\nrules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n" + LOOP, None),
    Case("what-a-child-is-left", "machines: {kid: {states: {e: {stop: completed}}}}\nrules: [{when: run.steps >= limits.n, stop: custom}]\nstates:\n  a: {do: run_machine, with: {machine: kid}, next: a}\n", None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_what_is_done_with_a_limit(case: Case) -> None:
    found = counters_of(load(HEAD + case.text).spec, "limits.n")
    assert (None if found is None else tuple(fact.path for fact in found)) == case.counters


@pytest.mark.parametrize(
    ("was", "now", "alike"),
    [(5, 5, 4), (5, 9, 4), (2, 9, 2), (9, 2, 2), (None, 2, 2), (2, None, 2), (None, None, 4), (9, 0, 0)],
)  # fmt: skip
def test_how_far_it_is_certain(was: int | None, now: int | None, alike: int) -> None:
    machine = load(HEAD + CASES[0].text)
    run = machine.start("t", script=["a"] * 3)
    for _ in range(4):
        run.advance()
    position, positions = machine.chart.position("r"), list[Position]()
    for record in run.records:
        position, _ = evolve(machine.chart, position, record.input)
        positions.append(position)
    counters = counters_of(machine.spec, "limits.n")
    assert counters is not None
    history = CounterHistory(counters, positions)
    assert history.count_unaffected(was, now) == alike
