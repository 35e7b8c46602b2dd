"""A recorded run decided again as it was: its stop reason, its answer, its positions.

A what-if compares decisions with those of the recorded machine and limits. A journal does not hold
decisions, so they are made again here, for the runs that need them.

Belongs here: the run as it was. Never: the run under other limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.run.recorded import RecordedRun
from chartloop.run.refold import refold
from chartloop.run.result import read_output, say_output

GuardResults = dict[str, list[bool]]
"""The results of Python guards in one record, by call: guard and arguments."""


class NoRecordedResult(Exception):
    """A Python guard is called, and the record has no result of that call."""


class Reproduction(NamedTuple):
    """A run decided again as it was recorded."""

    failed: int | None
    """The first record that is not decided as it was recorded; None if there is none."""
    why: str
    stopped_at: int | None
    """The record that settled the stop reason; None if there is none."""
    winners: dict[int, str]
    """The stop reason by the record that set it: a later record may replace it by a higher one."""
    guard_results: dict[int, GuardResults]
    answer: str | None
    """The first line of the run's output; None without output."""
    positions: tuple[Position, ...] = ()
    """The positions after each record; empty if one is not decided as it was recorded."""

    @property
    def reason(self) -> str:
        """The final stop reason; empty if there is none."""
        return next(reversed(self.winners.values()), "")


def reproduce(chart: Chart, run: RecordedRun) -> Reproduction:
    """Decide a run again by the machine and the limits that it was started with."""
    position, results = chart.position(run.run_id), dict[int, GuardResults]()
    stopped_at, winners, text = None, dict[int, str](), ""
    positions: list[Position] = []
    oracle = RecordedResults()
    for step in refold(
        chart, run.records, position, oracle=oracle.of,
        catch=(StatusError, KeyError, NoRecordedResult),
    ):  # fmt: skip
        record, position, decision = step.record, step.after, step.decision
        if why := step.difference:
            return Reproduction(record.seq, why, stopped_at, winners, results, None)
        if oracle.results:
            results[record.seq] = oracle.results
        if stopped_at is None and stops(position, decision):
            stopped_at = record.seq
        if decision.winner:
            winners[record.seq] = decision.winner
        if record.outcome is not None and record.outcome.reply is not None:
            text = record.outcome.reply.text
        positions.append(position)
    answer = _first_line(chart, position.facts, text)
    return Reproduction(None, "", stopped_at, winners, results, answer, tuple(positions))


def stops(position: Position, decision: Decision) -> bool:
    """Whether the run has ended, or is stopping for a settled reason."""
    return position.ended or (position.stopping and bool(decision.winner))


def _first_line(chart: Chart, facts: Facts, text: str) -> str | None:
    output, _ = read_output(chart.spec, facts, text, _never)
    lines = [] if output is None else say_output(output).strip().splitlines()
    return lines[0].strip() if lines else None


def _never(name: str, _args: tuple[Any, ...]) -> bool:
    raise ValueError(f"guard `{name}` is Python code, which is not asked again")


# registered guards --------------------------------------------------------------------------


class RecordedResults:
    """An oracle of a record's guard results in their order, which notes the call of each."""

    __slots__ = ("_left", "results")

    def __init__(self) -> None:
        self._left: list[bool] = []
        self.results: GuardResults = {}

    def of(self, record: Record) -> RecordedResults:
        """This oracle, with the results of one record in place of those before."""
        self._left, self.results = list(record.input.opaque), {}
        return self

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        if not self._left:
            raise NoRecordedResult(f"the record holds no answer of guard `{name}`")
        result = self._left.pop(0)
        self.results.setdefault(_call(name, args), []).append(result)
        return result


class ResultsByCall:
    """An oracle of the same results, found by call instead of by order."""

    __slots__ = ("_results",)

    def __init__(self, results: GuardResults) -> None:
        self._results = {call: list(values) for call, values in results.items()}

    def __call__(self, name: str, args: tuple[Any, ...]) -> bool:
        values = self._results.get(_call(name, args))
        if not values:
            raise NoRecordedResult(f"guard `{name}` would be asked what it was not asked then")
        return values.pop(0) if len(values) > 1 else values[0]


def _call(name: str, args: Iterable[Any]) -> str:
    return f"{name}{tuple(args)!r}"
