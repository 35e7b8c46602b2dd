"""Figures over many recorded runs, gathered run by run. Pure.

The time, cost and failure of an action are in its record. How near a run came to each limit is not:
its facts are folded again, by the machine that it was recorded with.

Belongs here: gathering. Never: reading runs, tables, plots.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from chartloop.core.errors import StatusError
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.core.reasons import ResultKind
from chartloop.core.records import Record
from chartloop.language.expression import Expression
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import say_value, type_at
from chartloop.run.recorded import RecordedRun
from chartloop.run.refold import refold
from chartloop.run.renaming import as_now
from chartloop.studies.stats.figures import (
    TOTALS,
    Dist,
    FailureLine,
    MarginLine,
    ReasonLine,
    StateLine,
)
from chartloop.studies.whatif.changed_inputs import unknown_action
from chartloop.studies.whatif.question import kind_of, unfinished
from chartloop.studies.whatif.reproduction import stops
from chartloop.studies.whatif.verdict import BROKEN, Spending, spending

Charts = Callable[[RecordedRun], Chart]
"""Returns the chart that a run was recorded with."""

Bounded = tuple[str, str]
"""A fact and the bound that it is compared with, as the file writes it."""


@dataclass
class _State:
    """The counters of one state so far."""

    runs: set[str] = field(default_factory=set[str])
    failed: int = 0
    retries: int = 0
    calls: int = 0
    time: list[float] = field(default_factory=list[float])
    tokens: list[float] = field(default_factory=list[float])
    usd: list[float] = field(default_factory=list[float])
    waits: list[float] = field(default_factory=list[float])


@dataclass
class _Margin:
    """The shares of one bound that runs used so far."""

    where: dict[str, None] = field(default_factory=dict[str, None])
    values: dict[str, None] = field(default_factory=dict[str, None])
    end: list[float] = field(default_factory=list[float])
    peak: list[float] = field(default_factory=list[float])
    stopped: int = 0


class _Failure(NamedTuple):
    category: str
    state: str
    what: str


class Gathering:
    """A collector of runs of one machine. `chart` is the machine as it is now."""

    def __init__(self, chart: Chart, charts: Charts) -> None:
        self.chart, self._charts = chart, charts
        self.runs = 0
        self.unfolded: list[str] = []
        """Runs without margins: their records cannot be decided again."""
        self._reasons: Counter[tuple[str, ResultKind]] = Counter()
        self._states: defaultdict[str, _State] = defaultdict(_State)
        self._margins: dict[Bounded, _Margin] = {}
        self._failures: dict[_Failure, tuple[int, set[str], str]] = {}
        self._totals: dict[str, list[float]] = {name: [] for name in TOTALS}
        self._watched: dict[int, tuple[Chart, list[_BoundedGuard]]] = {}

    def add(self, run: RecordedRun) -> None:
        """Count a run. Raises one of `BROKEN`, and counts nothing, for damaged records."""
        chart, row = self._charts(run), run.row
        renamed = self.chart.spec.renamed
        records = [as_now(record, renamed) for record in run.records]
        spent = spending(records)  # both may raise, so they come before any counter changes
        failures = [failure for record in records for failure in _failures(record)]
        self.runs += 1
        ended = row.status in ("completed", "error")
        reason = row.reason or _stop_reason(records[-1]) if ended else ""
        kind: ResultKind = "waiting"
        if ended:
            kind = kind_of(chart.spec, reason, row.status, lost=unfinished(records))
        self._reasons[reason, kind] += 1
        self._count_records(run.run_id, records)
        for failure, message in failures:
            count, runs, first = self._failures.get(failure, (0, set[str](), message))
            self._failures[failure] = (count + 1, runs | {run.run_id}, first)
        self._count_totals(spent, records)
        self._fold(chart, run, natural=kind == "natural")

    # from the records -----------------------------------------------------------------------

    def _count_records(self, run_id: str, records: list[Record]) -> None:
        before: Record | None = None
        for record in records:
            input, outcome = record.input, record.outcome
            if before is not None and before.status == "paused":
                waiting = self._states[before.next]
                waiting.waits.append(max(0.0, (input.started or input.at) - before.input.at))
                waiting.runs.add(run_id)
            before = record
            if outcome is None:
                continue
            state, spent = self._states[record.state], outcome.spent
            state.runs.add(run_id)
            state.time.append(max(0.0, input.at - input.started))
            state.failed += not outcome.ok
            state.retries += f"{record.state}.retry" in record.taken
            state.calls += spent.llm_calls + sum(spent.tools.values())
            if spent.llm_calls:
                state.tokens.append(spent.prompt_tokens + spent.completion_tokens)
            if spent.cost is not None:
                state.usd.append(spent.cost)

    def _count_totals(self, spent: Spending, records: list[Record]) -> None:
        elapsed = max(0.0, records[-1].input.at - records[0].input.at)
        for name, value in (
            ("steps", spent.actions), ("llm_calls", spent.llm_calls),
            ("tool_calls", spent.tool_calls), ("tokens", spent.tokens), ("usd", spent.usd),
            ("elapsed", elapsed), ("working", spent.working), ("waiting", spent.waiting),
        ):  # fmt: skip
            if value is not None:
                self._totals[name].append(value)

    # from the facts -------------------------------------------------------------------------

    def _fold(self, chart: Chart, run: RecordedRun, *, natural: bool) -> None:
        """Add the margins of a run: its facts after each record, compared with each bound.

        No limit stopped a run that came to its natural end, although a guard led it there.
        """
        if unknown_action(chart.spec):
            self.unfolded.append(run.run_id)
            return
        watched = self._watched_by(chart)
        position, taken = chart.position(run.run_id), ()
        peaks: dict[Bounded, float] = {}
        ends: dict[Bounded, float] = {}
        try:
            for step in refold(chart, run.records, position):
                position = step.after
                if step.record.next != position.state:
                    self.unfolded.append(run.run_id)
                    return
                if step.before.stopping:  # after a stop, rules are not evaluated
                    continue
                if stops(position, step.decision) and not natural:
                    taken = step.decision.taken
                for one in watched:
                    one.read(position.facts, peaks, ends)
        except (StatusError, *BROKEN):
            self.unfolded.append(run.run_id)
            return
        self._keep(chart, position, watched, peaks, ends, frozenset(taken))

    def _keep(  # noqa: PLR0917  the results of one fold
        self, chart: Chart, position: Position, watched: list[_BoundedGuard],
        peaks: dict[Bounded, float], ends: dict[Bounded, float], taken: frozenset[str],
    ) -> None:  # fmt: skip
        by: dict[Bounded, set[str]] = defaultdict(set)
        for one in watched:
            for bounded in one.bounds.values():
                by[bounded].add(one.id)
        for bounded, peak in peaks.items():
            margin = self._margins.setdefault(bounded, _Margin())
            margin.where |= dict.fromkeys(sorted(by[bounded]))
            margin.values |= {_bound_of(chart, position.facts, bounded): None}
            margin.peak.append(peak)
            margin.end.append(ends[bounded])
            margin.stopped += not taken.isdisjoint(by[bounded])

    def _watched_by(self, chart: Chart) -> list[_BoundedGuard]:
        known = self._watched.get(id(chart))
        if known is None:
            known = self._watched[id(chart)] = (chart, list(_bounded_guards(chart)))
        return known[1]

    # results --------------------------------------------------------------------------------

    def reasons(self) -> tuple[ReasonLine, ...]:
        """The reasons, the most frequent first."""
        return tuple(
            ReasonLine(reason, kind, count, count / self.runs)
            for (reason, kind), count in self._reasons.most_common()
        )

    def states(self) -> tuple[StateLine, ...]:
        """The states that acted or waited, in the order of the file."""
        order = {name: number for number, name in enumerate(self.chart.spec.states)}
        names = sorted(self._states, key=lambda name: order.get(name, len(order)))
        return tuple(self._state(name) for name in names)

    def _state(self, name: str) -> StateLine:
        counts, spec = self._states[name], self.chart.spec.states.get(name)
        action = spec.action.name if spec is not None and spec.action is not None else ""
        return StateLine(
            name, action, len(counts.runs), counts.failed, counts.retries, Dist.of(counts.time),
            Dist.of(counts.tokens), Dist.of(counts.usd), counts.calls, Dist.of(counts.waits),
        )  # fmt: skip

    def margins(self) -> tuple[MarginLine, ...]:
        """The bounds: first those that stop most runs, then those that runs come nearest to."""
        lines = [
            MarginLine(
                fact, bound, tuple(m.where), tuple(m.values), Dist.of(m.end), Dist.of(m.peak),
                m.stopped,
            )
            for (fact, bound), m in self._margins.items()
        ]  # fmt: skip
        return tuple(sorted(lines, key=lambda m: (-m.stopped, -m.peak.p95)))

    def failures(self) -> tuple[FailureLine, ...]:
        """The failures, the most frequent first."""
        lines = [
            FailureLine(f.category, f.state, f.what, count, len(runs), message)
            for f, (count, runs, message) in self._failures.items()
        ]
        return tuple(sorted(lines, key=lambda line: -line.times))

    def totals(self) -> dict[str, Dist]:
        """The totals of whole runs: steps, calls, tokens, cost, times."""
        return {name: Dist.of(values) for name, values in self._totals.items()}


class _BoundedGuard(NamedTuple):
    """A guard with bounds, and the id of its rule or edge."""

    id: str
    guard: Expression
    bounds: dict[str, Bounded]
    """The bounds by the text of their atom."""

    def read(self, facts: Facts, peaks: dict[Bounded, float], ends: dict[Bounded, float]) -> None:
        """Update `peaks` and `ends` with the share of each bound that is used now."""
        for reading in self.guard.readings(facts):
            bounded = self.bounds.get(reading.text)
            if bounded is not None and reading.share is not None:
                ends[bounded] = reading.share
                if reading.share > peaks.get(bounded, -1.0):
                    peaks[bounded] = reading.share


def _bounded_guards(chart: Chart) -> Iterator[_BoundedGuard]:
    guards = [(rule.id, rule.when) for rule in chart.spec.rules]
    guards += [(edge.id, edge.when) for edge in chart.spec.edges() if edge.when is not None]
    for id, guard in guards:
        bounds = {b.text: (b.fact, b.bound_text) for b in guard.bounds}
        if bounds:
            yield _BoundedGuard(id, guard, bounds)


def _bound_of(chart: Chart, facts: Facts, bounded: Bounded) -> str:
    """The formatted value of a bound in a run."""
    fact, text = bounded
    root, _, name = text.partition(".")
    if root != "limits" or name not in facts.limits:
        return text
    return say_value(facts.limits[name], type_at(chart.spec.roots, fact))


def _stop_reason(record: Record) -> str:
    top = record.signals.highest
    return "" if top is None else str(top.reason)


def _failures(record: Record) -> Iterator[tuple[_Failure, str]]:
    """The failures in a record: of its action, and of single calls. A denied call is listed too."""
    outcome = record.outcome
    if outcome is None:
        return
    if outcome.error is not None:
        error = outcome.error
        yield _Failure(error.category, record.state, error.kind), error.message
    for kind, texts in (("tool", outcome.tool_errors), ("denied", outcome.denied)):
        for text in texts:
            tool, _, message = text.partition(": ")
            yield _Failure(kind, record.state, tool), message
