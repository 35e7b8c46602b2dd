"""Waits without an end, and detours that repeat for ever."""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext, guards_of
from chartloop.analysis.checker.effects import EITHER, is_part
from chartloop.analysis.checker.structure import epilogue
from chartloop.language.expression import Expression
from chartloop.language.spec import RETURN, MachineSpec, Rule, StateSpec
from chartloop.language.yaml.reading import Path


def check_waits(context: CheckContext) -> None:
    """Find waits without a deadline in an epilogue, or in a machine with a time limit."""
    behind = epilogue(context)
    timed = any(b.fact == "run.elapsed" for _, g in guards_of(context.spec) for b in g.bounds)
    for state in endless_waits(context.spec):
        if state.name in behind:
            why = "the run is to end here, and this can keep it open for ever"
        elif timed:
            why = "`run.elapsed` is limited, but no rule is evaluated while it waits"
        else:
            continue
        message = f"`{state.name}` waits without a deadline: {why}"
        hint = "add `within: 1h` and `expired: STATE`"
        context.say_of("CL331", state, message, hint=hint)


def endless_waits(spec: MachineSpec) -> Iterator[StateSpec]:
    """Return the waits that only an answer ends."""
    states = spec.states.values()
    return (s for s in states if s.job == "wait" and s.within is None and s.edges)


# detours ------------------------------------------------------------------------------------


def check_detours(context: CheckContext) -> None:
    """Find detours that never stop repeating, and continuations without a bound.

    Skipped if a part of the file could not be read: the bound may be there.
    """
    if context.broken:
        return
    for rule in context.spec.rules:
        if rule.kind == "detour" and not rule.when.constant and not rule.when.opaque:
            _detour(context, rule)
    for state in context.spec.states.values():
        field = state.traits.continues
        times = state.args[field].value if field in state.args else None
        if not isinstance(times, Expression):
            continue
        growing = [r for r in sorted(times.reads) if _grows(context, r)]
        if any(times.direction(r) in ("+", "?") for r in growing):
            message = f"`times: {times.text}` grows with the run: stops can be put off for ever"
            path: Path = ("states", state.name, "with", field)
            context.say("CL332", path, message, hint="give a number, or a limit")


def _detour(context: CheckContext, rule: Rule) -> None:
    names = region_of(context, rule)
    if not names or any(_makes_false(context, rule.when, n) for n in names):
        return
    path: Path = (*rule.path, "when")
    if context.has_finding_at(path):
        return
    what = f"`{names[0]}`" if len(names) == 1 else f"`{names[0]}` to `{names[-1]}`"
    text = f"once `{rule.when.text}` holds, this detour is made after every action, without end: "
    text += f"nothing in {what} can make it false"
    hint = f"count it: `... and run.visits.{rule.to} < 3`"
    context.say("CL332", path, text, hint=hint)


def region_of(context: CheckContext, rule: Rule) -> list[str]:
    """The states of a detour until its return; empty if it does not return."""
    main, states = context.chart.main, context.spec.states
    if rule.to in main:
        return []
    inside = context.own.subgraph(name for name in states if name not in main)
    names = inside.onward(rule.to)
    back = any(e.target == RETURN or e.target in main for n in names for e in states[n].edges)
    ends = any(states[n].stop or states[n].job == "end" for n in names)
    return context.in_order(names) if back and not ends else []


def _makes_false(context: CheckContext, guard: Expression, name: str) -> bool:
    """Whether an effect of a state can make a guard false."""
    state = context.spec.states[name]
    for fact, directions in context.effects.of(state):
        for read in guard.reads:
            if not is_part(read, fact):
                continue
            moves = guard.direction(read)
            if moves == "?" or directions == EITHER or moves in directions:
                return True
    return False


def _grows(context: CheckContext, fact: str) -> bool:
    root, _, field = fact.partition(".")
    struct = context.spec.roots.get(root)
    type = struct.field(field.partition(".")[0]) if struct is not None else None
    return type is not None and (type.grows or (type.of is not None and type.of.grows))
