"""Puts guards and their values into words: messages of signals, warnings, explanations.

Imported by: machine.looking, machine.explain, cli.words
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from interlock.core.facts import Facts
from interlock.core.plain import plain
from interlock.core.types import Type
from interlock.core.units import say_duration, say_elapsed, say_fraction, say_number
from interlock.language.expression import Bound, Expression, Reading

_LONGEST = 60


def say_value(value: Any, type: Type | None = None) -> str:
    """A fact's value as people write it: ``4 min 10 s``, ``95%``, ``1,000,000``, ``off``."""
    kind = type.kind if type is not None else ""
    if value is None:
        return "none"
    if kind == "duration" and isinstance(value, (int, float)):
        whole = value == int(value) and value >= 60
        return say_duration(value) if whole else say_elapsed(value)
    if kind == "fraction" and isinstance(value, (int, float)):
        return say_fraction(round(value, 4))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        text = repr(plain(value))
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    return say_number(value)


def say_left(reading: Reading, bound: Bound | None, type: Type | None = None) -> str:
    """What is left until a budget is spent: ``19,930``. Empty where that says nothing.

    A budget is a fact that is held against a limit, or that never falls, and its atom does not
    hold yet. Of a signal, as of ``len(last.tool_calls) > 0``, nothing is left or used up.
    """
    if bound is None or reading.holds is not False or reading.margin is None:
        return ""
    if reading.margin < 0 or not (bound.grows or bound.bound_text.startswith("limits.")):
        return ""
    whole = isinstance(reading.left, int) and isinstance(reading.right, int)
    beyond = 1 if bound.strict and whole else 0  # `>` turns only past its bound
    return say_value(reading.margin + beyond, type)


def type_at(roots: Mapping[str, Type], name: str) -> Type | None:
    """The type of a dotted fact."""
    head, *rest = name.split(".")
    type = roots.get(head)
    for part in rest:
        type = None if type is None else (type.field(part) or type.of)
    return type


def say_guard(guard: Expression, facts: Facts, oracle: Any, roots: Mapping[str, Type]) -> str:
    """Why a guard holds: ``run.steps 50 ≥ 50 limits.steps``, one part for each atom that does."""
    parts: list[str] = []
    for reading in guard.readings(facts, oracle):
        if not reading.holds:
            continue
        fact = next((r for r in sorted(guard.reads) if reading.text.startswith(r)), "")
        type = type_at(roots, fact)
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
    """The value of a dotted fact, as plain data."""
    value: Any = facts
    for part in name.split("."):
        if isinstance(value, Mapping):
            value = cast(Mapping[str, Any], value).get(part)
        else:
            value = getattr(value, part, None)
    return plain(value)
