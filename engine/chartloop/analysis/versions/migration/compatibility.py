"""Whether the data of a run fit a new machine, and the immediate consequences there.

The position is the fold of the run's records under the new machine, so its state exists there. What
remains to check is what no decision has read yet: values from outside, an action that was started,
its children, and limits that are already used up.

Belongs here: checks of one position. Never: records that are decided differently (`cause`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chartloop.analysis.versions.migration.child_runs import CURE, misfit_children
from chartloop.analysis.versions.migration.verdict import Cause
from chartloop.core.facts import EMPTY, Facts
from chartloop.core.fold import tick
from chartloop.core.format import say_value
from chartloop.core.position import IN_DOUBT, Position
from chartloop.core.types import accepts
from chartloop.language.expression import GUARD_ERRORS, GuardFailed
from chartloop.language.spec import MachineSpec, Rule
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_guard
from chartloop.run.journal import RunRow


class Standing(NamedTuple):
    """The position of a run under both machines."""

    chart: Chart
    position: Position
    old: Chart | None = None
    before: Position | None = None
    """The position under the machine that it was started with."""
    begun: bool = False
    """Whether its action was started and has no record."""
    now: float | None = None
    """The time at which it would continue, in seconds since the epoch; None: its last record's."""
    children: Sequence[RunRow] = ()
    """The children that its current action has started."""
    was: str = ""
    """The name of its state in the old machine."""


def misfit(standing: Standing) -> Cause | None:
    """Return the first reason why the run's data do not fit; None if they do."""
    return next(_misfits(standing), None)


def _misfits(standing: Standing) -> Iterator[Cause]:
    position = standing.position
    if position.ended:
        return
    yield from _values(standing.chart.spec, position.facts)
    if standing.begun or position.blocked_on == IN_DOUBT:
        what = f"the action of `{position.state}` is in doubt: it was started and has no record"
        cure = CURE.format("that is settled: a fork would pay for the call again")
        yield Cause(what, cure)
    old = None if standing.old is None else standing.old.spec
    yield from misfit_children(standing.chart.spec, old, position, standing.children, standing.was)


def _values(spec: MachineSpec, facts: Facts) -> Iterator[Cause]:
    """Yield causes for limits and variables of another type, and memory that is too long."""
    for root, declared, held in (
        ("limits", spec.limits, facts.limits),
        ("vars", spec.vars, facts.vars),
    ):
        for name, one in declared.items():
            if not accepts(one.type, held.get(name)):
                holds = say_value(held.get(name))
                what = f"`{root}.{name}` is {one.type} now, and the run holds {holds}"
                cure = f"keep its type under `{root}`, or give it another name"
                yield Cause(what, cure, place=spec.place((root, name)))
    for name, block in spec.memory.items():
        size = len(facts.memory.get(name, ""))
        if block.limit is not None and size > block.limit:
            what = (
                f"memory block `{name}` may hold {block.limit:,} characters now,"
                f" and the run holds {size:,}"
            )
            yield Cause(what, "raise its `limit`", place=spec.place(("memory", name)))


# consequences -------------------------------------------------------------------------------


def stops(standing: Standing) -> tuple[str, str]:
    """Return the reason for which the run stops when rules are next evaluated, and its guard.

    Empty if the run continues, or if it would have stopped under the old machine too.
    """
    position = standing.position
    if position.ended or position.stopping:
        return "", ""
    facts = _advance_clock(position.facts, standing.now)
    held = _holding_guards(standing.old, standing.before, standing.now)
    for rule in _stop_rules(standing.chart.spec, position.state):
        if _holds(rule, facts) and rule.when.text not in held:
            guard = say_guard(rule.when, facts, None, standing.chart.spec.roots)
            return rule.stop, guard
    return "", ""


def _holding_guards(chart: Chart | None, position: Position | None, now: float | None) -> set[str]:
    """The texts of the old machine's stop rules that hold at this position."""
    if chart is None or position is None:
        return set()
    facts = _advance_clock(position.facts, now)
    rules = _stop_rules(chart.spec, position.state)
    return {rule.when.text for rule in rules if _holds(rule, facts)}


def _advance_clock(facts: Facts, now: float | None) -> Facts:
    return facts if now is None else tick(facts, max(now, facts.marks.now))


def _stop_rules(spec: MachineSpec, state: str) -> Iterator[Rule]:
    for rule in spec.rules:
        named = (*rule.at, *rule.before)
        if rule.kind == "stop" and (not named or state in named):
            yield rule


def _holds(rule: Rule, facts: Facts) -> bool:
    """Whether a budget is used up, which is final; other guards may change back."""
    if rule.when.kind != "budget" or rule.when.opaque:
        return False
    try:
        return bool(rule.when.value(facts))
    except (GuardFailed, *GUARD_ERRORS):
        return False


def notes(standing: Standing, begun: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on data that differ under the new file. `begun` is the data of the `start`."""
    position, before, spec = standing.position, standing.before, standing.chart.spec
    for root in ("limits", "vars"):
        declared = getattr(spec, root)
        known: Mapping[str, Any] = begun.get(root) or EMPTY
        yield from (
            f"`{root}.{name}` was given at the start, and this file has none"
            for name in known
            if name not in declared
        )
    if before is not None:
        for root in ("vars", "memory"):
            held, had = getattr(position.facts, root), getattr(before.facts, root)
            yield from (
                f"`{root}.{name}` is {say_value(held[name])} under this file,"
                f" and was {say_value(had[name])}"
                for name in held
                if name in had and held[name] != had[name]
            )
    if opaque := sorted({name for rule in spec.rules for name in rule.when.opaque}):
        guards = ", ".join(f"`{name}`" for name in opaque)
        yield f"what {guards} says is taken from the records; whether it would say the same is open"
