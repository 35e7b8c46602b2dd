"""The schemas inside a schema, and where a `$ref` leads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

ONE = frozenset(
    "not if then else items contains additionalProperties propertyNames unevaluatedItems"
    " unevaluatedProperties contentSchema".split()
)
"""Keywords whose value is a schema."""
MANY = frozenset("allOf anyOf oneOf prefixItems".split())
"""Keywords whose value is a list of schemas."""
NAMED = frozenset("properties patternProperties dependentSchemas $defs definitions".split())
"""Keywords whose value maps names to schemas."""
Place = tuple[tuple[str | int, ...], Mapping[str, Any]]
"""A schema, and the path that leads to it."""


def subschemas(schema: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """A schema and all inside it, each with its path. A list of names is not a schema."""
    waiting = [(path, schema)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        given = cast(Mapping[str, Any], schema)
        yield path, given
        waiting += reversed([((*path, *more), inner) for more, inner in children(given)])


def children(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The schemas straight inside a schema, each with the path that leads there."""
    for word, value in schema.items():
        if word in ONE:
            yield (word,), value
        elif word in MANY and isinstance(value, list):
            yield from (((word, n), one) for n, one in enumerate(cast(list[Any], value)))
        elif word in NAMED and isinstance(value, Mapping):
            named = cast(Mapping[str, Any], value)
            yield from (((word, name), one) for name, one in named.items())


def resolve(root: Any, ref: str) -> Any:
    """The part of the schema that a pointer leads to, or None."""
    found = root
    for part in ref.removeprefix("#").split("/")[1:]:
        name = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping):
            found = cast(Mapping[str, Any], found).get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(cast(Any, found)):
            found = cast(list[Any], found)[int(name)]
        else:
            return None
    return found
