"""Loops: those that no action interrupts, and those that no budget cuts.

A loop through a paid action is cut when a stop rule with a budget guard covers an action in
it, or when a state in it leaves it by a budget guard. Time bounds time, not actions.
"""

from __future__ import annotations

from typing import Any

import networkx as nx

from interlock.checker.subject import Subject, branch_states
from interlock.core.specs import Effect
from interlock.core.types import BOOL
from interlock.language.expression import Expression, ExpressionFault, Scope, parse
from interlock.language.spec import StateSpec

_TIMES = frozenset({"run.elapsed", "run.working", "run.idle"})


def check_loops(subject: Subject) -> None:
    """Loops of passing states, and loops without a budget."""
    _passing(subject)
    _unbounded(subject)


def _loops(graph: Any) -> list[list[str]]:
    found: list[list[str]] = []
    for component in nx.strongly_connected_components(graph):
        names = list(component)
        if len(names) > 1 or graph.has_edge(names[0], names[0]):
            found.append(names)
    return found


def _passing(subject: Subject) -> None:
    states = subject.spec.states
    moving = [n for n, s in states.items() if not s.rests and not s.stop]
    for names in _loops(subject.own.subgraph(moving)):
        ordered = [n for n in states if n in names]
        shown = " → ".join([*ordered[:8], ordered[0]])
        subject.say_of(
            "IL308",
            states[ordered[0]],
            f"a loop that no action interrupts: {shown}",
            hint="put an action or a wait into the loop",
        )


def _unbounded(subject: Subject) -> None:
    spec = subject.spec
    budgets = [r for r in spec.rules if r.kind == "stop" and not r.before and counts(r.when)]
    if any(not r.at for r in budgets):
        return
    covered = {n for r in budgets for n in r.at}
    graph: Any = subject.once.copy()
    graph.remove_nodes_from(covered)
    for names in _loops(graph):
        inner: Any = graph.subgraph(names).copy()
        inner.remove_nodes_from([n for n in names if _leaves(subject, spec.states[n], set(names))])
        for left in _loops(inner):
            paid = [n for n in spec.states if n in left and _paid(spec.states[n])]
            if paid:
                subject.say_of(
                    "IL316",
                    spec.states[paid[0]],
                    f"`{paid[0]}` can be done over and over: no budget guard cuts this loop",
                    hint="add a rule such as `{when: run.steps >= limits.steps, stop: steps_limit}`",
                )


def _paid(state: StateSpec) -> bool:
    action = state.action
    return action is not None and action.effect is Effect.PAID


def counts(guard: Expression) -> bool:
    """Whether a guard is a budget over something that is counted."""
    facts = {b.fact for b in guard.bounds if b.grows and b.decides}
    return guard.kind == "budget" and bool(facts - _TIMES)


def _leaves(subject: Subject, state: StateSpec, loop: set[str]) -> bool:
    """Whether a budget guard leads out of the loop at this state, before anything leads on."""
    if state.all:  # every branch is walked, every time
        branches = branch_states(subject.chart, state)
        return any(
            _leaves(subject, subject.spec.states[b], loop)
            for b in branches
            if not subject.spec.states[b].all
        )
    scope = Scope(
        subject.spec.roots,
        guards=subject.spec.registry.guards,
        defines={n: e.text for n, e in subject.spec.define.items()},
    )
    for edge in state.edges:
        if edge.role == "then" and edge.when is not None and edge.target in loop:
            other = next(state.edges_of("else"), None)
            if other is None or other.target in loop:
                return False
            try:
                opposite = parse(f"not ({edge.when.text})", scope, want=BOOL)
            except ExpressionFault:
                return False
            return counts(opposite) and _counted(opposite, loop)
        if edge.when is None:
            return False
        if edge.target not in loop and (counts(edge.when) or _judges_budgets(subject, edge.when)):
            return _counted(edge.when, loop)
    return False


def _judges_budgets(subject: Subject, guard: Expression) -> bool:
    """A decision about signals, where a `signal` rule raises one for a budget."""
    budgets = [r for r in subject.spec.rules if r.kind == "signal" and not r.at and counts(r.when)]
    return bool(budgets) and bool(guard.reads & {"signals.count", "signals.top", "signals.reasons"})


def _counted(guard: Expression, loop: set[str]) -> bool:
    """Whether what the guard counts is counted in this loop."""
    visits = [f.removeprefix("run.visits.") for f in guard.reads if f.startswith("run.visits.")]
    return all(v in loop for v in visits)
