"""The figures of many runs: distributions, and a line for each state, limit, reason and failure.

Belongs here: values and their plain data. Never: folding records (`gather`), tables, plots.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.core.reasons import ResultKind
from chartloop.run.recorded import Unread
from chartloop.studies.format import percent

LOOSE = 0.5
"""A limit is reported as never near if no run used this share of it."""
ENOUGH = 10
"""Minimum number of runs for such a report."""


@dataclass(frozen=True)
class Dist:
    """A distribution: the sorted values, with count, sum and quantiles."""

    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[float]) -> Dist:
        """Make a distribution of values in any order."""
        return cls(tuple(sorted(values)))

    @property
    def n(self) -> int:
        """The number of values."""
        return len(self.values)

    @cached_property
    def total(self) -> float:
        """The sum of the values."""
        return sum(self.values)

    @property
    def median(self) -> float:
        """The median; 0 without values."""
        return statistics.median(self.values) if self.values else 0.0

    @property
    def p95(self) -> float:
        """The least value that 95 % of the values do not exceed; 0 without values."""
        return self.values[max(0, -(-95 * self.n // 100) - 1)] if self.values else 0.0

    @property
    def most(self) -> float:
        """The greatest value; 0 without values."""
        return self.values[-1] if self.values else 0.0

    def to_dict(self) -> dict[str, float]:
        """Plain data: the figures, without the values."""
        return {
            "n": self.n, "total": self.total, "median": self.median, "p95": self.p95,
            "max": self.most,
        }  # fmt: skip


class ReasonLine(NamedTuple):
    """A reason and the number of runs that stopped for it. Empty for runs that have not ended."""

    reason: str
    kind: ResultKind
    runs: int
    share: float


@dataclass(frozen=True)
class StateLine:
    """The figures of one state over all runs. Times in seconds, cost in USD."""

    state: str
    action: str
    runs: int
    """The number of runs in which the state acted or waited."""
    failed: int
    retries: int
    time: Dist
    """The durations of its actions."""
    tokens: Dist
    usd: Dist
    """The cost of its actions, where the price is known."""
    calls: int
    """The number of model and tool calls."""
    waits: Dist
    """The pauses of runs there: for a person, a child or a back-off."""

    @property
    def actions(self) -> int:
        """The number of finished actions."""
        return self.time.n

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "state": self.state, "action": self.action, "runs": self.runs,
            "actions": self.actions, "failed": self.failed, "retries": self.retries,
            "calls": self.calls, "time": self.time.to_dict(), "tokens": self.tokens.to_dict(),
            "usd": self.usd.to_dict(), "waits": self.waits.to_dict(),
        }  # fmt: skip


@dataclass(frozen=True)
class MarginLine:
    """How near runs came to one bound, as shares of it: 1 is reached."""

    fact: str
    bound: str
    """The bound as the file writes it: ``limits.steps``, ``50``."""
    where: tuple[str, ...]
    """The rules and edges that compare the fact with it."""
    values: tuple[str, ...]
    """The formatted values of the bound in these runs; several where runs differ."""
    end: Dist
    peak: Dist
    stopped: int
    """The number of runs that it stopped."""

    @property
    def text(self) -> str:
        """The comparison: ``run.steps ≥ limits.steps``."""
        return f"{self.fact} ≥ {self.bound}"

    @property
    def runs(self) -> int:
        """The number of runs in which the fact was compared with it."""
        return self.peak.n

    @property
    def says(self) -> str:
        """A remark: the share of runs that it stops, or that no run comes near; else empty."""
        if self.stopped:
            return f"stops {percent(self.stopped / self.runs)}"
        if self.runs >= ENOUGH and self.peak.most < LOOSE:
            return "never near"
        return ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "fact": self.fact, "bound": self.bound, "where": list(self.where),
            "values": list(self.values), "end": self.end.to_dict(), "peak": self.peak.to_dict(),
            "stopped": self.stopped, "says": self.says or None,
        }  # fmt: skip


class FailureLine(NamedTuple):
    """One kind of failure, with its counts."""

    category: str
    state: str
    what: str
    """The tool that failed, or the kind of the failure."""
    times: int
    runs: int
    message: str
    """The message of the first one."""


@dataclass(frozen=True)
class Figures:
    """All figures of one machine's runs. Times in seconds, cost in USD."""

    machine: str
    runs: int
    reasons: tuple[ReasonLine, ...]
    totals: dict[str, Dist]
    """The totals of whole runs: `steps`, `llm_calls`, `tool_calls`, `tokens`, `usd`, `elapsed`,
    `working`, `waiting`. `usd` leaves out runs without a known price."""
    states: tuple[StateLine, ...]
    margins: tuple[MarginLine, ...]
    failures: tuple[FailureLine, ...]
    unfolded: tuple[str, ...] = ()
    """The runs without margins: they cannot be decided again as they were recorded."""
    unread: tuple[Unread, ...] = ()
    """The runs that are not counted, each with the reason."""


TOTALS: Mapping[str, str] = {
    "steps": "", "llm_calls": "", "tool_calls": "", "tokens": "", "usd": "USD", "elapsed": "s",
    "working": "s", "waiting": "s",
}  # fmt: skip
"""The totals of a run, each with its unit."""
