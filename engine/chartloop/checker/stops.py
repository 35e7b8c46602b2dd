"""The ends of runs: stops without a signal, and limits that leave no path to an end.

Belongs elsewhere: whether a machine has an end (`checker.structure`), endless loops
(`checker.loops`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from chartloop.checker.check_context import CheckContext
from chartloop.core.units import say_count
from chartloop.language.spec import HIGHEST, Rule
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.signals import OUTSIDE, asks_to_stop, raised_by_states
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.regions import GuardedTransition

_STEPS = "run.steps"


def check_endings(context: CheckContext) -> None:
    """Find `stop: highest` without a signal, limits below every path to an end, wrong ends.

    Skipped if a part of the file could not be read.
    """
    if not context.broken:
        _highest(context)
        _out_of_reach(context)
        _errors_as_completed(context)


# signals ------------------------------------------------------------------------------------


def _highest(context: CheckContext) -> None:
    spec = context.spec
    if (
        context.own_code
        or any(r.kind == "signal" for r in spec.rules)
        or any(raised_by_states(spec))
    ):
        return
    if any(map(asks_to_stop, spec.states.values())) or not context.signals_stop:
        return
    highest = {n for n in context.reached if spec.states[n].stop == HIGHEST}
    if highest:
        for name in context.in_order(highest - _behind_stops(context)):
            message = f"`{name}` stops for the highest signal, but nothing in the file raises one"
            hint = "name the reason, such as `stop: completed`, or raise one: a rule with `signal`"
            context.say("CL346", ("states", name, "stop"), message, hint=hint)


def _behind_stops(context: CheckContext) -> set[str]:
    """The states that a run may be in after a stop that has a reason."""
    spec, route = context.spec, context.chart.route
    openers = {s.name for s in spec.states.values() if s.stop and s.stop != HIGHEST}
    openers |= {e.target for e in spec.edges() if e.stop}
    openers |= {r.to or route(r.stop) for r in spec.rules if r.stop}
    openers |= {route(reason) for reason in OUTSIDE}
    openers |= {spec.on_error.target} if spec.on_error is not None else set[str]()
    return {n for opener in openers & spec.states.keys() for n in context.behind.onward(opener)}


def _errors_as_completed(context: CheckContext) -> None:
    """Report `end: completed` after a stop for a reason that is an error."""
    spec = context.spec
    if all(state.end != "completed" for state in spec.states.values()):
        return
    for opener, reason in _error_stops(context):
        for name in context.in_order(context.behind.onward(opener)):
            if spec.states[name].end == "completed":
                message = f"`{name}` ends as completed what was stopped for `{reason}`, an error"
                hint = "write `end: by_reason`: the reason says how the run ended"
                path = ("states", name, "end")
                if not context.has_finding_at(path):
                    context.say("CL357", path, message, hint=hint)


def _error_stops(context: CheckContext) -> Iterator[tuple[str, str]]:
    """Yield the states that a stop for an error leads to, with the reason."""
    spec = context.spec
    stops = [(s.name, s.stop) for s in spec.states.values()]
    stops += [(e.target, e.stop) for e in spec.edges()]
    stops += [(r.to or context.chart.route(r.stop), r.stop) for r in spec.rules if r.stop]
    for name, reason in stops:
        if name in spec.states and reason not in ("", HIGHEST):
            if spec.reason(reason).status == "error":
                yield name, reason


# limits -------------------------------------------------------------------------------------


def _out_of_reach(context: CheckContext) -> None:
    """Report a rule that stops every run before it can reach an end."""
    if not context.signals_stop:
        return
    most, rule = _most_steps(context)
    if rule is None or _ends_by_rule(context):
        return
    least = _least_actions(context)
    if least is None or least < most:
        return
    limits = sorted(r for r in rule.when.reads if r.startswith("limits."))
    of = f"with `{limits[0]}` at {most:g} " if len(limits) == 1 else ""
    message = f"{of}no run reaches an end of the file: `{rule.id}` stops it after {_count(most)}, "
    message += f"and the shortest path takes {_count(least)}"
    path: Path = ("rules", int(rule.id.partition(".")[2]), "when")
    if len(limits) == 1:
        path = ("limits", limits[0].removeprefix("limits."))
    context.say("CL347", path, message, hint=f"allow {least + 1} actions at least")


def _count(actions: float) -> str:
    return say_count(int(actions), "action")


def _most_steps(context: CheckContext) -> tuple[float, Rule | None]:
    """The least number of actions after which a rule stops every run, and the rule."""
    spec = context.spec
    counting = Counting(spec)
    limits = {name: limit.value for name, limit in spec.limits.items()}
    world = World(limits, counting.counters & {_STEPS}, counting.fixed)
    general = [r for r in spec.rules if r.kind == "stop" and not r.at and not r.before]
    ends = [(world.turns(r.when).true.get(_STEPS), r) for r in general if _STEPS in r.when.reads]
    known = [(at, rule) for at, rule in ends if at is not None]
    return min(known, key=lambda pair: pair[0], default=(0.0, None))


def _ends_by_rule(context: CheckContext) -> bool:
    """Whether a rule may end a run for a reason that is not a forced stop."""
    spec = context.spec
    stops = [r.stop for r in spec.rules if r.kind == "stop"]
    return any(not spec.reason(reason).forced or reason == HIGHEST for reason in stops)


def _least_actions(context: CheckContext) -> int | None:
    """The actions on the shortest path to an end; None if there is none."""
    states = context.spec.states
    outgoing: dict[str, list[GuardedTransition]] = {}
    for t in context.chart.step.transitions():
        if t.kind != "raised" and not (t.rule is not None and t.rule.stop):
            outgoing.setdefault(t.source, []).append(t)
    queue = deque((name, 0) for name in {context.spec.start, *context.starts} & states.keys())
    done = set[str]()
    while queue:
        name, actions = queue.popleft()
        state = states[name]
        if state.stop or state.job == "end":
            return actions
        if name in done:
            continue
        done.add(name)
        for t in outgoing.get(name, ()):
            # a detour may be made at the start, before any action
            after = actions + (state.action is not None and t.kind != "rule")
            if t.edge is not None and t.edge.stop:
                return after
            if t.dest is not None and t.dest in states:
                place = queue.append if after > actions else queue.appendleft
                place((t.dest, after))
    return None
