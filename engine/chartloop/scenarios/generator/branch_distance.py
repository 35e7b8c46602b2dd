"""The branch distance of search-based testing: how far facts are from the guards of a target.

A guard that holds has distance 0. A comparison of numbers that does not hold has the distance of
its sides, scaled below 1; anything else that does not hold has distance 1. Distances joined by
`and` are added; of those joined by `or` the least counts. A target requires its own guard to hold
and earlier ones not to, likewise for the only decisions that lead there.

Source: Korel, "Automated software test data generation", 1990; McMinn, "Search-based software test
data generation: a survey", 2004.

Belongs here: numbers from guards and facts. Never: a run, or which node is followed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from chartloop.core.facts import Facts
from chartloop.language.expression import Expression
from chartloop.language.expression.atoms import Reading
from chartloop.machine.build import Chart
from chartloop.machine.regions import GuardedTransition, Holds
from chartloop.scenarios.generator.search_targets import Target
from chartloop.studies.coverage.deciding_atoms import (
    Chosen,
    Inverse,
    Joined,
    Leaf,
    Shape,
    shape_of,
)

_NUMBERS = (int, float)
_DECISIONS = 12
"""Maximum number of decisions before a target that are taken into account."""


class Want(NamedTuple):
    """A guard with the value that it should have."""

    guard: Expression
    shape: Shape
    holds: bool

    def distance(self, facts: Facts) -> float:
        """The distance of facts from that value; 0 if the guard has it."""
        if self.guard.opaque:
            return 0.0  # the distance of a Python guard is unknown
        readings = self.guard.readings(facts)
        return _far(self.shape, readings)[0 if self.holds else 1]


class TargetGuards:
    """The guards that the targets of one machine require."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._ways: dict[str, list[GuardedTransition]] = {}
        self._rules = {rule.id: rule.when for rule in chart.spec.rules}
        for t in chart.step.transitions():
            if t.dest is not None:
                self._ways.setdefault(t.dest, []).append(t)

    def of(self, target: Target) -> tuple[tuple[Want, ...], ...]:
        """The ways to show a target, each as the guards that it requires together."""
        spec = self._chart.spec
        if target.kind == "rule":
            return ((_want(self._rules[target.name]),),)
        if target.kind == "edge":
            t = self._chart.by_origin.get(target.name)
            return () if t is None else (tuple(self._taking(t)),)
        stops = (name for name, state in spec.states.items() if state.stop == target.name)
        edges = (tuple(self._taking(t)) for name in stops for t in self._ways.get(name, ()))
        rules = ((_want(r.when),) for r in spec.rules if target.name in (r.stop, r.signal))
        return (*edges, *rules)

    def _taking(self, t: GuardedTransition) -> Iterator[Want]:
        """The requirements of a transition, and of the only transitions that lead to its state."""
        for _ in range(_DECISIONS):
            yield from self._own(t)
            state = self._chart.spec.states.get(t.source)
            before = self._ways.get(t.source, ())
            if state is None or state.rests or len(before) != 1:
                return
            (t,) = before

    def _own(self, t: GuardedTransition) -> Iterator[Want]:
        for event in self._chart.step.triggers.values():
            transitions = event.at(t.source)
            if t in transitions:
                for earlier in transitions[: transitions.index(t)]:
                    if earlier.kind == t.kind:
                        yield from (_want(g, holds=False) for g in _only_guard(earlier))
                yield from (_want(g) for g in _guards(t))
                return


def distance(ways: Iterable[Iterable[Want]], facts: Facts) -> float:
    """The distance of facts from the nearest way to show a target."""
    return min((sum(want.distance(facts) for want in way) for way in ways), default=0.0)


def _want(guard: Expression, *, holds: bool = True) -> Want:
    return Want(guard, shape_of(guard.root), holds)


def _guards(t: GuardedTransition) -> list[Expression]:
    return [guard.expression for guard in t.guards if isinstance(guard, Holds)]


def _only_guard(t: GuardedTransition) -> list[Expression]:
    """The guard of a transition with one; with several, any of them may be the one that fails."""
    guards = _guards(t)
    return guards if len(guards) == len(t.guards) == 1 else []


def _far(shape: Shape, readings: Sequence[Reading]) -> tuple[float, float]:
    """The distances of a part of a guard from holding, and from not holding."""
    match shape:
        case Leaf(number=number):
            return _of_atom(readings[number])
        case Inverse(part=part):
            holds, fails = _far(part, readings)
            return fails, holds
        case Joined(all=whole, parts=parts):
            distances = [_far(part, readings) for part in parts]
            if whole:
                return sum(d[0] for d in distances), min(d[1] for d in distances)
            return min(d[0] for d in distances), sum(d[1] for d in distances)
        case Chosen(test=test, then=then, other=other):
            condition, one, two = (_far(part, readings) for part in (test, then, other))
            return (
                min(condition[0] + one[0], condition[1] + two[0]),
                min(condition[0] + one[1], condition[1] + two[1]),
            )


def _of_atom(reading: Reading) -> tuple[float, float]:
    if reading.holds is None:
        return 1.0, 1.0
    away = _apart(reading)
    return (0.0, away) if reading.holds else (away, 0.0)


def _apart(reading: Reading) -> float:
    """The distance of the sides of a comparison, scaled to above 0 and at most 1."""
    left, right = reading.left, reading.right
    if isinstance(left, bool) or not isinstance(left, _NUMBERS):
        return 1.0
    if isinstance(right, bool) or not isinstance(right, _NUMBERS):
        return 1.0
    apart = abs(float(left) - float(right))
    return apart / (apart + 1) if apart else 0.5
