"""A run's question as a form: one row for each kind of field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import AnswerError
from chartloop.core.types import ANY, BOOL, DURATION, INT, STR, Type, enum_of, list_of, map_of
from chartloop.hosting.mcp_server.elicitation_form import form_of, read_form
from chartloop.run.question import Question


def question(**answers: Mapping[str, Type]) -> Question:
    return Question("3", "Well?", answers, "r", "ask")


SCHEMA = {
    "type": "object",
    "properties": {
        "item": {"type": "string"},
        "usd": {"type": "number"},
        "tags": {"type": "array"},
    },
}


def gate(*names: str, **more: Any) -> Question:
    """The question of an approval about calls with these keys."""
    calls = tuple(
        {"key": f"key-{n}", "name": "buy", "arguments": f'{{"item": "{n}", "usd": 300}}', **more}
        for n in names
    )
    by, each = {"by": STR}, {"calls": map_of(ANY).maybe()}
    answers = {"accept": {**by, **each}, "deny": {**by, "note": STR.maybe(), **each}}
    if more:
        answers["edit"] = {**by, "calls": map_of(ANY)}
    return Question("3", "May all of these be executed?", answers, "r", "approve", calls=calls)


ONE, TWO = gate("desk", schema=SCHEMA), gate("desk", "lamp", schema=SCHEMA)


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
    Case(
        "one-call-is-decided-as-the-answer-says",
        ONE,
        {"answer": "accept", "by": "eve"},
        "accept",
        {"by": "eve"},
    ),
    Case(
        "each-call-by-itself",
        TWO,
        {"answer": "deny", "by": "eve", "call_2": "accept"},
        "accept",
        {"by": "eve", "calls": {"key-desk": "deny", "key-lamp": "accept"}},
    ),
    Case(
        "no-call-accepted-is-deny",
        TWO,
        {"answer": "accept", "by": "eve", "note": "no", "call_1": "deny", "call_2": "deny"},
        "deny",
        {"by": "eve", "note": "no", "calls": {"key-desk": "deny", "key-lamp": "deny"}},
    ),
    Case(
        "new-arguments-are-an-edit",
        TWO,
        {"answer": "edit", "by": "eve", "call_2_usd": 80, "call_2_tags": '["x"]'},
        "edit",
        {
            "by": "eve",
            "calls": {"key-lamp": {"arguments": {"item": "lamp", "usd": 80, "tags": ["x"]}}},
        },
    ),
    Case(
        "what-was-changed-is-never-accepted-as-it-was",
        ONE,
        {"answer": "accept", "by": "eve", "call_1_usd": 80},
        "edit",
        {"by": "eve", "calls": {"key-desk": {"arguments": {"item": "desk", "usd": 80}}}},
    ),
    Case(
        "arguments-as-they-were-are-no-change",
        ONE,
        {"answer": "accept", "by": "eve", "call_1_usd": 300, "call_1_item": "desk"},
        "accept",
        {"by": "eve"},
    ),
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


def test_the_form_of_an_approval_has_a_choice_for_each_of_several_calls() -> None:
    fields = form_of(gate("desk", "lamp")).schema["properties"]
    assert list(fields) == ["answer", "by", "note", "call_1", "call_2"]
    assert fields["call_2"]["enum"] == ["accept", "deny"]
    assert fields["call_2"]["title"] == "2. buy"
    assert fields["call_2"]["description"].startswith('{"item": "lamp", "usd": 300}')
    assert list(form_of(gate("desk")).schema["properties"]) == ["answer", "by", "note"]
    changed = form_of(ONE).schema["properties"]
    assert changed["call_1_usd"]["type"] == "number"
    assert changed["call_1_tags"]["type"] == "string"
    assert "JSON of" in changed["call_1_tags"]["description"]
