"""Estimates from a sample: shares with their confidence intervals, means, quantiles.

Source: E. B. Wilson, "Probable inference, the law of succession, and statistical inference",
Journal of the American Statistical Association 22 (1927).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

Z95 = 1.959963984540054
"""Standard deviations within which 95% of a normal distribution lie."""


class Share(NamedTuple):
    """A share of the runs, with the 95% confidence interval of the true share."""

    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  `count` of `of` runs
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The observed share; 0 without runs."""
        return self.count / self.of if self.of else 0.0


def share(count: int, of: int) -> Share:
    """A share with Wilson's score interval, which also holds near 0 and 1."""
    if not of:
        return Share(0, 0, 0.0, 1.0)
    p, z2 = count / of, Z95 * Z95
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * math.sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    return Share(
        count, of, 0.0 if not count else max(0.0, middle - half),
        1.0 if count == of else min(1.0, middle + half),
    )  # fmt: skip


class Spread(NamedTuple):
    """The distribution of a quantity over runs."""

    mean: float
    deviation: float
    """The standard deviation over runs."""
    median: float
    p95: float
    most: float
    runs: int

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        return self.deviation / math.sqrt(self.runs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        low, high = self.mean - Z95 * self.error, self.mean + Z95 * self.error
        return {
            "mean": self.mean, "mean_95": [low, high], "median": self.median, "p95": self.p95,
            "max": self.most, "runs": self.runs,
        }  # fmt: skip


def spread(values: Sequence[float]) -> Spread | None:
    """The distribution of values; None if there are none."""
    if not values:
        return None
    ordered, n = sorted(values), len(values)
    mean = math.fsum(ordered) / n
    variance = math.fsum((value - mean) ** 2 for value in ordered) / max(n - 1, 1)
    median, p95 = quantile(ordered, 0.5), quantile(ordered, 0.95)
    return Spread(mean, math.sqrt(variance), median, p95, ordered[-1], n)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The least of the ordered values that at least this share does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
