"""Records, decisions and budgets in words.

Belongs here: sentences and cells about a run. Never: printing, colours of a terminal.
Imported by: views, live, batch, drive, records, standing, prompt, commands.show
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.core.units import say_count, say_elapsed
from interlock.machine.saying import say_value, type_at

if TYPE_CHECKING:
    from interlock.core.facts import Facts
    from interlock.core.records import Record
    from interlock.core.types import Type
    from interlock.language.expression import Expression
    from interlock.machine.build import Chart

CELLS = 10
"""Cells of a bar."""
AMBER, RED = 0.8, 1.0


class Budget(NamedTuple):
    """How much of a bound is used."""

    fact: str
    share: float
    said: str
    """``12 of 50``"""

    @property
    def colour(self) -> str:
        """Green, amber from 80 % on, red once it is spent."""
        return "red" if self.share >= RED else "yellow" if self.share >= AMBER else "green"

    @property
    def bar(self) -> str:
        """Ten cells. The last is full only when the bound is reached."""
        full = min(CELLS, int(max(0.0, self.share) * CELLS + 1e-9))
        return "█" * full + "░" * (CELLS - full)


def budgets(chart: Chart, facts: Facts) -> list[Budget]:
    """The bounds of a machine's rules and decisions, in the file's order, each once."""
    found: dict[tuple[str, str], Budget] = {}
    for guard in _guards(chart):
        bounds = {b.text: b for b in guard.bounds}
        for reading in guard.readings(facts, no_guard) if bounds else ():
            bound = bounds.get(reading.text)
            if bound is None or reading.share is None or reading.right is None:
                continue
            type = type_at(chart.spec.roots, bound.fact)
            said = f"{say_value(reading.left, type)} of {say_value(reading.right, type)}"
            budget = Budget(bound.fact, reading.share, said)
            found.setdefault((bound.fact, bound.bound_text), budget)
    return list(found.values())


def _guards(chart: Chart) -> Iterator[Expression]:
    yield from (rule.when for rule in chart.spec.rules)
    yield from (edge.when for edge in chart.spec.edges() if edge.when is not None)


def no_guard(name: str, _args: tuple[Any, ...]) -> bool:
    """Asks no Python guard: what one would say is not looked for outside of a decision."""
    raise LookupError(name)


def values_now(guard: Expression, facts: Facts, roots: Mapping[str, Type]) -> str:
    """What the comparisons of a guard read now: ``0 against 3``. Empty where that says nothing."""
    said: list[str] = []
    for reading in guard.readings(facts, no_guard):
        if reading.error or reading.right is None:
            continue
        fact = max((f for f in guard.reads if reading.text.startswith(f)), key=len, default="")
        type = type_at(roots, fact)
        said.append(f"{say_value(reading.left, type)} against {say_value(reading.right, type)}")
    return ", ".join(said)


def path_of(chart: Chart, record: Record) -> tuple[str, ...]:
    """The states that a record entered, in order."""
    entered: list[str] = []
    for origin in record.taken:
        transition = chart.by_origin.get(origin)
        if transition is not None and transition.dest is not None:
            entered.append(transition.dest)
    if record.next and (not entered or entered[-1] != record.next):
        moved = record.next != record.state or record.kind == "start"
        entered += [record.next] if moved else []
    return tuple(entered)


def because(chart: Chart, record: Record) -> str:
    """Why a record led where it did: the guards of the edges and rules that were taken."""
    reasons: list[str] = []
    for origin in record.taken:
        transition = chart.by_origin.get(origin)
        if transition is None:
            continue
        if transition.rule is not None:
            rule = transition.rule
            reasons.append(f"rule {rule.when.text}" + (f": {rule.stop}" if rule.stop else ""))
        elif transition.guards and transition.kind != "raised" and not transition.forks:
            reasons.append(" and ".join(g.__name__ for g in transition.guards))
    return ", ".join(dict.fromkeys(reasons))


def outcome_of(record: Record) -> str:
    """What came of a record's input: ``ok``, an error, the event, the reason."""
    outcome = record.outcome
    if record.kind == "step" and outcome is not None:
        if outcome.ok:
            calls = outcome.reply.tool_calls if outcome.reply is not None else ()
            asked = ", ".join(c.name for c in calls)
            return f"ok, calls {asked}" if asked else "ok"
        error = outcome.error
        return f"failed: {error.category} {error.message}" if error is not None else "failed"
    given = record.input
    if record.kind == "edit":
        return ", ".join(f"{n} = {say_value(v)}" for n, v in given.data.items())
    if record.kind == "enqueue":
        return ", ".join(task["text"] for task in given.data["tasks"])
    if record.kind == "blocked":
        return f"waits: {given.data.get('on', '')}"
    return given.event


def action_of(chart: Chart, record: Record) -> str:
    """The action that a record finished."""
    state = chart.spec.states.get(record.state)
    is_step = record.kind in ("step", "blocked")
    return state.action.name if is_step and state is not None and state.action is not None else ""


def fields_of(fields: Mapping[str, Type]) -> str:
    """The data that an answer carries: ``note (str), force (bool)``."""
    return ", ".join(f"{name} ({type})" for name, type in fields.items())


def calls_and_cost(facts: Facts, failed: int = 0) -> str:
    """What the model calls took: ``3 model calls, 1 more failed, 1,204 tokens, $0.0123``."""
    usage = facts.usage
    if not usage.llm_calls:
        return f"{say_count(failed, 'model call')} failed" if failed else "no model calls"
    calls = say_count(usage.llm_calls, "model call") + (f", {failed} more failed" * bool(failed))
    cost = "cost unknown" if usage.cost is None else say_cost(usage.cost)
    return f"{calls}, {say_count(usage.total_tokens, 'token')}, {cost}"


def say_cost(cost: float) -> str:
    """US dollars, with as many digits as say something."""
    if cost >= 1 or cost == 0:
        return f"${cost:.2f}"
    digits = 4 - math.ceil(math.log10(cost))  # four that say something, never 4.2e-05
    return "$" + f"{cost:.{digits}f}".rstrip("0").rstrip(".")


def duration_of(record: Record) -> str:
    """How long the action took; empty for what is no action."""
    given = record.input
    took = given.at - given.started
    return say_elapsed(max(0.0, took)) if record.kind == "step" and given.started else ""
