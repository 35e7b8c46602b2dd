"""What is known where a guard is evaluated: guards that held, or did not, on every path there.

Between two actions facts do not change but for what the file itself sets. So behind the `else` of
`x >= 3` x is below 3 until something changes it; and after an action no stop rule that covers it
holds, since the run would have stopped. What comes in by a rule, a failure or a detour's way back
brings nothing along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from chartloop.checker.check_context import CheckContext, in_order_of_ways
from chartloop.checker.invariants import Standing
from chartloop.checker.last_action import Latest
from chartloop.checker.structure import epilogue
from chartloop.core.types import BOOL, NONE, type_of
from chartloop.language.expression.tree import Compare, Const, Link, Node, facts_of
from chartloop.language.readers.cases import case_value
from chartloop.language.spec import Assign, Edge, Rule, StateSpec
from chartloop.proofs.guards.prover import Claim

MOST = 16
"""How many guards are remembered at one state, the newest."""
Known = tuple[Claim, ...]


def groups(state: StateSpec) -> Iterator[list[Edge]]:
    """The ways of a state that are tried one after the other; the first that holds is taken."""
    found: dict[str, list[Edge]] = {}
    for edge in state.edges:
        if edge.role != "all":
            kind = edge.role if edge.role in ("failed", "expired") else "own"
            found.setdefault(f"{kind} {edge.trigger}", []).append(edge)
    yield from found.values()


def guard_of(state: StateSpec, edge: Edge) -> Node | None:
    """When an edge is taken, if those before it are not; None when nothing holds it back."""
    if edge.role == "case" and state.of is not None:
        return _is(state.of.root, case_value(state.of.type, edge.case))
    return edge.when.root if edge.when is not None else None


def _is(node: Node, value: object) -> Node:
    text = f"{node.text} == {value!r}"
    if value is None:
        return Compare(BOOL, text, node, (Link("is", Const(NONE, "None", None)),))
    link = Link("==", Const(type_of(value), repr(value), value), _absent(node))
    return Compare(BOOL, text, node, (link,))


def _absent(node: Node) -> bool | None:
    return False if node.type.nullable else None


class Knowledge:
    """For each state, what is known when its own edges are evaluated."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._spec = context.spec
        self._behind_stops = epilogue(context)
        self._blank = self._entered_otherwise()
        self._incoming: dict[str, list[tuple[StateSpec, Edge, Known]]] = {}
        for state in self._spec.states.values():
            for edge, before in _edges_with_claims(state):
                self._incoming.setdefault(edge.target, []).append((state, edge, before))
        self._latest, self._standing = Latest(context), Standing(context)
        self._at: dict[str, Known] = {}
        for names in in_order_of_ways(context):
            for name in names:
                state = self._spec.states[name]
                if state.rests:
                    self._at[name] = self._after_action(state)
                else:
                    self._at[name] = self._on_entry(state) if len(names) == 1 else ()

    def at(self, name: str) -> Known:
        """What is known where the edges of a state are evaluated."""
        state = self._spec.states[name]
        return (*self._at.get(name, ()), *self._latest.at(state), *self._standing.at(state))

    def at_rule(self, rule: Rule) -> Known:
        """What is known where a rule is evaluated."""
        return tuple(self._standing.at_rule(rule))

    def _entered_otherwise(self) -> set[str | None]:
        """States that are come to by other ways than the edges of other states."""
        kinds = {"failed", "error", "return", "retry", "rule", "raised"}
        found = {t.dest for t in self._context.chart.step.transitions() if t.kind in kinds}
        return {*found, self._spec.start, *self._context.starts}

    def _after_action(self, state: StateSpec) -> Known:
        """After an action, or an answer: no stop rule holds."""
        if not self._context.signals_stop or state.name in self._behind_stops:
            return ()
        if state.all and any(self._context.chart.returnable.values()):
            return ()  # a detour comes back to the fork, and no rule is evaluated again
        rules = [
            r for r in self._spec.rules
            if r.kind == "stop" and not r.before and (not r.at or state.name in r.at)
        ]  # fmt: skip
        # rules are evaluated together: one of them may have raised a signal since
        claims = (Claim(r.when.root, False) for r in rules)
        return tuple(_unaffected_claims(claims, ["signals"]))[-MOST:]

    def _on_entry(self, state: StateSpec) -> Known:
        if state.name in self._blank:
            return ()
        shared: Known | None = None
        for source, edge, before in self._incoming.get(state.name, ()):
            brought = self._brought(source, edge, before, state)
            shared = brought if shared is None else _in_both(shared, brought)
        return (shared or ())[-MOST:]

    def _brought(self, source: StateSpec, edge: Edge, before: Known, into: StateSpec) -> Known:
        if edge.role == "failed":
            return ()
        own = guard_of(source, edge)
        held = (*self._at.get(source.name, ()), *before, *(() if own is None else (Claim(own),)))
        changed = {*_set(edge.set), *_set(into.set), f"run.visits.{into.name}"}
        changed |= {"signals"} if edge.stop or into.stop else set()
        changed |= {"run.status"} if into.status else set()
        return tuple(_unaffected_claims(held, changed))


def _in_both(one: Known, other: Known) -> Known:
    found = set(other)
    return tuple(c for c in one if c in found)


def _edges_with_claims(state: StateSpec) -> Iterator[tuple[Edge, Known]]:
    """The edges of a state, each with the guards that failed before it is taken."""
    for group in groups(state):
        before: Known = ()
        for edge in group:
            yield edge, before
            guard = guard_of(state, edge)
            before = (*before, Claim(guard, False)) if guard is not None else before
    yield from ((edge, ()) for edge in state.edges_of("all"))


def _set(assigns: Sequence[Assign]) -> Iterator[str]:
    return (a.target for a in assigns)


def _unaffected_claims(claims: Iterable[Claim], changed: Collection[str]) -> Iterator[Claim]:
    """The claims that read neither a changed name, nor a part of one, nor what contains one."""
    names, holders = set(changed), {above for name in changed for above in _holders(name)}
    for claim in claims:
        reads, held_by = _reads(claim.node)
        if reads.isdisjoint(holders) and held_by.isdisjoint(names):
            yield claim


@lru_cache(maxsize=1024)
def _reads(node: Node) -> tuple[frozenset[str], frozenset[str]]:
    """The facts that a guard reads, and these with all that they are parts of."""
    reads = frozenset(facts_of(node))
    return reads, frozenset(above for name in reads for above in _holders(name))


def _holders(name: str) -> Iterator[str]:
    """``a.b.c``, ``a.b`` and ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]
