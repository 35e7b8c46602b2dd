"""Operators on ranges: every result of the run's own arithmetic lies in the range of results.

Whole numbers are added, multiplied and divided exactly, as Python does it. Of floats two things are
used: rounding never changes the order of two results, so the ends of a range come from the ends of
its parts; and a result is rounded by less than one step, so each end is moved outwards by one. A
whole number that no float holds counts as the floats on both sides of it. An operation that raises
in the run has no result, and nothing is said of it.

Belongs here: numbers. Never: expressions, facts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from chartloop.language.intervals.interval import INF, Range

Number = int | float
_EXACT = 2**53
"""Up to here every whole number is a float."""


def arithmetic(op: str, a: Range, b: Range, *, whole: bool) -> Range:
    """The range of ``a op b``. `whole`: the result is a whole number, made from whole numbers."""
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
            return Range()  # next to 0 there is no end
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
    """The range of ``round(a)``, or of ``round(a, places)`` with none or more places."""
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
    """A result that rises or falls with each part: its ends are among those of the parts."""
    found = [apply(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return _make_range(whole, min(found), max(found))


def _modulo(a: Range, b: Range, whole: bool) -> Range:
    """Python's ``%`` has the sign of its right side; a float may be rounded up to that side."""
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
    """The range in floats: a whole number that none holds lies between two of them."""
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
