"""A run's question as a form: one row for each kind of field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import AnswerError
from chartloop.core.types import BOOL, DURATION, INT, STR, Type, enum_of, list_of
from chartloop.mcp_server.elicitation_form import form_of, read_form
from chartloop.run.question import Question


def question(**answers: Mapping[str, Type]) -> Question:
    return Question("3", "Well?", answers, "r", "ask")


class Case(NamedTuple):
    """A question, a filled form, and the answer that it is."""

    id: str
    question: Question
    content: Mapping[str, Any]
    event: str
    data: Mapping[str, Any]


CASES = [
    Case("one-event-needs-no-choice", question(go={}), {}, "go", {}),
    Case("fields-of-the-event", question(go={"n": INT}), {"n": 3}, "go", {"n": 3}),
    Case(
        "fields-of-other-events-are-left-out",
        question(yes={}, no={"why": STR}),
        {"answer": "yes", "why": "because"},
        "yes",
        {},
    ),
    Case(
        "a-field-may-be-called-answer",
        question(yes={"answer": STR}, no={}),
        {"answer_": "yes", "answer": "42"},
        "yes",
        {"answer": "42"},
    ),
    Case(
        "json-for-what-a-form-has-no-field-for",
        question(go={"tags": list_of(STR)}),
        {"tags": '["a", "b"]'},
        "go",
        {"tags": ["a", "b"]},
    ),
    Case(
        "two-types-of-one-name",
        question(a={"x": INT}, b={"x": STR}),
        {"answer": "a", "x": "7"},
        "a",
        {"x": 7},
    ),
    Case("may-be-missing", question(go={"n": INT.maybe()}), {}, "go", {"n": None}),
    Case("null-is-left-out", question(go={"n": INT}), {"n": None}, "go", {}),
    Case("no-json", question(go={"n": list_of(INT)}), {"n": "["}, "go", {"n": "["}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_filled_form_is_an_answer(case: Case) -> None:
    assert read_form(case.question, case.content) == (case.event, case.data)


def test_an_event_that_the_question_does_not_take() -> None:
    with pytest.raises(AnswerError, match="`maybe` is not one of the answers"):
        read_form(question(yes={}, no={}), {"answer": "maybe"})


def test_a_form_has_only_what_a_form_may_have() -> None:
    fields = {
        "s": STR, "i": INT, "d": DURATION, "b": BOOL, "e": enum_of("red", "green"),
        "l": list_of(INT),
    }  # fmt: skip
    form = form_of(question(go=fields))
    kinds = {name: shape["type"] for name, shape in form.schema["properties"].items()}
    assert kinds == {
        "s": "string", "i": "integer", "d": "number", "b": "boolean", "e": "string", "l": "string",
    }  # fmt: skip
    assert form.schema["properties"]["e"]["enum"] == ["red", "green"]
    assert form.schema["properties"]["l"]["description"] == "JSON of list[int]"
    assert form.schema["required"] == list(fields)
