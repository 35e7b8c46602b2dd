"""The guard-language type of data that satisfies a schema.

Belongs here: the part of JSON Schema that types can express; everything else is `any`.

Source: `docs/reference/actions.md`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from chartloop.core.types import (
    ANY,
    BOOL,
    FLOAT,
    INT,
    NONE,
    STR,
    Type,
    enum_of,
    list_of,
    map_of,
    struct,
    type_of,
)
from chartloop.language.json_schema.walk import resolve

_SIMPLE: Mapping[str, Type] = {
    "string": STR, "integer": INT, "number": FLOAT, "boolean": BOOL, "null": NONE,
}  # fmt: skip
_OPTIONAL = Type("any", optional=True)
DEEPEST = 8
"""The most levels of a type; deeper ones, as in a recursive schema, are `any`."""


def type_of_schema(schema: Any, *, whole: bool = False) -> Type:
    """The type of data that satisfies a schema; an optional property is `any`, and `optional`.

    `whole`: every property with a default is present in the data.
    """
    return _Typing(schema, whole).of(schema, DEEPEST)


class _Typing(NamedTuple):
    root: Any
    whole: bool

    def of(self, schema: Any, depth: int) -> Type:
        if not isinstance(schema, Mapping) or depth < 0:
            return ANY
        given = cast(Mapping[str, Any], schema)
        ways = [
            *self._references(given, depth), *self._own(given, depth), *self._choices(given, depth)
        ]  # fmt: skip
        parts = [self.of(part, depth - 1) for part in cast(Sequence[Any], given.get("allOf", ()))]
        return _both([*ways, *parts])

    def _references(self, given: Mapping[str, Any], depth: int) -> list[Type]:
        ref = given.get("$ref")
        inside = isinstance(ref, str) and (ref == "#" or ref.startswith("#/"))
        return [self.of(resolve(self.root, str(ref)), depth - 1)] if inside else []

    def _choices(self, given: Mapping[str, Any], depth: int) -> list[Type]:
        """The type of `anyOf` and `oneOf`."""
        lists = (cast(Sequence[Any], given.get(word, ())) for word in ("anyOf", "oneOf"))
        return [_one_of([self.of(one, depth - 1) for one in ones]) for ones in lists if ones]

    def _own(self, given: Mapping[str, Any], depth: int) -> list[Type]:
        """The types of `const`, `enum` and `type`."""
        if "const" in given:
            return [_words([given["const"]])]
        if isinstance(given.get("enum"), list):
            return [_words(given["enum"])]
        kind = given.get("type")
        if isinstance(kind, list):
            kinds = [self._of_kind(str(one), given, depth) for one in cast(list[Any], kind)]
            return [_one_of(kinds)]
        if kind is None and "properties" in given:
            return [ANY]
        return [self._of_kind(kind, given, depth)] if isinstance(kind, str) else []

    def _of_kind(self, kind: str, given: Mapping[str, Any], depth: int) -> Type:
        if kind == "array":
            return list_of(
                ANY if "prefixItems" in given else self.of(given.get("items"), depth - 1)
            )
        return self._object(given, depth) if kind == "object" else _SIMPLE.get(kind, ANY)

    def _object(self, given: Mapping[str, Any], depth: int) -> Type:
        properties = cast(Mapping[str, Any], given.get("properties", {}))
        if not properties:
            free = "patternProperties" in given
            return map_of(ANY if free else self.of(given.get("additionalProperties"), depth - 1))
        there = {*cast(Sequence[str], given.get("required", ()))}
        if self.whole:
            there |= {n for n, s in properties.items() if isinstance(s, Mapping) and "default" in s}
        fields = {
            n: self.of(s, depth - 1) if n in there else _OPTIONAL for n, s in properties.items()
        }  # fmt: skip
        return struct(fields, keyed=True)


def _words(values: Sequence[Any]) -> Type:
    """The type of a value that is one of these."""
    found = [v for v in values if v is not None]
    if found and all(isinstance(v, str) for v in found):
        made = enum_of(*found)
    else:
        made = _same(type_of(v) for v in found) if found else NONE
    return made.maybe() if found and len(found) < len(values) else made


def _one_of(types: Sequence[Type]) -> Type:
    """The type of a value that has any of these types."""
    known = [t.without_none() for t in types if t.kind != "none"]
    if not known:
        return NONE if types else ANY
    made = _same(known)
    return made.maybe() if len(known) < len(types) or any(t.nullable for t in types) else made


def _same(types: Iterable[Type]) -> Type:
    found = list(dict.fromkeys(types))
    if len(found) == 1:
        return found[0]
    if {t.kind for t in found} == {"enum"}:
        return enum_of(*dict.fromkeys(v for t in found for v in t.values))
    return FLOAT if {t.kind for t in found} == {"int", "float"} else ANY


def _both(types: Sequence[Type]) -> Type:
    """The type of a value that has all of these: with the merged fields, or the first known."""
    found = [t for t in types if t.kind != "any"]
    if len(found) < 2:
        return found[0] if found else ANY
    if all(t.kind == "struct" for t in found):
        fields: dict[str, Type] = {}
        for one in found:
            for name, type in one.fields:
                other = fields.get(name, ANY)
                fields[name] = type if other.kind == "any" else other
        return struct(fields, keyed=True)
    return found[0] if all(t.nullable for t in found) else found[0].without_none()
