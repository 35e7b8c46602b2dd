"""Quantities in a file: `30m`, `95%`, `1_000_000`.

Source: `docs/language.md`, "The file"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from chartloop.core.strict_json import WHOLE
from chartloop.core.types import (
    ANY,
    BOOL,
    DURATION,
    FLOAT,
    FRACTION,
    INT,
    STR,
    Type,
    accepts,
    list_of,
)
from chartloop.core.units import parse_duration, parse_fraction, parse_number

_READ: Mapping[str, Callable[[str], float | None]] = {
    "int": parse_number, "float": parse_number, "fraction": parse_fraction,
    "duration": parse_duration,
}  # fmt: skip


def nonneg(type: Type) -> Type:
    """The type of a limit, whose quantities are never negative."""
    quantity = type.numeric or type.kind == "duration"
    return Type(type.kind, of=type.of, nullable=type.nullable, nonneg=quantity)


def quantity(value: Any) -> tuple[Type, Any] | None:
    """The type and value of a limit without a declared type; None if it is invalid."""
    match value:
        case bool():
            return BOOL, value
        case int() | float():
            kind = INT if isinstance(value, int) else FLOAT
            return (kind, value) if value >= 0 else None
        case list():
            return list_of(STR), tuple(cast(list[Any], value))
        case str():
            for type in (INT, FRACTION, DURATION):
                found = _READ[type.kind](value)
                if found is not None and found >= 0:
                    return type, found
            return None
        case _:
            return None


def coerce(type: Type, value: Any) -> tuple[bool, Any]:
    """Convert a value to a type, ``30m`` to a duration: whether it fits, and the result."""
    made = _as(type, value)
    return accepts(type, made), made


def _as(type: Type, value: Any) -> Any:
    if isinstance(value, str):
        found = _READ[type.kind](value) if type.kind in _READ else None
        value = value if found is None else found
    if isinstance(value, (list, tuple)):
        items = cast("list[Any] | tuple[Any, ...]", value)
        return tuple(_as(type.of or ANY, item) for item in items)
    if isinstance(value, Mapping) and type.kind == "map":
        given = cast(Mapping[str, Any], value)
        return {k: _as(type.of or ANY, v) for k, v in given.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        if type.kind in ("float", "duration", "fraction") and abs(value) <= WHOLE:
            return float(value)
    return cast(Any, value)


def doubtful(type: Type, value: Any) -> str:
    """The correct notation for a number without its unit; empty if it needs none.

    A duration in a file needs a unit, and a fraction above 1 is probably a percentage.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if type.kind == "duration":
        return f"{value}s"
    return f"{value}%" if type.kind == "fraction" and value > 1 else ""
