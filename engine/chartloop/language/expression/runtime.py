"""The runtime of compiled expressions: the functions that they may call, and bounds of values.

The code of an expression sees only `NAMES`, the facts and the oracle.

A float that is compared or returned must be finite, else `OverflowError` is raised, because
``inf - inf`` would make every comparison silently false. A returned integer has at most 64 bits,
so that it cannot grow from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, cast

from chartloop.core.values import Value

Oracle = Callable[[str, tuple[Any, ...]], bool]
"""Evaluates a registered guard, by its name and arguments."""
Function = Callable[[Any, Oracle], Any]

GUARD_ERRORS: tuple[type[Exception], ...] = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
)
"""The exceptions that evaluation may raise: for a division by zero, an empty list, a missing key,
a value of an undeclared type."""

MAX_ITEMS = 10_000


def no_oracle(name: str, _args: tuple[Any, ...], /) -> bool:
    """The oracle without guards: raises `LookupError`."""
    raise LookupError(f"no function is registered for the guard `{name}`")


def _few(items: Any) -> Any:
    if len(items) > MAX_ITEMS:
        raise ValueError(f"a list of {len(items):,} elements; {MAX_ITEMS:,} are allowed")
    return items


def _finite(value: float) -> float:
    if isfinite(value):
        return value
    raise OverflowError("the number is too large")


def _whole(value: int) -> int:
    if -(2**63) <= value < 2**63:
        return value
    raise OverflowError("the whole number has more than 64 bits")


def _nth(items: Any, number: int) -> Any:
    """The element at a literal index; a negative index counts from the end."""
    if -len(items) <= number < len(items):
        return items[number]
    raise IndexError(_outside(items, number))


def _element_at(items: Any, number: int) -> Any:
    """The element at a computed index; a negative index is an error, not the last element."""
    if 0 <= number < len(items):
        return items[number]
    raise IndexError(_outside(items, number))


def _outside(items: Any, number: int) -> str:
    count = len(items)
    return f"index {number} is out of range: the list has {count:,} element{'s' * (count != 1)}"


def alike(left: Any, right: Any) -> bool:
    """Whether two values are equal as plain data; a tuple equals a list."""
    return _plain(left) == _plain(right)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in cast("Sequence[Any]", value)]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, Value):
        return _plain(value.to_mapping())
    return value


NAMES: dict[str, Any] = {
    "__builtins__": {},
    "_any": any,
    "_all": all,
    "_sum": sum,
    "_len": len,
    "_min": min,
    "_max": max,
    "_abs": abs,
    "_round": round,
    "_few": _few,
    "_nth": _nth,
    "_element_at": _element_at,
    "_finite": _finite,
    "_whole": _whole,
    "_alike": alike,
}
