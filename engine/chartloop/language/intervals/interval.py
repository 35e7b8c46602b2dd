"""Intervals: the values that an expression may have, as far as they are known before a run.

A number lies in a `Range`, a bool is a `Truth`, a known text is a `Word`; for anything else it is
only known whether it may be None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias, cast

from chartloop.core.types import Type

INF = math.inf


class Range(NamedTuple):
    """A number from `low` to `high`. `some`: it may have a value; `none`: it may be None."""

    low: float = -INF
    high: float = INF
    some: bool = True
    none: bool = False


class Truth(NamedTuple):
    """A truth value: whether it may be true, and whether it may be false."""

    true: bool = True
    false: bool = True
    some: bool = True
    none: bool = False


class Other(NamedTuple):
    """Any other value."""

    some: bool = True
    none: bool = False
    size: int | None = None
    """The length of a known list."""


class Word(NamedTuple):
    """A known text."""

    text: str
    some: bool = True
    none: bool = False


Value: TypeAlias = Range | Truth | Word | Other

YES, NO, MAYBE = Truth(True, False), Truth(False, True), Truth()
ABSENT = Range(INF, -INF, some=False, none=True)
"""None, and nothing else: a limit that is off."""


def of_type(type: Type) -> Value:
    """The values that a type allows."""
    match type.kind:
        case "bool":
            return Truth(none=type.nullable)
        case "int" | "float" | "duration" | "fraction":
            return Range(0 if type.nonneg else -INF, INF, none=type.nullable)
        case _:
            return Other(none=type.nullable or type.kind in ("any", "none"))


def of_plain(value: object) -> Value:
    """The interval of one known value."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, (int, float)):
        return Range(value, value)
    if isinstance(value, (list, tuple)):
        return Other(size=len(cast("Sequence[object]", value)))
    return Word(value) if isinstance(value, str) else Other()


def either(values: Iterable[Value]) -> Value:
    """The union of several values."""
    union = list(values)
    some, none = any(v.some for v in union), any(v.none for v in union)
    known = [v for v in union if v.some]
    if known and all(isinstance(v, Truth) for v in known):
        truths = [v for v in known if isinstance(v, Truth)]
        return Truth(any(t.true for t in truths), any(t.false for t in truths), some, none)
    if all(isinstance(v, Range) for v in known):
        ranges = [v for v in known if isinstance(v, Range)]
        low = min((r.low for r in ranges), default=INF)
        return Range(low, max((r.high for r in ranges), default=-INF), some, none)
    if len({v for v in known if isinstance(v, Word)}) == 1 and len(set(known)) == 1:
        return known[0]
    return Other(some, none)


def number(value: Value) -> Range:
    """The value as a number; anything else becomes an unbounded range."""
    return value if isinstance(value, Range) else Range(none=value.none)
