"""A question as a person reads it who does not know the machine: labels, and what each answer does.

Belongs here: words for states, answers and what follows them, for every face. Never: the question
itself (`run.question`), how a face looks.
Source: docs/approval.md, "What the person sees".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chartloop.api import Run
from chartloop.core.approvals import DENY, EDIT
from chartloop.core.facts import Facts
from chartloop.core.position import IN_DOUBT
from chartloop.core.types import Type
from chartloop.core.visible import cut, visible
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.run.question import Question, asked_here
from chartloop.ui.view_model.run_view import AnswerView, FieldView, shorten

LONGEST = 80
"""The most characters of a label."""
YES = frozenset(
    "accept accepted approve approved yes ok okay confirm publish send go release retry".split()
)
NO = frozenset("deny denied reject rejected no decline refuse abort cancel stop fail".split())
"""Words of answers that let something happen, and that hold it back: they are coloured alike in
every machine. Other answers have no colour."""


DOUBT = {"retry": "makes the call again", "fail": "counts it as failed"}
"""What follows the answers about a paid call in doubt."""


def label_of(spec: MachineSpec, state: str, facts: Facts) -> str:
    """The label of a state in one line; its id if the file gives it none."""
    found = spec.states.get(state)
    if found is None or found.label is None:
        return state
    return cut(visible(" ".join(found.label.show(facts).split())), LONGEST) or state


def labels_of(run: Run) -> dict[str, str]:
    """The labels of a run's states that have one other than their id."""
    spec, facts = run.machine.spec, run.facts
    named = {state: label_of(spec, state, facts) for state in spec.states}
    return {state: label for state, label in named.items() if label != state}


def answer_views(run: Run, question: Question | None) -> Iterator[AnswerView]:
    """What the wait of a run accepts, each with its fields and what happens next."""
    chart, state, facts = _place_of(run)
    found = chart.spec.states.get(state)
    edges = {e.trigger: e.target for e in found.edges_of("on")} if found is not None else {}
    doubt = run.session.position.blocked_on == IN_DOUBT
    for event in run.result.events:
        given = run.answers.get(event) if question is None else question.fields(event)
        fields: Mapping[str, Type] = given or {}
        target = "" if doubt else edges.get(event, "")
        own = chart is run.machine.chart
        yield AnswerView(
            event,
            tuple(
                FieldView(name, str(type), type.kind, tuple(type.values), type.nullable)
                for name, type in fields.items()
            ),
            target if own else "",
            label=label_of(chart.spec, target, facts) if target else "",
            next=DOUBT.get(event, "") if doubt else _next_words(chart, state, event, target, facts),
            tone="yes" if event.lower() in YES else "no" if event.lower() in NO else "",
        )


def _place_of(run: Run) -> tuple[Chart, str, Facts]:
    """The machine and the state that ask: of this run, or of the child that waits."""
    chart, state = run.machine.chart, run.state
    if (asked := asked_here(run.session)) is not None:
        for name in asked.machines:
            if name not in chart.spec.machines:  # a changed file may have dropped the child
                return run.machine.chart, run.state, run.facts
            chart = chart.child(name)
        state = asked.state
    return chart, state, run.facts


def _next_words(chart: Chart, state: str, event: str, target: str, facts: Facts) -> str:
    """What follows an answer: ``goes on to “Use the tools”``."""
    spec = chart.spec
    found = spec.states.get(target)
    if found is None:
        return ""
    if state in spec.gates and event == EDIT:
        return "asks again with the changes; nothing is executed yet"
    label = label_of(spec, target, facts)
    words = f"{'ends with' if found.job == 'end' else 'goes on to'} “{label}”"
    if state not in spec.gates:
        return words
    does = (
        "executes it" if event != DENY else "executes nothing and tells the model, with your note"
    )
    return (
        does if label == target else f"{does}: {words}"
    )  # the states of a gate are not the file's


def card_of(run: Run, question: Question) -> dict[str, Any]:
    """A question whole, with its digest, who asks and since when, and what each answer leads to."""
    spec = run.machine.spec
    chart, state, facts = _place_of(run)
    return {
        **question.to_dict(),
        "digest": question.digest,
        "title": shorten(spec.title or run.machine.name),
        "task": shorten(run.facts.run.task),
        "place": label_of(chart.spec, state, facts),
        "since": run.session.row.updated,
        "forms": [answer.to_dict() for answer in answer_views(run, question)],
    }
