"""Which action may have been the last one, wherever guards are evaluated.

``last.state`` and ``last.action`` are the doing of the machine alone: no one gives them from
outside. So what a guard says of them can be held against the ways that lead to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.checker.check_context import CheckContext
from chartloop.core.types import BOOL, STR
from chartloop.language.expression.tree import Compare, Const, Fact, Items, Link, Step
from chartloop.language.spec import StateSpec
from chartloop.machine.regions import GuardedTransition
from chartloop.proofs.guards.prover import Claim

NOTHING_YET = ""


class Latest:
    """For each state, the acting states of which the last action may be."""

    def __init__(self, context: CheckContext) -> None:
        # a detour may come back to the branches of a fork without its action being done again
        forks = context.chart.joins.keys() if any(context.chart.returnable.values()) else set[str]()
        self._acting = context.chart.acting - forks
        self._actions = {
            n: s.action.name for n, s in context.spec.states.items() if s.action is not None
        }
        ways: dict[str, list[GuardedTransition]] = {}
        for t in context.chart.step.transitions():
            if t.dest in context.spec.states:
                ways.setdefault(t.source, []).append(t)
        self._at = {name: set[str]() for name in context.spec.states}
        begun = {context.spec.start, *context.starts} & self._at.keys()
        for name in begun:
            self._at[name].add(NOTHING_YET)
        pending = list(begun)
        while pending:
            name = pending.pop()
            for t in ways.get(name, ()):
                brought = self._brought(t)
                if not brought <= self._at[t.dest or ""]:
                    self._at[t.dest or ""] |= brought
                    pending.append(t.dest or "")

    def _brought(self, t: GuardedTransition) -> set[str]:
        """A state's own ways are taken after its action; a rule's before it, too."""
        mine = {t.source} if t.source in self._actions else set[str]()
        return mine if t.source in self._acting and t.is_edge else self._at[t.source] | mine

    def at(self, state: StateSpec) -> Iterator[Claim]:
        """What guards of a state may rest on, if they read what was done last."""
        guards = [e.when for e in state.edges if e.when is not None]
        guards += [state.of] if state.of is not None else []
        reads = {r for g in guards for r in g.reads} & {"last.state", "last.action"}
        mine = {state.name} if state.action is not None else set[str]()
        found = mine if state.name in self._acting else self._at[state.name] | mine
        if not found:
            return
        for read in sorted(reads):
            words = found if read == "last.state" else {self._actions.get(n, "") for n in found}
            yield _one_of(read, sorted(words))


def _one_of(fact: str, words: list[str]) -> Claim:
    root, field = fact.split(".")
    node = Fact(STR, fact, fact, (Step(root, False), Step(field, False)))
    items = Items(STR, "", tuple(Const(STR, repr(w), w) for w in words))
    shown = " or ".join(f'"{w}"' for w in words[:4]) + (" ..." if len(words) > 4 else "")
    text = f"{fact} is {shown}"
    return Claim(Compare(BOOL, text, node, (Link("in", items),)))
