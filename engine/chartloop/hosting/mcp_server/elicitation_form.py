"""A run's question as a form of the protocol, and the filled form as an answer.

A form is flat: strings, numbers, booleans and choices. A wait accepts one of several events, each
with its own fields, so the form holds a choice of the event and the fields of all events. A field
of any other type is entered as JSON. An approval has a choice for each of several calls, and a
field for each argument that may be changed, instead of the answer's `calls`.

Belongs here: question to form, form to answer. Never: sending either.
Source: Model Context Protocol, "Elicitation", the restricted schemas of forms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from chartloop.core.approvals import ACCEPT, CALLS, DENY, EDIT, arguments_given, call_line
from chartloop.core.errors import AnswerError
from chartloop.core.types import Type
from chartloop.language.json_schema.typed import type_of_schema
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
    """Empty if the wait accepts one event only: sending the form chooses it."""


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
    typed = {event: question.fields(event) for event in answers}
    for name in dict.fromkeys(name for types in typed.values() for name in types):
        fields[name] = _field(name, typed)
    for place in _call_fields(question):
        fields[place.field] = place.shape
    required = (
        [event]
        if event
        else [
            n for n, t in next(iter(answers.values()), dict[str, Type]()).items() if not t.nullable
        ]
    )
    schema: Json = {"type": "object", "properties": fields}
    if required:
        schema["required"] = required
    message = "\n\n".join(part for part in (question.text, question.about) if part)
    return Form(message, schema, event)


def read_form(question: Question, content: Mapping[str, Any]) -> tuple[str, Json]:
    """The event of a filled form and its data. Raises `AnswerError` if the event is unknown.

    The run validates the data.
    """
    answers, field = question.answers, _event_field(question.answers)
    event = str(content.get(field, "")) if field else next(iter(answers))
    if event not in answers:
        listed = ", ".join(f"`{known}`" for known in answers)
        raise AnswerError(f"`{event}` is not one of the answers", hint=f"choose {listed}")
    event, decisions = _decisions(question, event, content) if question.calls else (event, {})
    types = question.fields(event)
    return event, decisions | {
        name: _value(type, content[name])
        for name, type in types.items()
        if name in content and not (content[name] is None and not type.nullable)
    } | {name: None for name, type in types.items() if name not in content and type.nullable}


class _CallField(NamedTuple):
    """A field about one call: the decision on it, or one of its arguments."""

    field: str
    call: Mapping[str, Any]
    argument: str
    """Empty for the decision."""
    shape: Json


def _call_fields(question: Question) -> Iterator[_CallField]:
    several = len(question.calls) > 1
    for number, call in enumerate(question.calls, 1):
        title = f"{number}. {call['name']}" if several else call["name"]
        if several:
            about = f"{call_line(call).partition(' ')[2]}. Left out: as the answer says."
            choice = {"type": "string", "enum": [ACCEPT, DENY], "title": title}
            yield _CallField(f"call_{number}", call, "", {**choice, "description": about})
        schema: Mapping[str, Any] = call.get("schema", {})
        for name in schema.get("properties", {}):
            type = type_of_schema(schema["properties"][name])
            json_of = "" if _is_plain(type) else f" JSON of {type}."
            about = f"A new value, for the answer `{EDIT}`.{json_of} Left out: it stays as it is."
            shape = {**_shape(type), "title": f"{title}: {name}", "description": about}
            yield _CallField(f"call_{number}_{name}", call, name, shape)


def _decisions(question: Question, event: str, content: Mapping[str, Any]) -> tuple[str, Json]:
    """The event that follows from the decisions on the calls, and these as the answer's `calls`.

    New arguments make an `accept` an `edit`: what was changed is never executed as it was.
    """
    words: Json = {}
    changed: Json = {}
    for one in _call_fields(question):
        if (entry := content.get(one.field)) is None:
            continue
        key, now = one.call["key"], arguments_given(one.call)
        if not one.argument:
            words[key] = entry
            continue
        value = _value(type_of_schema(one.call["schema"]["properties"][one.argument]), entry)
        if one.argument not in now or now[one.argument] != value:
            changed.setdefault(key, {"arguments": now})["arguments"][one.argument] = value
    if event == EDIT or (event == ACCEPT and changed):
        return EDIT, {CALLS: changed}
    if not words or event not in (ACCEPT, DENY):
        return event, {}
    words = {call["key"]: words.get(call["key"], event) for call in question.calls}
    if ACCEPT not in words.values():
        return DENY, {CALLS: words}
    if note := content.get("note"):  # an `accept` has none of its own: it is for those it denies
        denial = {"decision": DENY, "note": note}
        words = {key: denial if word == DENY else word for key, word in words.items()}
    return ACCEPT, {CALLS: words}


def _event_field(answers: Mapping[str, Mapping[str, Type]]) -> str:
    """The name of the field for the event, distinct from the fields of all events."""
    if len(answers) == 1:
        return ""
    fields, name = {field for fields in answers.values() for field in fields}, "answer"
    while name in fields:
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


def _value(type: Type, entry: Any) -> Any:
    """The value of a filled field: a string for a field of another type is parsed as JSON."""
    if not isinstance(entry, str) or type.kind in ("str", "enum"):
        return entry
    try:
        return json.loads(entry)
    except ValueError:
        return entry  # valid for the type `any`; for other types the run reports the error
