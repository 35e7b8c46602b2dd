"""The cost of validating a reply: the number of ways to match it with a schema.

`anyOf` and similar keywords try several schemas on the same data; if these are recursive, the ways
multiply with each level of the data. They are counted here, so that no reply can block a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chartloop.language.json_schema.validator import DEEPEST
from chartloop.language.json_schema.walk import children, resolve

WAYS = 20_000_000
"""The most ways to match a reply, which take about a second."""
_SAME = frozenset("allOf anyOf oneOf not if then else dependentSchemas dependencies".split())
"""The keywords whose schemas apply to the same data; other schemas apply to its children."""
_NOWHERE = frozenset({"$defs", "definitions"})


def deepest_data(schema: Mapping[str, Any]) -> int:
    """The levels of data that can be validated in time: at most `DEEPEST`, -1 for none."""
    counted = _Ways(schema)
    before = 0
    for depth in range(DEEPEST + 1):
        try:
            ways = counted.of(schema, depth)
        except RecursionError:  # a `$ref` to a `$ref` to a `$ref` ...
            return depth - 1
        if ways > WAYS:
            return depth - 1
        if ways == before:  # the schema is not recursive
            break
        before = ways
    return DEEPEST


class _Ways:
    """Counts the ways of each subschema for data of each depth."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.known: dict[tuple[int, int], int] = {}

    def of(self, schema: Any, depth: int) -> int:
        """The ways to match data of a depth; a schema that is being counted adds none."""
        if not isinstance(schema, Mapping):
            return 1
        key = (id(cast(object, schema)), depth)
        if key not in self.known:
            self.known[key] = 0
            self.known[key] = self._count(cast(Mapping[str, Any], schema), depth)
        return self.known[key]

    def _count(self, schema: Mapping[str, Any], depth: int) -> int:
        ways = 1
        for path, inner in children(schema):
            if path[0] in _SAME:
                ways += self.of(inner, depth)
            elif path[0] not in _NOWHERE and depth:
                ways += self.of(inner, depth - 1)
        for word in ("$ref", "$dynamicRef"):
            ref = schema.get(word)
            if isinstance(ref, str) and ref.startswith("#"):
                whole = ref == "#" or ref.startswith("#/")
                ways += self.of(resolve(self.root, ref) if whole else None, depth)
        return min(ways, WAYS + 1)
