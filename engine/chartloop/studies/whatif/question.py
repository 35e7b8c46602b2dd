"""What-if: a recorded run, decided again under other limits or by another file. Pure.

The recorded inputs pass through `evolve` again, with the question's limits in place of those of the
`start` record. As long as every decision is the recorded one, the next recorded input is the one
that this run would have had. After the first different decision, the recorded outcomes belong to
another run: a stop is known, the outcome of another state is not.

    for each record: would its action have had the same inputs? finished in time?
                     ─▶ evolve ─▶ as recorded: next record
                                ─▶ different: a stop, another edge, no stop

An edit of a limit during the run is an input like others, and applies from then on. The recorded
results of Python guards are looked up by the guard and its arguments, not by their order.

Belongs here: the verdict of one run. Never: reading runs, tables, effects.

Source: docs/design.md, "A step" (one function for the live run and every question to it)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, NamedTuple

from chartloop.analysis.versions.migration.renames import Alignment, align_files, used
from chartloop.core.errors import StatusError
from chartloop.core.facts import CUT_SHORT
from chartloop.core.position import Position
from chartloop.core.reasons import ResultKind
from chartloop.core.records import Input, Record
from chartloop.language.expression.tree import Fact
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.run.recorded import RecordedRun
from chartloop.run.renaming import as_now
from chartloop.studies.whatif.changed_inputs import (
    affected_names,
    asks_guards,
    changed_inputs,
    rewritten_actions,
    rewritten_definitions,
    unsupported_change,
)
from chartloop.studies.whatif.child_limits import Children
from chartloop.studies.whatif.deadlines import Timing
from chartloop.studies.whatif.reproduction import (
    NoRecordedResult,
    Reproduction,
    ResultsByCall,
    reproduce,
    stops,
)
from chartloop.studies.whatif.unaffected import CounterHistory, counters_of
from chartloop.studies.whatif.verdict import NOTHING, RunVerdict, Spending, Verdict, spending

Older = Callable[[str], Chart | None]
"""Compiles a canonical text; None if that fails."""


def reading(chart: Chart) -> Callable[[Chart], Alignment]:
    """Return a cached function that aligns an older machine with this one.

    An edge that only moved within its list counts as the same edge.
    """

    @cache
    def alignment(old: Chart) -> Alignment:
        return align_files(old.spec, chart.spec)

    return alignment


class RecordedCase:
    """A recorded run with cached data that several questions share."""

    def __init__(
        self, chart: Chart, run: RecordedRun, older: Older,
        alignments: Callable[[Chart], Alignment], *, several: bool = False,
    ) -> None:  # fmt: skip
        self.run = run
        self.several = several
        """Whether more than one question follows, so that replaying the run once pays off."""
        self.chart = chart
        own = chart if not run.machine or run.machine == chart.text else older(run.machine)
        self.old = own or chart
        """The chart that the run was started with; the question's if that is unknown."""
        self.is_old = own is not None
        self.alignment = alignments(self.old)
        """Which parts of that chart's file and the question's correspond."""
        self.records = [as_now(record, *self.alignment.proposed) for record in run.records]
        self.taken_for = used(run.records, self.alignment.lines)
        """The assumed new names of old states that `renamed` does not list."""
        self._histories: dict[str, CounterHistory] = {}

    @cached_property
    def reproduction(self) -> Reproduction:
        """The run decided again as it was recorded."""
        return reproduce(self.old, self.run)

    @property
    def priorities_differ(self) -> bool:
        """Whether the question's machine gives reasons other priorities than the run's own."""
        return self.old is not self.chart and _priorities(self.old.spec) != _priorities(
            self.chart.spec
        )

    def counter_history(self, limit: str, counters: tuple[Fact, ...]) -> CounterHistory:
        """The values of a limit's counters after each record."""
        if limit not in self._histories:
            self._histories[limit] = CounterHistory(counters, self.reproduction.positions)
        return self._histories[limit]

    @cached_property
    def is_reproduced(self) -> bool:
        """Whether the question's own machine decides the run as recorded, and it has no edits."""
        edited = any(record.kind == "edit" for record in self.records)
        mine = self.is_old and self.old is self.chart and not edited
        return mine and self.reproduction.failed is None

    @cached_property
    def first_values(self) -> Mapping[str, Mapping[str, Any]]:
        """The limits, variables and memory blocks that the run started with."""
        return _first_values(self.old.spec, self.run.records[0])

    @cached_property
    def was(self) -> tuple[str, ResultKind]:
        """The recorded stop reason and its kind; empty and ``waiting`` if it has not ended."""
        row = self.run.row
        if row.status not in ("completed", "error"):
            return "", "waiting"
        reason = row.reason or self.reproduction.reason
        lost = unfinished(self.run.records)
        return reason, kind_of(self.chart.spec, reason, row.status, lost=lost)

    @cached_property
    def stopped_at(self) -> int | None:
        """The record that settled the stop reason; None if the run has not stopped."""
        if self.reproduction.failed is None or self.reproduction.stopped_at is not None:
            return self.reproduction.stopped_at
        raised = (
            r.seq for r in reversed(self.records) if self.was[0] in map(str, r.signals.reasons)
        )
        return next(raised, self.records[-1].seq if self.was[0] else None)


def _first_values(spec: MachineSpec, first: Record) -> Mapping[str, Mapping[str, Any]]:
    data = first.input.data
    return {
        "limits": {n: x.value for n, x in spec.limits.items()} | dict(data.get("limits", {})),
        "vars": {n: v.value for n, v in spec.vars.items()} | dict(data.get("vars", {})),
        "memory": {n: b.value for n, b in spec.memory.items()} | dict(data.get("memory", {})),
    }


def _priorities(spec: MachineSpec) -> dict[str, tuple[int, str]]:
    """The priority and the status of each reason, which decide how a run ends."""
    return {name: (reason.priority, reason.status) for name, reason in spec.reasons.items()}


def kind_of(spec: MachineSpec, reason: str, status: str = "", *, lost: int = 0) -> ResultKind:
    """The kind of a run that ends for a reason; `lost` is its `unfinished`. See `Result.kind`."""
    stop = spec.reason(reason)
    return stop.kind_of_end(status or stop.status, lost)


def unfinished(records: Iterable[Record]) -> int:
    """What the end of a run does not have; see `Facts.unfinished`."""
    outcomes = [record.outcome for record in records if record.outcome is not None]
    lost = max((o.changes.get("queue.failed", 0) for o in outcomes), default=0)
    last = next((o for o in reversed(outcomes) if o.reply is not None or o.cut_short), None)
    reply = None if last is None else last.reply
    return lost + (last is not None and (reply is None or reply.finish_reason in CUT_SHORT))


class Question:
    """One what-if: these limits, and this machine."""

    def __init__(self, chart: Chart, limits: Mapping[str, Any]) -> None:
        self.chart = chart
        self.limits = dict(limits)
        self.asks_guards = asks_guards(chart.spec)
        self._counters: dict[str, tuple[Fact, ...] | None] = {}
        self._changed_inputs: dict[frozenset[str], dict[str, str]] = {}
        self._file_changes: dict[str, tuple[dict[str, str], frozenset[str]]] = {}

    def ask(self, case: RecordedCase) -> RunVerdict:
        """Judge one run."""
        return _Judgement(self, case).judge()

    def changed_facts(self, case: RecordedCase) -> frozenset[str]:
        """The facts and definitions whose first values differ from the recorded ones."""
        asked = _first_values(self.chart.spec, case.run.records[0])
        asked = {**asked, "limits": {**asked["limits"], **self.limits}}
        changed = {
            f"{root}.{name}" for root, values in asked.items() for name, value in values.items()
            if name not in case.first_values[root] or case.first_values[root][name] != value
        }  # fmt: skip
        return self._of_file(case)[1] | changed

    def changed_actions(self, case: RecordedCase, changed: frozenset[str]) -> Mapping[str, str]:
        """The states whose action would have had other inputs, each with the difference."""
        if changed not in self._changed_inputs:
            self._changed_inputs[changed] = changed_inputs(self.chart.spec, changed)
        return {**self._of_file(case)[0], **self._changed_inputs[changed]}

    def counters(self, limit: str) -> tuple[Fact, ...] | None:
        """The counters that a limit is compared with; None if it is read otherwise."""
        if limit not in self._counters:
            self._counters[limit] = counters_of(self.chart.spec, limit)
        return self._counters[limit]

    def unsupported_change(self, case: RecordedCase) -> str:
        """The first change of the file that a what-if cannot follow; empty if there is none."""
        if case.old is self.chart:
            return ""
        tasks = case.run.records[0].input.data.get("tasks", ())
        return unsupported_change(case.old.spec, self.chart.spec, tasks)

    def _of_file(self, case: RecordedCase) -> tuple[dict[str, str], frozenset[str]]:
        if case.old is self.chart:
            return {}, frozenset()
        if case.run.machine not in self._file_changes:
            files = case.old.spec, self.chart.spec, case.alignment.proposed
            changes = rewritten_actions(*files), rewritten_definitions(*files)
            self._file_changes[case.run.machine] = changes
        return self._file_changes[case.run.machine]


class _Stop(NamedTuple):
    """The verdict at one record, after which nothing is known unless it is `SAME`."""

    verdict: Verdict
    state: str = ""
    edge: str = ""
    because: str = ""
    reason: str = ""
    epilogue: bool = False


class _Judgement:
    """The judgement of one run, record by record."""

    def __init__(self, question: Question, case: RecordedCase) -> None:
        self.question, self.case, self.chart = question, case, question.chart
        self.changed_facts = question.changed_facts(case)
        self.changed_actions = question.changed_actions(case, self.changed_facts)
        names = (
            affected_names(self.chart.spec, self.changed_facts)
            if self.changed_facts
            else self.changed_facts
        )
        self.timing = Timing(self.chart, case.old, names, case.first_values["limits"])
        self.children = Children(self.chart.spec, names)
        assumed = case.taken_for.items()
        self.notes = [f"`{old}` is taken for `{new}`, which `renamed` does not say"
                      for old, new in assumed]  # fmt: skip
        self._otherwise_raised: dict[str, int] = {}
        """The signals that are raised only now or no longer, each with its first record."""
        self.kind: ResultKind = "waiting"
        self.signals_differ = case.priorities_differ
        """Whether signals or priorities differ, so that the run may end for another reason."""

    def judge(self) -> RunVerdict:
        """Decide the records again until the first difference."""
        run, (was, was_kind) = self.case.run, self.case.was
        records, stop, at = self.case.records, _Stop(Verdict.SAME), None
        position, before = self.chart.position(run.run_id), None
        if skipped := self._count_unaffected():
            position = self.case.reproduction.positions[skipped - 1]
            facts = position.facts
            limits = {**facts.limits, **self.question.limits}
            position = position.replace(facts=facts.replace(limits=limits))
            before = records[skipped - 1]
        if unsupported := self.question.unsupported_change(self.case):
            stop, at, records = self._unknown(position, unsupported), 0, records[:0]
        for record in records[skipped:]:
            self.timing.before = before
            stop, position = self._next(position, record)
            if stop.verdict is not Verdict.SAME:
                at = record.seq
                break
            before = record
        if at is None and (difference := self._describe_signals(position)):
            stop, at = self._unknown(position, difference), records[-1].seq
        if at is None:  # it ends as recorded
            stop, self.kind = stop._replace(reason=was), was_kind
        saved = self._saved_spending(at, stop) if at is not None and stop.verdict.sure else NOTHING
        natural = was_kind == "natural" and at is not None
        self.notes += [f"record {n} {says}" for says, n in sorted(self._otherwise_raised.items())]
        return RunVerdict(
            run.run_id, stop.verdict, len(run.records), at, stop.state, stop.reason, self.kind,
            stop.edge, stop.because, was, was_kind, saved, stop.epilogue,
            self.case.reproduction.answer if natural else None, _once_each(self.notes),
        )  # fmt: skip

    def _describe_signals(self, last: Position) -> str:
        """How the signals of a run that has not ended differ from the recorded ones, or empty."""
        positions = self.case.reproduction.positions
        if last.ended or not self.signals_differ or not positions:
            return ""
        was, now = (tuple(map(str, p.signals.reasons)) for p in (positions[-1], last))
        if was == now:
            return ""
        message = " and ".join(f"`{r}`" for r in now) if now else "no signal"
        return f"it waits as it did, but with {message} raised: it may end for another reason"

    def _count_unaffected(self) -> int:
        """The number of first records that are certainly decided as recorded."""
        case, question = self.case, self.question
        if not case.several or self.changed_actions or self.timing.matters or question.asks_guards:
            return 0
        if len(self.changed_facts) > 1 or not case.is_reproduced:
            return 0
        count = len(self.case.records)
        for limit in self.changed_facts:
            counters, name = question.counters(limit), limit.removeprefix("limits.")
            if counters is None or name not in question.limits:
                return 0
            was, now = case.first_values["limits"][name], question.limits[name]
            count = case.counter_history(limit, counters).count_unaffected(was, now)
        return count

    def _next(self, position: Position, record: Record) -> tuple[_Stop, Position]:
        """Decide one record again: its verdict and the position after it."""
        input = self._question_input(record)
        works = record.kind in ("step", "blocked") and not position.stopping
        if works and (because := self.changed_actions.get(position.state)):
            return self._unknown(position, because), position
        if works and (
            because := self.children.changed_allowance(record, position.facts, self.timing.limits)
        ):
            return self._unknown(position, because), position
        if self.timing.matters:
            effect = self.timing.of(position, record)
            if effect.because:
                return self._unknown(position, effect.because), position
            input = effect.instead or input
            self.notes += [effect.note] if effect.note else []
        try:
            after, decision = self._evolve(position, record, input)
            if (
                input.kind == "step"
                and (cut := self.timing.cut_off_input(position, record)) is not None
            ):
                if not _ends_alike(after, decision, *self._evolve(position, record, cut)):
                    return self._unknown(position, self.timing.describe_cut(record, cut)), position
        except (StatusError, KeyError, NoRecordedResult) as error:
            return self._unknown(position, _describe_error(error)), position
        if _same(record, position, after, decision):
            self._note(record, decision)
            if self.signals_differ and decision.winner and self._winner_differs(record, decision):
                return self._explain_difference(record, position, after, decision), after
            return _Stop(Verdict.SAME), after
        return self._explain_difference(record, position, after, decision), after

    def _question_input(self, record: Record) -> Input:
        """The record's input; that of a start with the question's limits."""
        input, limits = record.input, self.question.limits
        if record.kind != "start" or not limits:
            return input
        own = {**input.data.get("limits", {}), **limits}
        return input.replace(data={**input.data, "limits": own})

    def _evolve(
        self, position: Position, record: Record, input: Input
    ) -> tuple[Position, Decision]:
        if not self.question.asks_guards:
            return evolve(self.chart, position, input)
        results = self.case.reproduction.guard_results.get(record.seq, {})
        return evolve(self.chart, position, input, oracle=ResultsByCall(results))

    def _note(self, record: Record, decision: Decision) -> None:
        """Note the edits and signals of a record that is decided as recorded."""
        if record.kind == "edit":
            self.timing.apply_edit(record)
            for name, value in record.input.data.items():
                if name in (f"limits.{n}" for n in self.question.limits):
                    self.notes.append(f"record {record.seq} set {name} to {value}")
        was, now = record.signals.reasons, decision.signals.reasons
        if was != now:
            for reason in {*was} ^ {*now}:
                says = "raises `{}` too" if reason in now else "no longer raises `{}`"
                self._otherwise_raised.setdefault(says.format(reason), record.seq)
            self.signals_differ = True
            readers = changed_inputs(self.chart.spec, self.changed_facts | {"signals"})
            self.changed_actions = {**self.changed_actions, **readers}

    def _winner_differs(self, record: Record, decision: Decision) -> bool:
        """Whether the run stops for another reason than recorded, although by the same edges."""
        return decision.winner != self.case.reproduction.winners.get(record.seq, "")

    # differences -----------------------------------------------------------------------------

    def _explain_difference(
        self, record: Record, position: Position, after: Position, decision: Decision
    ) -> _Stop:
        case = self.case
        if (fault := self._earlier_fault(record)) is not None:
            return self._unknown(position, fault)
        edge = next(
            (e for n, e in enumerate(decision.taken) if record.taken[n : n + 1] != (e,)), ""
        )
        if not edge and record.state != position.state:  # the start state differs
            edge = next(iter(decision.taken), "")
        in_epilogue = position.stopping and bool(edge) and not after.ended
        if stops(after, decision) and not in_epilogue:
            reason = decision.winner
            status, lost = after.status if after.ended else "", after.facts.unfinished
            self.kind = kind_of(self.chart.spec, reason, status, lost=lost)
            here = case.stopped_at == record.seq or position.stopping
            verdict = Verdict.OTHERWISE if here else Verdict.EARLIER
            return _Stop(verdict, after.state, edge, "", reason, not after.ended)
        edge = edge or next(reversed(decision.taken), "")  # the last edge has another target
        if case.stopped_at == record.seq:
            return _Stop(Verdict.LATER, after.state, edge, self._beyond(after))
        return _Stop(Verdict.ELSEWHERE, after.state, edge, self._beyond(after))

    def _beyond(self, after: Position) -> str:
        """The next step, of which nothing is recorded."""
        state = self.chart.spec.states.get(after.state)
        if after.status == "paused":
            return f"it waits at `{after.state}`, and nothing is recorded of what would have come"
        does = state.action.name if state is not None and state.action is not None else "act"
        return f"`{after.state}` would do `{does}` next, and nothing is recorded of it"

    def _earlier_fault(self, record: Record) -> str | None:
        """Why even the recorded machine and limits decide the run differently; None if not."""
        past = self.case.reproduction if self.case.is_old else None
        if past is None or past.failed is None or past.failed > record.seq:
            return None
        return f"record {past.failed} is not decided as it was recorded: {past.why}"

    def _unknown(self, position: Position, because: str) -> _Stop:
        return _Stop(Verdict.UNKNOWN, position.state, "", because)

    def _saved_spending(self, at: int, stop: _Stop) -> Spending:
        """The recorded spending after the stop.

        If the stop has an epilogue, that of the recorded stop is left out: it is assumed to cost
        the same.
        """
        records, last = self.case.records, self.case.stopped_at
        until = len(records) if last is None or not stop.epilogue else last + 1
        return spending(records[at + 1 : until], records[at])


def _same(record: Record, before: Position, after: Position, decision: Decision) -> bool:
    return (
        record.state == before.state and record.taken == decision.taken
        and record.next == after.state and record.status == after.status
    )  # fmt: skip


def _ends_alike(
    after: Position, decision: Decision, cut_after: Position, cut_decision: Decision
) -> bool:
    """Whether the run stops for the same reason with the action finished or cut off."""
    both = stops(after, decision) and stops(cut_after, cut_decision)
    alike = (after.state, decision.winner) == (cut_after.state, cut_decision.winner)
    return both and alike


def _once_each(notes: Iterable[str]) -> str:
    """Join the notes, each once with its count."""
    counts = Counter(notes)
    return "; ".join(note if times == 1 else f"{note} ({times} times)"
                     for note, times in counts.items())  # fmt: skip


def _describe_error(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"the machine has no {error}"
    return error.message if isinstance(error, StatusError) else str(error)
