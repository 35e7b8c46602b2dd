"""Where a run may break off by itself: a guard that cannot be evaluated, no way on, no end of it.

A `guard_error` comes where evaluating a guard, a `set` or the time of a wait raises, and where no
edge of a state leads on. An `error` without any action comes where states that only decide lead
round in a circle. Whatever surely cannot happen is left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Arith, Const, Node, walk
from chartloop.language.spec import RETURN, Assign, MachineSpec, StateSpec
from chartloop.machine.build import Chart

SMALL = 2**31
"""Beyond this a constant is not small."""


class Breaking:
    """The possible failures of a machine, worked out once for each state."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self._known: dict[str, bool] = {}

    @cached_property
    def everywhere(self) -> bool:
        """Whether a rule or a `set` may break: those may come at any moment."""
        spec = self.chart.spec
        return any(rule.when.may_fail for rule in spec.rules) or sets_may_fail(all_sets(spec))

    def at(self, name: str) -> bool:
        """Whether what is evaluated on leaving a state may break."""
        if self.everywhere:
            return True
        if name not in self._known:
            state = self.chart.spec.states.get(name)
            self._known[name] = state is not None and _breaks(state)
        return self._known[name]

    def goes_round(self, name: str) -> bool:
        """Whether states that only decide and pass lead from one back to it."""
        return name in self._circling

    @cached_property
    def _circling(self) -> frozenset[str]:
        spec = self.chart.spec
        passing = {n: set(self._onward(s)) for n, s in spec.states.items() if not s.rests}
        return frozenset(n for n in passing if _comes_back(n, passing))

    def _onward(self, state: StateSpec) -> Iterable[str]:
        """The states to which one may lead without any action, by detours too."""
        yield from state.all
        for edge in state.edges:
            yield from (
                self.chart.interruptible.values() if edge.target == RETURN else (edge.target,)
            )
            yield from (r.to for r in self.chart.spec.rules if edge.target in r.before and r.to)


def _comes_back(name: str, passing: dict[str, set[str]]) -> bool:
    seen, pending = set[str](), [name]
    while pending:
        for to in passing.get(pending.pop(), ()):
            if to == name:
                return True
            if to not in seen:
                seen.add(to)
                pending.append(to)
    return False


def _breaks(state: StateSpec) -> bool:
    """Whether a state's own guards may fail, or leave no way on."""
    asked = [state.of, state.within, *(edge.when for edge in state.edges)]
    if any(isinstance(one, Expression) and one.may_fail for one in asked):
        return True
    if any(edge.target == RETURN for edge in state.edges):
        return True  # reached without a detour there is nowhere to return to
    triggers = {edge.trigger for edge in state.edges}
    ways = {e.trigger for e in state.edges if e.when is None and e.role not in ("case", "failed")}
    return state.job != "end" and not triggers <= ways


def all_sets(spec: MachineSpec) -> list[Assign]:
    """Every assignment of a machine."""
    sets = [one for state in spec.states.values() for one in state.set]
    sets += [one for edge in spec.edges() for one in edge.set]
    return sets + list(spec.on_error.set if spec.on_error is not None else ())


def sets_may_fail(sets: Iterable[Assign]) -> bool:
    """Whether one of these assignments may fail."""
    values = (one.value for one in sets)
    return any(isinstance(v, Expression) and (v.may_fail or _grows_fast(v.root)) for v in values)


def _grows_fast(root: Node) -> bool:
    """Whether a whole number may go beyond its 64 bits within the steps of a run.

    Adding a small constant again and again does not.
    """
    sums = [node for node in walk(root) if isinstance(node, Arith)]
    return any(not _by_little(node) for node in sums)


def _by_little(node: Arith) -> bool:
    sides = (node.left, node.right)
    small = any(isinstance(x, Const) and isinstance(x.value, int) and abs(x.value) < SMALL
                for x in sides)  # fmt: skip
    return node.op in ("%", "//") or (node.op in ("+", "-") and small)
