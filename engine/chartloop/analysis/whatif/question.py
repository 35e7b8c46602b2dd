"""What if: recorded runs, decided again under other limits or by another file. Pure.

The recorded inputs go through `evolve` once more, with the limits of the question in place of
those of the `start` record. As long as every decision comes out as it was recorded, the next
input is one that this run would have had. At the first that does not, the recorded outcomes
belong to another run, and what is known ends there: a stop is known, what another state would
have done is not.

    for each record: would its action have been given the same? been done in time?
                     ─▶ evolve ─▶ as recorded: next record
                                ─▶ otherwise: a stop, another edge, no stop

An edit of a limit that was made by hand during the run is an input like others, and holds from
there on. What a registered guard said is taken for what it is asked, not for the order in which.

Belongs here: the verdict of one run. Never: reading runs, tables, effects.

Source: design "architecture", section 3 (one function for the live run and every question to it)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from chartloop.analysis.whatif.changed_inputs import (
    affected_names,
    asks_guards,
    begun_otherwise,
    changed_names,
    rewritten,
    told_otherwise,
    unsupported_change,
)
from chartloop.analysis.whatif.child_limits import Children
from chartloop.analysis.whatif.deadlines import Timing
from chartloop.analysis.whatif.refold import Again, NotAsked, Remembering, again, stops
from chartloop.analysis.whatif.unaffected import Rising, counters_of, with_limits
from chartloop.analysis.whatif.verdict import NOTHING, RunVerdict, Spending, Verdict, spending
from chartloop.core.errors import StatusError
from chartloop.core.position import Position
from chartloop.core.reasons import ResultKind
from chartloop.core.records import Input, Record
from chartloop.language.expression.tree import Fact
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.run.recorded import RecordedRun
from chartloop.run.renaming import Names, as_now
from chartloop.versions.diff.compare import compare
from chartloop.versions.migration.renames import Naming, naming, used

Older = Callable[[str], Chart | None]
"""The chart of a canonical text; None where it cannot be made."""


def reading(chart: Chart) -> Callable[[Chart], Naming]:
    """What states, edges and rules of older machines are called in this one, each found once.

    A way that is elsewhere in its list, because another was put before it, is the same way.
    """

    @cache
    def names(old: Chart) -> Naming:
        if old is chart:
            own = Names(chart.spec.renamed)
            return Naming(own, own, {})
        return naming(old.spec, chart.spec, compare(old.spec, chart.spec).pairs)

    return names


class RecordedCase:
    """One recorded run, ready to be asked; what several questions need is made once."""

    def __init__(
        self, chart: Chart, run: RecordedRun, older: Older, names: Callable[[Chart], Naming], *,
        several: bool = False,
    ) -> None:  # fmt: skip
        self.run = run
        self.several = several
        """More than one question will be asked: it is worth deciding it once as it was."""
        self.chart = chart
        found = chart if not run.machine or run.machine == chart.text else older(run.machine)
        self.old = found or chart
        """The chart that it was started with, or the question's where that is not known."""
        self.is_old = found is not None
        called = names(self.old)
        self.records = [as_now(record, *called.proposed) for record in run.records]
        self.taken_for = used(run.records, called.lines)
        """States by the names that they are taken to have now, and the file does not say so."""
        self._rising: dict[str, Rising] = {}

    @cached_property
    def again(self) -> Again:
        """The run as it was."""
        return again(self.old, self.run)

    @property
    def weighs_otherwise(self) -> bool:
        """Whether the question's machine gives reasons another weight than the run's own."""
        return self.old is not self.chart and _weighs(self.old.spec) != _weighs(self.chart.spec)

    def rising(self, limit: str, counters: tuple[Fact, ...]) -> Rising:
        """What the counters of a limit came to, record by record."""
        if limit not in self._rising:
            self._rising[limit] = Rising(counters, self.again.positions)
        return self._rising[limit]

    @cached_property
    def decided_alike(self) -> bool:
        """Whether it is decided as recorded, by the question's machine and with no edit by hand."""
        edited = any(record.kind == "edit" for record in self.records)
        mine = self.is_old and self.old is self.chart and not edited
        return mine and self.again.failed is None

    @cached_property
    def began(self) -> Mapping[str, Mapping[str, Any]]:
        """What its limits, variables and memory blocks were at the beginning."""
        return _began(self.old.spec, self.run.records[0])

    @cached_property
    def was(self) -> tuple[str, ResultKind]:
        """What it was recorded to stop for."""
        row = self.run.row
        if row.status not in ("completed", "error"):
            return "", "waiting"
        reason = row.reason or self.again.reason
        return reason, kind_of(self.chart.spec, reason, row.status)

    @cached_property
    def stopped_at(self) -> int | None:
        """The record that settled why it stops."""
        if self.again.failed is None or self.again.stopped_at is not None:
            return self.again.stopped_at
        raised = (
            r.seq for r in reversed(self.records) if self.was[0] in map(str, r.signals.reasons)
        )
        return next(raised, self.records[-1].seq if self.was[0] else None)


def _began(spec: MachineSpec, first: Record) -> Mapping[str, Mapping[str, Any]]:
    data = first.input.data
    return {
        "limits": {n: x.value for n, x in spec.limits.items()} | dict(data.get("limits", {})),
        "vars": {n: v.value for n, v in spec.vars.items()} | dict(data.get("vars", {})),
        "memory": {n: b.value for n, b in spec.memory.items()} | dict(data.get("memory", {})),
    }


def _weighs(spec: MachineSpec) -> dict[str, tuple[int, str]]:
    """What decides which of several reasons a run ends for, and as what."""
    return {name: (reason.priority, reason.status) for name, reason in spec.reasons.items()}


def kind_of(spec: MachineSpec, reason: str, status: str = "") -> ResultKind:
    """How a run that ends for a reason is counted; see `Result.kind`."""
    found = spec.reason(reason)
    if (status or found.status) == "error":
        return "error"
    return "limit" if found.kind == "error" else found.kind


class Question:
    """What if the limits had been these, and the machine this one?"""

    def __init__(self, chart: Chart, limits: Mapping[str, Any]) -> None:
        self.chart = chart
        self.limits = dict(limits)
        self.asks_guards = asks_guards(chart.spec)
        self._counters: dict[str, tuple[Fact, ...] | None] = {}
        self._told: dict[frozenset[str], dict[str, str]] = {}
        self._rewritten: dict[str, tuple[dict[str, str], frozenset[str]]] = {}

    def ask(self, case: RecordedCase) -> RunVerdict:
        """The verdict of one run."""
        return _Way(self, case).judge()

    def changed_facts(self, case: RecordedCase) -> frozenset[str]:
        """The facts and definitions that start otherwise than they did."""
        before = _began(self.chart.spec, case.run.records[0])
        before = {**before, "limits": {**before["limits"], **self.limits}}
        return changed_names(case.began, before) | self._of_file(case)[1]

    def changed_actions(self, case: RecordedCase, changed: frozenset[str]) -> Mapping[str, str]:
        """The states whose action would have been given something else, and what."""
        if changed not in self._told:
            self._told[changed] = told_otherwise(self.chart.spec, changed)
        return {**self._of_file(case)[0], **self._told[changed]}

    def counters(self, limit: str) -> tuple[Fact, ...] | None:
        """The counters that a limit is held against, if nothing else is done with it."""
        if limit not in self._counters:
            self._counters[limit] = counters_of(self.chart.spec, limit)
        return self._counters[limit]

    def unsupported_change(self, case: RecordedCase) -> str:
        """What the question's file says otherwise, and cannot be followed."""
        if case.old is self.chart:
            return ""
        begun = case.run.records[0].input.data.get("tasks", ())
        return unsupported_change(case.old.spec, self.chart.spec, begun)

    def _of_file(self, case: RecordedCase) -> tuple[dict[str, str], frozenset[str]]:
        if case.old is self.chart:
            return {}, frozenset()
        old, new = case.old.spec, self.chart.spec
        if case.run.machine not in self._rewritten:
            found = rewritten(old, new), begun_otherwise(old, new)
            self._rewritten[case.run.machine] = found
        return self._rewritten[case.run.machine]


class _Stop(NamedTuple):
    """Where what is known ends."""

    verdict: Verdict
    state: str = ""
    edge: str = ""
    because: str = ""
    reason: str = ""
    epilogue: bool = False


class _Way:
    """One run on its way through its records."""

    def __init__(self, question: Question, case: RecordedCase) -> None:
        self.question, self.case, self.chart = question, case, question.chart
        self.changed_facts = question.changed_facts(case)
        self.changed_actions = question.changed_actions(case, self.changed_facts)
        names = (
            affected_names(self.chart.spec, self.changed_facts)
            if self.changed_facts
            else self.changed_facts
        )
        self.timing = Timing(self.chart, case.old, names, case.began["limits"])
        self.children = Children(self.chart.spec, names)
        taken = case.taken_for.items()
        self.notes = [f"`{old}` is taken for `{new}`, which `renamed` does not say"
                      for old, new in taken]  # fmt: skip
        self.kind: ResultKind = "waiting"
        self.raised_otherwise = case.weighs_otherwise
        """Other signals wait than did, or weigh otherwise: the end may find another reason."""

    def judge(self) -> RunVerdict:
        """Its verdict."""
        run, (was, was_kind) = self.case.run, self.case.was
        records, found, at = self.case.records, _Stop(Verdict.SAME), None
        position, before = self.chart.position(run.run_id), None
        if alike := self._alike():
            position = with_limits(self.case.again.positions[alike - 1], self.question.limits)
            before = records[alike - 1]
        if unheeded := self.question.unsupported_change(self.case):
            found, at, records = self._unknown(position, unheeded), 0, records[:0]
        for record in records[alike:]:
            self.timing.before = before
            found, position = self._next(position, record)
            if found.verdict is not Verdict.SAME:
                at = record.seq
                break
            before = record
        if at is None and (raised := self._raised_otherwise(position)):
            found, at = self._unknown(position, raised), records[-1].seq
        if at is None:  # it ends as it did
            found, self.kind = found._replace(reason=was), was_kind
        saved = (
            self._saved_spending(at, found) if at is not None and found.verdict.sure else NOTHING
        )
        natural = was_kind == "natural" and at is not None
        return RunVerdict(
            run.run_id, found.verdict, len(run.records), at, found.state, found.reason, self.kind,
            found.edge, found.because, was, was_kind, saved, found.epilogue,
            self.case.again.answer if natural else None, _once_each(self.notes),
        )  # fmt: skip

    def _raised_otherwise(self, last: Position) -> str:
        """Which signals wait at the end of a run that continues, and did not then, or reversed."""
        positions = self.case.again.positions
        if last.ended or not self.raised_otherwise or not positions:
            return ""
        was, now = (tuple(map(str, p.signals.reasons)) for p in (positions[-1], last))
        if was == now:
            return ""
        message = " and ".join(f"`{r}`" for r in now) if now else "no signal"
        return f"it waits as it did, but with {message} raised: it may end for another reason"

    def _alike(self) -> int:
        """The first records, as many as are certain to be decided as they were."""
        case, question = self.case, self.question
        if not case.several or self.changed_actions or self.timing.matters or question.asks_guards:
            return 0
        if len(self.changed_facts) > 1 or not case.decided_alike:
            return 0
        alike = len(self.case.records)
        for limit in self.changed_facts:
            counters, name = question.counters(limit), limit.removeprefix("limits.")
            if counters is None or name not in question.limits:
                return 0
            was, now = case.began["limits"][name], question.limits[name]
            alike = case.rising(limit, counters).count_unaffected(was, now)
        return alike

    def _next(self, position: Position, record: Record) -> tuple[_Stop, Position]:
        """One record: the same as it was, or where what is known ends."""
        given = self._question_input(record)
        works = record.kind in ("step", "blocked") and not position.stopping
        if works and (told := self.changed_actions.get(position.state)):
            return self._unknown(position, told), position
        if works and (
            noticed := self.children.changed_allowance(record, position.facts, self.timing.limits)
        ):
            return self._unknown(position, noticed), position
        if self.timing.matters:
            timed = self.timing.of(position, record)
            if timed.because:
                return self._unknown(position, timed.because), position
            given = timed.instead or given
            self.notes += [timed.note] if timed.note else []
        try:
            after, decision = self._evolve(position, record, given)
            if (
                given.kind == "step"
                and (cut := self.timing.cut_off_input(position, record)) is not None
            ):
                if not _ends_alike(after, decision, *self._evolve(position, record, cut)):
                    return self._unknown(position, self.timing.cut_said(record, cut)), position
        except (StatusError, KeyError, NotAsked) as error:
            return self._unknown(position, _describe_error(error)), position
        if _same(record, position, after, decision):
            self._note(record, decision)
            if self.raised_otherwise and decision.winner and self._wins(record, decision):
                return self._otherwise(record, position, after, decision), after
            return _Stop(Verdict.SAME), after
        return self._otherwise(record, position, after, decision), after

    def _question_input(self, record: Record) -> Input:
        """The record's input; of a start with the limits of the question."""
        given, limits = record.input, self.question.limits
        if record.kind != "start" or not limits:
            return given
        own = {**given.data.get("limits", {}), **limits}
        return given.replace(data={**given.data, "limits": own})

    def _evolve(
        self, position: Position, record: Record, given: Input
    ) -> tuple[Position, Decision]:
        if not self.question.asks_guards:
            return evolve(self.chart, position, given)
        asked = self.case.again.asked.get(record.seq, {})
        return evolve(self.chart, position, given, oracle=Remembering(asked))

    def _note(self, record: Record, decision: Decision) -> None:
        """What is otherwise although the run goes the same way."""
        if record.kind == "edit":
            self.timing.apply_edit(record)
            for name, value in record.input.data.items():
                if name in (f"limits.{n}" for n in self.question.limits):
                    self.notes.append(f"record {record.seq} set {name} to {value}")
        if record.signals.reasons != decision.signals.reasons:
            self.raised_otherwise = True
            changed_texts = told_otherwise(self.chart.spec, self.changed_facts | {"signals"})
            self.changed_actions = {**self.changed_actions, **changed_texts}

    def _wins(self, record: Record, decision: Decision) -> bool:
        """Whether the run stops for another reason than it did, although by the same way."""
        return decision.winner != self.case.again.winners.get(record.seq, "")

    # what is decided differently ---------------------------------------------------------------

    def _otherwise(
        self, record: Record, position: Position, after: Position, decision: Decision
    ) -> _Stop:
        case = self.case
        if (fault := self._not_the_limits(record)) is not None:
            return self._unknown(position, fault)
        edge = next(
            (e for n, e in enumerate(decision.taken) if record.taken[n : n + 1] != (e,)), ""
        )
        if not edge and record.state != position.state:  # it starts elsewhere
            edge = next(iter(decision.taken), "")
        behind = position.stopping and bool(edge) and not after.ended
        if stops(after, decision) and not behind:
            reason = decision.winner
            self.kind = kind_of(self.chart.spec, reason, after.status if after.ended else "")
            here = case.stopped_at == record.seq or position.stopping
            verdict = Verdict.OTHERWISE if here else Verdict.EARLIER
            return _Stop(verdict, after.state, edge, "", reason, not after.ended)
        edge = edge or next(reversed(decision.taken), "")  # the last way leads elsewhere now
        if case.stopped_at == record.seq:
            return _Stop(Verdict.LATER, after.state, edge, self._beyond(after))
        return _Stop(Verdict.ELSEWHERE, after.state, edge, self._beyond(after))

    def _beyond(self, after: Position) -> str:
        """What would have come next, of which nothing is recorded."""
        state = self.chart.spec.states.get(after.state)
        if after.status == "paused":
            return f"it waits at `{after.state}`, and nothing is recorded of what would have come"
        does = state.action.name if state is not None and state.action is not None else "act"
        return f"`{after.state}` would do `{does}` next, and nothing is recorded of it"

    def _not_the_limits(self, record: Record) -> str | None:
        """Why the record is decided differently by the recorded machine and its limits, too."""
        found = self.case.again if self.case.is_old else None
        if found is None or found.failed is None or found.failed > record.seq:
            return None
        return f"record {found.failed} is not decided as it was recorded: {found.why}"

    def _unknown(self, position: Position, because: str) -> _Stop:
        return _Stop(Verdict.UNKNOWN, position.state, "", because)

    def _saved_spending(self, at: int, found: _Stop) -> Spending:
        """The spending after the stop. An epilogue that both have counts as the same."""
        records, last = self.case.records, self.case.stopped_at
        until = len(records) if last is None or not found.epilogue else last + 1
        return spending(records[at + 1 : until], records[at])


def _same(record: Record, before: Position, after: Position, decision: Decision) -> bool:
    return (
        record.state == before.state and record.taken == decision.taken
        and record.next == after.state and record.status == after.status
    )  # fmt: skip


def _ends_alike(
    after: Position, decision: Decision, cut_after: Position, cut_decision: Decision
) -> bool:
    """Whether the run stops, for one reason, however much of the action was done."""
    both = stops(after, decision) and stops(cut_after, cut_decision)
    alike = (after.state, decision.winner) == (cut_after.state, cut_decision.winner)
    return both and alike


def _once_each(notes: Iterable[str]) -> str:
    """The notes, each once, with how often it holds."""
    counted = Counter(notes)
    return "; ".join(note if times == 1 else f"{note} ({times} times)"
                     for note, times in counted.items())  # fmt: skip


def _describe_error(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the machine has no {error}"
    return error.message if isinstance(error, StatusError) else str(error)
