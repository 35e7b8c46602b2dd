"""Whether what a run holds fits a new machine, and what comes of it there at once.

The position is the fold of the run's records under the new machine: its state is one of that
machine's. Left to ask is what no decision has looked at yet: values that came from outside, an
action that was started, its children, and limits that are used up already.

Belongs here: questions about one position. Never: records that are decided differently (`upgrade`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chartloop.core.facts import EMPTY, Facts
from chartloop.core.fold import tick
from chartloop.core.format import say_value
from chartloop.core.position import Position
from chartloop.core.types import accepts
from chartloop.language.expression import GUARD_ERRORS, GuardFailed
from chartloop.language.spec import MachineSpec, Rule
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_guard
from chartloop.run.execute import IN_DOUBT
from chartloop.run.journal import RunRow
from chartloop.versions.migration.child_runs import CURE, misfit_children
from chartloop.versions.migration.verdict import Cause


class Standing(NamedTuple):
    """A run where it is, under both machines."""

    chart: Chart
    position: Position
    old: Chart | None = None
    before: Position | None = None
    """The same under the machine that it was started with."""
    begun: bool = False
    """Its action was started, and no record says what came of it."""
    now: float | None = None
    """When the run would continue, in seconds since the epoch; None: when it stopped."""
    children: Sequence[RunRow] = ()
    """Those that its action at hand has started."""
    was: str = ""
    """What its state is called under the old machine."""


def misfit(given: Standing) -> Cause | None:
    """The first reason why what the run holds does not fit; None when it does."""
    return next(_misfits(given), None)


def _misfits(given: Standing) -> Iterator[Cause]:
    position = given.position
    if position.ended:
        return
    yield from _values(given.chart.spec, position.facts)
    if given.begun or position.blocked_on == IN_DOUBT:
        what = f"the action of `{position.state}` is in doubt: it was started and has no record"
        cure = CURE.format("that is settled: a fork would pay for the call again")
        yield Cause(what, cure)
    old = None if given.old is None else given.old.spec
    yield from misfit_children(given.chart.spec, old, position, given.children, given.was)


def _values(spec: MachineSpec, facts: Facts) -> Iterator[Cause]:
    """Limits and variables of another type, and memory that is too long."""
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


# what comes of it -----------------------------------------------------------------------------


def stops(given: Standing) -> tuple[str, str]:
    """The reason for which the run stops when the rules are next evaluated, and why.

    Empty where it continues, and where it would have stopped all the same.
    """
    position = given.position
    if position.ended or position.stopping:
        return "", ""
    facts = _advance_clock(position.facts, given.now)
    held = _holding_guards(given.old, given.before, given.now)
    for rule in _looked_at(given.chart.spec, position.state):
        if _holds(rule, facts) and rule.when.text not in held:
            guard = say_guard(rule.when, facts, None, given.chart.spec.roots)
            return rule.stop, guard
    return "", ""


def _holding_guards(chart: Chart | None, position: Position | None, now: float | None) -> set[str]:
    """The guards of the old machine's stop rules that hold at this position."""
    if chart is None or position is None:
        return set()
    facts = _advance_clock(position.facts, now)
    rules = _looked_at(chart.spec, position.state)
    return {rule.when.text for rule in rules if _holds(rule, facts)}


def _advance_clock(facts: Facts, now: float | None) -> Facts:
    return facts if now is None else tick(facts, max(now, facts.marks.now))


def _looked_at(spec: MachineSpec, state: str) -> Iterator[Rule]:
    for rule in spec.rules:
        named = (*rule.at, *rule.before)
        if rule.kind == "stop" and (not named or state in named):
            yield rule


def _holds(rule: Rule, facts: Facts) -> bool:
    """Whether a budget is used up: then it stays so. What may turn back no one can foretell."""
    if rule.when.kind != "budget" or rule.when.opaque:
        return False
    try:
        return bool(rule.when.value(facts))
    except (GuardFailed, *GUARD_ERRORS):
        return False


def notes(given: Standing, begun: Mapping[str, Any]) -> Iterator[str]:
    """What the run holds now and did not hold before. `begun` is the data of its `start`."""
    position, before, spec = given.position, given.before, given.chart.spec
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
        asked = ", ".join(f"`{name}`" for name in opaque)
        yield f"what {asked} says is taken from the records; whether it would say the same is open"
