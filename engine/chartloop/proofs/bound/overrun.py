"""How long a run continues behind a time limit: actions that start after it was reached.

A time limit ends the current action. What is started later is not cut off by it: an epilogue, which
runs with all rules off, an action before the place where the limit is evaluated, the epilogue of a
child that is told to stop. Only their own `within` bounds these. A wait that the limit cuts short
ends `A_TICK` behind it.

Source: design "language", section 6 (deadlines), and section 2 (the epilogue); machine.deadline
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.intervals.interval import INF
from chartloop.language.spec import MachineSpec
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.signals import hands_down
from chartloop.machine.transition import A_TICK
from chartloop.proofs.bound.budgets import Family
from chartloop.proofs.bound.costs import Spending


def late(
    routes: Routes, below: Iterable[Routes], spending: Spending, family: Family
) -> tuple[float, str]:
    """The seconds that late actions take at most, and what has no bound; 0 and empty: none do.

    `below` are the graphs of the child machines.
    """
    total, begun = _longest_wake(routes.spec), _begun_after(routes, family)
    if name := next((name for name, wraps_up in begun.items() if not wraps_up), ""):
        return INF, f"`{name}` may begin after it, and is not cut off by it"
    for state in (routes.spec.states[name] for name in begun):
        longest = spending.seconds(state.within)
        if longest == INF:
            return INF, f"`{state.name}` wraps up in any time: give it `within`"
        total += longest
    spec = routes.spec
    children = (name for name, state in spec.states.items() if hands_down(spec, state))
    if (name := next(children, "")) and any(map(_has_epilogue, below)):
        return INF, f"children of `{name}` wrap up when it is reached"
    return total, ""


def _longest_wake(spec: MachineSpec) -> float:
    """How far behind the limit a wait that it cuts short ends."""
    return A_TICK if any(s.retry or s.job == "wait" for s in spec.states.values()) else 0.0


def _begun_after(routes: Routes, family: Family) -> dict[str, bool]:
    """States whose action may start once the limit is reached; whether only after a stop."""
    found: dict[str, bool] = {}
    for route in routes.routes:
        place = routes.places[route.dest]
        state = routes.spec.states.get(place.state)
        begins = route.source != 0 and route.outcome != "left" and not family.has(route)
        if begins and state is not None and _takes_time(state.action):
            found[state.name] = found.get(state.name, True) and place.stopping
    return found


def _has_epilogue(routes: Routes) -> bool:
    """Whether an action that takes time follows a stop of this machine."""
    names = {place.state for place in routes.places if place.stopping}
    states = (routes.spec.states.get(name) for name in names)
    return any(state is not None and _takes_time(state.action) for state in states)


def _takes_time(action: ActionSpec | None) -> bool:
    """What has no effect and no code of an application is done at once."""
    return action is not None and not (action.effect is Effect.PURE and action.is_builtin)
