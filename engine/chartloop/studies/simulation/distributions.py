"""Amounts: numbers that are fixed, or drawn from a distribution.

Belongs here: an amount's form in a file, its mean, its draw. Never: what it is an amount of.

    12                            always 12
    [10, 20, 20]                  one of these, each as likely as the others
    {low: 1, high: 3}             anything between, evenly
    {median: 200, p95: 800}       log-normal: half below the median, one in twenty above p95
    {counts: {0: 60%, 1: 40%}}    one of these, by weight

Durations are written as in machine files: `2s`, `1m30s`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from chartloop.core.units import write_duration

P95 = 1.6448536269514722
"""The 95th percentile of a normal distribution, in standard deviations above the mean."""
MOST_VALUES = 200
"""Maximum number of values of a learnt distribution; more are reduced to this many quantiles."""


class Amount(NamedTuple):
    """A distribution of a number: weighted values, a uniform or a log-normal distribution."""

    kind: str
    """``values``, ``even`` or ``lognormal``."""
    values: tuple[float, ...]
    """The values; low and high; or median and 95th percentile."""
    weights: tuple[float, ...] = ()
    """The weights of `values`, which sum to 1."""

    @property
    def single_value(self) -> float | None:
        """The value, if it is the only one; else None."""
        return self.values[0] if self.finite and len(self.values) == 1 else None

    @property
    def finite(self) -> bool:
        """Whether it has finitely many values."""
        return self.kind == "values"

    @property
    def mean(self) -> float:
        """Its expected value."""
        if self.kind == "values":
            return sum(v * w for v, w in zip(self.values, self.weights, strict=True))
        low, high = self.values
        if self.kind == "even":
            return (low + high) / 2
        sigma = _sigma(low, high)
        return low * math.exp(sigma * sigma / 2)

    def to_data(self, *, seconds: bool = False) -> Any:
        """The amount as a world file writes it."""
        write: Any = write_duration if seconds else _number
        if self.kind == "even":
            return {"low": write(self.values[0]), "high": write(self.values[1])}
        if self.kind == "lognormal":
            return {"median": write(self.values[0]), "p95": write(self.values[1])}
        if len(self.values) == 1:
            return write(self.values[0])
        pairs = zip(self.values, self.weights, strict=True)
        return {"counts": {str(write(v)): round(w, 6) for v, w in pairs}}


def drawing(amount: Amount) -> Callable[[Random], float]:
    """A function that draws one value, prepared once because every simulated step calls it."""
    if (value := amount.single_value) is not None:
        return lambda _: value
    if amount.finite:
        values, steps = amount.values, [*accumulate(amount.weights[:-1])]
        return lambda chance: values[bisect_right(steps, chance.random())]
    low, high = amount.values
    if amount.kind == "even":
        return lambda chance: low + (high - low) * chance.random()
    sigma = _sigma(low, high)
    return lambda chance: low * math.exp(sigma * chance.gauss(0.0, 1.0))


NOTHING = Amount("values", (0.0,), (1.0,))


def constant(value: float) -> Amount:
    """The amount that is always this value."""
    return Amount("values", (value,), (1.0,))


def weighted_values(weights: Mapping[float, float]) -> Amount:
    """The amount that is one of the keys, by weight."""
    total = sum(weights.values())
    kept = {value: weight / total for value, weight in sorted(weights.items()) if weight > 0}
    return Amount("values", tuple(kept), tuple(kept.values()))


def empirical(values: Iterable[float]) -> Amount:
    """The empirical distribution of these values; above `MOST_VALUES`, of their quantiles."""
    ordered: Sequence[float] = sorted(values)
    if len(set(ordered)) > MOST_VALUES:
        step = len(ordered) / MOST_VALUES
        ordered = [ordered[int((n + 0.5) * step)] for n in range(MOST_VALUES)]
    return weighted_values(Counter(ordered))


def _sigma(median: float, p95: float) -> float:
    return math.log(p95 / median) / P95


def _number(value: float) -> int | float:
    return int(value) if value == int(value) else round(value, 6)
