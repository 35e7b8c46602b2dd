"""The routes that every run finds closed, because too many actions come before them.

With given limits, guards over `run.steps` close routes from some number of actions on. A route that
is closed at the least number of actions with which a run can reach it is never taken. Nothing else
is counted here; several budgets at once are the subject of `proofs.bound`.
"""

from __future__ import annotations

from heapq import heappop, heappush

from chartloop.language.intervals.interval import INF
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import Route

STEPS = "run.steps"
_DONE = frozenset({"ok", "failed", "late"})
"""The outcomes of a completed action, which is counted before the next edge is chosen."""


def open_routes(routes: Routes) -> frozenset[int]:
    """Return the numbers of the routes that a run may take, judged by its count of actions."""
    out: dict[int, list[int]] = {}
    for number, route in enumerate(routes.routes):
        out.setdefault(route.source, []).append(number)
    least: dict[int, int] = {}
    reachable: set[int] = set()
    queue = [(0, 0)]
    while queue:
        done, place = heappop(queue)
        if place in least:
            continue
        least[place] = done
        for number in out.get(place, ()):
            route = routes.routes[number]
            after = done + _actions(routes, route)
            if after < route.gates.get(STEPS, INF):
                reachable.add(number)
                heappush(queue, (after, route.dest))
    return frozenset(reachable)


def _actions(routes: Routes, route: Route) -> int:
    state = routes.spec.states.get(route.state)
    return int(state is not None and state.action is not None and route.outcome in _DONE)
