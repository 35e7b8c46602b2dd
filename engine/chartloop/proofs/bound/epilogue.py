"""What happens after a stop: whether a report is written, whether the run is saved, what it costs.

Source:       design "language", section 2 (the epilogue)
"""

from __future__ import annotations

from collections.abc import Mapping

from chartloop.core.traits import Writes
from chartloop.machine.abstract.graph import Routes
from chartloop.proofs.bound.bound import Wrap
from chartloop.proofs.bound.costs import COST, INF, UNIT, Spending


def wraps_of(routes: Routes, spending: Spending, names: Mapping[str, str]) -> tuple[Wrap, ...]:
    """For each state that a stop leads to: what follows, and what leads there."""
    walk = _Walk(routes, spending)
    found: dict[str, dict[int, list[str]]] = {}
    for route in routes.routes:
        source, dest = routes.places[route.source], routes.places[route.dest]
        opens = (
            dest.stopping
            and dest.stops is None
            and (not source.stopping or source.stops is not None)
        )
        if opens and dest.state:
            ids = found.setdefault(dest.state, {}).setdefault(route.dest, [])
            if route.origin not in ids:
                ids.append(route.origin)
    wraps = (_wrap(walk, state, ways, names) for state, ways in found.items())
    order = {name: n for n, name in enumerate(routes.spec.states)}
    return tuple(sorted(wraps, key=lambda w: order.get(w.to, len(order))))


def _wrap(walk: _Walk, state: str, ways: Mapping[int, list[str]], names: Mapping[str, str]) -> Wrap:
    """One line for a state, whatever else is known in the places that it is entered in."""
    costs = {shown: _most([walk.cost(p, r) for p in ways]) for r, shown in names.items()}
    return Wrap(
        state,
        tuple(dict.fromkeys(origin for ids in ways.values() for origin in ids)),
        _together({walk.does(place, "report") for place in ways}),
        _together({walk.does(place, "snapshot") for place in ways}),
        {name: cost for name, cost in costs.items() if cost != 0},
    )


def _together(said: set[str]) -> str:
    return said.pop() if len(said) == 1 else "sometimes"


def _most(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


class _Walk:
    """Ways from a stop to the end. They do not go round: the checker refuses that (CL312)."""

    def __init__(self, routes: Routes, spending: Spending) -> None:
        self.routes = routes
        self.spending = spending
        self.out: dict[int, list[int]] = {}
        for number, route in enumerate(routes.routes):
            if routes.places[route.source].stopping:
                self.out.setdefault(route.source, []).append(number)
        self._costs: dict[tuple[int, str], float | None] = {}
        self._done: dict[tuple[int, str], tuple[bool, bool]] = {}

    def does(self, place: int, what: Writes) -> str:
        """Whether this is written on the way: always, sometimes or never."""
        always, ever = self._does(place, what)
        return "always" if always else "sometimes" if ever else "never"

    def _does(self, place: int, what: Writes) -> tuple[bool, bool]:
        key = (place, what)
        if key in self._done:
            return self._done[key]
        self._done[key] = (True, False)  # a circle adds nothing
        state = self.routes.spec.states.get(self.routes.places[place].state)
        here = state is not None and state.traits.writes == what
        # an engine's own end is where a guard that raises leads: it is no way of the file's
        ways = [self.routes.routes[n] for n in self.out.get(place, ())]
        ways = [w for w in ways if not w.origin.startswith("raised.end-")]
        behind = [self._does(w.dest, what) for w in ways]
        found = (
            here or (bool(behind) and all(a for a, _ in behind)),
            here or any(e for _, e in behind),
        )
        self._done[key] = found
        return found

    def cost(self, place: int, resource: str) -> float | None:
        """The most of a resource on the way; None where that is not known."""
        key = (place, resource)
        if key not in self._costs:
            self._costs[key] = None
            best: float | None = 0
            for number in self.out.get(place, ()):
                route = self.routes.routes[number]
                behind = self.cost(route.dest, resource)
                own = 0.0
                if route.state:
                    state = self.routes.spec.states[route.state]
                    uses = self.spending.uses(state, route.outcome)
                    own = max(u.ends.get(resource, (0, 0))[1] for u in uses)
                if behind is None or own == INF or own >= UNIT // 1000:
                    best = None
                elif best is not None:
                    best = max(best, float(own) + behind)
            self._costs[key] = (
                best
                if resource == COST or best is None
                else int(best)
                if best == int(best)
                else best
            )
        return self._costs[key]
