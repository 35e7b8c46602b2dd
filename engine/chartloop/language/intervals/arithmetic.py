"""Operators on ranges: every result at run time lies in the resulting range.

Integers are added, multiplied and divided exactly, as in Python. For floats, rounding keeps the
order of results, so the ends of a range follow from the ends of its operands; and it changes a
result by less than one step, so each end is moved outwards by one step. An integer without an
exact float counts as the floats on both sides. An operation that raises has no result, so it is
not covered.

Belongs here: numbers. Never: expressions, facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chartloop.language.intervals.interval import INF, Range

Number = int | float
_EXACT = 2**53
"""Up to this value every integer has an exact float."""


def arithmetic(op: str, a: Range, b: Range, *, whole: bool) -> Range:
    """The range of ``a op b``. `whole`: operands and result are integers."""
    if not whole:
        a, b = _floats(a), _floats(b)
    match op:
        case "+":
            return _make_range(whole, a.low + b.low, a.high + b.high)
        case "-":
            return arithmetic("+", a, negative(b), whole=whole)
        case "*":
            return _corners(a, b, _times, whole)
        case "/" | "//" if b.low <= 0 <= b.high:
            return Range()  # unbounded near a divisor of 0
        case "/":
            return _corners(a, b, _over, False)
        case "//":
            return (
                _corners(a, b, _floor_quotient, True)
                if whole
                else _floor(_corners(a, b, _over, False))
            )
        case "%":
            return _modulo(a, b, whole)
        case _:
            return Range()


def negative(a: Range) -> Range:
    """The range of ``-a``."""
    return Range(-a.high, -a.low)


def absolute(a: Range) -> Range:
    """The range of ``abs(a)``."""
    ends = (abs(a.low), abs(a.high))
    return Range(0 if a.low <= 0 <= a.high else min(ends), max(ends))


def round_range(a: Range, places: int | None) -> Range:
    """The range of ``round(a)``, or of ``round(a, places)``."""
    if places is None:
        return Range(_whole(round, a.low), _whole(round, a.high))
    return Range(a.low - 1, a.high + 1)


def extreme(name: str, ranges: Sequence[Range]) -> Range:
    """The range of ``min`` or ``max`` of several."""
    pick = min if name == "min" else max
    return Range(pick(r.low for r in ranges), pick(r.high for r in ranges))


# ends ---------------------------------------------------------------------------------------


def _make_range(whole: bool, low: Number, high: Number) -> Range:
    if whole:
        return Range(low, high)
    return Range(math.nextafter(low, -INF), math.nextafter(high, INF))


def _corners(a: Range, b: Range, apply: Callable[[Number, Number], Number], whole: bool) -> Range:
    """The range of a monotonic operation: its ends come from the ends of the operands."""
    ends = [apply(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return _make_range(whole, min(ends), max(ends))


def _modulo(a: Range, b: Range, whole: bool) -> Range:
    """The range of ``%``, whose sign is that of the right side; a float may round up to it."""
    step = 1 if whole else 0
    low, high = min(b.low + step, 0), max(b.high - step, 0)
    if a.low >= 0 and b.low >= 0:
        high = min(high, a.high)
    return Range(low, high)


def _floor(a: Range) -> Range:
    return Range(_whole(math.floor, a.low), _whole(math.floor, a.high))


def _whole(how: Callable[[Number], int], end: Number) -> Number:
    return how(end) if math.isfinite(end) else end


def _floats(a: Range) -> Range:
    """The range in floats: an integer without an exact float becomes the next ones outwards."""
    return Range(_float(a.low, -INF), _float(a.high, INF))


def _float(end: Number, outwards: float) -> float:
    if abs(end) <= _EXACT or isinstance(end, float):
        return float(end)
    try:
        return math.nextafter(float(end), outwards)
    except OverflowError:
        # beyond the largest float on one side, the end of what floats hold on the other
        return outwards if (end > 0) == (outwards > 0) else math.nextafter(-outwards, outwards)


def _times(x: Number, y: Number) -> Number:
    return 0 if x == 0 or y == 0 else x * y


def _over(x: Number, y: Number) -> Number:
    return 0 if math.isinf(y) else x / y


def _floor_quotient(x: Number, y: Number) -> Number:
    if math.isinf(y):
        return 0 if x == 0 or (x > 0) == (y > 0) else -1
    return x // y if math.isfinite(x) else x * y
