"""The reasons why targets are not reached: proven impossible, opaque, not run, or not found.

Belongs here: the order of the reasons, and their texts. Never: the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chartloop.analysis.checker.dead_paths import untaken
from chartloop.analysis.proofs.query import Questions
from chartloop.analysis.proofs.query.events import Happenings
from chartloop.core.digraph import reachable
from chartloop.core.units import say_number, say_some
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import Route
from chartloop.machine.build import Chart
from chartloop.scenarios.generator.generated_scenarios import Unreached, Why
from chartloop.scenarios.generator.search_targets import CANCELLED, Target

_NAMED = 3
"""How many edges that are never taken a reason names."""


def impossible(chart: Chart, targets: Iterable[Target]) -> dict[Target, Unreached]:
    """The targets that no run can show: their guards never hold, or no path leads to them."""
    never = untaken(chart)
    routes = Questions(chart).routes  # None if the machine is too large
    may = None if routes is None else _may_happen(routes, never)
    with_dead_edges = may if routes is None or not never else _may_happen(routes, ())
    unreached: dict[Target, Unreached] = {}
    for target in targets:
        sort = "reason" if target.kind == "reason" else "edge"
        if sort == "edge" and target.name in never:
            unreached[target] = _proven(target, never[target.name])
        elif may is None or target.name == CANCELLED:
            continue
        elif (sort, target.name) not in may:
            has_path = with_dead_edges is not None and (sort, target.name) in with_dead_edges
            unreached[target] = _proven(target, _no_way(never if has_path else {}))
    return unreached


def _proven(target: Target, because: str) -> Unreached:
    return Unreached(target, "proven", f"proven impossible: {because}")


def _no_way(never: Collection[str]) -> str:
    """Say that no path leads to a target, or only paths over edges that are never taken."""
    if not never:
        return "no path leads there"
    names = say_some([f"`{name}`" for name in never], _NAMED, "or")
    return f"no path leads there except after {names}: never taken"


def _may_happen(routes: Routes, never: Collection[str]) -> set[tuple[str, str]]:
    """The sort and name of all that may happen in a run, without edges that are never taken.

    A search cancels runs only for the default reason, so the routes of callers are left out.
    """
    out: dict[int, list[Route]] = {}
    for route in routes.routes:
        if route.origin not in never and route.kind != "caller":
            out.setdefault(route.source, []).append(route)
    happenings = Happenings(routes, never)
    places = reachable([0], lambda place: [route.dest for route in out.get(place, ())])
    taken = (route for place in places for route in out.get(place, ()))
    # a reason that is raised beside another has a route of its own
    return {(h.sort, h.name) for route in taken for h in happenings.on(route) if not h.beside}


class Reasons:
    """The reasons why a search has not found the targets of a machine."""

    def __init__(self, chart: Chart, *, not_run: Collection[str], tried: int, end: Why) -> None:
        """`end` says why the search ended: `nothing left`, `budget` or `stopped`."""
        # The guards of each target, with those that may be evaluated before them.
        guards = {rule.id: [rule.when] for rule in chart.spec.rules}
        for rule in chart.spec.rules:
            guards.setdefault(rule.stop or rule.signal, []).append(rule.when)
        for state in chart.spec.states.values():
            own = [edge.when for edge in state.edges if edge.when is not None]
            guards |= {edge.id: own for edge in state.edges}
        for edge in chart.spec.edges():
            then = chart.spec.states.get(edge.target)
            if edge.when is not None and then is not None and then.stop:
                guards.setdefault(then.stop, []).append(edge.when)
        self._guards = guards
        self._not_run = sorted(not_run)
        self._end: Why = end
        self._end_text = _ENDS[end].format(say_number(tried))

    def of(self, target: Target) -> Unreached:
        """The most specific reason that applies."""
        opaque = [name for guard in self._guards.get(target.name, ()) for name in guard.opaque]
        if opaque:
            message = f"its guard asks `{opaque[0]}`, which is Python and was never found to turn"
            return Unreached(target, "opaque", message)
        if self._not_run:
            states = ", ".join(f"`{state}`" for state in self._not_run)
            message = f"it may come after {states}, whose action has effects: only `--run-actions`"
            return Unreached(target, "own action", f"{message} runs it")
        return Unreached(target, self._end, self._end_text)


_ENDS: Mapping[Why, str] = {
    "nothing left": "not found among all values that were tried, with {} moves",
    "budget": "not found with {} moves; `--work` gives more",
    "stopped": "not found with {} moves, when the search was stopped",
}
