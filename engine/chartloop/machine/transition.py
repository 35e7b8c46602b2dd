"""The way of one decision: rules, then edges, to the next resting state.

Through deciding and passing states, into forks and out of them, back from detours, to a wait
or an end. Every state that cannot go on is left with a signal: a run is never stuck.

Source: design "language", sections 2 (`all`, epilogue), 4 (order, detours), 5 (waits).
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.core.reasons import StopSignal
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed, no_oracle
from chartloop.language.spec import HIGHEST
from chartloop.machine.cursor import FAILURES, Walk
from chartloop.machine.decision import Look
from chartloop.machine.regions import GuardedTransition
from chartloop.machine.rules import look, warn


def settle(walk: Walk) -> None:
    """Begin a wait or reach an end, where the decision has led to one."""
    if walk.path:
        _rest(walk)
    if walk.state in walk.chart.ends:
        _end(walk, walk.chart.ends[walk.state])


def decide(walk: Walk, trigger: str | None, *, rules: bool = True) -> None:
    """Rules first, then the state's own way, on to the next resting state.

    `trigger` None: a state that rests stays unless `check` fires (start, resume, stop).
    """
    if walk.looks is not None:
        walk.trace()
    if walk.stopping or not look(walk, trigger, general=rules):
        if trigger is not None:
            _move(walk, trigger)
    _onward(walk)


def _onward(walk: Walk) -> None:
    """Through deciding and passing states to where the run rests."""
    chart = walk.chart
    moves = 0
    while walk.state not in chart.resting:
        moves += 1
        if moves > chart.bound:
            message = f"more than {chart.bound} moves without an action"
            walk.signal(StopSignal(chart.spec.reason("error"), message, {}, walk.state))
            walk.leave("error")
            moves = 0
        else:
            _move(walk, "advance")


def _move(walk: Walk, trigger: str) -> None:
    """Take the state's own way; a state that has none is left with a `guard_error`."""
    chart = walk.chart
    state = walk.state
    if walk.looks is not None:
        walk.trace()
    if state in chart.joins and trigger == "advance" and not walk.diverted:
        _fork(walk, state)
        return
    if state in chart.warns:
        warn(walk, state)
    taken = _choose_or_leave(walk, trigger)
    if taken is None or taken.dest is None:
        return
    if taken.dest in chart.before and state not in chart.resting and not walk.stopping:
        if look(walk, trigger, general=False):
            return
    walk.state = taken.dest
    if taken.kind == "return":
        _return(walk, taken)
        return
    if taken.kind == "retry":
        walk.attempt += 1
    walk.failed = walk.retrying = False
    walk.took(taken)
    walk.enter(taken.dest)


def _choose_or_leave(walk: Walk, trigger: str) -> GuardedTransition | None:
    """The way to take from here; out by `guard_error` when a guard raises or none holds."""
    state, taken = walk.state, None
    try:
        taken = walk.choose_now(trigger)
    except FAILURES as error:
        event = walk.chart.event(trigger)
        found = event.at(state) if event is not None else ()
        guards = [g.__name__ for t in found for g in t.guards]
        walk.guard_error("` or `".join(guards), error, state)
    else:
        if taken is None:
            message = f"no way on from `{state}` holds"
            walk.signal(StopSignal(walk.chart.spec.reason("guard_error"), message, {}, state))
    if walk.looks is not None:
        origin = taken.origin if taken else ""
        look_at = Look("edges", state, trigger, walk.before_move, (), origin, "", walk.oracle)
        walk.looks.append(look_at)
    if taken is None:
        walk.leave("guard_error")
    return taken


def _return(walk: Walk, taken: GuardedTransition) -> None:
    """Go on with the edge that a detour interrupted."""
    walk.taken.append(taken.origin)
    walk.returns, last = walk.returns[:-1], walk.returns[-1]
    walk.failed = walk.retrying = False
    if last.point.kind == "fork":
        _fork(walk, walk.state)
        return
    if last.point.kind == "edge":
        walk.took(walk.chart.by_origin[last.point.name])
    if last.attempt is not None:
        walk.attempt = last.attempt + 1
    walk.enter(walk.state)


def _fork(walk: Walk, fork: str) -> None:
    """Walk every branch in one instant, then enter the join or the highest stop."""
    chart = walk.chart
    join = chart.joins[fork]
    stops: list[str] = []
    for number in range(len(chart.spec.states[fork].all)):
        walk.state, walk.branch = fork, number
        if not _branch(walk, join, stops):
            return
    walk.branch = None
    if stops:
        _enter_highest(walk, stops)
    elif join is not None and not _diverted_before(walk, join):
        walk.enter(join)


def _diverted_before(walk: Walk, join: str) -> bool:
    """Whether a rule leads elsewhere before the state where branches meet is entered."""
    walk.state = join
    near = join in walk.chart.before and not walk.stopping
    return near and look(walk, None, general=False, into=join)


def _branch(walk: Walk, join: str | None, stops: list[str]) -> bool:
    """One branch, to the join or to a stop. False when it could not go on.

    Its edges have neither `set` nor `stop`: the checker refuses them there (CL311).
    """
    chart = walk.chart
    for _ in range(chart.bound):
        if walk.looks is not None:
            walk.trace()
        taken = _choose_or_leave(walk, "advance")
        walk.branch = None
        if taken is None or taken.dest is None:
            return False
        walk.taken.append(taken.origin)
        walk.state = taken.dest
        if taken.dest == join:
            return True
        spec = chart.spec.states[taken.dest]
        if spec.stop or spec.job == "end":
            stops.append(taken.dest)
            return True
        if taken.dest in chart.warns:
            warn(walk, taken.dest)
        walk.count(taken.dest)
    walk.leave("error")
    return False


def _enter_highest(walk: Walk, stops: list[str]) -> None:
    spec = walk.chart.spec
    names = list(dict.fromkeys(stops))
    for name in names:
        reason = spec.states[name].stop
        if reason and reason != HIGHEST:
            said = walk.write(spec.states[name].message)
            walk.signal(StopSignal(spec.reason(reason), said, {}, name))
    # min is stable: equals go by the order of `all`
    walk.state = min(
        names,
        key=lambda n: spec.reason(spec.states[n].stop).priority if spec.states[n].stop else 99,
    )
    walk.enter(walk.state)


def _rest(walk: Walk) -> None:
    """Come to rest: the clock of a wait begins, a retry waits, a pause asked for happens."""
    walk.entered_at = walk.input.at
    walk.wake_at, walk.blocked_on, walk.waited = None, "", None
    if walk.state in walk.chart.waiting:
        _wait(walk)
    elif walk.state in walk.chart.ends:
        return
    elif walk.retry_in:
        wait = min((walk.retry_in, *_until_stops(walk)))
        walk.wake_at, walk.blocked_on = walk.input.at + wait, "retry"
        walk.pause()
    elif walk.pause_asked:
        walk.pause_asked = False
        walk.pause()


A_TICK = 0.001
"""Seconds behind a time limit at which a wait ends, so that rounding leaves the limit reached."""


def _until_stops(walk: Walk) -> Iterator[float]:
    """The seconds until each time limit that stops the run for certain: no wait goes past one."""
    for left_by_rule in walk.chart.stops_in:
        try:
            left = left_by_rule.fn(walk.facts, no_oracle)
        except GUARD_ERRORS:
            continue
        if left is not None:
            yield max(left, 0.0) + A_TICK


def _wait(walk: Walk) -> None:
    state = walk.state
    within = walk.chart.spec.states[state].within
    try:
        seconds = (
            within.value(walk.facts, walk.oracle) if isinstance(within, Expression) else within
        )
    except GuardFailed as error:
        walk.guard_error(error.text, error, state)
        walk.leave("guard_error")
        _onward(walk)
        return
    walk.wake_at = None if seconds is None else walk.input.at + seconds
    walk.pause()


def _end(walk: Walk, word: str) -> None:
    """Reach an end: its word fixes the status, the highest signal the reason."""
    spec = walk.chart.spec
    if not walk.raising.pending:
        reason = spec.reason(word if word in ("completed", "error") else "unknown")
        walk.signal(StopSignal(reason, "", {}, walk.state))
    top = walk.raising.pending.highest
    assert top is not None
    walk.winner = str(top.reason)
    status = top.reason.status if word == "by_reason" else word
    signals = walk.facts.signals
    if signals.status != status:
        walk.facts = walk.facts.replace(signals=signals.replace(status=status))
    if walk.status == "paused":
        walk.resume()
    walk.fire("complete" if status == "completed" else "fail")
    walk.stopping = True
