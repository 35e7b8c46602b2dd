"""Where a run stands, as pictures are given it.

What it costs does not grow with the run: counts are kept as it goes.

Imported by: api, notebook, cli
"""

from __future__ import annotations

from interlock.core.position import Position
from interlock.core.reasons import StopSignal
from interlock.core.units import say_count
from interlock.run.session import Session
from interlock.view.live.standing import How, Standing


def standing_of(session: Session) -> Standing:
    """The standing of a run in its machine's picture."""
    position, tally = session.position, session.tally
    top = position.signals.highest if position.ended else None
    reason = "" if top is None else str(top.reason)
    return Standing(
        position.state,
        position.facts.run.visits,
        tally.taken,
        how_of(position),
        reason,
        _raised_by(tally.signals, reason),
        _said(position, reason),
    )


def status_of(session: Session) -> Standing:
    """The same in the picture of the status region, whose moves nobody counts."""
    return Standing(session.position.status, how=how_of(session.position))


def how_of(position: Position) -> How:
    """How the run ended, as `Result.kind` says it; empty while it goes on."""
    if not position.ended:
        return ""
    top = position.signals.highest
    if position.status == "error" or top is None:
        return "error"
    kind = top.reason.kind
    return kind if kind in ("natural", "human") else "limit"


def _raised_by(signals: list[StopSignal], reason: str) -> str:
    """The source of the newest signal of this reason; signals are few."""
    return next((s.source for s in reversed(signals) if s.reason == reason), "")


def _said(position: Position, reason: str) -> str:
    steps = say_count(position.facts.run.steps, "step")
    if position.ended:
        return f"stopped for {reason or 'no reason'} ({how_of(position)}) · {steps}"
    return f"{position.status} at {position.state} · {steps}"
