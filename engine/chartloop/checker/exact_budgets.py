"""Budgets that ask whether a counter *is* a number, and can be jumped over.

A counter that grows may go from below a number to above it between two looks: one call counts many
tokens, a rule waits for the action, a caller lowers a limit. `visits` of a state that is passed in
every round are the exception: they are evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.checker.check_context import CheckContext, loops
from chartloop.language.expression import Expression
from chartloop.language.expression.atoms import atoms
from chartloop.language.expression.tree import Const, Fact, Node, facts_of
from chartloop.language.spec import Edge, StateSpec
from chartloop.language.yaml.reading import Path

_ONE_BY_ONE = ("run.steps", "run.continuations")


def check_exact(context: CheckContext) -> None:
    """Stop and signal rules, and decisions by which a run ends."""
    for number, rule in enumerate(context.spec.rules):
        if rule.kind != "detour":
            path: Path = ("rules", int(rule.id.partition(".")[2] or number), "when")
            for text, fact in _exact(rule.when, "=="):
                _say(context, path, text, fact, ">=")
    for state in context.spec.states.values():
        for edge in state.edges:
            _edge(context, state, edge)


def _edge(context: CheckContext, state: StateSpec, edge: Edge) -> None:
    guard = edge.when
    if guard is None:
        return
    path = ("states", state.name, "when") if edge.role == "then" else (*edge.path, "when")
    other = next(state.edges_of("else"), None) if edge.role == "then" else None
    found = [(*f, ">=") for f in _exact(guard, "==")] if _ends(context, edge) else []
    if other is not None and _ends(context, other):
        found += [(*f, "<") for f in _exact(guard, "!=")]
    for text, fact, op in found:
        if not _passed_each_time(context, state, fact) and not _beyond(context, state, fact):
            _say(context, path, text, fact, op)


def _beyond(context: CheckContext, state: StateSpec, fact: str) -> bool:
    """Whether another edge sees to what has gone past."""
    ends = (e for e in state.edges if e.when is not None and _ends(context, e))
    return any(b.fact == fact for e in ends if e.when is not None for b in e.when.bounds)


def _ends(context: CheckContext, edge: Edge) -> bool:
    state = context.spec.states.get(edge.target)
    return bool(edge.stop) or (state is not None and (bool(state.stop) or state.job == "end"))


def _exact(guard: Expression, op: str) -> Iterator[tuple[str, str]]:
    """Parts of a guard that hold for one value of a counter, and the counter."""
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
    """Whether a side is what a counter may be held against; 0 is where it starts."""
    if isinstance(node, Const):
        return node.value != 0
    facts = facts_of(node).values()
    return bool(facts) and all(f.is_limit for f in facts)


def _passed_each_time(context: CheckContext, state: StateSpec, fact: str) -> bool:
    """Whether every round through the state that is counted comes by this one."""
    if not fact.startswith("run.visits."):
        return False
    counted = fact.removeprefix("run.visits.")
    if counted == state.name:
        return True
    rest = context.own.subgraph(name for name in context.own if name != state.name)
    return not any(counted in names for names in loops(rest))


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
