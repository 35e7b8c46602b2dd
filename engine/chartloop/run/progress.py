"""The progress of a run, for its pictures.

The cost does not grow with the length of the run, since the tally keeps the counts.
"""

from __future__ import annotations

from chartloop.core.phase import DONE, WAITING, Phase, ending_of
from chartloop.core.position import Position
from chartloop.core.units import say_count
from chartloop.pictures.live.progress import Standing
from chartloop.run.question import last_state, question_of
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


def how_of(position: Position) -> str:
    """How the run ended, as in `Result.kind`, for exports; empty while it continues."""
    if not position.ended:
        return ""
    top = position.signals.highest
    if top is None:
        return "error"
    kind = top.reason.kind_of_end(position.status, position.facts.unfinished)
    return kind if kind != "waiting" else "limit"


def _how(position: Position) -> str:
    return _ending(position).name if position.ended else ""


def _ending(position: Position) -> Phase:
    top = position.signals.highest
    return ending_of(position.status, top, position.facts.unfinished)


def _describe_position(position: Position, tally: Tally, reason: str, *, asks: bool) -> str:
    counted = say_count(position.facts.run.steps, "step")
    if errors := position.facts.errors.total:
        counted += f" · {say_count(errors, 'error')}"
    if position.ended:
        phase, at = _ending(position), last_state(position.state, tally.path)
        why = "" if phase is DONE and reason == "completed" else f": {reason or 'no reason'}"
        return f"{phase.word} at {at}{why} · {counted}"
    return f"{WAITING.word if asks else position.status} at {position.state} · {counted}"
