"""Why a target is not reached: proven impossible, opaque, not run, or not found.

Belongs here: the order of the reasons, and their words. Never: the search.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from chartloop.checker.dead_paths import untaken
from chartloop.core.units import say_number
from chartloop.language.expression import Expression
from chartloop.language.spec import MachineSpec
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import Route
from chartloop.machine.build import Chart
from chartloop.proofs.query import Questions
from chartloop.proofs.query.events import Happenings
from chartloop.scenarios.generator.generated_scenarios import Unreached, Why
from chartloop.scenarios.generator.search_targets import CANCELLED, Target

_NAMED = 3
"""Ways that are never taken and that a reason names, at most."""


def impossible(chart: Chart, targets: Iterable[Target]) -> dict[Target, Unreached]:
    """The targets that no run shows, whatever it starts with: their guards, or all ways there."""
    never = untaken(chart)
    routes = Questions(chart).routes  # None where the machine is too large for that
    may = None if routes is None else _may_happen(routes, never)
    drawn = may if routes is None or not never else _may_happen(routes, ())
    found: dict[Target, Unreached] = {}
    for target in targets:
        sort = "reason" if target.kind == "reason" else "edge"
        if sort == "edge" and target.name in never:
            found[target] = _proven(target, never[target.name])
        elif may is None or target.name == CANCELLED:
            continue
        elif (sort, target.name) not in may:
            behind = never if drawn is not None and (sort, target.name) in drawn else {}
            found[target] = _proven(target, _no_way(behind))
    return found


def _proven(target: Target, because: str) -> Unreached:
    return Unreached(target, "proven", f"proven impossible: {because}")


def _no_way(never: Collection[str]) -> str:
    """That nothing leads to a target, or only ways that are never taken."""
    if not never:
        return "no path leads there"
    named = ", ".join(f"`{name}`" for name in list(never)[:_NAMED])
    more = f" or {len(never) - _NAMED} more" if len(never) > _NAMED else ""
    return f"no path leads there except after {named}{more}: never taken"


def _may_happen(routes: Routes, never: Collection[str]) -> set[tuple[str, str]]:
    """Everything that may happen in a run, but behind ways that are never taken.

    A search cancels a run as anybody can; it is not a caller that names its own reason.
    """
    out: dict[int, list[Route]] = {}
    for route in routes.routes:
        if route.origin not in never and route.kind != "caller":
            out.setdefault(route.source, []).append(route)
    found: set[tuple[str, str]] = set()
    happenings = Happenings(routes, never)
    seen, pending = {0}, [0]
    while pending:
        for route in out.get(pending.pop(), ()):
            # what is raised beside another reason has its own route
            found.update((h.sort, h.name) for h in happenings.on(route) if not h.beside)
            if route.dest not in seen:
                seen.add(route.dest)
                pending.append(route.dest)
    return found


class Reasons:
    """Why a search has not found the targets of a machine."""

    def __init__(self, chart: Chart, *, not_run: Collection[str], tried: int, end: Why) -> None:
        """`end` is what ended the search: it had nothing left, its work was done, or someone."""
        self._guards = _guards_by_target(chart.spec)
        self._not_run = sorted(not_run)
        self._end: Why = end
        self._said = _ENDS[end].format(say_number(tried))

    def of(self, target: Target) -> Unreached:
        """The first that applies: the later ones say less."""
        asked = [name for guard in self._guards.get(target.name, ()) for name in guard.opaque]
        if asked:
            message = f"its guard asks `{asked[0]}`, which is Python and was never found to turn"
            return Unreached(target, "opaque", message)
        if self._not_run:
            states = ", ".join(f"`{state}`" for state in self._not_run)
            message = f"it may come after {states}, whose action has effects: only `--run-actions`"
            return Unreached(target, "own action", f"{message} runs it")
        return Unreached(target, self._end, self._said)


_ENDS: Mapping[Why, str] = {
    "nothing left": "not found among all values that were tried, with {} moves",
    "budget": "not found with {} moves; `--work` gives more",
    "stopped": "not found with {} moves, when the search was stopped",
}


def _guards_by_target(spec: MachineSpec) -> dict[str, list[Expression]]:
    """By target its guards, and those that may come before them."""
    guards = {rule.id: [rule.when] for rule in spec.rules}
    for rule in spec.rules:
        guards.setdefault(rule.stop or rule.signal, []).append(rule.when)
    for state in spec.states.values():
        own = [edge.when for edge in state.edges if edge.when is not None]
        guards |= {edge.id: own for edge in state.edges}
    for edge in spec.edges():
        then = spec.states.get(edge.target)
        if edge.when is not None and then is not None and then.stop:
            guards.setdefault(then.stop, []).append(edge.when)
    return guards
