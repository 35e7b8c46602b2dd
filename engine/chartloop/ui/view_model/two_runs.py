"""Two runs side by side: their status, and the first step that differs.

Steps are compared by action, outcome and path, not by duration or by the text of a reply. The
machines may differ; records are paired by number.

Belongs here: the comparison. Never: how it looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.records import Record
from chartloop.ui.view_model.build import fact_views, record_view, standing_of
from chartloop.ui.view_model.run_view import LONGEST_TEXT, Json, RecordView, StandingView, shorten

ROWS = 200
"""The default of the most rows."""
BEFORE = 3
"""Equal rows shown before the first that differs, if not all rows are returned."""
_OWN = frozenset({"run.id", "run.started_at"})
"""Facts that always differ between two runs."""


class ComparedStep(NamedTuple):
    """The records of one number; None for a run that has no such record."""

    seq: int
    left: RecordView | None
    right: RecordView | None

    @property
    def same(self) -> bool:
        """Whether both have the same action and outcome and led to the same states."""
        return _essence(self.left) == _essence(self.right)

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        left, right = (None if one is None else one.to_dict() for one in (self.left, self.right))
        return {"seq": self.seq, "same": self.same, "left": left, "right": right}


class ComparedFact(NamedTuple):
    """A fact whose current value differs between the runs; empty if a machine lacks the fact."""

    name: str
    left: str
    right: str

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {"name": self.name, "left": shorten(self.left), "right": shorten(self.right)}


class TwoRuns(NamedTuple):
    """A comparison of two runs as they are now."""

    left: StandingView
    right: StandingView
    first: int | None
    """The number of the first record that differs, or that only one of them has."""
    steps: tuple[ComparedStep, ...]
    next: int | None
    """The number of the next row; None on the last page."""
    facts: tuple[ComparedFact, ...]

    @property
    def summary(self) -> str:
        """Where they begin to differ, in a sentence."""
        if self.first is None:
            return "They went the same way."
        if self.first == 0:
            return "They differ from the start."
        up_to = f"They went the same way up to step {self.first - 1}"
        return f"{up_to}; step {self.first} is the first that differs."

    def to_dict(self) -> Json:
        """Plain data, for a page."""
        return {
            "summary": self.summary, "first": self.first,
            "left": _standing(self.left), "right": _standing(self.right),
            "steps": [step.to_dict() for step in self.steps], "next": self.next,
            "facts": [fact.to_dict() for fact in self.facts],
        }  # fmt: skip


def compare_runs(
    left: Run, right: Run, *, start: int | None = None, limit: int = ROWS
) -> TwoRuns:  # fmt: skip
    """The two runs, with at most `limit` rows from record `start` on.

    By default the rows begin with the first record if all fit, else shortly before the first that
    differs.
    """
    of_left, of_right = left.records, right.records
    count = max(len(of_left), len(of_right))
    sides = (left, of_left), (right, of_right)
    first = next((seq for seq in range(count) if not _row(*sides, seq).same), None)
    if start is None:
        start = 0 if count <= limit else max(0, (count if first is None else first) - BEFORE)
    steps = tuple(_row(*sides, seq) for seq in range(start, min(count, start + limit)))
    following = start + limit if start + limit < count else None
    facts = tuple(_different_facts(left, right))
    return TwoRuns(standing_of(left), standing_of(right), first, steps, following, facts)


Side = tuple[Run, Sequence[Record]]


def _row(left: Side, right: Side, seq: int) -> ComparedStep:
    return ComparedStep(seq, _view(left, seq), _view(right, seq))


def _view(side: Side, seq: int) -> RecordView | None:
    run, records = side
    return record_view(run.machine.chart, records[seq]) if seq < len(records) else None


def _essence(record: RecordView | None) -> tuple[object, ...] | None:
    if record is None:
        return None
    return (record.kind, record.state, record.action, record.outcome, record.path)


def _different_facts(left: Run, right: Run) -> Iterator[ComparedFact]:
    """The facts that differ, except clocks and ids, which differ between any two runs."""
    of_left, of_right = _values(left), _values(right)
    for name in dict.fromkeys((*of_left, *of_right)):
        values = of_left.get(name, ""), of_right.get(name, "")
        if values[0] != values[1]:
            yield ComparedFact(name, *values)


def _values(run: Run) -> dict[str, str]:
    views = fact_views(run, run.facts, run.facts)
    return {fact.name: fact.value for fact in views if not fact.clock and fact.name not in _OWN}


def _standing(view: StandingView) -> Json:
    end = view.end
    message = f"{view.head.status} at `{view.head.state}`" if end is None else end.explanation
    return {
        **view.head.to_dict(),
        "ended": view.ended,
        "explanation": shorten(message, 4 * LONGEST_TEXT),
    }
