"""Builds the `RunView` of a run.

Belongs here: which facts, records and limits a view has, and their sources. Never: how they look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from chartloop.api import Run
from chartloop.core.facts import FACTS, Facts
from chartloop.core.format import json_text
from chartloop.core.phase import phase_of
from chartloop.core.records import Record
from chartloop.core.types import ANY, Type
from chartloop.core.units import say_count, write_duration
from chartloop.language.expression import Expression
from chartloop.language.spec import Given
from chartloop.language.template.template import Template
from chartloop.machine.budget_use import budgets
from chartloop.machine.build import Chart
from chartloop.machine.guard_text import fact_value, say_value
from chartloop.run.journal import CHILD_MARK, Journal
from chartloop.run.journal_records import MOVED
from chartloop.run.phases import stands_of
from chartloop.run.question import last_state, question_of
from chartloop.run.refold import refold_last
from chartloop.run.result import Result
from chartloop.ui.view_model.asking import answer_views, label_of, labels_of
from chartloop.ui.view_model.orders import refusals_of
from chartloop.ui.view_model.run_view import (
    ChildView,
    DecisionView,
    EdgeView,
    EditableView,
    EndView,
    EntryView,
    FactView,
    NextAction,
    QuestionView,
    RecordView,
    RunHead,
    RunView,
    StandingView,
)
from chartloop.ui.view_model.text import CLOCKS, cure_of, outcome_lines

RECORDS = 200
"""The most records in a view, the newest first to stay."""
ERRORS = 50
"""The most errors and the most warnings in a view."""
CHILDREN = 100
"""The most children in a view."""
_NEVER_NEWS = CLOCKS | {"run.paused_from", "run.visits", "progress.stalled_for"}
"""Facts that a clock changes or that are shown elsewhere: their changes are not news."""


def view_run(
    run: Run,
    records: Sequence[Record] | None = None,
    *,
    shown: Sequence[RecordView] | None = None,
    before: Facts | None = None,
    decision: DecisionView | None = None,
    children: Iterable[ChildView] = (),
) -> RunView:
    """The whole view of a run that is not being driven.

    `records` are its newest records, if the caller has them, and `shown` their views. `before` are
    the facts before the newest record; without them all records are read and decided again.
    `decision` is the one to show, by default that of the newest record. `children` come from the
    journal: see `children_of`.
    """
    records = run.records if records is None else records
    if shown is None:
        shown = [record_view(run.machine.chart, record) for record in records[-RECORDS:]]
    result = run.result
    standing = _standing(run, result)
    before = _facts_before(run, records) if before is None else before
    return RunView(
        head=standing.head,
        end=standing.end,
        question=standing.question,
        next=standing.next,
        limits=standing.limits,
        task=run.facts.run.task,
        facts=tuple(fact_views(run, before, run.facts)),
        records=tuple(shown),
        left_out=shown[0].seq if shown else run.session.tally.records,
        decision=decision_of(run, records) if decision is None else decision,
        signals=tuple(str(signal) for signal in result.signals),
        warnings=result.warnings[-ERRORS:],
        errors=result.errors[-ERRORS:],
        children=tuple(children),
        editable=tuple(_editable(run)),
        states=tuple(run.machine.spec.states),
        labels=labels_of(run),
        breakpoints=tuple(point.text for point in run.breakpoints),
        refusals=refusals_of(run, run.session.tally.records),
    )


def standing_of(run: Run) -> StandingView:
    """The status of a run. Reads none of its records."""
    return _standing(run, run.result)


def _standing(run: Run, result: Result) -> StandingView:
    return StandingView(
        head=head_of(run),
        end=_end(run, result),
        question=_question(run, result),
        next=_next_action(run, result),
        limits=tuple(budgets(run.machine.chart, run.facts)),
    )


def head_of(run: Run) -> RunHead:
    """The part of a view that changes while a run is driven."""
    position, spec = run.session.position, run.machine.spec
    facts, status = position.facts, MOVED if run.moved_to else run.status
    top = position.signals.highest
    usage = facts.usage
    spent = [say_count(facts.run.steps, "step")]
    if usage.llm_calls:
        spent += [say_count(usage.llm_calls, "model call"), usage.tokens]
    return RunHead(
        machine=run.machine.name,
        title=spec.title or run.machine.name,
        run=run.id,
        state=run.state,
        status=status,
        step=facts.run.steps + 1,
        spent=", ".join(spent),
        phase=phase_of(
            status, top, lost=facts.unfinished, asks=position.status == "paused"
            and question_of(run.session) is not None, wakes=position.wake_at is not None,
        ).name,
        at=last_state(run.state, run.session.tally.path),
    )  # fmt: skip


def _end(run: Run, result: Result) -> EndView | None:
    if not (run.ended or run.moved_to):
        return None
    return EndView(
        result.kind, result.explain(), tuple(outcome_lines(result)), result.output, cure_of(result)
    )


# what comes next ----------------------------------------------------------------------------


def _question(run: Run, result: Result) -> QuestionView | None:
    if run.ended or not (result.events or result.question):
        return None
    question = question_of(run.session)
    shown = None if question is None else question.begin()
    return QuestionView(
        text=(result.question or "") if shown is None else shown.text,
        about="" if shown is None else shown.about,
        rest=0 if question is None else question.rest,
        whole=question,
        wait=result.wait or "",
        due=None if question is None else question.due,
        answers=tuple(answer_views(run, question)),
        since=float(run.session.row.updated),
    )


def _next_action(run: Run, result: Result) -> NextAction | None:
    if run.ended or run.moved_to or result.events:
        return None
    state = run.machine.spec.states.get(run.state)
    if state is None or state.action is None:
        return NextAction("")
    covering = run.machine.chart.rules_at(run.state)
    return NextAction(
        action=state.action.name,
        about=state.action.about,
        args=tuple((name, _source_text(arg)) for name, arg in state.args.items()),
        edges=tuple(_edges_after(run)),
        rules=None if covering is None else len(covering.numbers),
    )


def _source_text(arg: Given) -> str:
    """A field of `with` as the file writes it."""
    value: Any = arg.value
    if isinstance(value, (Expression, Template)):
        return value.text
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        given = {name: Given("constant", part) for name, part in parts.items()}
        return ", ".join(f"{name}: {_source_text(part)}" for name, part in given.items())
    return value if isinstance(value, str) else json_text(value)


def _edges_after(run: Run) -> Iterator[EdgeView]:
    """The edges that are tried after the action, in order."""
    event = run.machine.chart.event("advance")
    for edge in event.at(run.state) if event is not None else ():
        guard = " and ".join(g.__name__ for g in edge.guards) or "otherwise"
        label = label_of(run.machine.spec, edge.dest, run.facts) if edge.dest else ""
        yield EdgeView(guard, edge.dest or "(back)", label)


# facts --------------------------------------------------------------------------------------


class _Fact(NamedTuple):
    """One fact, or one entry of a fact of type map, at two moments."""

    name: str
    type: Type
    before: Any
    now: Any
    root: str
    """The name of the fact itself."""


def fact_views(run: Run, before: Facts, now: Facts) -> Iterator[FactView]:
    """The facts at one moment, each with its earlier value."""
    # The facts that rules and edges read.
    spec = run.machine.spec
    guards = [rule.when for rule in spec.rules]
    guards += [edge.when for edge in spec.edges() if edge.when is not None]
    guarded = frozenset(name for guard in guards for name in guard.reads)
    for fact in _split_facts(run, before, now):
        yield FactView(
            name=fact.name,
            value=say_value(fact.now, fact.type),
            before=say_value(fact.before, fact.type),
            changed=fact.now != fact.before,
            clock=fact.root in _NEVER_NEWS,
            guarded=fact.root in guarded,
            empty=not fact.now,
            about=FACTS[fact.root].about if fact.root in FACTS else "",
            entries=tuple(_entries(fact)),
        )


def _entries(fact: _Fact) -> Iterator[EntryView]:
    now, before = cast("object", fact.now), cast("object", fact.before)
    if now != before and isinstance(now, Mapping):
        was = cast("Mapping[str, Any]", before if isinstance(before, Mapping) else {})
        for key, part in cast("Mapping[str, Any]", now).items():
            yield EntryView(f"{fact.name}.{key}", say_value(part), say_value(was.get(key)))


def _split_facts(run: Run, before: Facts, now: Facts) -> Iterator[_Fact]:
    """All facts at two moments, those of type map split into their entries."""
    for root, section in run.machine.spec.roots.items():
        for field, type in section.fields:
            name = f"{root}.{field}"
            was, value = fact_value(before, name), fact_value(now, name)
            kind = FACTS[name].type if name in FACTS else type
            if kind.kind == "map" and isinstance(was, dict) and isinstance(value, dict):
                of, entries = cast(dict[str, Any], was), cast(dict[str, Any], value)
                for entry, amount in entries.items():
                    yield _Fact(f"{name}.{entry}", kind.of or ANY, of.get(entry), amount, name)
            else:
                yield _Fact(name, type, was, value, name)


def _facts_before(run: Run, records: Sequence[Record]) -> Facts:
    if not records:
        return run.facts
    return refold_last(run.machine.chart, records, run.id).before.facts


def _editable(run: Run) -> Iterator[EditableView]:
    """Limits and variables, each with its value as a user would type it."""
    spec, facts = run.machine.spec, run.facts
    for root, declared, values in (
        ("limits", spec.limits, facts.limits),
        ("vars", spec.vars, facts.vars),
    ):
        for name, one in declared.items():
            text = _as_typed(one.type, values.get(name))
            yield EditableView(f"{root}.{name}", str(one.type), text)


def _as_typed(type: Type, value: object) -> str:
    """A value as a user would type it for this type."""
    if value is None:
        return "off"
    if type.kind == "duration" and isinstance(value, (int, float)):
        return write_duration(value)
    if type.kind == "fraction" and isinstance(value, (int, float)):
        return f"{value * 100:.10g}%"
    if isinstance(value, str):
        return value
    return json_text(value)


# children -----------------------------------------------------------------------------------


async def children_of(journal: Journal, run_id: str) -> tuple[ChildView, ...]:
    """The newest child runs of a run, oldest first."""
    prefix = f"{run_id}{CHILD_MARK}"
    rows = await journal.rows(parent=run_id, prefix=prefix, limit=CHILDREN)
    stands = await stands_of(journal, rows)
    return tuple(
        ChildView(row.run_id, row.machine, row.status, row.reason, stands[row.run_id].phase.name)
        for row in reversed(rows)
    )


# records and decisions ----------------------------------------------------------------------


def record_view(chart: Chart, record: Record) -> RecordView:
    """The view of one record."""
    view = RecordView.of(chart, record)
    return replace(view, state="") if record.kind == "start" else view


def decision_of(run: Run, records: Sequence[Record], seq: int | None = None) -> DecisionView | None:
    """The decision of a record, by default the newest; None if there are no records."""
    if not records:
        return None
    number = records[-1].seq if seq is None else seq
    return DecisionView(number, run.why(number))
