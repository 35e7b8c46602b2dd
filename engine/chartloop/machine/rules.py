"""Evaluates the rules that apply at a moment; takes an edge of `check` if one holds.

The same edge is taken for a signal that is pending, though no rule is evaluated.

All of these rules are evaluated, and each that holds raises its signal. Stops precede detours, and
the highest priority wins; ties go to signals that were raised before, then to rules in file order.

Source: docs/language.md, "Rules"; 002 "How the Loop Decides to Stop".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from chartloop.core.facts import Facts
from chartloop.core.position import Position, Return, ReturnPoint
from chartloop.core.reasons import StopReason, StopSignal
from chartloop.language.expression import GUARD_ERRORS, Expression, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart, is_about_errors
from chartloop.machine.cursor import FAILURES, Cursor
from chartloop.machine.decision import Look
from chartloop.machine.guard_text import fact_value, say_guard, say_value, type_at
from chartloop.machine.regions import GuardedTransition

_TIMES = frozenset({"run.elapsed", "run.working"})


def check_rules(cursor: Cursor, trigger: str | None, *, general: bool, into: str = "") -> bool:
    """Evaluate the rules. True if one, or a pending signal, took an edge of `check`.

    `general`: include the rules that are evaluated whenever a decision begins. Rules with `before`
    are evaluated whenever one of their states is next: `into`, or where `trigger` leads.
    """
    chart, state = cursor.chart, cursor.state
    numbers: tuple[int, ...] = ()
    holding: list[int] = []
    covering = chart.rules_at(state) if general else None
    if covering is not None:
        numbers = covering.numbers
        try:
            values: Sequence[bool] = covering.all(cursor.facts, cursor.oracle)
        except FAILURES:
            values = _evaluate_each(cursor, numbers)
        if True in values:
            holding = [n for n, v in zip(numbers, values, strict=True) if v]
    if chart.before and (general or trigger is not None or into):
        if near := chart.before.get(into, ()) if into else _rules_before_next(cursor, trigger):
            numbers += near
            holding += [n for n, v in zip(near, _evaluate_each(cursor, near), strict=True) if v]
    for number, id in chart.rule_warns:
        if number in numbers and id not in cursor.draft.warned:
            warn(cursor, id)
    if cursor.unhandled and not _is_failure_handled(cursor, holding):
        error = cursor.facts.last.error
        cursor.raise_reason("error", error.message if error else "", state)
    hard = cursor.hard if cursor.draft.signals else None
    fired = (hard is not None or bool(holding)) and _fire(cursor, hard, holding, trigger)
    if cursor.looks is not None and (numbers or hard is not None):
        taken = cursor.taken[-1] if fired else ""
        before, oracle = cursor.before_move, cursor.oracle
        look = Look("rules", state, "check", before, numbers, taken, oracle)
        cursor.looks.append(look)
    return fired


def _evaluate_each(cursor: Cursor, numbers: Iterable[int]) -> list[bool]:
    """Evaluate the guards of rules one by one, so that one that raises does not hide the others."""
    out: list[bool] = []
    for number in numbers:
        rule, guard = cursor.chart.rules[number]
        try:
            out.append(bool(guard.fn(cursor.facts, cursor.oracle)))
        except FAILURES as error:
            cursor.raise_guard_error(guard.text, error, rule.id)
            out.append(False)
    return out


def _rules_before_next(cursor: Cursor, trigger: str | None) -> tuple[int, ...]:
    """The `before` rules of the next state."""
    chart, state = cursor.chart, cursor.state
    if trigger is None:
        return chart.before.get(state, ()) if state in chart.acting else ()
    chosen = cursor.choose(trigger)
    return chart.before.get(chosen.dest or "", ()) if chosen is not None else ()


def is_about_failure(reads: Set[str], *, timed_out: bool) -> bool:
    """Whether a rule that reads these facts is about a failed action.

    Such a rule reads errors or, if a time limit cut the action off, the run's time. A failure that
    no rule is about stops the run.
    """
    return (timed_out and not reads.isdisjoint(_TIMES)) or any(map(is_about_errors, reads))


def _is_failure_handled(cursor: Cursor, holding: Iterable[int]) -> bool:
    """Whether one of the rules that hold is about the failure of the action."""
    error = cursor.facts.last.error
    timed_out = error is not None and error.kind == "timeout"
    rules = cursor.chart.rules
    return any(is_about_failure(rules[n].guard.reads, timed_out=timed_out) for n in holding)


def _fire(cursor: Cursor, hard: StopReason | None, holding: list[int], trigger: str | None) -> bool:
    chart = cursor.chart
    verdicts = [False] * len(chart.spec.rules)
    for number in holding:
        rule = chart.rules[number].rule
        if rule.kind == "detour":
            verdicts[number] = cursor.may_detour(rule.id)
        else:
            cursor.raise_signal(_signal_of(cursor, number), soft=rule.kind == "signal")
            verdicts[number] = rule.kind == "stop" and not cursor.facts.signals.continued
    if hard is None and True not in verdicts:
        return False
    known = "" if hard is None else str(hard)
    # an undeclared reason stops as `custom` does
    cursor.raised = known if not known or known in chart.spec.reasons else "custom"
    cursor.verdicts = verdicts
    event = chart.event("check")
    taken = event.choose(cursor) if event is not None else None
    if taken is None or taken.dest is None:
        return False
    if taken.rule is not None and taken.rule.kind == "detour":
        _interrupt(cursor, taken, trigger)
    else:
        cursor.draft = cursor.draft.replace(stopping=True, attempt=0)
        cursor.winner = cursor.top
    cursor.retry_in = None
    cursor.take(taken, taken.dest)
    return True


def _interrupt(cursor: Cursor, taken: GuardedTransition, trigger: str | None) -> None:
    """Remember where the run was about to go, so that `next: return` can continue there."""
    rule, state = taken.rule, cursor.state
    assert rule is not None
    cursor.draft = cursor.draft.replace(skip=rule.id)
    if not cursor.chart.returnable.get(rule.id):
        return
    pending = Return(rule.id, ReturnPoint("state", state))
    if trigger is not None and state in cursor.chart.joins and not cursor.leaves_for_failure:
        pending = Return(rule.id, ReturnPoint("fork", state))
    elif trigger is not None and (chosen := cursor.choose(trigger)) is not None:
        # a detour that interrupts a return goes back to where that leads
        if chosen.kind == "return" and cursor.draft.returns:
            pending = cursor.draft.returns[-1].replace(rule=rule.id)
        else:
            attempt = cursor.draft.attempt if chosen.kind == "retry" else None
            pending = Return(rule.id, ReturnPoint("edge", chosen.origin), attempt)
    cursor.draft = cursor.draft.replace(returns=(*cursor.draft.returns, pending))


def _signal_of(cursor: Cursor, number: int) -> StopSignal:
    """The signal of a rule, with the values that its guard read."""
    spec, facts = cursor.chart.spec, cursor.facts
    rule, guard = cursor.chart.rules[number]
    context = {n: fact_value(facts, n) for n in sorted(guard.reads)}
    message = say_guard(guard, facts, cursor.oracle.recall, spec.roots)
    rendered = cursor.render_message(rule.message, message)
    return StopSignal(spec.reason(rule.stop or rule.signal), rendered, context, rule.id)


def warn(cursor: Cursor, id: str) -> None:
    """Warn once when the run reaches the `warn_at` of a rule or decision."""
    due = cursor.chart.warns[id]
    try:
        holds = id not in cursor.draft.warned and due.guard.fn(cursor.facts, cursor.oracle)
    except FAILURES:  # the guard of the rule or decision reports it
        return
    if holds:
        cursor.draft = cursor.draft.replace(warned=cursor.draft.warned | {id})
        type = type_at(cursor.chart.spec.roots, due.fact)
        value, bound = fact_value(cursor.facts, due.fact), fact_value(cursor.facts, due.bound)
        at = f" at {say_value(value, type)}" if value is not None else ""
        of = f" ({say_value(bound, type)})" if bound is not None else ""
        near = "past" if value is not None and bound is not None and value > bound else "near"
        cursor.warnings += (f"{due.fact} is{at}, {near} its bound {due.bound}{of}",)


def time_allowed(
    chart: Chart, state: StateSpec, position: Position, *, waited: float = 0.0,
    above: float | None = None,
) -> float | None:  # fmt: skip
    """Return the seconds that an action may take: `within`, or less by the nearest time limit.

    `waited` are the seconds since the first call of an action that waits and is called again.
    `above` is the time that a parent leaves its child. After a stop, rules are off and only
    `within` counts. None: unbounded.
    """
    facts, nearest = position.facts, None
    if not position.stopping:
        nearest = above
        for left_by_rule in chart.time_left:
            left = _seconds(left_by_rule, facts)
            # a limit ends the action if it was reached during its wait, not if before
            if left is not None and left + waited > 0 and (nearest is None or left < nearest):
                nearest = max(left, 0.0)
    within = state.within
    if within is not None:
        own = _seconds(within, facts) if isinstance(within, Expression) else within
        if own is not None and (nearest is None or own - waited < nearest):
            nearest = max(own - waited, 0.0)
    return nearest


def _seconds(expression: Expression, facts: Facts) -> float | None:
    try:
        return expression.fn(facts, no_oracle)
    except GUARD_ERRORS:
        return None
