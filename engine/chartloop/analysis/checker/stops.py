"""The ends of runs: stops without a signal, and limits that leave no path to an end.

Belongs elsewhere: whether a machine has an end (`checker.structure`), endless loops
(`checker.loops`).
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.certain_failures import SHORTEST_CALL
from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.proofs.bound.costs import Assume, Child
from chartloop.analysis.proofs.bound.earliest_end import (
    OutOfReach,
    ends_out_of_reach,
    is_worth_a_proof,
)
from chartloop.analysis.proofs.bound.linear_program import Effort, OutOfEffort
from chartloop.analysis.proofs.bound.problem import Proof
from chartloop.analysis.proofs.bound.unbounded_loops import EFFORT, MOST_ROUTES
from chartloop.core.facts import FACTS
from chartloop.core.format import say_value
from chartloop.core.types import COUNT
from chartloop.language.intervals.interval import INF
from chartloop.language.spec import HIGHEST
from chartloop.language.yaml.reading import Path
from chartloop.machine.abstract.counters import SPENT
from chartloop.machine.abstract.position import TooLarge
from chartloop.machine.abstract.signals import OUTSIDE, asks_to_stop, raised_by_states


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
    if not highest:
        return
    route = context.chart.route
    stops = {s.name for s in spec.states.values() if s.stop and s.stop != HIGHEST}
    stops |= {e.target for e in spec.edges() if e.stop}
    stops |= {r.to or route(r.stop) for r in spec.rules if r.stop}
    stops |= {route(reason) for reason in OUTSIDE}
    stops |= {spec.on_error.target} if spec.on_error is not None else set[str]()
    # after a stop that has a reason, this reason is the highest signal
    behind = context.behind.onward(*stops & spec.states.keys())
    for name in context.in_order(highest - behind):
        message = f"`{name}` stops for the highest signal, but nothing in the file raises one"
        hint = "name the reason, such as `stop: completed`, or raise one: a rule with `signal`"
        context.say("CL346", ("states", name, "stop"), message, hint=hint)


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
    spec = context.spec
    if context.own_code or _ends_by_rule(context) or not is_worth_a_proof(spec, context.counting):
        return
    found: OutOfReach | None = None
    for start in {"", *context.starts}:
        proof = Proof(
            context.chart, {}, {}, Assume(), Effort(EFFORT), start=start, most=MOST_ROUTES
        )
        proof.spending.child, proof.spending.fastest = _any_child, SHORTEST_CALL
        try:
            found = ends_out_of_reach(proof)
        except (TooLarge, OutOfEffort):
            found = None
        if found is None:
            return
    if found is not None:
        _say_out_of_reach(context, found)


def _any_child(*_: object) -> Child:
    """A child that may use anything, or nothing: it makes no path longer."""
    return Child(dict.fromkeys(SPENT, INF), {}, {})


def _say_out_of_reach(context: CheckContext, found: OutOfReach) -> None:
    rule, counter = found.rule, found.counter
    path: Path = (*rule.path, "when")
    if context.has_finding_at(path) or rule.when.reads & context.given:
        return
    limits = sorted(r for r in rule.when.reads if r.startswith("limits."))
    one = limits[0].removeprefix("limits.") if len(limits) == 1 else ""
    value = spec.limits[one].value if one in (spec := context.spec).limits else None
    of = f"with `limits.{one}` at {say_value(value, spec.limits[one].type)} " if one else ""
    if not found.begun:
        message = f"{of}no run does anything: `{rule.id}` stops it before its first action"
        hint = "let the rule allow more: `>= 0` holds before anything has happened"
    elif not found.least:
        ends = context.own.onward(spec.start) & {n for n, s in spec.states.items() if s.stop}
        if not ends:
            return
        message = f"{of}no run reaches an end of the file: `{rule.id}` holds from the start"
        hint = "let the rule allow more: `>= 0` holds before anything has happened"
    else:
        type = FACTS[counter].type if counter in FACTS else COUNT
        at, least = (say_value(value, type) for value in (found.at, found.least))
        message = f"{of}no run reaches an end of the file: `{rule.id}` stops it once `{counter}` "
        message += f"is {at}, and every path to an end takes it to at least {least}"
        hint = f"let the rule allow more than {least}"
    context.say("CL347", ("limits", one) if one else path, message, hint=hint)


def _ends_by_rule(context: CheckContext) -> bool:
    """Whether a rule may end a run for a reason that is not a forced stop."""
    spec = context.spec
    stops = [r.stop for r in spec.rules if r.kind == "stop"]
    return any(not spec.reason(reason).forced or reason == HIGHEST for reason in stops)
