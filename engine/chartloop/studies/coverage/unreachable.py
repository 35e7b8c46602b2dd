"""The items that no run can reach, proven by the checker; a coverage does not count them.

These are states that no path leads to, edges whose guard is refuted where it is evaluated, rules
that can never hold, atoms that cannot decide with one of their values, and the reasons and children
that depend on these. An item that the checker cannot settle counts as reachable.

Belongs here: questions to the checker's proofs. Never: proofs, counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property

from chartloop.analysis.checker.check_context import CheckContext, Embedding
from chartloop.analysis.checker.knowledge import Knowledge as StateKnowledge
from chartloop.analysis.checker.knowledge import Known, groups, guard_of
from chartloop.analysis.checker.structure import states_without_stop
from chartloop.analysis.proofs.guards.prover import Claim, Prover
from chartloop.core.digraph import reachable
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import (
    Choice,
    Compare,
    Const,
    Fact,
    Link,
    Logic,
    Node,
    Not,
    children,
    is_none,
)
from chartloop.language.file.unreadable import Unread
from chartloop.machine.abstract.signals import asks_to_stop
from chartloop.machine.build import Chart
from chartloop.studies.coverage.targets import Item, guards_of, raised_by

WORK = 6_000_000
"""The budget of one search, in the units of work of `proofs.guards`: a few seconds."""
UNSETTLED = (
    "not all is known of what cannot be reached: proving it takes more work than it may, and what "
    "is not proven counts as something to be seen"
)


def unreachable(
    chart: Chart, items: Iterable[Item], starts: Collection[str] = ()
) -> dict[str, str]:
    """The keys of those items that no run can show, each with the reason.

    `starts` are states at which a parent starts the machine.
    """
    return Search(chart, starts).unreachable(items)


class Search:
    """A search for unreachable items, within a budget of work.

    If the budget runs out, `open_question` says so.
    """

    def __init__(self, chart: Chart, starts: Collection[str] = (), *, work: int = WORK) -> None:
        self._chart, self._starts, self._work = chart, frozenset(starts), work
        self.open_question = ""
        """Why some items are not settled; empty if all are."""

    def unreachable(self, items: Iterable[Item]) -> dict[str, str]:
        """The keys of those items that no run can show, each with the reason."""
        wanted = list(items)
        if not wanted:
            return {}
        proofs = _Unreachable(self._chart, self._starts, self._work)
        reasons = {item.key: why for item in wanted if (why := proofs.why(item))}
        self.open_question = UNSETTLED if proofs.prover.is_exhausted else ""
        return reasons


class _Unreachable:
    """Proofs that items of one chart cannot be reached."""

    def __init__(self, chart: Chart, starts: frozenset[str], work: int) -> None:
        self._chart = chart
        self._context = CheckContext(chart, Unread(), embedding=Embedding(starts))
        self.prover = Prover(self._context.prover.world, work=work)
        self._known = StateKnowledge(self._context)
        self._before: dict[str, Known] = {r.id: self._known.at_rule(r) for r in chart.spec.rules}
        """The claims that hold where the guard of each edge and rule is evaluated, by its id."""
        self._refuted = dict(self._edges())

    def why(self, item: Item) -> str:
        """Why no run shows the item; empty if a run may."""
        match item.kind:
            case "state":
                return self._state(item.id)
            case "edge":
                return self._edge(item.source, item.id)
            case "rule":
                return self._rule(item.id)
            case "atom" | "guard":
                return self._atom(item)
            case "reason":
                raisers = raised_by(self._chart.spec).get(item.id, ())
                why = [self._raiser(id) for id in raisers]
                return "" if "" in why or not why else "what raises it is never reached"
            case "child":
                return self._state(item.source)

    # states and edges -----------------------------------------------------------------------

    def _edges(self) -> Iterator[tuple[str, str]]:
        """The edges whose guards never hold where they are evaluated, each with the reason."""
        for state in self._chart.spec.states.values():
            for group in groups(state):
                known = self._known.at(state.name) if group[0].role != "failed" else ()
                before: Known = ()
                for edge in group:
                    guard = guard_of(state, edge)
                    self._before[edge.id] = (*known, *before)
                    claims = (*known, *before, *(() if guard is None else (Claim(guard),)))
                    if claims and not self._possible(claims):
                        yield edge.id, _never(guard)
                    if guard is not None:
                        before = (*before, Claim(guard, False))

    def _possible(self, claims: Iterable[Claim]) -> bool:
        return not self.prover.refutes(claims)

    @cached_property
    def _reachable_states(self) -> set[str]:
        """The states that a run can reach over edges that are not refuted."""
        spec, states = self._chart.spec, self._chart.spec.states
        opened = set(self._context.opened)
        if any(map(asks_to_stop, states.values())):  # a tool may stop for any reason
            opened |= set(map(self._chart.route, spec.reasons))

        def onward(name: str) -> Iterator[str]:
            edges = (e for e in states[name].edges if e.id not in self._refuted)
            yield from (edge.target for edge in edges if edge.target in states)

        return set(reachable((name for name in states if name in opened), onward))

    def _state(self, name: str) -> str:
        return "" if not name or name in self._reachable_states else "no path leads to it"

    def _edge(self, source: str, id: str) -> str:
        unreached = self._state(source)
        return f"no path leads to `{source}`" if unreached else self._refuted.get(id, "")

    @cached_property
    def _rules(self) -> Mapping[str, str]:
        out: dict[str, str] = {}
        for rule in self._chart.spec.rules:
            places = (*rule.at, *rule.before)
            if not self._possible([Claim(rule.when.root)]):
                out[rule.id] = _never(rule.when.root)
            elif places and not self._reachable_states & {*places}:
                out[rule.id] = "no path leads to where it is evaluated"
        return out

    def _rule(self, id: str) -> str:
        return self._rules.get(id, "")

    # atoms ----------------------------------------------------------------------------------

    @cached_property
    def _guards(self) -> Mapping[str, Expression]:
        return {guard.owner: guard.expression for guard in guards_of(self._chart.spec)}

    @cached_property
    def _sources(self) -> Mapping[str, str]:
        return {edge.id: edge.source for edge in self._chart.spec.edges()}

    def _atom(self, item: Item) -> str:
        owner, expression = item.source, self._guards[item.source]
        source = self._sources.get(owner, "")
        if self._state(source):
            return f"no path leads to `{source}`"
        if source and not self._possible(known := self._before.get(owner, ())) and known:
            return "it is never evaluated"
        number = int(item.id.rpartition("#")[2])
        beside = list(_siblings(expression.root))[number]
        claims = (*self._before.get(owner, ()), *beside)
        atom = Claim(expression.atoms[number].node, bool(item.way))
        if self._possible((*claims, atom)):
            return ""
        alone = self._possible((atom,))
        why = next((c for c in claims if alone and not self._possible((c, atom))), None)
        because = ""
        if why is not None:
            verb = "holds" if why.holds else "does not hold"
            because = f", as `{why.node.text}` {verb} then"
        return f"proven: never {str(item.way).lower()} while it decides{because}"

    # reasons --------------------------------------------------------------------------------

    def _raiser(self, id: str) -> str:
        state = self._chart.spec.states.get(id)
        if state is None:
            return (
                self._rule(id) if id in self._rules else self._edge(self._sources.get(id, ""), id)
            )
        if state.end in ("completed", "error") and not state.stop:
            alone = id in states_without_stop(self._context)
            return self._state(id) if alone else "an end that only stops lead to"
        return self._state(id)


def _never(guard: Node | None) -> str:
    if guard is None:
        return "proven: a guard before it always holds"
    return f"proven: `{guard.text}` never holds here"


def _siblings(node: Node, beside: tuple[Claim, ...] = ()) -> Iterator[tuple[Claim, ...]]:
    """For each atom, what must hold of its neighbours for it to decide.

    In the order of `reading.atoms`.
    """
    match node:
        case Logic(op=op, parts=parts):
            for part in parts:
                others = [p for p in parts if p is not part]
                yield from _siblings(part, (*beside, *_all(others, op == "and")))
        case Not(part=part):
            yield from _siblings(part, beside)
        case Choice(test=test, then=then, other=other):
            yield from _siblings(then, (*beside, *_all([test], True)))
            yield from _siblings(test, beside)
            yield from _siblings(other, (*beside, *_all([test], False)))
        case Compare(links=links) if len(links) > 1:
            yield from (beside for _ in links)
        case _:
            yield beside


def _all(nodes: Iterable[Node], holds: bool) -> Iterator[Claim]:
    """Claims on the neighbours that always have a value; others are not constrained."""
    return (Claim(node, holds) for node in nodes if _has_value(node))


def _has_value(node: Node) -> bool:
    match node:
        case Const():
            return True
        case Fact(type=type):
            return not type.nullable
        case Compare(first=first, links=links):
            lefts = (first, *(link.right for link in links))
            return all(map(_has_answer, lefts, links))
        case Logic() | Not() | Choice():
            return all(map(_has_value, children(node)))
        case _:
            return False


def _has_answer(left: Node, link: Link) -> bool:
    """Whether a comparison always has a value: also for None, if it handles that."""
    asked = link.absent is not None or is_none(link.right)
    return all(_has_value(n) or (asked and isinstance(n, Fact)) for n in (left, link.right))
