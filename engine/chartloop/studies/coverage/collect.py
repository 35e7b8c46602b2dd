"""Counts of a chart's items, collected by deciding the records of its runs again.

The work of a record does not depend on how many came before it. A run counts only if all of its
records are decided again as they were recorded.

Belongs here: one chart, its runs, numbers. Never: which items a chart has (`targets`), words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from chartloop.core.errors import RunError, StatusError
from chartloop.core.facts import Facts
from chartloop.core.outcome import child_results
from chartloop.core.records import Record
from chartloop.language.expression import GUARD_ERRORS, Expression
from chartloop.language.expression.compile import function
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, Look
from chartloop.machine.regions import Holds
from chartloop.run.refold import refold
from chartloop.studies.coverage.deciding_atoms import Shape, Value, deciding, shape_of
from chartloop.studies.coverage.targets import atom_kind

_BROKEN = (StatusError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)
"""Errors that deciding a record of another machine may raise."""


class NotDecided(RunError):
    """This machine does not decide a run as it was recorded."""


class Seeing:
    """Counters of one chart's items by key, to which runs are added."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.counts: Counter[str] = Counter()
        self.status: Counter[str] = Counter()
        """Counts of the items of the lifecycle machine, which runs beside each run."""
        self.runs = 0
        self.records = 0
        self._rules = [_GuardReader(rule.id, rule.when) for rule in chart.spec.rules]
        self._signalling = {r.id for r in chart.spec.rules if r.kind == "signal"}
        self._edges: dict[tuple[str, str, str], tuple[_Branch, ...]] = {}

    def add(self, run_id: str, records: Iterable[Record]) -> None:
        """Count a run. `NotDecided` leaves the counters unchanged."""
        counts, status, number = Counter[str](), Counter({"state:idle": 1}), 0
        chart = self.chart
        steps = refold(chart, records, chart.position(run_id), trace_from=0, catch=_BROKEN)
        for step in steps:
            record, after, decision = step.record, step.after, step.decision
            if step.error is not None:
                message = f"record {record.seq} cannot be decided again: {step.error}"
                raise NotDecided(message) from step.error
            if (decision.taken, after.state) != (record.taken, record.next):
                raise NotDecided(f"record {record.seq} at `{record.state}` is decided differently")
            number += 1
            self._note(counts, status, decision)
            if after.ended and decision.winner:
                counts[f"reason:{decision.winner}"] += 1
        self.counts += counts
        self.status += status
        self.runs += 1
        self.records += number

    def _note(self, counts: Counter[str], status: Counter[str], decision: Decision) -> None:
        counts.update(f"state:{state}" for state in decision.path)
        for origin in decision.taken:
            counts[f"rule:{origin}" if origin.startswith("rules.") else f"edge:{origin}"] += 1
        for signal in decision.signals:
            if signal.source in self._signalling:
                counts[f"rule:{signal.source}"] += 1
        outcome = decision.input.outcome
        if outcome is not None and outcome.result is not None and self.chart.spec.machines:
            machines = (str(one["machine"]) for one in child_results(outcome.result))
            counts.update(f"child:{decision.state}/{name}" for name in machines)
        for look in decision.looks:
            match look.kind:
                case "rules":
                    for number in dict.fromkeys(look.rules):
                        counts.update(self._rules[number].keys(look.facts, look.oracle.recall))
                case "edges":
                    self._note_edges(counts, look)
                case "status":
                    self._note_edges(status, look)

    def _note_edges(self, counts: Counter[str], look: Look) -> None:
        """Count the atoms of a state's guards in order, up to the branch that was taken."""
        recall = look.oracle.recall
        place = (look.kind, look.state, look.trigger)
        tried = self._edges.get(place)
        if tried is None:
            tried = self._edges[place] = tuple(self._branches(look))
        for branch in tried:
            if branch.guard is not None:
                for key in branch.guard.keys(look.facts, recall):
                    counts[key] += 1
                if not look.taken and branch.guard.raises(look.facts, recall):
                    return
            if branch.origin == look.taken:
                if look.kind == "status":
                    counts.update((f"edge:{branch.origin}", f"state:{branch.to}"))
                    if branch.to in ("completed", "error"):
                        counts[f"reason:{branch.to}"] += 1
                return

    def _branches(self, look: Look) -> Iterator[_Branch]:
        """The branches of a state at a trigger, each once even where it has several targets."""
        region = self.chart.status if look.kind == "status" else self.chart.step
        event = region.triggers.get(look.trigger)
        seen: set[str] = set()
        for t in event.at(look.state) if event is not None else ():
            if t.origin not in seen:
                seen.add(t.origin)
                guard = next((g.expression for g in t.guards if isinstance(g, Holds)), None)
                reader = None if guard is None else _GuardReader(t.origin, guard)
                yield _Branch(t.origin, t.dest or "", reader)


class _GuardReader:
    """A guard that is evaluated atom by atom."""

    def __init__(self, owner: str, guard: Expression) -> None:
        self._functions = [function(atom.node) for atom in guard.atoms]
        self._shape: Shape = shape_of(guard.root)
        self._names = [f"{atom_kind(guard, n)}:{owner}#{n}" for n in range(len(guard.atoms))]
        self._known: dict[tuple[Value, ...], tuple[str, ...]] = {}
        self._guard = guard.fn

    def keys(self, facts: Facts, recall: Any) -> Sequence[str]:
        """The keys of the atoms that decided, each with its value; empty if the guard raises."""
        values: list[Value] = []
        for evaluate in self._functions:
            try:
                values.append(bool(evaluate(facts, recall)))
            except GUARD_ERRORS:
                values.append(None)
        if None in values and self.raises(facts, recall):
            return ()
        pattern = tuple(values)
        keys = self._known.get(pattern)
        if keys is None:
            keys = self._known[pattern] = tuple(
                f"{self._names[number]}={'true' if value else 'false'}"
                for number, value in deciding(self._shape, pattern)
            )
        return keys

    def raises(self, facts: Facts, recall: Any) -> bool:
        """Whether the guard raises; the branches after it were then not tried."""
        try:
            self._guard(facts, recall)
        except GUARD_ERRORS:
            return True
        return False


class _Branch(NamedTuple):
    """One branch of a state, with its guard if the file gives one."""

    origin: str
    to: str
    guard: _GuardReader | None
