"""Loops that go round for ever: no guard by which they could be left reads what changes in them.

Such a loop need not cost anything. A loop of paid actions is for `checker.loops`, whatever changes
in it: a budget must cut it. An answer, a failure or code of an application may end a loop at any
time; nothing is said of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chartloop.checker.check_context import CheckContext, loops
from chartloop.checker.knowledge import groups
from chartloop.checker.waits import effects_of, is_part
from chartloop.core.specs import Effect
from chartloop.language.expression import Expression
from chartloop.language.spec import Edge, StateSpec
from chartloop.proofs.digraph import Digraph


def check_endless(context: CheckContext) -> None:
    """Every such loop that a run can come to and that has a way out."""
    if context.broken:
        return
    free = [n for n in context.reached if _is_free(context.spec.states[n])]
    for names in loops(context.own.subgraph(free)):
        changed = frozenset(f for n in names for f, _ in effects_of(context.spec.states[n]))
        if not _rules_may_end(context, changed):
            for circle in loops(_staying(context, names, changed)):
                _endless(context, circle)


def _is_free(state: StateSpec) -> bool:
    """Whether what a state does is known, costs nothing and waits for no one."""
    if state.job == "wait" or state.all:
        return False
    action = state.action
    return action is None or (action.is_builtin and action.effect is not Effect.PAID)


def _rules_may_end(context: CheckContext, changed: frozenset[str]) -> bool:
    return any(_may_change(rule.when, changed) for rule in context.spec.rules)


def _may_change(guard: Expression, changed: frozenset[str]) -> bool:
    """Whether a guard may answer otherwise after a change of these facts."""
    return bool(guard.opaque) or any(is_part(r, fact) for r in guard.reads for fact in changed)


def _staying(context: CheckContext, names: list[str], changed: frozenset[str]) -> Digraph[str]:
    """The ways within a loop that are taken each time if they are taken once."""
    graph: Digraph[str] = Digraph()
    for name in names:
        for edge in _steady(context.spec.states[name], changed):
            if edge.target in names:
                graph.add_edge(name, edge.target)
    return graph


def _steady(state: StateSpec, changed: frozenset[str]) -> Iterator[Edge]:
    """The edges of a state up to the first whose guard may change."""
    guards = [state.of] if state.of is not None else []
    for group in groups(state):
        if group[0].role in ("failed", "expired"):
            continue
        for edge in group:
            asked = [*guards, *([edge.when] if edge.when is not None else [])]
            if any(_may_change(guard, changed) for guard in asked):
                break
            yield edge


def _endless(context: CheckContext, circle: list[str]) -> None:
    states = context.spec.states
    ways_out = [e for n in circle for e in states[n].edges if e.target not in circle]
    acting = [n for n in context.in_order(circle) if states[n].action is not None]
    reads = sorted({f"`{r}`" for guard in _exit_guards(context, ways_out) for r in guard.reads})
    by_failure = any(e.role in ("failed", "expired") for e in ways_out)
    if not acting or not reads or by_failure or not context.whole(circle):
        return  # without a way out, or with one that is never taken, it has another finding
    why = f"{', '.join(reads[:3])} cannot change in it"
    message = f"nothing ends the loop {context.circle(circle)} once it is entered: {why}"
    hint = "change in it a value that its exit reads, or add a rule with `limits.steps`"
    context.say_of("CL350", states[acting[0]], message, hint=hint)


def _exit_guards(context: CheckContext, ways_out: Iterable[Edge]) -> Iterator[Expression]:
    """The guards of the states from which the loop can be left."""
    for name in dict.fromkeys(edge.source for edge in ways_out):
        state = context.spec.states[name]
        yield from (edge.when for edge in state.edges if edge.when is not None)
        yield from () if state.of is None else (state.of,)
