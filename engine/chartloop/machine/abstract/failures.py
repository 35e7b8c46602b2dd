"""The failures that no action causes: a guard that raises, no edge that holds, an endless decision.

A `guard_error` is raised if evaluating a guard, a `set` or the time of a wait fails, or if no edge
of a state holds. An `error` without an action is raised if deciding states form a loop. Failures
that are certain not to happen are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from chartloop.core.digraph import reachable
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import Arith, Const, Node, walk
from chartloop.language.spec import RETURN, Assign, StateSpec
from chartloop.machine.abstract.counters import all_sets
from chartloop.machine.build import Chart

SMALL = 2**31
"""The limit of a small constant."""


class Failures:
    """The possible failures of a machine, computed once for each state."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self._known: dict[str, bool] = {}

    @cached_property
    def everywhere(self) -> bool:
        """Whether a rule or a `set` may fail, which can happen at any moment."""
        spec = self.chart.spec
        return any(rule.when.may_fail for rule in spec.rules) or sets_may_fail(all_sets(spec))

    def at(self, name: str) -> bool:
        """Whether an evaluation on leaving a state may fail."""
        if self.everywhere:
            return True
        if name not in self._known:
            state = self.chart.spec.states.get(name)
            self._known[name] = state is not None and _breaks(state)
        return self._known[name]

    def may_loop(self, name: str) -> bool:
        """Whether a path of deciding and passing states leads from a state back to it."""
        return name in self._looping

    @cached_property
    def _looping(self) -> frozenset[str]:
        spec = self.chart.spec
        passing = {n: set(self._onward(s)) for n, s in spec.states.items() if not s.rests}
        return frozenset(
            n for n in passing if n in reachable(passing[n], lambda m: passing.get(m, ()))
        )

    def _onward(self, state: StateSpec) -> Iterable[str]:
        """The states that one may lead to without an action, including by detours."""
        yield from state.all
        for edge in state.edges:
            yield from (
                self.chart.interruptible.values() if edge.target == RETURN else (edge.target,)
            )
            yield from (r.to for r in self.chart.spec.rules if edge.target in r.before and r.to)


def _breaks(state: StateSpec) -> bool:
    """Whether a state's own guards may fail, or may all be false."""
    values = [state.of, state.within, *(edge.when for edge in state.edges)]
    if any(isinstance(value, Expression) and value.may_fail for value in values):
        return True
    if any(edge.target == RETURN for edge in state.edges):
        return True  # if reached without a detour, there is nowhere to return to
    triggers = {edge.trigger for edge in state.edges}
    sure = {e.trigger for e in state.edges if e.when is None and e.role not in ("case", "failed")}
    return state.job != "end" and not triggers <= sure


def is_sure(chart: Chart, state: StateSpec) -> bool:
    """Whether a state's action cannot fail, and nothing can cut it off."""
    plain = state.traits.fails == "never" and not (state.args or state.save or state.within)
    return plain and not chart.time_left


def sets_may_fail(sets: Iterable[Assign]) -> bool:
    """Whether one of these assignments may fail."""
    values = (one.value for one in sets)
    return any(isinstance(v, Expression) and (v.may_fail or _grows_fast(v.root)) for v in values)


def _grows_fast(root: Node) -> bool:
    """Whether a whole number may exceed 64 bits within a run.

    Repeatedly adding a small constant cannot.
    """
    sums = [node for node in walk(root) if isinstance(node, Arith)]
    return any(not _by_little(node) for node in sums)


def _by_little(node: Arith) -> bool:
    sides = (node.left, node.right)
    small = any(isinstance(x, Const) and isinstance(x.value, int) and abs(x.value) < SMALL
                for x in sides)  # fmt: skip
    return node.op in ("%", "//") or (node.op in ("+", "-") and small)
