"""The subschemas of a schema, and the targets of `$ref`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

ONE = frozenset(
    "not if then else items contains additionalProperties propertyNames unevaluatedItems"
    " unevaluatedProperties contentSchema".split()
)
"""The keywords whose value is a schema."""
MANY = frozenset("allOf anyOf oneOf prefixItems".split())
"""The keywords whose value is a list of schemas."""
NAMED = frozenset("properties patternProperties dependentSchemas $defs definitions".split())
"""The keywords whose value maps names to schemas."""
_OLD_ONE, _OLD_NAMED = frozenset({"additionalItems"}), frozenset({"dependencies"})
"""The same for the drafts before 2019-09, in which `items` may also be a list of schemas."""
Place = tuple[tuple[str | int, ...], Mapping[str, Any]]
"""The path of a subschema, and the subschema."""


def subschemas(schema: Any, path: tuple[str | int, ...] = ()) -> Iterator[Place]:
    """A schema and all its subschemas, each with its path."""
    waiting = [(path, schema)]
    while waiting:
        path, schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        given = cast(Mapping[str, Any], schema)
        yield path, given
        waiting += reversed([((*path, *more), inner) for more, inner in children(given)])


def children(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """The direct subschemas of a schema, each with its path."""
    for word, value in schema.items():
        if isinstance(value, list) and (word in MANY or word == "items"):
            yield from (((word, n), one) for n, one in enumerate(cast(list[Any], value)))
        elif word in ONE or word in _OLD_ONE:
            yield (word,), value
        elif (word in NAMED or word in _OLD_NAMED) and isinstance(value, Mapping):
            named = cast(Mapping[str, Any], value)
            yield from (((word, name), one) for name, one in named.items())


def resolve(root: Any, ref: str) -> Any:
    """The target of a JSON pointer in the schema, or None."""
    target = root
    for part in ref.removeprefix("#").split("/")[1:]:
        name = part.replace("%25", "%").replace("~1", "/").replace("~0", "~")
        if isinstance(target, Mapping):
            target = cast(Mapping[str, Any], target).get(name)
        elif isinstance(target, list) and name.isdecimal() and int(name) < len(cast(Any, target)):
            target = cast(list[Any], target)[int(name)]
        else:
            return None
    return target
