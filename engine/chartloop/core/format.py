"""Formatting of fact values for people."""

from __future__ import annotations

import json
from typing import Any

from chartloop.core.plain import plain
from chartloop.core.types import Type
from chartloop.core.units import say_duration, say_elapsed, say_fraction, say_number
from chartloop.core.visible import cut

_LONGEST = 60


def say_value(value: Any, type: Type | None = None) -> str:
    """A fact's value in words: ``4 min 10 s``, ``95%``, ``1,000,000``, ``none``."""
    kind = type.kind if type is not None else ""
    if value is None:
        return "none"
    if kind == "duration" and isinstance(value, (int, float)):
        whole = value == int(value) and value >= 60
        return say_duration(value) if whole else say_elapsed(value)
    if kind == "fraction" and isinstance(value, (int, float)):
        return say_fraction(round(value, 4))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return cut(json_text(value), _LONGEST)
    return say_number(value)


def json_text(value: Any, indent: int | None = None) -> str:
    """A value as JSON, which people read whatever they program in: ``["a", true, null]``."""
    return json.dumps(plain(value), ensure_ascii=False, indent=indent, default=str)
