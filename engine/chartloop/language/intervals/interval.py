"""Intervals: the values that an expression may have, as far as they are known before a run.

A number lies in a `Range`, a yes-or-no is a `Truth`, of anything else it is only known whether
it may be None.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from chartloop.core.types import Type

INF = math.inf


class Range(NamedTuple):
    """A number from `low` to `high`. `some`: it may be there; `none`: it may be None."""

    low: float = -INF
    high: float = INF
    some: bool = True
    none: bool = False


class Truth(NamedTuple):
    """A yes-or-no: whether it may be true, and whether it may be false."""

    true: bool = True
    false: bool = True
    some: bool = True
    none: bool = False


class Other(NamedTuple):
    """Anything else."""

    some: bool = True
    none: bool = False


class Word(NamedTuple):
    """A text that is known."""

    text: str
    some: bool = True
    none: bool = False


Value: TypeAlias = Range | Truth | Word | Other

YES, NO, MAYBE = Truth(True, False), Truth(False, True), Truth()
ABSENT = Range(INF, -INF, some=False, none=True)
"""None, and nothing else: a limit that is off."""


def of_type(type: Type) -> Value:
    """All that a value of a type may be."""
    match type.kind:
        case "bool":
            return Truth(none=type.nullable)
        case "int" | "float" | "duration" | "fraction":
            return Range(0 if type.nonneg else -INF, INF, none=type.nullable)
        case _:
            return Other(none=type.nullable or type.kind in ("any", "none"))


def of_plain(value: object) -> Value:
    """A value that is known."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return YES if value else NO
    if isinstance(value, (int, float)):
        return Range(value, value)
    return Word(value) if isinstance(value, str) else Other()


def either(values: Iterable[Value]) -> Value:
    """The union of several values."""
    found = list(values)
    some, none = any(v.some for v in found), any(v.none for v in found)
    known = [v for v in found if v.some]
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
    """The value as a number; what is none may be any."""
    return value if isinstance(value, Range) else Range(none=value.none)
