"""The epilogue of a stop: whether a report is written, whether the run is saved, and the costs.

Source:       docs/language.md, "After a stop: the epilogue"
"""

from __future__ import annotations

from collections.abc import Mapping

from chartloop.analysis.proofs.bound.bound import Wrap
from chartloop.analysis.proofs.bound.costs import COST, INF, UNIT, Spending
from chartloop.core.traits import Writes
from chartloop.machine.abstract.graph import Routes


def wraps_of(routes: Routes, spending: Spending, names: Mapping[str, str]) -> tuple[Wrap, ...]:
    """Describe the wrap-up from each state that a stop leads to, in file order."""
    walk = _Walk(routes, spending)
    entries: dict[str, dict[int, list[str]]] = {}
    for route in routes.routes:
        source, dest = routes.places[route.source], routes.places[route.dest]
        opens = (
            dest.stopping
            and dest.stops is None
            and (not source.stopping or source.stops is not None)
        )
        if opens and dest.state:
            ids = entries.setdefault(dest.state, {}).setdefault(route.dest, [])
            if route.origin not in ids:
                ids.append(route.origin)
    wraps = (_wrap(walk, state, places, names) for state, places in entries.items())
    order = {name: n for n, name in enumerate(routes.spec.states)}
    return tuple(sorted(wraps, key=lambda w: order.get(w.to, len(order))))


def _wrap(
    walk: _Walk, state: str, places: Mapping[int, list[str]], names: Mapping[str, str]
) -> Wrap:
    """Merge the places in which a stop enters a state."""
    costs = {word: _most([walk.cost(p, r) for p in places]) for r, word in names.items()}
    return Wrap(
        state,
        tuple(dict.fromkeys(origin for ids in places.values() for origin in ids)),
        _together({walk.does(place, "report") for place in places}),
        _together({walk.does(place, "snapshot") for place in places}),
        {name: cost for name, cost in costs.items() if cost != 0},
    )


def _together(frequencies: set[str]) -> str:
    return frequencies.pop() if len(frequencies) == 1 else "sometimes"


def _most(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return max(known) if len(known) == len(costs) else None


class _Walk:
    """The paths from a stop to the end. They have no loops: the checker refuses those (CL312)."""

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
        """Whether this is written before the end: always, sometimes or never."""
        always, ever = self._does(place, what)
        return "always" if always else "sometimes" if ever else "never"

    def _does(self, place: int, what: Writes) -> tuple[bool, bool]:
        key = (place, what)
        if key in self._done:
            return self._done[key]
        self._done[key] = (True, False)  # a cycle adds nothing
        state = self.routes.spec.states.get(self.routes.places[place].state)
        here = state is not None and state.traits.writes == what
        # a guard that raises leads to an end of the engine, which is not a path of the file
        routes = [self.routes.routes[n] for n in self.out.get(place, ())]
        routes = [r for r in routes if not r.origin.startswith("raised.end-")]
        behind = [self._does(r.dest, what) for r in routes]
        self._done[key] = (
            here or (bool(behind) and all(a for a, _ in behind)),
            here or any(e for _, e in behind),
        )
        return self._done[key]

    def cost(self, place: int, resource: str) -> float | None:
        """The most of a resource on any path to the end; None if unknown."""
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
