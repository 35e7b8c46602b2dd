"""Why a target is not reached: proven impossible, opaque, not run, or not found.

Belongs here: the order of the reasons, and their words. Never: the search.

Imported by:  testing.generating.generate
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from interlock.checker.paths.places import FROM_OUTSIDE, Route
from interlock.checker.paths.routes import Routes
from interlock.checker.query import Questions
from interlock.checker.query.answers import happenings
from interlock.core.units import say_number
from interlock.language.spec import MachineSpec
from interlock.machine.build import Chart
from interlock.testing.generating.result import Unreached
from interlock.testing.generating.targets import CANCELLED, Target


def impossible(chart: Chart, targets: Iterable[Target]) -> dict[Target, Unreached]:
    """The targets of which the checker's graph has no way that shows them, whatever guards say."""
    routes = Questions(chart).routes
    if routes is None:  # the machine is too large for that
        return {}
    may = _may_happen(routes)
    signals = {rule.id for rule in chart.spec.rules if rule.kind == "signal"}  # they are no arrows
    found: dict[Target, Unreached] = {}
    for target in targets:
        if target == Target("reason", CANCELLED) or target.name in signals:
            continue
        if ("reason" if target.kind == "reason" else "edge", target.name) not in may:
            found[target] = Unreached(target, "proven", f"proven: no way leads to {target}")
    return found


def _may_happen(routes: Routes) -> set[tuple[str, str]]:
    """Everything that may happen in a run that nobody stops from outside."""
    out: dict[int, list[Route]] = {}
    for route in routes.routes:
        if route.kind not in FROM_OUTSIDE:
            out.setdefault(route.source, []).append(route)
    found: set[tuple[str, str]] = set()
    seen, pending = {0}, [0]
    while pending:
        for route in out.get(pending.pop(), ()):
            found.update((h.sort, h.name) for h in happenings(routes, route))
            if route.dest not in seen:
                seen.add(route.dest)
                pending.append(route.dest)
    return found


def why(
    chart: Chart, target: Target, *, not_run: Collection[str], ended: bool, tried: int
) -> Unreached:
    """Why a search has not found a target. `ended`: it had nothing left to follow."""
    asked = list(_opaque(chart.spec, target))
    if asked:
        said = f"its guard asks `{asked[0]}`, which is Python and was never found to turn"
        return Unreached(target, "opaque", said)
    if not_run:
        states = ", ".join(f"`{state}`" for state in sorted(not_run))
        said = f"it may lie behind {states}, whose action has effects: only `--run-actions` runs it"
        return Unreached(target, "own action", said)
    if ended:
        said = f"not found: all that differs was followed, with {say_number(tried)} moves"
        return Unreached(target, "nothing left", said)
    said = f"not found with {say_number(tried)} moves; `--work` gives more"
    return Unreached(target, "budget", said)


def _opaque(spec: MachineSpec, target: Target) -> Iterator[str]:
    """The Python guards that the guard of a target asks, or one beside it that comes first."""
    guards = {rule.id: [rule.when] for rule in spec.rules}
    for state in spec.states.values():
        own = [edge.when for edge in state.edges if edge.when is not None]
        guards |= {edge.id: own for edge in state.edges}
    if target.kind == "reason":
        stops = {n for n, state in spec.states.items() if state.stop == target.name}
        found = [e.when for e in spec.edges() if e.target in stops and e.when is not None]
        found += [r.when for r in spec.rules if target.name in (r.stop, r.signal)]
        guards[target.name] = found
    for guard in guards.get(target.name, ()):
        yield from guard.opaque
