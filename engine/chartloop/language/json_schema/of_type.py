"""The JSON Schema of a type, for other programs: of a variable, a field or an output.

Every value that `accepts` allows satisfies the schema, as JSON. `typed` does the reverse.

Belongs here: the schemas of types. Never: text for people.
"""

from __future__ import annotations

from typing import Any

from chartloop.core.types import Type

_NUMBERS = {"int": "integer", "float": "number", "duration": "number", "fraction": "number"}


def schema_of_type(type: Type) -> dict[str, Any]:
    """The schema of a type by 2020-12. A duration is in seconds, a fraction a share of 1."""
    schema = _of(type)
    if type.nullable and schema and type.kind != "none":
        return {"anyOf": [schema, {"type": "null"}]}
    return schema


def _of(type: Type) -> dict[str, Any]:
    match type.kind:
        case "int" | "float" | "duration" | "fraction":
            return {"type": _NUMBERS[type.kind]}
        case "bool":
            return {"type": "boolean"}
        case "str":
            return {"type": "string"}
        case "enum":
            return {"type": "string", "enum": list(type.values)}
        case "none":
            return {"type": "null"}
        case "list":
            inner = {} if type.of is None else schema_of_type(type.of)
            return {"type": "array", "items": inner} if inner else {"type": "array"}
        case "map":
            inner = {} if type.of is None else schema_of_type(type.of)
            return (
                {"type": "object", "additionalProperties": inner} if inner else {"type": "object"}
            )
        case "struct":
            return _struct(type)
        case _:
            return {}


def _struct(type: Type) -> dict[str, Any]:
    fields = {name: schema_of_type(field) for name, field in type.fields}
    schema: dict[str, Any] = {"type": "object", "properties": fields}
    if required := [name for name, field in type.fields if not field.nullable]:
        schema["required"] = required
    return schema
