"""The JSON Schema that a file asks of a model's reply: is it one, and what type does it give.

Belongs here: the part of JSON Schema that types can say. Never: checking data against it
(`actions.reply_schema`).

Imported by: language.readers.saves, language.readers.withs
Source: design "language", section 8, `infer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chartloop.core.types import ANY, BOOL, FLOAT, INT, STR, Type, enum_of, list_of, map_of, struct
from chartloop.language.yaml.document import short

_SIMPLE: Mapping[str, Type] = {"string": STR, "integer": INT, "number": FLOAT, "boolean": BOOL}
_TYPES = frozenset({*_SIMPLE, "object", "array", "null"})
_KEYWORDS = frozenset(
    "type properties required items enum const anyOf oneOf allOf not $ref $defs minimum maximum "
    "minLength maxLength pattern minItems maxItems additionalProperties description title".split()
)


def schema_fault(value: Any) -> str | None:
    """What a field takes instead, when this is no JSON Schema; None when it is one."""
    if not isinstance(value, dict) or not _KEYWORDS & cast(dict[str, Any], value).keys():
        return "a JSON Schema: `{type: object, properties: {...}}`"
    given = cast(dict[str, Any], value)
    kinds = given.get("type", [])
    for kind in cast(list[Any], kinds) if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in _TYPES:
            said = short(str(kind))
            return f"a JSON Schema, in which `{said}` is no type: {', '.join(sorted(_TYPES))}"
    return _parts_fault(given)


def _parts_fault(given: Mapping[str, Any]) -> str | None:
    properties = given.get("properties", {})
    if not isinstance(properties, dict):
        return "a JSON Schema, in which `properties` is a mapping"
    required = given.get("required", [])
    if not isinstance(required, list) or not all(isinstance(n, str) for n in cast(Any, required)):
        return "a JSON Schema, in which `required` is a list of names"
    if not isinstance(given.get("enum", []), list):
        return "a JSON Schema, in which `enum` is a list"
    inner = [*cast(dict[str, Any], properties).values()]
    if "items" in given:
        inner.append(given["items"])
    for part in inner:
        if isinstance(part, dict) and part and (fault := schema_fault(part)):
            return fault
        if not isinstance(part, (dict, bool)):
            return "a JSON Schema, in which each property is a mapping: `{type: string}`"
    return None


def type_of_schema(schema: Any) -> Type:
    """The type of data that satisfies a schema; what may be missing is `any`."""
    if not isinstance(schema, dict):
        return ANY
    given = cast(dict[str, Any], schema)
    words = given.get("enum")
    if isinstance(words, list) and all(isinstance(w, str) for w in cast(list[Any], words)):
        return enum_of(*cast(list[str], words))
    kind = given.get("type")
    if kind == "array":
        return list_of(type_of_schema(given.get("items")))
    if kind == "object":
        return _object(given)
    return _SIMPLE.get(kind, ANY) if isinstance(kind, str) else ANY


def _object(given: Mapping[str, Any]) -> Type:
    properties = cast(dict[str, Any], given.get("properties", {}))
    if not properties:
        return map_of(type_of_schema(given.get("additionalProperties")))
    required = cast(list[Any], given.get("required", []))
    fields = {n: type_of_schema(s) if n in required else ANY for n, s in properties.items()}
    return struct(fields, keyed=True)
