"""How many ways there are to read one reply by a schema: what checking it can take.

`anyOf` and its like try several schemas on the same data; where these lead back to one another,
the ways multiply with each level of the data. They are counted here, so that no reply that a model
writes can hold the run up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chartloop.language.json_schema.validator import DEEPEST
from chartloop.language.json_schema.walk import children, resolve

WAYS = 20_000_000
"""Schemas that one part of a reply may be held against, all ways counted: about a second."""
_SAME = frozenset("allOf anyOf oneOf not if then else dependentSchemas".split())
"""Keywords whose schemas look at the same data; those of others look at what is inside it."""
_NOWHERE = frozenset({"$defs", "definitions"})


def deepest_data(schema: Mapping[str, Any]) -> int:
    """The levels of data that can be checked in time: at most `DEEPEST`, -1 for none at all."""
    counted = _Ways(schema)
    before = 0
    for depth in range(DEEPEST + 1):
        try:
            ways = counted.of(schema, depth)
        except RecursionError:  # a `$ref` to a `$ref` to a `$ref` ...
            return depth - 1
        if ways > WAYS:
            return depth - 1
        if ways == before:  # nothing leads back to itself
            break
        before = ways
    return DEEPEST


class _Ways:
    """The ways of each schema inside one, for data of each depth."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.known: dict[tuple[int, int], int] = {}

    def of(self, schema: Any, depth: int) -> int:
        """Ways to read data of a depth by a schema; one that is being counted leads nowhere."""
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
                ways += self.of(self._led_to(ref), depth)
        return min(ways, WAYS + 1)

    def _led_to(self, ref: str) -> Any:
        return resolve(self.root, ref) if ref == "#" or ref.startswith("#/") else None
