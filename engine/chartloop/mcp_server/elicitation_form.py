"""A run's question as a form of the protocol, and what came back as an answer.

A form is flat: texts, numbers, truth values and choices. A wait takes one of several events, each
with fields of its own, so that the form holds a choice of the event and the fields of all of them.
A field of another type is asked for as JSON.

Belongs here: question to form, form to answer. Never: sending either.
Source: Model Context Protocol, "Elicitation", the schemas that a form may have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from chartloop.core.errors import AnswerError
from chartloop.core.types import Type
from chartloop.run.question import Question

Json = dict[str, Any]
_PLAIN = {
    "str": "string", "int": "integer", "float": "number", "duration": "number",
    "fraction": "number", "bool": "boolean",
}  # fmt: skip


class Form(NamedTuple):
    """A form: its text, its schema, and the name of the field that holds the event."""

    message: str
    schema: Json
    event: str
    """Empty where the wait takes one event only: to send the form is to choose it."""


def form_of(question: Question) -> Form:
    """The form that asks a question."""
    answers = question.answers
    event = _event_field(answers)
    fields: Json = {}
    if event:
        fields[event] = {
            "type": "string", "title": "Answer", "enum": list(answers),
            "description": "What the run continues with.",
        }  # fmt: skip
    for name in dict.fromkeys(name for taken in answers.values() for name in taken):
        fields[name] = _field(name, answers)
    required = [event] if event else [n for n, t in _only(answers).items() if not t.nullable]
    schema: Json = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    return Form(question.text, schema, event)


def read_form(question: Question, content: Mapping[str, Any]) -> tuple[str, Json]:
    """The event of a filled form, and its data. `AnswerError` for one that names no event.

    Whether the data fit is the run's to say.
    """
    answers, field = question.answers, _event_field(question.answers)
    event = str(content.get(field, "")) if field else next(iter(answers))
    if event not in answers:
        listed = ", ".join(f"`{known}`" for known in answers)
        raise AnswerError(f"`{event}` is not one of the answers", hint=f"choose {listed}")
    taken = answers[event]
    return event, {
        name: _value(type, content[name])
        for name, type in taken.items()
        if name in content and not (content[name] is None and not type.nullable)
    } | {name: None for name, type in taken.items() if name not in content and type.nullable}


def _only(answers: Mapping[str, Mapping[str, Type]]) -> Mapping[str, Type]:
    return next(iter(answers.values()), dict[str, Type]())


def _event_field(answers: Mapping[str, Mapping[str, Type]]) -> str:
    """The name of the field for the event: one that no event has as its own."""
    if len(answers) == 1:
        return ""
    taken, name = {field for fields in answers.values() for field in fields}, "answer"
    while name in taken:
        name += "_"
    return name


def _field(name: str, answers: Mapping[str, Mapping[str, Type]]) -> Json:
    types = {event: fields[name] for event, fields in answers.items() if name in fields}
    shapes = {json.dumps(_shape(type), sort_keys=True): _shape(type) for type in types.values()}
    shape = next(iter(shapes.values())) if len(shapes) == 1 else {"type": "string"}
    hints = [f"for {', '.join(f'`{event}`' for event in types)}"] if len(answers) > 1 else []
    hints += [f"JSON of {type}" for type in dict.fromkeys(types.values()) if not _is_plain(type)]
    return {**shape, "title": name, **({"description": "; ".join(hints)} if hints else {})}


def _is_plain(type: Type) -> bool:
    return type.kind in _PLAIN or type.kind == "enum"


def _shape(type: Type) -> Json:
    if type.kind == "enum":
        return {"type": "string", "enum": list(type.values)}
    return {"type": _PLAIN.get(type.kind, "string")}


def _value(type: Type, given: Any) -> Any:
    """What was filled in, by the type of its field: a text may stand for a value of another."""
    if not isinstance(given, str) or type.kind in ("str", "enum"):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given  # of type `any` a text too; for another the run says what it wants
