"""The file's own edges at a place: which may be taken, and at which values of counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from chartloop.language.expression import Expression
from chartloop.language.spec import StateSpec
from chartloop.machine.abstract.position import Move, Place, Reached, Target, join_gates
from chartloop.machine.abstract.thresholds import Below, Now, World
from chartloop.machine.build import Chart
from chartloop.machine.regions import GuardedTransition, Holds

Passed = tuple[Mapping[str, float], Reached]
"""A case in which earlier guards did not hold: counters below these gates, or at these values."""
MOST_PASSED = 4
"""The most such cases at one state."""
MOST_VALUES = 3
"""The most values of a clock that make cases: each may double the places."""
_TIMES = frozenset({"run.elapsed", "run.working"})
"""Counters that always have a value, and that few guards read."""


class OwnMoves:
    """The edges of a machine as moves, computed once for each state and what is known there."""

    def __init__(self, chart: Chart, world: World) -> None:
        self.chart = chart
        self.world = world
        self._known: dict[tuple[str, str, bool, bool | None], list[Move]] = {}

    def at(self, state: str, trigger: str = "advance") -> tuple[GuardedTransition, ...]:
        """The live transitions of a state at a trigger, in order."""
        event = self.chart.event(trigger)
        return tuple(event.at(state)) if event is not None else ()

    def of(self, state: StateSpec, trigger: str, place: Place) -> list[Move]:
        """The moves of the file's edges at a trigger, without those for a failure."""
        if trigger == "advance" and state.name in self.chart.joins and place.branch is None:
            return [Move(f"{state.name}.all", "fork", Target(state.name, fork=True))]
        key = (state.name, trigger, place.continued, place.ok)
        if key not in self._known:
            now = Now(place.continued, place.ok)
            self._known[key] = list(self._edges(state, trigger, now))
        moves = self._known[key]
        if place.returns and (last := place.returns[-1][1]):
            back = "" if last.fork else last.state
            return [m if m.target is not None else m._replace(into=back) for m in moves]
        return moves

    def _edges(self, state: StateSpec, trigger: str, now: Now) -> Iterator[Move]:
        passed: list[Passed] = [({}, ())]
        seen = set[str]()
        for t in self.at(state.name, trigger):
            if t.of_failure or t.forks:
                continue
            if t.kind == "return":
                if t.origin in seen:
                    continue
                seen.add(t.origin)
            guards = [g.expression for g in t.guards if isinstance(g, Holds)]
            verdicts = [self.world.verdict(g, now) for g in guards]
            if False in verdicts:
                continue
            below = [self.world.turns(g, now).false for g in guards]
            move = plain(t)
            for gates, reached in passed:
                yield move._replace(gates=join_gates(gates, *below), reached=reached)
            only = len(guards) == len(t.guards)
            if only and all(verdicts):
                return
            if only and len(guards) == 1:
                cases = self._without(guards[0], now)
                cases = cases if len(passed) * len(cases) <= MOST_PASSED else cases[:1]
                passed = [
                    (join_gates(gates, more), (*reached, *also))
                    for gates, reached in passed for more, also in cases
                ]  # fmt: skip

    def _without(self, guard: Expression, now: Now) -> list[Passed]:
        """The cases in which a guard does not hold.

        ``errors.total >= 9 and run.elapsed < limits.time`` does not hold while there are fewer
        errors, or once the time is up: in the second case time limits are near.
        """
        true = self.world.turns(guard, now).true
        reads = self.world.counters & guard.reads
        if true or len(reads) < 2 or self.world.lowered:  # a lower limit is reached earlier
            return [(true, ())]
        for counter in sorted(reads & _TIMES):
            values = self._thresholds.get(counter, set[float]())
            for value in sorted(values) if len(values) <= MOST_VALUES else ():
                gates = self.world.turns(guard, now, below=Below(counter, value)).true
                if gates:
                    return [(gates, ()), ({}, ((counter, value),))]
        return [({}, ())]

    @cached_property
    def _thresholds(self) -> dict[str, set[float]]:
        """The values of each counter at which a guard of the machine is decided."""
        out: dict[str, set[float]] = {}
        for guard in self.chart.spec.guards():
            turns = self.world.turns(guard)
            for counter, value in (*turns.true.items(), *turns.false.items()):
                out.setdefault(counter, set()).add(value)
        return out


def plain(t: GuardedTransition) -> Move:
    """Return a transition as a move, without its guards."""
    edge = t.edge
    if t.kind == "return":
        return Move(t.origin, "return", None)
    assert t.dest is not None
    sets = edge.set if edge is not None else ()
    target = Target(t.dest, stop=bool(edge is not None and edge.stop), set=sets)
    return Move(t.origin, t.kind, target, into=t.dest)
