"""Values for limits, variables and memory blocks from a caller, checked like the file's own.

Source: `docs/language.md`, "Expressions"
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from chartloop.core.errors import LimitError, nearest
from chartloop.core.strict_json import LARGEST, unfits
from chartloop.core.types import Type, accepts
from chartloop.core.units import say_fraction
from chartloop.core.visible import cut
from chartloop.language.readers.quantities import coerce
from chartloop.language.spec import MachineSpec


def limit_value(spec: MachineSpec, name: str, value: Any) -> Any:
    """Check a value for a limit; None switches it off. Raises `LimitError` if it does not fit."""
    limit = spec.limits.get(name)
    if limit is None:
        raise LimitError(
            f"machine `{spec.name}` has no limit `{name}`", hint=nearest(name, spec.limits)
        )
    _refuse_unfit(f"limit `{name}`", value)
    if value is None or value == "off":
        if not limit.type.nullable:
            raise LimitError(
                f"limit `{name}` cannot be switched off",
                hint=f"declare it as `{{type: {limit.type}, value: ...}}`",
            )
        return None
    fits, made = coerce(limit.type, value)
    if not fits or (limit.type.nonneg and isinstance(made, (int, float)) and made < 0):
        given = cut(str(value), 80)
        raise LimitError(f"limit `{name}` is {limit.type.without_none()}: `{given}` is not")
    if isinstance(made, (int, float)) and made > LARGEST:
        raise LimitError(f"limit `{name}` is at most {LARGEST:,}")
    if limit.type.kind == "fraction" and made > 1 and _lacks_percent_sign(value):
        message = f"limit `{name}` is a fraction: `{value}` would be {say_fraction(made)}"
        raise LimitError(message, hint=f"write `{value}%`")
    return made


def raised_limits(spec: MachineSpec, given: Mapping[str, Any]) -> list[str]:
    """The limits of the file that checked values would raise, or switch off."""
    raised: list[str] = []
    for name, value in given.items():
        own, made = spec.limits[name].value, limit_value(spec, name, value)
        if own is not None and (made is None or made > own):
            raised.append(name)
    return raised


def _lacks_percent_sign(value: Any) -> bool:
    """Whether a value may be a percentage without its sign; a computed float is taken literally."""
    return isinstance(value, int) or (isinstance(value, str) and not value.strip().endswith("%"))


def var_value(spec: MachineSpec, name: str, value: Any) -> Any:
    """Check a value for a variable. Raises `LimitError` if it does not fit."""
    var = spec.vars.get(name)
    if var is None:
        raise LimitError(
            f"machine `{spec.name}` has no variable `{name}`", hint=nearest(name, spec.vars)
        )
    _refuse_unfit(f"variable `{name}`", value)
    fits, made = (True, value) if accepts(var.type, value) else coerce(var.type, value)
    if not fits:
        raise LimitError(f"variable `{name}` is {var.type}: `{cut(str(value), 80)}` is not")
    _refuse_unfit(f"variable `{name}`", made)  # a text may be a number
    return tuple(cast(list[Any], made)) if isinstance(made, list) else made


def _refuse_unfit(what: str, value: Any) -> None:
    for at, why, is_number in unfits(value):
        if is_number:  # Python, notebooks and the command line may give any text
            raise LimitError(f"{what}{at and f' at {at}'}: {why}")


def block_value(spec: MachineSpec, name: str, value: Any) -> str:
    """Check a text for a memory block. Raises `LimitError` if it does not fit."""
    block = spec.memory.get(name)
    if block is None:
        raise LimitError(
            f"machine `{spec.name}` has no memory block `{name}`", hint=nearest(name, spec.memory)
        )
    if not isinstance(value, str):
        raise LimitError(f"memory block `{name}` is a text: `{value}` is not")
    if block.limit is not None and len(value) > block.limit:
        raise LimitError(
            f"memory block `{name}` may hold {block.limit} characters, this has {len(value)}"
        )
    return value


def read_value(type: Type, text: str) -> Any:
    """Read a value of this type from a text.

    For `str` the text itself; else JSON, or a quantity as in files (``30m``, ``95%``). A text
    that is neither is returned unchanged, for the later check to refuse.
    """
    if type.kind in ("str", "enum"):
        return None if type.nullable and text == "null" else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    if accepts(type, value) and not (type.kind == "any" and value is None):
        return value
    fits, made = coerce(type, text)
    return made if fits else value
