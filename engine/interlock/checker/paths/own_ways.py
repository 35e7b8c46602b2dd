"""The file's own edges at a place: which may be taken, and what each asks of counters.

Imported by:  checker.paths.routes
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.checker.paths.places import Move, Place, Target, gated
from interlock.checker.paths.turning import Now, World
from interlock.language.spec import StateSpec
from interlock.machine.build import Chart
from interlock.machine.regions import GuardedTransition, Holds


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
        passed: dict[str, float] = {}
        seen = set[str]()
        for t in self.at(state.name, trigger):
            if t.kind in ("retry", "failed", "error") or t.forks:
                continue
            if t.kind == "return":
                if t.origin in seen:
                    continue
                seen.add(t.origin)
            guards = [g.expression for g in t.guards if isinstance(g, Holds)]
            verdicts = [self.world.settled(g, now) for g in guards]
            if False in verdicts:
                continue
            below = [self.world.turns(g, now).false for g in guards]
            move = plain(t)
            yield move._replace(gates=gated(passed, *below))
            only = len(guards) == len(t.guards)
            if only and all(verdicts):
                return
            if only and len(guards) == 1:
                passed = gated(passed, self.world.turns(guards[0], now).true)


def plain(t: GuardedTransition) -> Move:
    """A transition as a move, without its guards."""
    edge = t.edge
    if t.kind == "return":
        return Move(t.origin, "return", None)
    assert t.dest is not None
    sets = edge.set if edge is not None else ()
    target = Target(t.dest, stop=bool(edge is not None and edge.stop), set=sets)
    return Move(t.origin, t.kind, target, into=t.dest)
