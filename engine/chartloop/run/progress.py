"""The progress of a run, for its pictures.

The cost does not grow with the length of the run, since the tally keeps the counts.
"""

from __future__ import annotations

from chartloop.core.facts import Facts
from chartloop.core.phase import DONE, WAITING, Phase, ending_of
from chartloop.core.position import Position
from chartloop.core.units import say_count, say_elapsed
from chartloop.language.expression import GUARD_ERRORS, Expression, GuardFailed
from chartloop.language.spec import StateSpec
from chartloop.machine.budget_use import value_of
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value
from chartloop.pictures.live.progress import Meter, Standing
from chartloop.run.question import question_of
from chartloop.run.result import last_state
from chartloop.run.session import Session
from chartloop.run.tally import Tally


def standing_of(session: Session) -> Standing:
    """The standing of a run in its machine's picture."""
    asks = question_of(session) is not None
    return standing_at(session.position, session.tally, asks=asks)


def standing_at(position: Position, tally: Tally, *, asks: bool = False) -> Standing:
    """The standing at a position, with the counts of the records that led to it.

    `asks`: whether it waits for somebody's answer there.
    """
    top = position.signals.highest if position.ended else None
    reason = "" if top is None else str(top.reason)
    return Standing(
        position.state,
        position.facts.run.visits,
        tally.taken,
        _how(position),
        reason,
        next((s.source for s in reversed(tally.signals) if s.reason == reason), ""),
        {name: n for name, line in tally.profile.items() if (n := line.failed + line.failed_calls)},
        _describe_position(position, tally, reason, asks=asks),
        last_state(position.state, tally.path),
    )


def status_of(session: Session) -> Standing:
    """The standing of a run in the picture of the status region, without counts."""
    return Standing(session.position.status, how=_how(session.position))


def meters_of(session: Session) -> dict[str, Meter]:
    """The current values of the machine's decisions and rules, by state and by rule id.

    For a waiting state, the time waited and the limit.
    """
    chart, facts = session.chart, session.position.facts
    meters: dict[str, Meter | None] = {
        name: _decision(chart, state, facts) for name, state in chart.spec.states.items()
    }
    meters |= {rule.id: _guard(chart, rule.when, facts) for rule in chart.spec.rules}
    meters[session.position.state] = _wait(session) or meters.get(session.position.state)
    return {name: meter for name, meter in meters.items() if meter is not None}


def _decision(chart: Chart, state: StateSpec, facts: Facts) -> Meter | None:
    guard = next((edge.when for edge in state.edges_of("then") if edge.when is not None), None)
    if guard is not None:
        return _guard(chart, guard, facts)
    try:
        value = None if state.of is None else state.of.value(facts)
    except (*GUARD_ERRORS, GuardFailed):  # no value yet, or one that needs a guard of the caller
        return None
    return (
        None if value is None else Meter(str(value) if isinstance(value, str) else say_value(value))
    )


def _guard(chart: Chart, guard: Expression, facts: Facts) -> Meter | None:
    value = value_of(chart, guard, facts)
    return None if value is None else Meter(*value)


def _wait(session: Session) -> Meter | None:
    position = session.position
    if position.status != "paused":
        return None
    waited = max(0.0, session.ports.clock.now() - position.entered_at)
    due = position.wake_at
    if due is None or due <= position.entered_at:
        return Meter(f"waiting {say_elapsed(waited)}")
    whole = due - position.entered_at
    return Meter(f"waiting {say_elapsed(waited)} of {say_elapsed(whole)}", waited / whole)


def how_of(position: Position) -> str:
    """How the run ended, as in `Result.kind`, for exports; empty while it continues."""
    if not position.ended:
        return ""
    top = position.signals.highest
    if top is None:
        return "error"
    kind = top.reason.kind_of_end(position.status, position.facts.queue.failed)
    return kind if kind != "waiting" else "limit"


def _how(position: Position) -> str:
    return _ending(position).name if position.ended else ""


def _ending(position: Position) -> Phase:
    top = position.signals.highest
    return ending_of(position.status, top, position.facts.queue.failed)


def _describe_position(position: Position, tally: Tally, reason: str, *, asks: bool) -> str:
    counted = say_count(position.facts.run.steps, "step")
    if errors := position.facts.errors.total:
        counted += f" · {say_count(errors, 'error')}"
    if position.ended:
        phase, at = _ending(position), last_state(position.state, tally.path)
        why = "" if phase is DONE and reason == "completed" else f": {reason or 'no reason'}"
        return f"{phase.word} at {at}{why} · {counted}"
    return f"{WAITING.word if asks else position.status} at {position.state} · {counted}"
