"""What a sample says of a whole: shares with their confidence, quantiles.

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
    """How many of how many, and between which shares the true one lies, with 95% confidence."""

    count: int  # pyright: ignore[reportIncompatibleMethodOverride]  so many of so many
    of: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share that was seen."""
        return self.count / self.of if self.of else 0.0


def share(count: int, of: int) -> Share:
    """Wilson's score interval: it holds for shares near 0 and 1, too."""
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
    """How a quantity is spread over runs."""

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
    """How values are spread; None where there is none."""
    if not values:
        return None
    found, count = sorted(values), len(values)
    mean = math.fsum(found) / count
    square = math.fsum((value - mean) ** 2 for value in found) / max(count - 1, 1)
    return Spread(
        mean, math.sqrt(square), quantile(found, 0.5), quantile(found, 0.95), found[-1], count
    )


def quantile(found: Sequence[float], share: float) -> float:
    """The least of sorted values that so large a share does not exceed."""
    return found[max(0, math.ceil(share * len(found)) - 1)]
