"""A machine under proof: its graph and loops, state costs, and the budgets of its guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chartloop.analysis.proofs.bound.bound import Wrap
from chartloop.analysis.proofs.bound.budgets import (
    LIFTS,
    Budgets,
    Family,
    Step,
    exact,
    families_of,
    rows_of_loops,
    steps_of,
)
from chartloop.analysis.proofs.bound.child_bounds import Children
from chartloop.analysis.proofs.bound.costs import (
    CALLS,
    COST,
    DOUBT,
    TOKENS,
    WAITING,
    Assume,
    Child,
    Spending,
)
from chartloop.analysis.proofs.bound.epilogue import wraps_of
from chartloop.analysis.proofs.bound.linear_program import Effort, Number, Solved
from chartloop.core.digraph import Digraph
from chartloop.language.intervals.interval import INF
from chartloop.language.spec import Given
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.graph_builder import MOST_ROUTES
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.build import Chart

TIGHTENED = 6
"""The number of families that are added at the start; others follow where a cycle needs them."""
_COUNTER = {CALLS: "usage.llm_calls", WAITING: "run.elapsed"}


def limits_of(chart: Chart, given: Mapping[str, Any]) -> dict[str, Any]:
    """The limits of a run: those of the file, overridden by `given`."""
    return {**{n: x.value for n, x in chart.spec.limits.items()}, **given}


class Proof:
    """A machine under proof, for given limits and variables.

    `start` replaces the file's start state, `most` is the most routes of the graph, `lowered` are
    limits that a run may be given lower.
    """

    def __init__(
        self, chart: Chart, given: Mapping[str, Any], vars: Mapping[str, Any], assume: Assume,
        effort: Effort, *, start: str = "", most: int = MOST_ROUTES,
        lowered: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        spec = chart.spec
        self.chart, self.assume, self.effort = chart, assume, effort
        self.limits = limits_of(chart, given)
        self.counting = Counting(spec, vars)
        self.world = World(self.limits, self.counting.counters, self.counting.fixed, lowered)
        self.counting.world = self.world
        self.world.raised = self._signal_thresholds()
        self.routes = Routes(chart, self.world, self.counting, start, most)
        self.spending = Spending(spec, self.world, assume, self._child)
        self.children = Children(self, self._below)
        counted = {c: c != "run.working" for c in self.counting.counters}
        self.families = families_of(self.routes, counted)
        self._kept: dict[str, Budgets] = {}
        self._once: dict[str, tuple[float, float]] = {}
        self._past: dict[tuple[str, float], Number | None] = {}

    def _below(
        self, chart: Chart, limits: Mapping[str, Any], vars: Mapping[str, Any], start: str,
        lowered: frozenset[str],
    ) -> Proof:  # fmt: skip
        return Proof(chart, limits, vars, self.assume, self.effort, start=start, lowered=lowered)

    def _child(self, name: str, given: Mapping[str, Given], among: int) -> Child:
        return self.children.child(name, given, among)

    def _signal_thresholds(self) -> dict[str, tuple[float, ...]]:
        """The values of each counter from which a rule that applies everywhere raises a signal."""
        thresholds: dict[str, dict[str, float]] = {}
        for rule in self.chart.spec.rules:
            if rule.kind == "signal" and not rule.at and not rule.before:
                for counter, at in self.world.turns(rule.when).true.items():
                    if not counter.startswith(("run.visits.", "vars.", "run.continuations")):
                        known = thresholds.setdefault(counter, {})
                        known[rule.signal] = min(at, known.get(rule.signal, at))
        self.world.forget()
        return {counter: tuple(at.values()) for counter, at in thresholds.items()}

    def budgets(self, resource: str) -> Budgets:
        """The inequalities for a resource, shared between resources where amounts do not matter."""
        counter = _COUNTER.get(resource, resource)
        spread = resource in LIFTS and any(f.counter == counter for f in self.families)
        priced = resource == COST and any(f.counter == TOKENS for f in self.families)
        key = resource if spread or priced else ""
        if key not in self._kept:
            self._kept[key] = self.plain(resource, spread=spread)
            for family in self.families[:TIGHTENED]:
                self._kept[key].tighten(family)
        return self._kept[key]

    def plain(self, resource: str, *, spread: bool = False) -> Budgets:
        """Budgets without inequalities of families: each is added when a cycle needs it."""
        steps = steps_of(self.routes, self.spending, resource, spread)
        rows = rows_of_loops(self.routes, steps, self.limits, self.world.lowered)
        return Budgets(self.routes, steps, self.families, self.effort, rows)

    def solve(self, budgets: Budgets, gain: Sequence[Number]) -> tuple[Solved, list[int]]:
        """Maximise the gain over every chain of loops that one run can pass through."""
        whole, labels = budgets.most(gain)
        if whole.value is None:
            return whole, labels
        best: tuple[Solved, list[int]] | None = None
        parts = chains(budgets.steps, len(self.routes.places))
        if len(parts) < 2:
            return whole, labels
        for inside in parts:
            solution = budgets.most(
                gain,
                among=lambda n, inside=inside: (
                    inside[budgets.steps[n].route.source] and inside[budgets.steps[n].route.dest]
                ),
            )
            if solution[0].value is None:
                return whole, labels
            if best is None or (solution[0].value or 0) > (best[0].value or 0):
                best = solution
        return best or (whole, labels)

    def once_and_after(self, resource: str) -> tuple[float, float]:
        """The most that one action uses, and everything after a stop; infinite if unknown."""
        known = self._once.get(resource)
        if known is None:
            places, steps = self.routes.places, self.budgets(resource).steps
            before = [s.gains(resource) for s in steps if not places[s.route.source].stopping]
            costs = [w.costs.get(resource, 0) for w in self.wraps({resource: resource})]
            after = max((INF if cost is None else cost for cost in costs), default=0)
            known = self._once[resource] = (float(max(before, default=0)), float(after))
        return known

    def wraps(self, names: Mapping[str, str]) -> tuple[Wrap, ...]:
        """What follows each stop, with its costs."""
        return wraps_of(self.routes, self.spending, names)

    def past_of(self, family: Family, resource: str) -> Number | None:
        """The most by which a run exceeds a budget; None if unknown."""
        key, whole = (family.counter, family.at), resource not in (COST, WAITING)
        if key not in self._past:
            budgets = self.budgets(resource)
            ends = [s.uses.ends.get(resource, (0, 0))[1] for s in budgets.steps]
            if INF in ends:
                self._past[key] = None
                return None
            gain = [s.gains(resource) for s in budgets.steps]
            for n, step in enumerate(budgets.steps):
                if family.counter == "run.elapsed" and (asked := step.uses.ends.get(DOUBT)):
                    gain[n] = max(gain[n] - exact(asked[1]), exact(0))
                handed = step.uses.handed.get(family.counter)
                running = not self.routes.places[step.route.source].stopping
                if handed is not None and handed.limit == family.at and running and gain[n]:
                    gain[n] = min(gain[n], exact(handed.past) + (1 if whole else 0))
            solved, _ = budgets.most(
                gain, among=lambda n: not family.has(budgets.steps[n].route),
                starts=range(len(self.routes.places)), above=(family,),
            )  # fmt: skip
            self._past[key] = None if solved.value is None else solved.value - (1 if whole else 0)
        return self._past[key]


MOST_CHAINS = 12
"""Beyond this number the graph is treated as one."""


def chains(steps: Sequence[Step], size: int) -> list[list[bool]]:
    """For each chain of loops, which places may be on it. Empty if there is only one chain."""
    graph = Digraph(range(size), {(s.route.source, s.route.dest) for s in steps})
    parts = graph.parts()
    looping = [p for p, nodes in enumerate(parts.members)
               if len(nodes) > 1 or any(graph.has_edge(n, n) for n in nodes)]  # fmt: skip
    if len(looping) < 2:
        return []
    reach = {p: (parts.graph.onward(p) - {p}) & set(looping) for p in looping}
    maximal = _maximal(looping, reach)
    if len(maximal) < 2 or len(maximal) > MOST_CHAINS:
        return []
    out: list[list[bool]] = []
    for chain in maximal:
        inside = [True] * size
        for part in set(looping) - set(chain):
            for place in parts.members[part]:
                inside[place] = False
        out.append(inside)
    return out


def _maximal(parts: list[int], reach: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """The chains that cannot be extended; stops after `MOST_CHAINS`."""
    covers = {
        p: [q for q in reach[p] if not any(q in reach[r] for r in reach[p] if r != q)]
        for p in parts
    }
    first = [p for p in parts if not any(p in reach[q] for q in parts)]
    out: list[tuple[int, ...]] = []
    pending: list[tuple[int, ...]] = [(p,) for p in first]
    while pending and len(out) <= MOST_CHAINS:
        chain = pending.pop()
        if covers[chain[-1]]:
            pending += [(*chain, q) for q in covers[chain[-1]]]
        else:
            out.append(chain)
    return out
