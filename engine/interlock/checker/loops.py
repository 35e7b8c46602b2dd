"""Loops: those that no action interrupts, and those that no budget cuts.

A loop through a paid action is cut when a stop rule with a budget guard covers an action in
it, or when a state in it leaves it by a budget guard. Time bounds time, not actions.
"""

from __future__ import annotations

from typing import Any

from interlock.checker.forks import branch_states
from interlock.checker.structure import passing_loops, unstopped
from interlock.checker.subject import Subject, loops
from interlock.core.specs import Effect
from interlock.core.types import BOOL
from interlock.language.expression import Expression, ExpressionFault, Scope, parse
from interlock.language.spec import Edge, StateSpec

_TIMES = frozenset({"run.elapsed", "run.working", "run.idle"})


def check_loops(subject: Subject) -> None:
    """Loops of passing states, and loops without a budget."""
    for circle in passing_loops(subject):
        first = subject.in_order(circle)[0]
        said = f"a loop that no action interrupts: {subject.circle(circle)}"
        hint = "put an action or a wait into the loop"
        if subject.whole(circle):
            subject.say_of("IL308", subject.spec.states[first], said, hint=hint)
    if not any(place.startswith("rules.") for place in subject.unread.places):
        _unbounded(subject)


def _unbounded(subject: Subject) -> None:
    spec = subject.spec
    budgets = [r for r in spec.rules if r.kind == "stop" and not r.before and counts(r.when)]
    if any(not r.at for r in budgets):
        return
    graph: Any = subject.before.subgraph(unstopped(subject)).copy()
    graph.remove_nodes_from({n for r in budgets for n in r.at})
    for names in loops(graph):
        inner: Any = graph.subgraph(names).copy()
        inner.remove_nodes_from([n for n in names if _leaves(subject, spec.states[n], set(names))])
        for left in loops(inner):
            paid = [n for n in subject.in_order(left) if _paid(spec.states[n])]
            if paid and subject.whole(names):
                said = f"`{paid[0]}` can be done over and over: no budget guard cuts this loop"
                hint = "add a rule: `{when: run.steps >= limits.steps, stop: steps_limit}`"
                subject.say_of("IL316", spec.states[paid[0]], said, hint=hint)


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
        branches = [subject.spec.states[b] for b in branch_states(subject, state)]
        return any(_leaves(subject, b, loop) for b in branches if not b.all)
    for edge in state.edges:
        if edge.role == "then" and edge.when is not None and edge.target in loop:
            return _else_leaves(subject, state, edge, loop)
        if edge.when is None:
            return False
        if edge.target not in loop and (counts(edge.when) or _judges_budgets(subject, edge.when)):
            return _counted(edge.when, loop)
    return False


def _else_leaves(subject: Subject, state: StateSpec, then: Edge, loop: set[str]) -> bool:
    """Whether `else` leads out, by a guard whose opposite is a budget."""
    other = next(state.edges_of("else"), None)
    if other is None or other.target in loop or then.when is None:
        return False
    spec = subject.spec
    defines = {n: e.text for n, e in spec.define.items()}
    scope = Scope(spec.roots, guards=spec.registry.guards, defines=defines)
    try:
        opposite = parse(f"not ({then.when.text})", scope, want=BOOL)
    except ExpressionFault:
        return False
    return counts(opposite) and _counted(opposite, loop)


def _judges_budgets(subject: Subject, guard: Expression) -> bool:
    """A decision about signals, where a `signal` rule raises one for a budget."""
    budgets = [r for r in subject.spec.rules if r.kind == "signal" and not r.at and counts(r.when)]
    return bool(budgets) and bool(guard.reads & {"signals.count", "signals.top", "signals.reasons"})


def _counted(guard: Expression, loop: set[str]) -> bool:
    """Whether what the guard counts is counted in this loop."""
    visits = [f.removeprefix("run.visits.") for f in guard.reads if f.startswith("run.visits.")]
    return all(v in loop for v in visits)
