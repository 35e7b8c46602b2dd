"""Inequalities that hold in every run, derived from the guards over counters.

A `Family` is the set of routes that close once a counter has reached a value. When the last of them
is taken, the counter is still below that value. This bounds two sums:

- the amounts counted on these routes, each before the route is taken: below the value;
- all amounts: below the value, plus whatever can be counted once none of them is taken any more.
  That is a program of the same kind on the graph without them.

The second is computed only where a cycle needs it. A cycle that no family bounds is a loop that no
budget cuts.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from chartloop.analysis.proofs.bound.costs import WAITING, Spending, Uses
from chartloop.analysis.proofs.bound.linear_program import Arc, Effort, Number, Solved, most
from chartloop.core.digraph import reachable
from chartloop.machine.abstract.counters import Again
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import Route
from chartloop.machine.abstract.thresholds import REAL, World

LIFTS = frozenset({"usage.total_tokens", "usage.cost", "usage.tool_calls", WAITING})
"""Resources that guards can count, in amounts that differ between outcomes."""
_NO = (0, 0)


class Family(NamedTuple):
    """The routes that close once the counter has reached the value."""

    counter: str
    at: float

    @property
    def room(self) -> Number:
        """The highest value of the counter before the last route is taken."""
        return exact(self.at) if self.counter in REAL else exact(self.at) - 1

    def has(self, route: Route) -> bool:
        """Whether a route belongs to the family."""
        return route.gates.get(self.counter, self.at + 1) <= self.at


class Step(NamedTuple):
    """A route with one alternative of what its action uses."""

    route: Route
    number: int
    """The route's number."""
    uses: Uses

    def counts(self, counter: str) -> Number:
        """The least that it adds to a counter before it is taken."""
        if counter == "run.elapsed":
            return self.counts(WAITING)
        least = self.uses.ends.get(counter, _NO)[0]
        least = exact(least) if least else 0
        return least + exact(self.route.wait[0]) if counter == WAITING else least

    def gains(self, resource: str) -> Number:
        """The most that it uses of a resource."""
        most_ = self.uses.ends.get(resource, _NO)[1]
        most_ = exact(most_) if most_ else 0
        return most_ + exact(self.route.wait[1]) if resource == WAITING else most_


class Row(NamedTuple):
    """One inequality: the amount that each step takes, and the amount that there is."""

    family: Family
    takes: tuple[Number, ...]
    room: Number
    """The amount for a run from its start."""
    midway: Number | None = None
    """The amount for a part of a run that starts anywhere; None: the same."""


def exact(value: float | Fraction) -> Number:
    """Return the exact number: an int if it is whole, else a fraction."""
    if isinstance(value, Fraction):
        return value
    return int(value) if value == int(value) else Fraction(value)


_NOTHING = Uses({})


def steps_of(routes: Routes, spending: Spending, resource: str, spread: bool) -> list[Step]:
    """Pair every route with each alternative of what its action uses."""
    states, known, out = routes.spec.states, dict[tuple[str, str], list[Uses]](), list[Step]()
    for number, route in enumerate(routes.routes):
        if not route.state or route.outcome == "left":
            out.append(Step(route, number, _NOTHING))
            continue
        key = (route.state, route.outcome)
        if key not in known:
            alternatives = spending.uses(states[route.state], route.outcome)
            if spread:
                alternatives = [s for u in alternatives for s in u.spread(resource)]
            distinct = known[key] = list[Uses]()
            for uses in alternatives:
                if uses not in distinct:
                    distinct.append(uses)
        out += [Step(route, number, uses) for uses in known[key]]
    return out


@dataclass
class Budgets:
    """The inequalities for one resource, added as they are needed."""

    routes: Routes
    steps: Sequence[Step]
    families: Sequence[Family]
    effort: Effort
    rows: list[Row] = field(default_factory=list[Row])
    _tried: set[tuple[Family, str]] = field(default_factory=set[tuple[Family, str]])
    _before_counts: dict[str, tuple[Number, ...]] = field(
        default_factory=dict[str, tuple[Number, ...]]
    )
    _step_counts: dict[str, tuple[Number, ...]] = field(
        default_factory=dict[str, tuple[Number, ...]]
    )

    def step_counts(self, counter: str) -> tuple[Number, ...]:
        """The amount that each step adds to a counter, before and after it is taken."""
        if counter not in self._step_counts:
            self._step_counts[counter] = tuple(
                before + exact(s.route.after[counter]) if counter in s.route.after else before
                for s, before in zip(self.steps, self.before(counter), strict=True)
            )
        return self._step_counts[counter]

    def before(self, counter: str) -> tuple[Number, ...]:
        """The amount that each step adds to a counter before it is taken."""
        if counter not in self._before_counts:
            self._before_counts[counter] = tuple(s.counts(counter) for s in self.steps)
        return self._before_counts[counter]

    def most(
        self, gain: Sequence[Number], *, among: Callable[[int], bool] | None = None,
        starts: Sequence[int] = (0,), above: Collection[Family] = (),
    ) -> tuple[Solved, list[int]]:  # fmt: skip
        """Maximise the gain of a run, adding inequalities until it is bounded or none is left.

        Also returns the step number of each arc in the result.
        """
        from_start = tuple(starts) == (0,)
        while True:
            rows = self.rows
            arcs: list[Arc] = []
            labels: list[int] = []
            for n, step in enumerate(self.steps):
                if among is None or among(n):
                    takes = tuple(row.takes[n] for row in rows)
                    arcs.append(Arc(step.route.source, step.route.dest, gain[n], takes, n))
                    labels.append(n)
            rooms = [r.room if from_start or r.midway is None else r.midway for r in rows]
            solved = most(arcs, len(self.routes.places), starts, rooms, self.effort)
            if solved.value is not None:
                return solved, labels
            cycle = [labels[a] for column, _ in solved.used for a in column.arcs if column.cycle]
            if not self._bound_cycle(cycle, above):
                return solved, labels

    def _bound_cycle(self, cycle: Sequence[int], above: Collection[Family]) -> bool:
        """Add an inequality that bounds a cycle. False if there is none."""
        for family in self.families:
            if family in above:
                continue
            gated = any(family.has(self.steps[n].route) for n in cycle)
            counted = gated and any(self.step_counts(family.counter)[n] for n in cycle)
            if counted and self._add(family, above):
                return True
        return False

    def tighten(self, family: Family) -> None:
        """Add the inequalities of a family before any cycle needs them."""
        self._add(family, ())

    def _add(self, family: Family, above: Collection[Family]) -> bool:
        added = False
        if (family, "own") not in self._tried:
            self._tried.add((family, "own"))
            for row in (self._own_row(family), self._often_row(family)):
                if row is not None and any(row.takes):
                    self.rows.append(row)
                    added = True
        if (family, "whole") not in self._tried and self.late(family):
            row = self._whole_row(family, above)
            if row is not None:
                self.rows.append(row)
                added = True
            if row is not None or not above:  # else it may exist once those above are known
                self._tried.add((family, "whole"))
        return added

    def late(self, family: Family) -> bool:
        """Whether anything is counted on a route that the family does not close."""
        counted = self.step_counts(family.counter)
        return any(
            counted[n] and not family.has(s.route) and not self._stops(s.route)
            for n, s in enumerate(self.steps)
        )

    def _stops(self, route: Route) -> bool:
        return self.routes.places[route.dest].stopping

    def _own_row(self, family: Family) -> Row:
        """The inequality over the amounts counted on the routes themselves."""
        takes: list[Number] = []
        last: Number = 0
        for step, here in zip(self.steps, self.before(family.counter), strict=True):
            handed = step.uses.handed.get(family.counter)
            begins_stop = self._stops(step.route) and not (
                self.routes.places[step.route.source].stopping
            )
            if family.has(step.route):
                after = exact(step.route.after.get(family.counter, 0))
                last = max(last, after)
                takes.append(here + after)
            elif handed is not None and handed.limit == family.at and begins_stop:
                # the last child to spend gets what was left
                over = here - exact(handed.past) - (0 if family.counter in REAL else 1)
                takes.append(max(over, 0))
            else:
                takes.append(0)
        first = exact(self.routes.counting.first.get(family.counter, 0))
        return Row(family, tuple(takes), family.room - first + last)

    def _often_row(self, family: Family) -> Row | None:
        """How often the routes are taken; None if nothing is counted between two of them."""
        if not self.late(family):
            return None
        gated = [n for n, s in enumerate(self.steps) if family.has(s.route)]
        after = [(self.steps[n].route.dest, exact(self.steps[n].route.after.get(family.counter, 0)))
                 for n in gated]  # fmt: skip
        each = self.least_between(family.counter, after, gated)
        if each is not None and each <= 0:
            return None
        first = exact(self.routes.counting.first.get(family.counter, 0))
        before = self.least_between(family.counter, [(0, first)], gated) or 0
        room = family.room - before
        times = 0 if room < 0 else 1 if each is None else 1 + room // each
        takes = [int(family.has(s.route)) for s in self.steps]
        return Row(family, tuple(takes), times)

    def least_between(
        self, counter: str, sources: Iterable[tuple[int, Number]], to: Iterable[int],
        at: Callable[[int, Number], Number | None] | None = None,
    ) -> Number | None:  # fmt: skip
        """The least amount counted on a path from one of these places to one of these steps.

        `at` returns the amount with which a step is taken, given the least; None if it is closed.
        """
        counted, before = self.step_counts(counter), self.before(counter)
        out: dict[int, list[int]] = {}
        for n, step in enumerate(self.steps):
            out.setdefault(step.route.source, []).append(n)

        def taken(n: int, amount: Number) -> Number | None:
            return amount + before[n] if at is None else at(n, amount + before[n])

        heap = sorted((amount, place) for place, amount in sources)
        least: dict[int, Number] = {}
        while heap:
            amount, place = heapq.heappop(heap)
            if place in least:
                continue
            least[place] = amount
            steps = out.get(place, ())
            self.effort.spend(len(steps) + 1)
            for n in steps:
                dest = self.steps[n].route.dest
                if dest not in least and (here := taken(n, amount)) is not None:
                    heapq.heappush(heap, (here + counted[n] - before[n], dest))
        sources_of = ((n, self.steps[n].route.source) for n in to)
        amounts = [taken(n, least[place]) for n, place in sources_of if place in least]
        return min((amount for amount in amounts if amount is not None), default=None)

    def _whole_row(self, family: Family, above: Collection[Family]) -> Row | None:
        counted = self.step_counts(family.counter)
        everywhere = range(len(self.routes.places))
        solved, _ = self.most(
            counted, among=lambda n: not family.has(self.steps[n].route), starts=everywhere,
            above=(*above, family),
        )  # fmt: skip
        if solved.value is None:
            return None
        after = [
            exact(s.route.after.get(family.counter, 0)) for s in self.steps if family.has(s.route)
        ]
        first = exact(self.routes.counting.first.get(family.counter, 0))
        room = family.room - first + solved.value + max(after, default=0)
        return Row(family, counted, room)


def rows_of_loops(
    routes: Routes, steps: Sequence[Step], limits: Mapping[str, Any], lowered: frozenset[str]
) -> list[Row]:  # fmt: skip
    """Bound how often an edge that counts a variable up is taken, where states reset the variable.

    Between two resets the variable only rises, and the edge's own guard is false from a bound on.
    So each reset, like the initial value, allows a fixed number of passes.
    """
    edges = {edge.id: edge for edge in routes.spec.edges()}
    out: list[Row] = []
    for again in routes.counting.again:
        world = World(limits, frozenset({again.variable}), routes.counting.fixed, lowered)
        for id, each in again.edges.items():
            guard = edges[id].when
            most_ = None if guard is None else world.turns(guard).false.get(again.variable)
            if most_ is not None:
                out.append(_row_of_loop(routes, steps, again, (id, each, most_)))
    return out


def _row_of_loop(
    routes: Routes, steps: Sequence[Step], again: Again, edge: tuple[str, float, float]
) -> Row:
    id, each, most_ = edge

    def times(value: float) -> int:
        return max(0, math.ceil((most_ - value) / each))

    takes: list[Number] = []
    for step in steps:
        entered = again.resets.get(routes.places[step.route.dest].state)
        taken = int(step.route.origin == id)
        takes.append(taken if entered is None else taken - times(entered))
    begun = reached_before(routes, again.resets)
    early = any(s.route.origin == id and s.route.source in begun for s in steps)
    # part of a run may start within the loop, right after any of the values was set
    midway = times(min(again.first, *again.resets.values()))
    room = times(again.first) if early else 0
    return Row(Family(again.variable, most_), tuple(takes), room, midway)


def reached_before(routes: Routes, states: Collection[str]) -> set[int]:
    """The places that a run can reach before it enters one of these states."""
    out: dict[int, list[int]] = {}
    for route in routes.routes:
        if routes.places[route.dest].state not in states:
            out.setdefault(route.source, []).append(route.dest)
    return set(reachable([0], lambda place: out.get(place, [])))


def families_of(routes: Routes, counted: Mapping[str, bool]) -> list[Family]:
    """Return the families of a machine, those with the most routes first."""
    sizes: dict[Family, int] = {}
    for route in routes.routes:
        for counter, at in route.gates.items():
            if counted.get(counter):
                family = Family(counter, at)
                sizes[family] = sizes.get(family, 0) + 1
    return sorted(sizes, key=lambda f: (-sizes[f], f))
