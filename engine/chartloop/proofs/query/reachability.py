"""Which routes are closed in every run, because too many actions are done before them.

With limits that are given, guards over `run.steps` close routes from a number of actions on. Of
each place the least number of actions is known with which a run comes to it: a route that is closed
from there on is taken by no run. Nothing else is counted here; what a walk gathers within several
budgets at once is the question of `proofs.bound`.
"""

from __future__ import annotations

from heapq import heappop, heappush

from chartloop.language.intervals.interval import INF
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import Route

STEPS = "run.steps"
_DONE = frozenset({"ok", "failed", "late"})
"""Outcomes with which an action is done, and counted before it is asked what leads on."""


def open_routes(routes: Routes) -> frozenset[int]:
    """The numbers of the routes that some run may take, as far as its actions are counted."""
    out: dict[int, list[int]] = {}
    for number, route in enumerate(routes.routes):
        out.setdefault(route.source, []).append(number)
    least: dict[int, int] = {}
    found: set[int] = set()
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
                found.add(number)
                heappush(queue, (after, route.dest))
    return frozenset(found)


def _actions(routes: Routes, route: Route) -> int:
    state = routes.spec.states.get(route.state)
    return int(state is not None and state.action is not None and route.outcome in _DONE)
