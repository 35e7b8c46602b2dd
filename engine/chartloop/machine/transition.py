"""The path of one decision: rules, then edges, to the next resting state.

The order of evaluation:

1. The rules that apply at the state, and the `before` rules of the state that would be entered: the
   highest stop, else the first detour (`machine.rules`). In the epilogue rules are off.
2. The state's own edges, in the order of `machine.transition_table.ORDER`. Into an `all`: every
   branch.
3. From there the edges of deciding and passing states, each after the `before` rules of its
   destination, up to a state that rests.
4. There a wait starts, a retry backs off, a pending pause takes effect, or the run ends.

A state that cannot continue is left with a signal: a run is never stuck.

Source: docs/language.md, "States" (`all`, waits, epilogue), "Rules", "The order of things".
"""

from __future__ import annotations

from chartloop.core.position import RETRY
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed, no_oracle
from chartloop.language.spec import HIGHEST
from chartloop.machine.cursor import FAILURES, Cursor
from chartloop.machine.decision import Look
from chartloop.machine.regions import GuardedTransition
from chartloop.machine.rules import check_rules, warn


def come_to_rest(cursor: Cursor) -> None:
    """Come to rest: start the clock of a wait, back off before a retry, pause, or end the run."""
    if cursor.path:
        cursor.draft = cursor.draft.replace(
            entered_at=cursor.input.at, wake_at=None, blocked_on="", waited=None
        )
        if cursor.state in cursor.chart.waiting:
            _wait(cursor)
        elif cursor.retry_in and cursor.state not in cursor.chart.ends:
            # pause before the next attempt, not past a time limit that stops the run for certain
            wait = cursor.retry_in
            for left_by_rule in cursor.chart.back_off_caps:
                try:
                    left = left_by_rule.fn(cursor.facts, no_oracle)
                except GUARD_ERRORS:
                    continue
                if left is not None:
                    wait = min(wait, max(left, 0.0) + A_TICK)
            cursor.draft = cursor.draft.replace(wake_at=cursor.input.at + wait, blocked_on=RETRY)
            cursor.pause()
        elif cursor.draft.pause_asked and cursor.state not in cursor.chart.ends:
            cursor.draft = cursor.draft.replace(pause_asked=False)
            cursor.pause()
    if cursor.state in cursor.chart.ends:
        # the word of the end gives the status, the highest signal the reason
        word = cursor.chart.ends[cursor.state]
        if not cursor.draft.signals:
            reason = word if word in ("completed", "error") else "unknown"
            cursor.raise_reason(reason, "", cursor.state)
        top = cursor.draft.signals.highest
        assert top is not None
        cursor.winner = str(top.reason)
        status = top.reason.status if word == "by_reason" else word
        signals = cursor.facts.signals
        if signals.status != status:
            cursor.facts = cursor.facts.replace(signals=signals.replace(status=status))
        if cursor.status == "paused":
            cursor.resume()
        cursor.fire("complete" if status == "completed" else "fail")
        cursor.draft = cursor.draft.replace(stopping=True)


def decide(cursor: Cursor, trigger: str | None, *, general: bool = True) -> None:
    """Evaluate rules, then the state's own edges, and go on to the next resting state.

    Without a trigger (start, resume, stop) a state that rests stays unless a rule or a pending
    signal leads elsewhere. Without the `general` rules, only pending signals and rules with
    `before` lead elsewhere.
    """
    chart, moves = cursor.chart, 0
    cursor.before_move = cursor.facts
    if cursor.draft.stopping or not check_rules(cursor, trigger, general=general):
        if trigger is not None:
            _move(cursor, trigger)
    while cursor.state not in chart.resting:
        moves += 1
        if moves > chart.bound:
            message = f"more than {chart.bound} moves without an action"
            cursor.raise_reason("error", message, cursor.state)
            cursor.leave("error")
            moves = 0
        else:
            _move(cursor, "advance")


def _move(cursor: Cursor, trigger: str) -> None:
    """Take an edge of the state; if none holds, leave with a `guard_error`."""
    chart = cursor.chart
    state = cursor.state
    cursor.before_move = cursor.facts
    if state in chart.joins and trigger == "advance" and not cursor.leaves_for_failure:
        _fork(cursor, state)
        return
    if state in chart.warns:
        warn(cursor, state)
    taken = _choose_or_leave(cursor, trigger)
    if taken is None or taken.dest is None:
        return
    if taken.dest in chart.before and state not in chart.resting and not cursor.draft.stopping:
        if check_rules(cursor, trigger, general=False):
            return
    if taken.kind == "return":
        # continue with the edge that the detour interrupted
        dest = taken.dest
        cursor.state = dest
        cursor.taken += taken.ids
        *others, last = cursor.draft.returns
        cursor.draft = cursor.draft.replace(returns=tuple(others))
        cursor.failed = cursor.retrying = False
        if last.attempt is not None:
            cursor.draft = cursor.draft.replace(attempt=last.attempt + 1)
        if last.point.kind == "fork":
            _fork(cursor, dest)
        elif last.point.kind == "edge":
            cursor.take(cursor.chart.by_origin[last.point.name], dest)
        else:
            cursor.enter(dest)
        return
    if taken.kind == "retry":
        cursor.draft = cursor.draft.replace(attempt=cursor.draft.attempt + 1)
    cursor.take(taken, taken.dest)


def _choose_or_leave(cursor: Cursor, trigger: str) -> GuardedTransition | None:
    """Choose an edge; if a guard raises or none holds, leave with a `guard_error`."""
    state, event, taken = cursor.state, cursor.chart.event(trigger), None
    chosen = cursor.chosen
    if cursor.draft.returns:
        cursor.find_return()
    try:
        if (
            chosen is not None and chosen[:2] == (trigger, state) and chosen[2] is cursor.facts
            and cursor.branch is None
        ):  # fmt: skip
            taken = chosen[3]
        elif event is not None:
            taken = event.choose(cursor)
    except FAILURES as error:
        candidates = event.at(state) if event is not None else ()
        guards = [g.__name__ for t in candidates for g in t.guards]
        cursor.raise_guard_error("` or `".join(guards), error, state)
    else:
        if taken is None:
            cursor.raise_reason("guard_error", f"no edge from `{state}` holds", state)
    if cursor.looks is not None:
        origin = taken.origin if taken else ""
        look_at = Look("edges", state, trigger, cursor.before_move, (), origin, cursor.oracle)
        cursor.looks.append(look_at)
    if taken is None:
        cursor.leave("guard_error")
    return taken


def _fork(cursor: Cursor, fork: str) -> None:
    """Walk every branch in one instant, then enter the join or the highest stop."""
    chart = cursor.chart
    join = chart.joins[fork]
    stops: list[str] = []
    for number in range(len(chart.spec.states[fork].all)):
        cursor.state, cursor.branch = fork, number
        if not _branch(cursor, join, stops):
            return
    cursor.branch = None
    if stops:
        _enter_highest(cursor, stops)
    elif join is not None:
        cursor.state = join
        near = join in chart.before and not cursor.draft.stopping
        if not (near and check_rules(cursor, None, general=False, into=join)):
            cursor.enter(join)


def _branch(cursor: Cursor, join: str | None, stops: list[str]) -> bool:
    """Walk one branch to the join or a stop. False if it could not continue.

    Its edges have neither `set` nor `stop`, which the checker refuses there (CL311).
    """
    chart = cursor.chart
    for _ in range(chart.bound):
        cursor.before_move = cursor.facts
        taken = _choose_or_leave(cursor, "advance")
        cursor.branch = None
        if taken is None or taken.dest is None:
            return False
        cursor.taken += taken.ids
        cursor.state = taken.dest
        if taken.dest == join:
            return True
        spec = chart.spec.states[taken.dest]
        if spec.stop or spec.job == "end":
            stops.append(taken.dest)
            return True
        if taken.dest in chart.warns:
            warn(cursor, taken.dest)
        cursor.count_entry(taken.dest)
    cursor.leave("error")
    return False


def _enter_highest(cursor: Cursor, stops: list[str]) -> None:
    spec = cursor.chart.spec
    names = list(dict.fromkeys(stops))
    for name in names:
        reason = spec.states[name].stop
        if reason and reason != HIGHEST:
            cursor.raise_reason(reason, cursor.render_message(spec.states[name].message), name)
    # min is stable: ties go by the order of `all`
    cursor.state = min(
        names,
        key=lambda n: spec.reason(spec.states[n].stop).priority if spec.states[n].stop else 99,
    )
    cursor.enter(cursor.state)


A_TICK = 0.001
"""The seconds by which a wait ends after a time limit, so that rounding cannot undercut it."""


def _wait(cursor: Cursor) -> None:
    state = cursor.state
    within = cursor.chart.spec.states[state].within
    try:
        seconds = (
            within.value(cursor.facts, cursor.oracle) if isinstance(within, Expression) else within
        )
    except GuardFailed as error:
        cursor.raise_guard_error(error.text, error, state)
        cursor.leave("guard_error")
        decide(cursor, None)
        return
    wake_at = None if seconds is None else cursor.input.at + seconds
    cursor.draft = cursor.draft.replace(wake_at=wake_at)
    cursor.pause()
