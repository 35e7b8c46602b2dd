"""The file's own edges at a place: which may be taken, and what each asks of counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from chartloop.language.expression import Expression
from chartloop.language.spec import StateSpec
from chartloop.machine.abstract.counters import all_guards
from chartloop.machine.abstract.position import Move, Place, Reached, Target, join_gates
from chartloop.machine.abstract.thresholds import Below, Now, World
from chartloop.machine.build import Chart
from chartloop.machine.regions import GuardedTransition, Holds

Passed = tuple[Mapping[str, float], Reached]
"""One way in which guards did not hold: below these gates, and with these counters reached."""
MOST_PASSED = 4
"""Such ways that are told apart at one state."""
MOST_VALUES = 3
"""Values of one clock that are told apart: each may double the places."""
_TIMES = frozenset({"run.elapsed", "run.working"})
"""Counters that are always known, and that little is asked of."""


class OwnWays:
    """The edges of a machine, worked out once for each state and what is known there."""

    def __init__(self, chart: Chart, world: World) -> None:
        self.chart = chart
        self.world = world
        self._known: dict[tuple[str, str, bool, bool | None], list[Move]] = {}

    def at(self, state: str, trigger: str = "advance") -> tuple[GuardedTransition, ...]:
        """The live transitions of a state at a trigger, in order."""
        event = self.chart.event(trigger)
        return tuple(event.at(state)) if event is not None else ()

    def of(self, state: StateSpec, trigger: str, place: Place) -> list[Move]:
        """The file's own edges at a trigger, without those of a failure."""
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
                ways = self._without(guards[0], now)
                ways = ways if len(passed) * len(ways) <= MOST_PASSED else ways[:1]
                passed = [
                    (join_gates(gates, more), (*reached, *also))
                    for gates, reached in passed for more, also in ways
                ]  # fmt: skip

    def _without(self, guard: Expression, now: Now) -> list[Passed]:
        """What it takes that a guard does not hold: one of these.

        ``errors.total >= 9 and run.elapsed < limits.time`` does not hold while there are fewer
        errors, or once the time is up: then what waits for the time is near.
        """
        true = self.world.turns(guard, now).true
        reads = self.world.counters & guard.reads
        if true or len(reads) < 2 or self.world.lowered:  # a lower limit is come to earlier
            return [(true, ())]
        for counter in sorted(reads & _TIMES):
            values = self._thresholds.get(counter, set[float]())
            for value in sorted(values) if len(values) <= MOST_VALUES else ():
                found = self.world.turns(guard, now, below=Below(counter, value)).true
                if found:
                    return [(found, ()), ({}, ((counter, value),))]
        return [({}, ())]

    @cached_property
    def _thresholds(self) -> dict[str, set[float]]:
        """The values at which edges and rules of the machine ask for a counter."""
        out: dict[str, set[float]] = {}
        for guard in all_guards(self.chart.spec):
            turns = self.world.turns(guard)
            for counter, value in (*turns.true.items(), *turns.false.items()):
                out.setdefault(counter, set()).add(value)
        return out


def plain(t: GuardedTransition) -> Move:
    """A transition as a move, without its guards."""
    edge = t.edge
    if t.kind == "return":
        return Move(t.origin, "return", None)
    assert t.dest is not None
    sets = edge.set if edge is not None else ()
    target = Target(t.dest, stop=bool(edge is not None and edge.stop), set=sets)
    return Move(t.origin, t.kind, target, into=t.dest)
