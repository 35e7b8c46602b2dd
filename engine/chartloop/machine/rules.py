"""Looks at the rules that cover a moment, and fires `check` when one holds or a signal waits.

All rules that cover the moment are evaluated; every one that holds raises its signal. Stops
beat detours, the highest priority wins; between equals signals raised before, then rules in
the file's order.

Source: design "language", section 4; 002 "How the Loop Decides to Stop".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chartloop.core.position import Return, ReturnPoint
from chartloop.core.reasons import StopReason, StopSignal
from chartloop.machine.cursor import FAILURES, Walk
from chartloop.machine.decision import Look
from chartloop.machine.guard_text import fact_value, say_guard, say_value, type_at
from chartloop.machine.regions import GuardedTransition


def look(walk: Walk, trigger: str | None, *, general: bool, into: str = "") -> bool:
    """Look at the rules; True when `check` was fired and the run has moved.

    `general`: the rules that are looked at after every action. Rules with `before` are looked
    at whenever one of their states is about to be entered: `into`, or where `trigger` leads.
    """
    chart, raising = walk.chart, walk.raising
    state = walk.state
    numbers: tuple[int, ...] = ()
    holding: list[int] = []
    covering = chart.rules_at(state) if general else None
    hard = raising.hard if raising.pending else None
    if covering is not None:
        numbers = covering.numbers
        try:
            values: Sequence[bool] = covering.all(walk.facts, walk.oracle)
        except FAILURES:
            values = _one_by_one(walk, numbers)
        if True in values:
            holding = [n for n, v in zip(numbers, values, strict=True) if v]
    if chart.before and (general or trigger is not None or into):
        if near := chart.before.get(into, ()) if into else _before(walk, trigger):
            numbers += near
            holding += [n for n, v in zip(near, _one_by_one(walk, near), strict=True) if v]
    for number, id in chart.rule_warns:
        if number in numbers and id not in walk.warned:
            warn(walk, id)
    if walk.unhandled and not any(_deals_with_it(walk, n) for n in holding):
        error = walk.facts.last.error
        walk.signal(
            StopSignal(chart.spec.reason("error"), error.message if error else "", {}, state)
        )
    if raising.new:
        hard = raising.hard
    fired = (hard is not None or bool(holding)) and _fire(walk, hard, holding, trigger)
    if walk.looks is not None and (numbers or hard is not None):
        taken = walk.taken[-1] if fired else ""
        walk.looks.append(
            Look(
                "rules", state, "check", walk.before_move, numbers, taken, walk.winner, walk.oracle
            )
        )
    return fired


def _one_by_one(walk: Walk, numbers: Iterable[int]) -> list[bool]:
    """The rules' guards, each on its own: one that raises does not hide the others."""
    out: list[bool] = []
    for number in numbers:
        rule, guard = walk.chart.rules[number]
        try:
            out.append(bool(guard.fn(walk.facts, walk.oracle)))
        except FAILURES as error:
            walk.guard_error(guard.text, error, rule.id)
            out.append(False)
    return out


def _before(walk: Walk, trigger: str | None) -> tuple[int, ...]:
    """The `before` rules of the state that would be entered next."""
    chart, state = walk.chart, walk.state
    if trigger is None:
        return chart.before.get(state, ()) if state in chart.acting else ()
    chosen = walk.choose(trigger)
    return chart.before.get(chosen.dest or "", ()) if chosen is not None else ()


def _deals_with_it(walk: Walk, number: int) -> bool:
    """Whether a rule is about the failure: it reads errors, or the time that cut the action off."""
    reads = walk.chart.rules[number].guard.reads
    error = walk.facts.last.error
    if error is not None and error.kind == "timeout" and reads & {"run.elapsed", "run.working"}:
        return True
    return any(r.startswith(("last.error", "errors.")) or r == "last.ok" for r in reads)


def _fire(walk: Walk, hard: StopReason | None, holding: list[int], trigger: str | None) -> bool:
    chart = walk.chart
    verdicts = [False] * len(chart.spec.rules)
    for number in holding:
        rule = chart.rules[number].rule
        if rule.kind == "detour":
            verdicts[number] = walk.may_detour(rule.id)
        else:
            walk.signal(_signal_of(walk, number), soft=rule.kind == "signal")
            verdicts[number] = rule.kind == "stop" and not walk.raising.continued
    if hard is None and True not in verdicts:
        return False
    known = "" if hard is None else str(hard)
    # a reason that no file declared goes the way of `custom`: it stops all the same
    walk.raised = known if not known or known in chart.spec.reasons else "custom"
    walk.verdicts = verdicts
    event = chart.event("check")
    taken = event.choose(walk) if event is not None else None
    if taken is None or taken.dest is None:
        return False
    if taken.rule is not None and taken.rule.kind == "detour":
        _interrupt(walk, taken, trigger)
    else:
        walk.stopping = True
        walk.winner = walk.raising.top
        walk.attempt = 0
    walk.retry_in = None
    walk.failed = walk.retrying = False
    walk.state = taken.dest
    walk.took(taken)
    walk.enter(taken.dest)
    return True


def _interrupt(walk: Walk, taken: GuardedTransition, trigger: str | None) -> None:
    """Note where the run was about to go, so that `next: return` can go on there."""
    rule, state = taken.rule, walk.state
    assert rule is not None
    walk.skip = rule.id
    if not walk.chart.returnable.get(rule.id):
        return
    made = Return(rule.id, ReturnPoint("state", state))
    if trigger is not None and state in walk.chart.joins and not walk.diverted:
        made = Return(rule.id, ReturnPoint("fork", state))
    elif trigger is not None and (chosen := walk.choose(trigger)) is not None:
        if chosen.kind == "return" and walk.returns:  # it interrupts a way back: go back there
            made = walk.returns[-1].replace(rule=rule.id)
        else:
            attempt = walk.attempt if chosen.kind == "retry" else None
            made = Return(rule.id, ReturnPoint("edge", chosen.origin), attempt)
    walk.returns = (*walk.returns, made)


def _signal_of(walk: Walk, number: int) -> StopSignal:
    """The signal that a rule raises, with what its guard read."""
    spec, facts = walk.chart.spec, walk.facts
    rule, guard = walk.chart.rules[number]
    context = {n: fact_value(facts, n) for n in sorted(guard.reads)}
    message = say_guard(guard, facts, walk.oracle.said, spec.roots)
    said = walk.write(rule.message, message)
    return StopSignal(spec.reason(rule.stop or rule.signal), said, context, rule.id)


def warn(walk: Walk, id: str) -> None:
    """A warning, once, when the share of a rule's or decision's budget has been passed."""
    due = walk.chart.warns[id]
    try:
        holds = id not in walk.warned and due.guard.fn(walk.facts, walk.oracle)
    except FAILURES:  # the guard itself says so where it decides
        return
    if holds:
        walk.warned |= {id}
        type = type_at(walk.chart.spec.roots, due.fact)
        value, bound = fact_value(walk.facts, due.fact), fact_value(walk.facts, due.bound)
        at = f" at {say_value(value, type)}" if value is not None else ""
        of = f" ({say_value(bound, type)})" if bound is not None else ""
        near = "past" if value is not None and bound is not None and value > bound else "near"
        walk.warnings += (f"{due.fact} is{at}, {near} its bound {due.bound}{of}",)
