"""The bound of a machine: a figure, reason and witness for each resource.

Source:       docs/bounds.md; docs/language.md, "After a stop: the epilogue"
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from chartloop.analysis.proofs.bound.bound import (
    Bound,
    Figure,
    Overshoot,
    Witness,
    say_amount,
    say_round,
    say_units,
)
from chartloop.analysis.proofs.bound.budgets import Budgets, Family, Step, exact
from chartloop.analysis.proofs.bound.child_bounds import Children
from chartloop.analysis.proofs.bound.costs import (
    CALLS,
    COST,
    STEPS,
    TOKENS,
    TOOLS,
    UNIT,
    WAITING,
    Assume,
    Spending,
)
from chartloop.analysis.proofs.bound.epilogue import wraps_of
from chartloop.analysis.proofs.bound.linear_program import Effort, Number, OutOfEffort, Solved
from chartloop.analysis.proofs.bound.problem import Proof, limits_of
from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.expression import Expression
from chartloop.language.intervals.interval import INF
from chartloop.language.spec import MachineSpec
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import UNDRAWN, Route, TooLarge
from chartloop.machine.abstract.signals import hands_down
from chartloop.machine.build import Chart
from chartloop.machine.transition import A_TICK

NAMES: Mapping[str, str] = {
    STEPS: "actions", CALLS: "requests", TOOLS: "tool_calls", TOKENS: "tokens", COST: "usd",
    WAITING: "waiting",
}  # fmt: skip
CALL = "model call"
"""The unit of a token figure if the size of a call is unknown."""
UNSIZED = (
    "nothing says how large a model call is: give `context_window` under `model`, or assume "
    "`tokens_per_call`"
)
UNKNOWN_SIZE = UNIT // 1000
"""An amount from here on includes things of unknown size."""
UNCOUNTED = (
    "what ends it counts things of unknown size: give `context_window` under `model`, or assume "
    "`tokens_per_call` and `calls_per_reply`"
)
"""Why there is no figure for a resource other than tokens."""
EFFORT = 6_000_000
"""The most steps of a proof; a step takes well under a microsecond."""
USUAL = (
    "no limit or variable is changed while it runs, and it is neither paused nor resumed after a "
    "crash during a call"
)


def bound(
    chart: Chart, *, limits: Mapping[str, Any] | None = None, vars: Mapping[str, Any] | None = None,
    assume: Assume | None = None, hash: str = "", effort: int = EFFORT, brief: bool = False,
) -> Bound:  # fmt: skip
    """Bound what a run with these limits can cost. `brief`: figures and assumptions only."""
    given = dict(limits or {})
    try:
        proof = Proof(chart, given, dict(vars or {}), assume or Assume(), Effort(effort))
        figures = {NAMES[r]: figure(proof, r) for r in NAMES}
        past = () if brief else tuple(_overshoots(proof))
        wraps = () if brief else wraps_of(proof.routes, proof.spending, NAMES)
    except (TooLarge, OutOfEffort) as error:
        return Bound(chart.name, hash, limits_of(chart, given), {}, unknown=str(error))
    assumed = dict.fromkeys((USUAL, *proof.spending.assumed.values(), *_assumptions(proof)))
    return Bound(
        chart.name, hash, proof.limits, figures, past, wraps, proof.children.reports, tuple(assumed)
    )


def _assumptions(proof: Proof) -> list[str]:
    """The assumptions about variables, opaque guards and other runs."""
    counting = proof.counting
    out = [
        f"`vars.{name}` starts with {counting.first[f'vars.{name}']:g}"
        for name in sorted(counting.variables)
        if f"vars.{name}" in counting.counters
    ]
    read = {r for g in proof.chart.spec.guards() for r in g.reads}
    out += [f"`{n}` is {v!r} from the start" for n, v in counting.fixed.items() if n in read]
    opaque = dict.fromkeys(n for g in proof.chart.spec.guards() for n in g.opaque)
    out += [f"the guard `{n}` may say anything: nothing rests on it" for n in opaque]
    return [*out, *(f"`{n}` may be anything: nothing rests on it" for n in proof.chart.fleet_reads)]


# figures ------------------------------------------------------------------------------------


def figure(proof: Proof, resource: str) -> Figure:
    """Bound one resource."""
    budgets, name = proof.budgets(resource), NAMES[resource]
    if any(s.uses.ends.get(resource, (0, 0))[1] == INF for s in budgets.steps):
        reasons = proof.spending.why.get(resource, {})
        return Figure(name, None, next(iter(reasons.values()), "it is not known"))
    gain = [s.gains(resource) for s in budgets.steps]
    solved, steps = proof.solve(budgets, gain)
    costly: Collection[str] = ()
    if solved.value is None and (worst := _worst_loop(proof, budgets, gain, resource)):
        solved, steps, costly = worst
    chosen = [budgets.steps[n] for n in steps]
    witness = _witness(proof, solved, chosen)
    if solved.value is None:
        loop = loop_of(proof, solved, chosen, costly)
        message = f"no budget cuts the loop {say_round(loop)}"
        return Figure(name, None, message, witness=witness, loop=loop)
    paired = zip(budgets.rows, solved.prices, strict=True)
    by = tuple(dict.fromkeys(_say(proof, row.family) for row, price in paired if price))
    units = math.ceil(solved.value / UNIT - Fraction(1, 1000))
    if not units:
        return Figure(name, _amount(resource, solved.value), by=by, witness=witness)
    if resource != TOKENS:
        return Figure(name, None, UNCOUNTED, witness=witness)
    known = proof.solve(budgets, _known_part(budgets, gain, resource))[0].value or 0
    rest = known + _room_before_late_check(budgets, resource)
    if rest >= UNKNOWN_SIZE:  # known and unknown sizes cannot be separated
        return Figure(name, None, "nothing says how large its parts are", witness=witness)
    return Figure(name, None, UNSIZED, units, CALL, max(_amount(resource, rest), 0), by, witness)


def paid(spec: MachineSpec) -> list[str]:
    """The states whose action costs money each time."""
    return [
        name
        for name, state in spec.states.items()
        if state.action is not None and state.action.effect is Effect.PAID
    ]


def _worst_loop(
    proof: Proof, budgets: Budgets, gain: Sequence[Number], resource: str
) -> tuple[Solved, list[int], Collection[str]] | None:
    """The worst loop that no budget cuts, with the states that make it so.

    A loop with model calls comes first, then any other paid one, then one that does work.
    """
    if resource != STEPS:
        return None
    spec = proof.chart.spec
    costs = set(paid(spec))
    work = {n for n, s in spec.states.items() if s.action is not None and s.action.work}
    calls = {s.route.state for s in budgets.steps if s.uses.ends.get(CALLS, (0, 0))[1]}
    for names in (calls & costs, costs, work):
        pairs = zip(budgets.steps, gain, strict=True)
        narrow = [amount if step.route.state in names else 0 for step, amount in pairs]
        solved, steps = budgets.most(narrow)
        if solved.value is None:
            return solved, steps, names
    return None


def loop_of(
    proof: Proof, solved: Solved, steps: Sequence[Step], through: Collection[str] = ()
) -> tuple[str, ...]:
    """The states of the loop of an unbounded program, preferably through one of `through`.

    Inner loops are part of it, because the costly state may be in one of them.
    """
    rounds = [_round(proof, [steps[a].route for a in c.arcs]) for c, _ in solved.used if c.cycle]
    if not rounds:
        return ()
    loop, *others = rounds
    while inner := next((o for o in others if not {*loop}.isdisjoint(o)), None):
        others.remove(inner)
        if not {*inner} <= {*loop}:  # it is inserted where the two first meet
            at = next(n for n, name in enumerate(loop) if name in inner)
            turn = inner.index(loop[at])
            loop = (*loop[:at], *inner[turn:], *inner[:turn], *loop[at:])
    if through and {*loop}.isdisjoint(through):  # there are several loops that do not meet
        loop = next((r for r in rounds if not {*r}.isdisjoint(through)), loop)
    return loop


def _room_before_late_check(budgets: Budgets, resource: str) -> Number:
    """The most that calls of unknown size add before a budget that is checked late."""
    own = [f for f in budgets.families if f.counter == resource]
    return max((f.room for f in own), default=0) if any(map(budgets.late, own)) else 0


def _known_part(budgets: Budgets, gain: Sequence[Number], resource: str) -> list[Number]:
    """The gain without things of unknown size, unless a budget counts them."""
    counted = [r for r in budgets.rows if r.family.counter == resource and r.room < UNKNOWN_SIZE]
    open_ended = {
        (s.route.state, s.route.outcome)
        for s, g in zip(budgets.steps, gain, strict=True)
        if g >= UNKNOWN_SIZE
    }
    out: list[Number] = []
    for n, (step, amount) in enumerate(zip(budgets.steps, gain, strict=True)):
        takes = [row.takes[n] for row in counted]
        if amount >= UNKNOWN_SIZE and max(takes, default=0) < UNKNOWN_SIZE:
            # the budget counts the child's share; only the excess is of unknown size
            out.append(max(amount - round(amount / UNIT) * UNIT, 0))
        elif any(takes) or (step.route.state, step.route.outcome) not in open_ended:
            out.append(amount)
        else:
            out.append(0)
    return out


def _amount(resource: str, value: Number) -> int | float:
    """Return a figure for display: whole if it is a count, else rounded up."""
    if resource in (COST, WAITING):
        nearest = float(value)
        return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)
    return math.floor(value)


Children.figure = staticmethod(figure)


# witnesses ----------------------------------------------------------------------------------


def _witness(proof: Proof, solved: Solved, steps: Sequence[Step]) -> Witness:
    edges: dict[str, Fraction] = {}
    path: list[Route] = []
    loops: list[tuple[tuple[str, ...], int]] = []
    closing: list[str] = []
    entries: set[int] = set()
    for column, amount in sorted(solved.used, key=lambda u: (u[0].cycle, -u[1])):
        walked = [steps[a].route for a in column.arcs]
        _count(edges, walked, amount)
        if column.cycle:
            loop = _round(proof, walked)
            loops.append((loop, max(1, int(amount))))
            closing += [r.origin for r in walked if _states(proof, [r]) == loop[:1]]
            entries |= {route.source for route in walked}
        elif not path:
            path = walked
    if entries and not entries & {0, *(route.dest for route in path)}:
        path = _path_to(proof, entries)
        _count(edges, path, Fraction(1))
    counts = {id: max(1, int(times)) for id, times in edges.items()}
    once = tuple(dict.fromkeys(closing))
    return Witness(_states(proof, path), tuple(loops), counts, once)


def _count(edges: dict[str, Fraction], walked: Sequence[Route], times: Fraction) -> None:
    for route in walked:
        if route.kind not in UNDRAWN:
            edges[route.origin] = edges.get(route.origin, Fraction(0)) + times


def _path_to(proof: Proof, places: set[int]) -> list[Route]:
    """The shortest path from the start to one of these places; empty if there is none."""
    out: dict[int, list[Route]] = {}
    for route in proof.routes.routes:
        out.setdefault(route.source, []).append(route)
    paths: dict[int, list[Route]] = {0: []}
    queue = deque([0])
    while queue:
        here = queue.popleft()
        if here in places:
            return paths[here]
        for route in out.get(here, ()):
            if route.dest not in paths:
                paths[route.dest] = [*paths[here], route]
                queue.append(route.dest)
    return []


def _states(proof: Proof, walked: Sequence[Route]) -> tuple[str, ...]:
    places = [proof.routes.places[route.dest] for route in walked]
    inside = (p for p in places if p.state and (p.branch is None or p.state != p.branch.fork))
    return tuple(p.state for p in inside)


def _round(proof: Proof, walked: Sequence[Route]) -> tuple[str, ...]:
    """The states of a loop, beginning with the one that is first in the file."""
    names = _states(proof, walked)
    order = {name: n for n, name in enumerate(proof.chart.spec.states)}
    first = min(range(len(names)), key=lambda n: order.get(names[n], len(order)), default=0)
    return (*names[first:], *names[:first])


# limits -------------------------------------------------------------------------------------


def _turns(proof: Proof, guard: Expression, family: Family) -> bool:
    turns = proof.world.turns(guard)
    return family.at in (turns.true.get(family.counter), turns.false.get(family.counter))


def _say(proof: Proof, family: Family) -> str:
    """The guard that a budget comes from, as written in the file."""
    guards = [g for g in proof.chart.spec.guards() if family.counter in g.reads]
    alone = (g for g in guards if _turns(proof, g, family))
    guard = next(alone, next(iter(guards), None))
    if guard is None:
        return f"{family.counter} at {family.at:g}"
    text = " ".join(guard.text.split())
    missing = [r for r in sorted(guard.reads) if r.startswith("limits.") and r not in text]
    return text + (f" ({', '.join(missing)})" if missing else "")


def _where(proof: Proof, family: Family) -> str:
    """Where a budget is evaluated."""
    for rule in proof.chart.spec.rules:
        if _turns(proof, rule.when, family):
            if rule.before:
                return f"before {', '.join(f'`{s}`' for s in rule.before)}"
            return f"after {', '.join(f'`{s}`' for s in rule.at) or 'every action'}"
    for edge in proof.chart.spec.edges():
        if edge.when is not None and _turns(proof, edge.when, family):
            return f"at `{edge.source}`"
    return "where it is read"


def _overshoots(proof: Proof) -> list[Overshoot]:
    """How far a run can go past each budget, and where the budget is evaluated."""
    out: list[Overshoot] = []
    for family in proof.families:
        counter = family.counter
        resource = {"usage.llm_calls": CALLS, "run.elapsed": WAITING}.get(counter, counter)
        if resource not in NAMES:
            continue
        past = proof.past_of(family, resource)
        text = ""
        if counter == "run.elapsed" and past is not None:
            below = [child.routes for child in proof.children.proofs]
            seconds, text = late(proof.routes, below, proof.spending, family)
            past = None if text else max(past, 0) + exact(seconds + _back_off_past(proof, family))
        excess = None if past is None or past >= UNKNOWN_SIZE else _amount(resource, max(past, 0))
        out.append(
            Overshoot(
                _say(proof, family), counter, _amount(resource, Fraction(family.at)),
                _where(proof, family), excess,
                f"not known: {text}" if text else _say_past(resource, past),
            )
        )  # fmt: skip
    return out


def _back_off_past(proof: Proof, family: Family) -> float:
    """The longest back-off that may begin before a time limit and is not cut short by it.

    Only a rule that stops everywhere, for certain, does: see `Chart.back_off_caps`.
    """
    rules = (rule for rule in proof.chart.spec.rules if rule.stops_for_certain)
    if any(_turns(proof, rule.when, family) for rule in rules):
        return 0.0
    routes = (route for route in proof.routes.routes if family.has(route))
    return max((route.wait[1] for route in routes), default=0.0)


def _say_past(resource: str, past: Number | None) -> str:
    if past is None:
        return "cannot be told"
    if past <= 0:
        return "never past it"
    if units := round(past / UNIT):
        message = "less than" if past < units * UNIT else "at most"
        return f"{message} {say_units(units, CALL if resource == TOKENS else 'call')} past it"
    return f"at most {say_amount(NAMES[resource], _amount(resource, past))} past it"


def late(
    routes: Routes, below: Iterable[Routes], spending: Spending, family: Family
) -> tuple[float, str]:
    """The most seconds that actions take after the limit, and what has no bound.

    0 and empty if no action is late. `below` are the graphs of the child machines.
    """
    spec = routes.spec
    # a wait that the limit cuts short ends a little past it
    total = A_TICK if any(s.retry or s.job == "wait" for s in spec.states.values()) else 0.0
    begun: dict[str, bool] = {}
    """The states whose action may start past the limit, with whether only after a stop."""
    for route in routes.routes:
        place = routes.places[route.dest]
        state = spec.states.get(place.state)
        begins = route.source != 0 and route.outcome != "left" and not family.has(route)
        if begins and state is not None and _takes_time(state.action):
            begun[state.name] = begun.get(state.name, True) and place.stopping
    if name := next((name for name, wraps_up in begun.items() if not wraps_up), ""):
        return INF, f"`{name}` may start after it, and is not cut off by it"
    for state in (spec.states[name] for name in begun):
        longest = spending.seconds(state.within)
        if longest == INF:
            return INF, f"`{state.name}` wraps up in any time: give it `within`"
        total += longest
    children = (name for name, state in spec.states.items() if hands_down(spec, state))
    if (name := next(children, "")) and any(map(_has_epilogue, below)):
        return INF, f"children of `{name}` wrap up when it is reached"
    return total, ""


def _has_epilogue(routes: Routes) -> bool:
    """Whether an action that takes time follows a stop of the machine."""
    names = {place.state for place in routes.places if place.stopping}
    states = (routes.spec.states.get(name) for name in names)
    return any(state is not None and _takes_time(state.action) for state in states)


def _takes_time(action: ActionSpec | None) -> bool:
    """Whether an action takes time: a built-in without effects is instant."""
    return action is not None and not (action.effect is Effect.PURE and action.is_builtin)
