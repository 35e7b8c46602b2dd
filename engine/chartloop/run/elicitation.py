"""An MCP server's question during a call, as a question of the run.

The server sends a flat form; the run asks for the event `accept` with the form's fields, or for
`decline` or `cancel`. The call stays in flight while the run waits. The action is then repeated
with the answer, which the call passes to the server.

    server ─▶ Form ─▶ InputRequired ─▶ Blocked ─▶ answer ─▶ the same action, with the answer

Belongs here: the form, its fields, and the form of an answer. Never: sending either.
Source: Model Context Protocol, "Elicitation".
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

from chartloop.core.types import ANY, BOOL, FLOAT, INT, STR, Type, enum_of, list_of
from chartloop.core.values import Value
from chartloop.language.json_schema.validator import UnusableSchemaError
from chartloop.language.tool_lock import schema_trouble, server_schema

ACTIONS = ("accept", "decline", "cancel")
"""The answers to a form."""
_LONGEST = 4_000
"""The most characters of a question."""
_SIMPLE = {"string": STR, "integer": INT, "number": FLOAT, "boolean": BOOL}


class Form(Value, frozen=True, gc=False):
    """A server's question, stored as plain data while the run waits."""

    id: str
    """Equal for the same question of a repeated call, which so finds its recorded answer."""
    action: str
    """The key of the action that makes the call."""
    server: str
    text: str
    """The server's question."""
    schema: Mapping[str, Any] = {}
    """The JSON Schema of its fields."""

    def __hash__(self) -> int:
        return hash((self.action, self.id))  # `schema` is a mapping

    @property
    def question(self) -> str:
        """The text that the person reads."""
        return f"MCP server `{self.server}` asks: {self.text}"


class InputRequired(Exception):
    """A call needs an answer before it can finish. Raised by a tool, never recorded."""

    def __init__(self, form: Form, within: float) -> None:
        self.form = form
        self.within = within
        """Seconds until the answer is due."""
        super().__init__(form.question)


class RequestIds:
    """The ids of a server's requests within one tool call.

    If the call is repeated and the server repeats its requests, they get the same ids.
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def next(self, *request: Any) -> str:
        """The id of a request. Equal requests within a call get different ids."""
        text = json.dumps(request, sort_keys=True, default=str)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._times[digest] += 1
        return f"{digest}#{self._times[digest] - 1}"


def form_trouble(text: str, schema: Mapping[str, Any]) -> str:
    """Why a form cannot be shown; empty if it can."""
    if len(text) > _LONGEST:
        return f"its question is longer than {_LONGEST:,} characters"
    if why := schema_trouble(schema, "form"):
        return why
    for name, field in _properties(schema).items():
        if not isinstance(field, Mapping) or _deep(cast("Mapping[str, Any]", field)):
            return f"its field `{name}` is not a text, a number, a truth value or a choice"
    return ""


def _deep(field: Mapping[str, Any]) -> bool:
    if field.get("type") == "object" or "properties" in field:
        return True
    items = field.get("items")
    return isinstance(items, Mapping) and _deep(cast("Mapping[str, Any]", items))


def is_form(data: object) -> bool:
    """Whether recorded data is a valid form; the journal may have been edited."""
    if not isinstance(data, Mapping):
        return False
    given = cast("Mapping[str, Any]", data)
    texts = all(isinstance(given.get(name), str) for name in ("id", "action", "server", "text"))
    schema = given.get("schema")
    if not (texts and isinstance(schema, Mapping)):
        return False
    return not form_trouble(given["text"], cast("Mapping[str, Any]", schema))


def form_in(data: Mapping[str, Any]) -> Form:
    """The form in recorded data."""
    return Form(**{name: data[name] for name in Form.__struct_fields__ if name in data})


def answers_of(form: Form) -> dict[str, dict[str, Type]]:
    """The answers to a form, each with its fields. Optional fields may be None."""
    required = set(cast("list[Any]", form.schema.get("required") or ()))
    fields = {
        name: _type(field) if name in required else _type(field).maybe()
        for name, field in _properties(form.schema).items()
    }
    return {"accept": fields, "decline": {}, "cancel": {}}


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", schema.get("properties") or {})


def _type(field: Mapping[str, Any]) -> Type:
    if words := _choices(field):
        return enum_of(*words)
    if field.get("type") == "array":
        return list_of(STR)
    return _SIMPLE.get(str(field.get("type")), ANY)


def _choices(field: Mapping[str, Any]) -> list[str]:
    """The options of a choice; empty for another field."""
    if isinstance(words := field.get("enum"), list):
        return [str(word) for word in cast("list[Any]", words)]
    titled = field.get("oneOf")
    if field.get("type") == "string" and isinstance(titled, list):
        return [str(one["const"]) for one in cast("list[Any]", titled) if "const" in one]
    return []


def complete_data(form: Form, data: Mapping[str, Any]) -> dict[str, Any]:
    """An answer's data, with None for the optional fields that it leaves out."""
    left = answers_of(form)["accept"].items()
    return {name: None for name, type in left if type.nullable} | dict(data)


def content_of(form: Form, data: Mapping[str, Any]) -> dict[str, Any]:
    """The content of an accepted form for the server, with defaults and without empty fields."""
    fields = _properties(form.schema).items()
    defaults: dict[str, Any] = {n: field["default"] for n, field in fields if "default" in field}
    return defaults | {name: value for name, value in data.items() if value is not None}


def content_fault(form: Form, data: Mapping[str, Any]) -> str:
    """The error in the data of an accepted form, by its schema; empty if there is none."""
    return schema_fault(form.schema, content_of(form, data))


def schema_fault(schema: Mapping[str, Any], data: Any) -> str:
    """What is wrong with the data that a person entered, by a schema; empty if nothing is."""
    try:
        faults = server_schema(schema).faults(data)
    except UnusableSchemaError as error:
        return str(error)
    return "; ".join(str(fault).replace("the reply: ", "") for fault in faults)
