"""Two runs side by side: their status, and the first step that differs.

Steps are compared by action, outcome and path, not by duration or by the text of a reply. The
machines may differ; records are paired by number.

Belongs here: the comparison. Never: how it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, zip_longest

from chartloop.api import Run
from chartloop.core.facts import EMPTY
from chartloop.core.phase import PHASES
from chartloop.core.records import Record
from chartloop.run.phases import Stand
from chartloop.ui.view_model.build import fact_views, record_view, standing_of
from chartloop.ui.view_model.run_view import LONGEST_TEXT, Json, RecordView, RunHead, shorten

ROWS = 200
"""The default of the most rows."""
BEFORE = 3
"""Equal rows shown before the first that differs, if not all rows are returned."""
_OWN = frozenset({"run.id", "run.started_at"})
"""Facts that always differ between two runs."""
_COMPARED = ("kind", "state", "action", "outcome", "path")
"""What two records that are the same have in common."""


@dataclass(frozen=True, slots=True)
class ComparedRun(RunHead):
    """The status of one of two compared runs."""

    ended: bool
    explanation: str
    """Why it stopped, or where it is."""


@dataclass(frozen=True, slots=True)
class ComparedRecords:
    """The records of one number in two runs."""

    seq: int
    same: bool
    """Whether both have the same action and outcome and led to the same states."""
    left: Json | None
    """As in a `RunView`; None for a run that has no such record."""
    right: Json | None


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """A fact whose value differs between the two runs; empty if a machine lacks the fact."""

    name: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side, as they are now."""

    summary: str
    """Where they begin to differ, in a sentence."""
    first: int | None
    """The number of the first record that differs, or that only one of them has."""
    left: ComparedRun
    right: ComparedRun
    steps: tuple[ComparedRecords, ...]
    next: int | None
    """The number of the next row; None on the last page."""
    facts: tuple[ComparedValue, ...]
    """Facts that differ now, except for those that a clock changes."""


def compare_runs(
    left: Run, right: Run, stands: Mapping[str, Stand] = EMPTY, *,
    start: int | None = None, limit: int = ROWS,
    read: Callable[[Run, int], Iterable[Record]] = lambda run, first: run.records[first:],
) -> Comparison:  # fmt: skip
    """The two runs, with at most `limit` rows from record `start` on.

    `stands` is how runs stand, by id, where it is known who drives them. `read` gives the records
    of a run from a number on.
    By default the rows begin with the first record if all fit, else shortly before the first that
    differs.
    """
    count = max(run.session.tally.records for run in (left, right))

    def pairs(at: int) -> Iterator[list[RecordView | None]]:
        sides = [
            (record_view(run.machine.chart, record) for record in read(run, at))
            for run in (left, right)
        ]
        return map(list, zip_longest(*sides))

    first = next((seq for seq, pair in enumerate(pairs(0)) if not _same(*pair)), None)
    summary = "They went the same way."
    if first is not None:
        up_to = f"They went the same way up to step {first - 1}; step {first} is the first that"
        summary = f"{up_to} differs." if first else "They differ from the start."
    if start is None:
        start = 0 if count <= limit else max(0, (count if first is None else first) - BEFORE)
    rows = enumerate(islice(pairs(start), limit), start)
    return Comparison(
        summary, first, _compared_run(left, stands), _compared_run(right, stands),
        tuple(
            ComparedRecords(seq, _same(*views), *(view and view.to_dict() for view in views))
            for seq, views in rows
        ),
        start + limit if start + limit < count else None,
        tuple(_different_facts(left, right)),
    )  # fmt: skip


def _same(left: RecordView | None, right: RecordView | None) -> bool:
    if left is None or right is None:
        return False
    return all(getattr(left, name) == getattr(right, name) for name in _COMPARED)


def _compared_run(run: Run, stands: Mapping[str, Stand]) -> ComparedRun:
    head, end = (view := standing_of(run)).head, view.end
    head = replace(head, phase=stands[run.id].phase.name) if run.id in stands else head
    message = f"{PHASES[head.phase].word} at `{head.at}`" if end is None else end.explanation
    return ComparedRun(
        **head.to_dict(), ended=view.ended, explanation=shorten(message, 4 * LONGEST_TEXT)
    )


def _different_facts(left: Run, right: Run) -> Iterator[ComparedValue]:
    """The facts that differ, except clocks and ids, which differ between any two runs."""
    of_left, of_right = (
        {
            fact.name: fact.value
            for fact in fact_views(run, run.facts, run.facts)
            if not fact.clock and fact.name not in _OWN
        }
        for run in (left, right)
    )
    for name in dict.fromkeys((*of_left, *of_right)):
        values = of_left.get(name, ""), of_right.get(name, "")
        if values[0] != values[1]:
            yield ComparedValue(name, *map(shorten, values))
