"""Checks a model's JSON reply against the schema that it was asked for.

Providers enforce the schema where they can; this is the check for those that cannot. It knows
`type`, `enum`, `const`, `required`, `properties`, `additionalProperties: false` and `items`;
what else a schema says is left to the provider.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,),
    "integer": (int,), "number": (int, float), "null": (type(None),),
}  # fmt: skip


def problem_with(data: Any, schema: Mapping[str, Any], at: str = "") -> str | None:
    """What is wrong with the data, in words, or None."""
    where = at or "the reply"
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or [])
    if names and not any(_is(data, n) for n in names):
        return f"{where} is no {' or '.join(names)}"
    if "enum" in schema and data not in schema["enum"]:
        return f"{where} is none of {schema['enum']}"
    if "const" in schema and data != schema["const"]:
        return f"{where} is not {schema['const']!r}"
    if isinstance(data, dict):
        return _object(data, schema, at)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(data, list) and isinstance(schema.get("items"), dict):
        for n, item in enumerate(data):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if found := problem_with(item, schema["items"], f"{at}[{n}]"):
                return found
    return None


def _object(data: dict[str, Any], schema: Mapping[str, Any], at: str) -> str | None:
    properties: Mapping[str, Any] = schema.get("properties") or {}
    for name in schema.get("required") or ():
        if name not in data:
            return f"{at or 'the reply'} lacks `{name}`"
    for name, value in data.items():
        inner = f"{at}.{name}" if at else name
        if name in properties:
            if found := problem_with(value, properties[name], inner):
                return found
        elif schema.get("additionalProperties") is False:
            return f"`{inner}` is not asked for"
    return None


def _is(data: Any, name: str) -> bool:
    if isinstance(data, bool) and name in ("integer", "number"):
        return False
    return isinstance(data, _TYPES.get(name, (object,)))
