"""Knowledge at a guard: the guards that held, or did not hold, on every path there.

Between two actions only the file itself changes facts. So after the `else` of `x >= 3`, x is below
3 until something changes it; and after an action no stop rule that covers it holds, since the run
would have stopped. A rule, a failure or the return from a detour brings no knowledge along.

Also here: the claims that hold at a state by whatever path it was reached, and the possible last
actions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.structure import epilogue
from chartloop.analysis.proofs.guards.prover import Claim
from chartloop.core.digraph import reachable
from chartloop.core.facts import FACTS
from chartloop.core.types import BOOL, INT, NONE, STR, type_of
from chartloop.language.expression.tree import (
    Compare,
    Const,
    Fact,
    Items,
    Link,
    Node,
    Step,
    facts_of,
)
from chartloop.language.readers.cases import case_value
from chartloop.language.spec import Assign, Edge, StateSpec
from chartloop.machine.regions import GuardedTransition

MOST = 16
"""The most guards that are remembered at one state: the newest."""
Known = tuple[Claim, ...]


def groups(state: StateSpec) -> Iterator[list[Edge]]:
    """Yield the edges of a state that are tried one after the other, until one holds."""
    out: dict[str, list[Edge]] = {}
    for edge in state.edges:
        if edge.role != "all":
            kind = edge.role if edge.role in ("failed", "expired") else "own"
            out.setdefault(f"{kind} {edge.trigger}", []).append(edge)
    yield from out.values()


def guard_of(state: StateSpec, edge: Edge) -> Node | None:
    """Return the condition of an edge, apart from edges before it; None if it has none."""
    if edge.role == "case" and state.of is not None:
        return _is(state.of.root, case_value(state.of.type, edge.case))
    return edge.when.root if edge.when is not None else None


def _is(node: Node, value: object) -> Node:
    text = f"{node.text} == {value!r}"
    if value is None:
        return Compare(BOOL, text, node, (Link("is", Const(NONE, "None", None)),))
    absent = False if node.type.nullable else None
    link = Link("==", Const(type_of(value), repr(value), value), absent)
    return Compare(BOOL, text, node, (link,))


class Knowledge:
    """The claims that hold at each state when its own edges are evaluated."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self._spec = context.spec
        self._behind_stops = epilogue(context)
        kinds = {"failed", "error", "return", "retry", "rule", "raised"}
        dests = {t.dest for t in context.chart.step.transitions() if t.kind in kinds}
        self._blank = {*dests, self._spec.start, *context.starts}
        """The states that are entered other than by edges of other states."""
        self._incoming: dict[str, list[tuple[StateSpec, Edge, Known]]] = {}
        for state in self._spec.states.values():
            for edge, before in _edges_with_claims(state):
                self._incoming.setdefault(edge.target, []).append((state, edge, before))
        self._latest, self._standing = Latest(context), Standing(context)
        self._at: dict[str, Known] = {}
        moves = context.own.edges
        idle = context.own.without(edge for edge in moves if self._spec.states[edge[1]].rests)
        for names in reversed(idle.components()):  # after those that lead there without an action
            for name in sorted(names):
                state = self._spec.states[name]
                if state.rests:
                    self._at[name] = self._after_action(state)
                else:
                    self._at[name] = self._on_entry(state) if len(names) == 1 else ()

    def at(self, name: str) -> Known:
        """The claims where the edges of a state are evaluated."""
        state = self._spec.states[name]
        return (*self._at.get(name, ()), *self._latest.at(state), *self._standing.at(state))

    def _after_action(self, state: StateSpec) -> Known:
        """The claims after an action or an answer: no stop rule holds."""
        if not self._context.signals_stop or state.name in self._behind_stops:
            return ()
        if state.all and any(self._context.chart.returnable.values()):
            return ()  # a detour returns to the fork without a new evaluation of rules
        rules = [
            r for r in self._spec.rules
            if r.kind == "stop" and not r.before and (not r.at or state.name in r.at)
        ]  # fmt: skip
        # rules are evaluated together, so a claim may not read signals, which one may have raised
        claims = (Claim(r.when.root, False) for r in rules)
        return tuple(_unaffected_claims(claims, ["signals"]))[-MOST:]

    def _on_entry(self, state: StateSpec) -> Known:
        if state.name in self._blank:
            return ()
        shared: Known | None = None
        for source, edge, before in self._incoming.get(state.name, ()):
            claims = self._carried_over(source, edge, before, state)
            shared = claims if shared is None else _in_both(shared, claims)
        return (shared or ())[-MOST:]

    def _carried_over(self, source: StateSpec, edge: Edge, before: Known, into: StateSpec) -> Known:
        if edge.role == "failed":
            return ()
        own = guard_of(source, edge)
        claims = (*self._at.get(source.name, ()), *before, *(() if own is None else (Claim(own),)))
        changed = {*_set(edge.set), *_set(into.set), f"run.visits.{into.name}"}
        changed |= {"signals"} if edge.stop or into.stop else set()
        changed |= {"run.status"} if into.status else set()
        return tuple(_unaffected_claims(claims, changed))


def _in_both(one: Known, other: Known) -> Known:
    others = set(other)
    return tuple(c for c in one if c in others)


def _edges_with_claims(state: StateSpec) -> Iterator[tuple[Edge, Known]]:
    """Yield the edges of a state, each with the claims that earlier guards were false."""
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
    """Yield the claims that read neither a changed name, nor a part of one, nor its container."""
    names, holders = set(changed), {above for name in changed for above in _holders(name)}
    for claim in claims:
        reads, held_by = _reads(claim.node)
        if reads.isdisjoint(holders) and held_by.isdisjoint(names):
            yield claim


@lru_cache(maxsize=1024)
def _reads(node: Node) -> tuple[frozenset[str], frozenset[str]]:
    """The facts that a guard reads, and these together with their containers."""
    reads = frozenset(facts_of(node))
    return reads, frozenset(above for name in reads for above in _holders(name))


def _holders(name: str) -> Iterator[str]:
    """Yield a name and its containers: ``a.b.c``, ``a.b`` and ``a``."""
    while name:
        yield name
        name = name.rpartition(".")[0]


NOTHING_YET = ""


class Latest:
    """The acting states that may have run last, for each state."""

    def __init__(self, context: CheckContext) -> None:
        # a detour may return to the branches of a fork without repeating its action
        forks = context.chart.joins.keys() if any(context.chart.returnable.values()) else set[str]()
        self._acting = context.chart.acting - forks
        self._actions = {
            n: s.action.name for n, s in context.spec.states.items() if s.action is not None
        }
        outgoing: dict[str, list[GuardedTransition]] = {}
        for t in context.chart.step.transitions():
            if t.dest in context.spec.states:
                outgoing.setdefault(t.source, []).append(t)
        self._at = {name: set[str]() for name in context.spec.states}
        starts = {context.spec.start, *context.starts} & self._at.keys()
        for name in starts:
            self._at[name].add(NOTHING_YET)
        pending = list(starts)
        while pending:
            name = pending.pop()
            for t in outgoing.get(name, ()):
                latest = {name} if name in self._actions else set[str]()
                if name not in self._acting or not t.is_edge:  # a rule may precede the action
                    latest |= self._at[name]
                if not latest <= self._at[t.dest or ""]:
                    self._at[t.dest or ""] |= latest
                    pending.append(t.dest or "")

    def at(self, state: StateSpec) -> Iterator[Claim]:
        """Yield the claims about the last action, if a state's guards read it."""
        guards = [e.when for e in state.edges if e.when is not None]
        guards += [state.of] if state.of is not None else []
        reads = {r for g in guards for r in g.reads} & {"last.state", "last.action"}
        mine = {state.name} if state.action is not None else set[str]()
        latest = mine if state.name in self._acting else self._at[state.name] | mine
        if not latest:
            return
        for fact in sorted(reads):
            root, field = fact.split(".")
            node = Fact(STR, fact, fact, (Step(root, False), Step(field, False)))
            actions = {self._actions.get(name, "") for name in latest}
            words = sorted(latest if fact == "last.state" else actions)
            items = Items(STR, "", tuple(Const(STR, repr(w), w) for w in words))
            choices = " or ".join(f'"{w}"' for w in words[:4]) + (" ..." if len(words) > 4 else "")
            yield Claim(Compare(BOOL, f"{fact} is {choices}", node, (Link("in", items),)))


def _claim(fact: str, op: str, value: Const) -> Claim:
    root, field = fact.split(".")
    steps = (Step(root, False), Step(field, False))
    node = Fact(FACTS[fact].type, fact, fact, steps)
    return Claim(Compare(BOOL, f"{fact} {op} {value.text}", node, (Link(op, value),)))


BEGUN = _claim("run.steps", ">=", Const(INT, "1", 1))
QUIET = {
    "signals.count": _claim("signals.count", "==", Const(INT, "0", 0)),
    "signals.top": _claim("signals.top", "is", Const(NONE, "None", None)),
    "signals.status": _claim("signals.status", "==", Const(STR, '"completed"', "completed")),
}
"""The values of the signal facts while none is raised."""


class Standing:
    """The claims that hold at each state, by whatever path it was reached."""

    def __init__(self, context: CheckContext) -> None:
        spec = context.spec
        self._acting = context.chart.acting
        begins = {spec.start, *context.starts}
        states, acting = spec.states, self._acting

        def onward(name: str) -> Iterator[str]:
            if name not in acting:
                yield from (e.target for e in states[name].edges if e.target in states)

        entered = (name for name in states if name in begins | context.opened)
        self._fresh = set(reachable(entered, onward))
        """The states that a run may be in before any action has finished."""
        stopping = all(rule.kind != "signal" for rule in spec.rules) and context.signals_stop
        forks = any(state.all for state in spec.states.values())
        quiet = stopping and not forks
        self._quiet = spec.states.keys() - epilogue(context) if quiet else set[str]()

    def at(self, state: StateSpec) -> Iterator[Claim]:
        """Yield the claims about facts that the guards of a state's edges read."""
        guards = [e.when for e in state.edges if e.when is not None]
        guards += [state.of] if state.of is not None else []
        reads = {r for g in guards for r in g.reads}
        if "run.steps" in reads and (state.name in self._acting or state.name not in self._fresh):
            yield BEGUN
        if state.name in self._quiet:
            yield from (QUIET[name] for name in sorted(reads & QUIET.keys()))
