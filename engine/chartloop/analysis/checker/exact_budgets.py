"""Budgets that compare a counter with ``==``, which its value can skip.

A counter may go from below a number to above it between two evaluations: one call counts many
tokens, a rule waits for the action, a caller lowers a limit. The exception are `visits` of a state
that every iteration passes: they are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.language.expression import Expression
from chartloop.language.expression.atoms import atoms
from chartloop.language.expression.tree import Const, Fact, Node, facts_of
from chartloop.language.spec import Edge, StateSpec
from chartloop.language.yaml.reading import Path

_ONE_BY_ONE = ("run.steps", "run.continuations")


def check_exact(context: CheckContext) -> None:
    """Check stop and signal rules, and decisions that end a run."""
    for rule in context.spec.rules:
        for text, fact in _exact(rule.when, "==") if rule.kind != "detour" else ():
            _say(context, (*rule.path, "when"), text, fact, ">=")
    for state in context.spec.states.values():
        for edge in state.edges:
            if edge.when is None:
                continue
            other = next(state.edges_of("else"), None) if edge.role == "then" else None
            exact = [(*p, ">=") for p in _exact(edge.when, "==")] if _ends(context, edge) else []
            if other is not None and _ends(context, other):
                exact += [(*part, "<") for part in _exact(edge.when, "!=")]
            for text, fact, op in exact:
                passed = _passed_each_time(context, state, fact)
                if not passed and not _has_bound(context, state, fact):
                    _say(context, edge.guard_path, text, fact, op)


def _has_bound(context: CheckContext, state: StateSpec, fact: str) -> bool:
    """Whether another edge bounds the counter."""
    ends = (e for e in state.edges if e.when is not None and _ends(context, e))
    return any(b.fact == fact for e in ends if e.when is not None for b in e.when.bounds)


def _ends(context: CheckContext, edge: Edge) -> bool:
    state = context.spec.states.get(edge.target)
    return bool(edge.stop) or (state is not None and (bool(state.stop) or state.job == "end"))


def _exact(guard: Expression, op: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a guard that hold for one value of a counter, with the counter."""
    ordered = {b.fact for b in guard.bounds}
    for atom in atoms(guard.root):
        if atom.link is None or atom.way == 0 or (atom.link.op, atom.way) not in _READS[op]:
            continue
        for side, bound in ((atom.left, atom.link.right), (atom.link.right, atom.left)):
            if isinstance(side, Fact) and side.type.grows and _bound(bound):
                if side.path not in ordered:
                    yield atom.text, side.path


_READS = {"==": {("==", 1), ("!=", -1)}, "!=": {("!=", 1), ("==", -1)}}


def _bound(node: Node) -> bool:
    """Whether a side is a bound for a counter: a limit, or a number other than its start, 0."""
    if isinstance(node, Const):
        return node.value != 0
    facts = facts_of(node).values()
    return bool(facts) and all(f.is_limit for f in facts)


def _passed_each_time(context: CheckContext, state: StateSpec, fact: str) -> bool:
    """Whether every iteration through the counted state passes this one."""
    if not fact.startswith("run.visits."):
        return False
    counted = fact.removeprefix("run.visits.")
    if counted == state.name:
        return True
    rest = context.own.subgraph(name for name in context.own if name != state.name)
    return not any(counted in names for names in rest.loops())


def _say(context: CheckContext, path: Path, text: str, fact: str, op: str) -> None:
    why = "one action can count several"
    if fact in _ONE_BY_ONE:
        why = "it may already be past that value when the guard is evaluated or a limit is lowered"
    elif fact.startswith("run.visits."):
        why = "it can rise twice between two evaluations"
    elif fact in ("run.elapsed", "run.working", "run.idle"):
        why = "the guard is never evaluated at exactly that moment"
    message = f"`{text}` holds for one value of `{fact}`, which can be skipped: {why}"
    context.say("CL329", path, message, hint=f"write `{op}`", of=text)
