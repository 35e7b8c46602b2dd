"""A run after one of its records: the facts that changed, the decision, the spending so far.

Nothing of this is stored: the record is decided again, from the position before it.

Belongs here: views of the past. Never: their look, finding the position before a record.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.explain import explain
from chartloop.pictures.live.progress import Standing
from chartloop.run.progress import standing_at
from chartloop.run.question import question_at
from chartloop.run.tally import Tally
from chartloop.ui.view_model.build import fact_views, record_view
from chartloop.ui.view_model.conversation_view import Item, items_of
from chartloop.ui.view_model.run_view import DecisionView, FactView, Json, RecordView

POINTS = 400
"""The most points of a curve that a page is sent."""


MESSAGES = 20
"""The newest messages of a conversation that a page is sent."""


class Moment(NamedTuple):
    """A run after one record."""

    record: RecordView
    standing: Standing
    """The position and path at that time, for the picture."""
    now: Facts
    """All facts at that time: labels of the picture read them."""
    facts: tuple[FactView, ...]
    """The facts that the record changed; the clock is left out."""
    prompt: tuple[Item, ...]
    """The newest messages before the record, as they are read: the end of what a model call is
    sent."""
    left_out: int
    """The number of older messages."""

    def to_dict(self) -> Json:
        """Plain data, for a page; the standing goes into a picture."""
        return {
            "record": self.record.to_dict(), "caption": self.standing.caption,
            "facts": [fact.to_dict() for fact in self.facts],
            "prompt": [asdict(item) for item in self.prompt],
            "left_out": self.left_out, "steps": self.now.run.steps,
        }  # fmt: skip


class Past(NamedTuple):
    """A run at one of its records, decided again."""

    record: Record
    before: Position
    after: Position
    decision: Decision
    """With every rule and edge that was evaluated."""
    tally: Tally
    """The counters after the record; path, moments and errors may be missing."""

    def why(self, chart: Chart) -> DecisionView:
        """The decision with every rule and edge that was evaluated."""
        return DecisionView(self.record.seq, explain(chart, self.decision))


def moment_of(run: Run, past: Past) -> Moment:
    """The run as it was after a record."""
    before, after = past.before, past.after
    changed = (fact for fact in fact_views(run, before.facts, after.facts) if fact.is_news)
    count = len(before.messages)
    first = max(0, count - MESSAGES)
    chart = run.machine.chart
    asks = question_at(chart, run.id, after, past.record.seq) is not None
    return Moment(
        record_view(chart, past.record), standing_at(after, past.tally, asks=asks), after.facts,
        tuple(changed), tuple(items_of(chart, before.messages[first:])), first,
    )  # fmt: skip


class Spent(NamedTuple):
    """The spending of a run when an action finished."""

    step: int
    """The number of finished actions."""
    elapsed: float
    """Seconds since its start."""
    tokens: int
    cost: float | None
    """US dollars; None if a price is unknown."""


def spending_of(tally: Tally, most: int = POINTS) -> list[Spent]:
    """The spending of a run at `most` moments or fewer, including its start and the newest."""
    last = len(tally.elapsed)
    if last < most:
        return [_spending_at(tally, step) for step in range(last + 1)]
    return [_spending_at(tally, round(place * last / (most - 1))) for place in range(most)]


def _spending_at(tally: Tally, step: int) -> Spent:
    if step == 0:
        return Spent(0, 0.0, 0, 0.0)
    at = step - 1
    return Spent(step, tally.elapsed[at], tally.tokens[at], tally.costs[at])
