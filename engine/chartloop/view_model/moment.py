"""A run as it was after one of its records: what the record changed, where it led, what was spent.

Nothing of this is stored: the records are decided again, from the first.

Belongs here: what is found by deciding again. Never: how any of it looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from chartloop.api import Run
from chartloop.core.conversation import text_of
from chartloop.core.facts import Facts
from chartloop.core.outcome import Message
from chartloop.core.plain import plain
from chartloop.core.reasoning import say_reasoning
from chartloop.core.records import Record
from chartloop.machine.evolve import evolve
from chartloop.run.progress import standing_at
from chartloop.run.tally import Tally
from chartloop.view.live.progress import Standing
from chartloop.view_model.build import fact_views, record_view
from chartloop.view_model.run_view import FactView, Json, RecordView

POINTS = 400
"""The most points of a curve that a page is sent."""


MESSAGES = 20
"""The newest messages of a conversation that a page is sent."""


class Moment(NamedTuple):
    """A run after one record."""

    record: RecordView
    standing: Standing
    """Where it stood, for the picture."""
    now: Facts
    """All facts then: labels of the picture read them."""
    facts: tuple[FactView, ...]
    """What the record changed; the clock is left out."""
    messages: tuple[Message, ...]
    """The newest of the conversation before the record: what a model call is sent."""
    left_out: int
    """Older messages, which are not among them."""

    def to_dict(self) -> Json:
        """Plain data, for a page; the standing goes into a picture."""
        return {
            "record": self.record.to_dict(), "said": self.standing.said,
            "facts": [fact.to_dict() for fact in self.facts],
            "messages": plain([shown_message(m) for m in self.messages]),
            "left_out": self.left_out,
        }  # fmt: skip


def shown_message(message: Message) -> Message:
    """A message as a page shows it: images and files by name, reasoning folded to its size."""
    if "reasoning" not in message and isinstance(message.get("content"), str):
        return message
    shown: dict[str, Any] = {**message, "content": text_of(message)}
    if "reasoning" in shown:
        shown["reasoning"] = say_reasoning(shown["reasoning"])
    return shown


def moment_of(run: Run, records: Sequence[Record], seq: int) -> Moment:
    """The run as it was after record `seq`, which is one of `records`."""
    chart, tally = run.machine.chart, Tally()
    before = after = chart.position(run.id)
    last = records[0]
    for last in records:
        before = after
        after, decision = evolve(chart, before, last.input)
        tally.add(last, decision, after.facts)
        if last.seq >= seq:
            break
    changed = (fact for fact in fact_views(run, before.facts, after.facts) if fact.is_news)
    count = len(before.messages)
    first = max(0, count - MESSAGES)
    return Moment(
        record_view(chart, last), standing_at(after, tally), after.facts, tuple(changed),
        tuple(before.messages[first:]), first,
    )  # fmt: skip


class Spent(NamedTuple):
    """What a run had spent after one record."""

    seq: int
    elapsed: float
    """Seconds since its start."""
    tokens: int
    cost: float | None
    """US dollars; None where a price is not known."""


class Spending:
    """What a run spent, record by record. It is read on where the run went on."""

    def __init__(self, run: Run) -> None:
        self._chart = run.machine.chart
        self._position = self._chart.position(run.id)
        self.points: list[Spent] = []

    def extend(self, records: Sequence[Record]) -> None:
        """Add the records that are not in it yet; `records` are all of the run's."""
        for record in records[len(self.points) :]:
            self._position, _ = evolve(self._chart, self._position, record.input)
            facts = self._position.facts
            usage = facts.usage
            self.points.append(Spent(record.seq, facts.run.elapsed, usage.total_tokens, usage.cost))

    def thinned(self, most: int = POINTS) -> list[Spent]:
        """At most so many points, the first and the newest among them."""
        count = len(self.points)
        if count <= most:
            return list(self.points)
        last = most - 1
        return [self.points[round(place * (count - 1) / last)] for place in range(most)]
