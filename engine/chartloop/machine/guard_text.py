"""Guards and their values in words, for signals, warnings and explanations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from chartloop.core.facts import Facts
from chartloop.core.format import say_value
from chartloop.core.plain import plain
from chartloop.core.types import Type
from chartloop.language.expression import Bound, Expression, Reading


def say_left(reading: Reading, bound: Bound | None, type: Type | None = None) -> str:
    """Return the remainder of a budget: ``19,930``. Empty for other guards.

    A budget compares a fact with a limit, or a fact that never falls with anything, and its atom
    does not hold yet. A condition such as ``len(last.tool_calls) > 0`` has no remainder.
    """
    if bound is None or reading.holds is not False or reading.margin is None:
        return ""
    if reading.margin < 0 or not (bound.grows or bound.bound_text.startswith("limits.")):
        return ""
    whole = isinstance(reading.left, int) and isinstance(reading.right, int)
    beyond = 1 if bound.strict and whole else 0  # `>` holds only past its bound
    return say_value(reading.margin + beyond, type)


def type_at(roots: Mapping[str, Type], name: str) -> Type | None:
    """Return the type of a dotted fact."""
    head, *rest = name.split(".")
    type = roots.get(head)
    for part in rest:
        type = None if type is None else (type.field(part) or type.of)
    return type


def type_of(reading: Reading, guard: Expression, roots: Mapping[str, Type]) -> Type | None:
    """Return the type of a comparison's left side: that of the longest fact name it starts with."""
    read = (f for f in guard.reads if reading.text.startswith(f))
    return type_at(roots, max(read, key=len, default=""))


def say_guard(guard: Expression, facts: Facts, oracle: Any, roots: Mapping[str, Type]) -> str:
    """Explain why a guard holds: ``run.steps >= limits.steps (50 against 50)``, atom by atom."""
    parts: list[str] = []
    for reading in guard.readings(facts, oracle):
        if not reading.holds:
            continue
        type = type_of(reading, guard, roots)
        if reading.margin is not None or (
            isinstance(reading.left, (int, float)) and reading.right is not None
        ):
            parts.append(
                f"{reading.text} ({say_value(reading.left, type)}"
                f" against {say_value(reading.right, type)})"
            )
        else:
            parts.append(reading.text)
    return "; ".join(parts) or guard.text


def fact_value(facts: Facts, name: str) -> Any:
    """Return the value of a dotted fact, as plain data."""
    value: Any = facts
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = cast(Mapping[str, Any], value).get(part)
        else:
            value = getattr(value, part, None)
    return plain(value)
