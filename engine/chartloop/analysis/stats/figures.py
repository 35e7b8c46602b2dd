"""The figures of many runs: distributions, and a line for each state, limit, reason and failure.

Belongs here: values and their plain data. Never: folding records (`stats`), tables, plots.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from chartloop.analysis.format import percent
from chartloop.core.reasons import ResultKind
from chartloop.run.recorded import Unread

LOOSE = 0.5
"""A limit of which no run ever used so much is never near."""
ENOUGH = 10
"""Runs from which on something is said of what never happens."""


@dataclass(frozen=True)
class Dist:
    """A distribution: the values themselves, sorted, and what is usually asked of them."""

    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, values: Iterable[float]) -> Dist:
        """The distribution of some values."""
        return cls(tuple(sorted(values)))

    @property
    def n(self) -> int:
        """How many there are."""
        return len(self.values)

    @cached_property
    def total(self) -> float:
        """Their sum."""
        return sum(self.values)

    @property
    def median(self) -> float:
        """The middle one; 0 where there is none."""
        return statistics.median(self.values) if self.values else 0.0

    @property
    def p95(self) -> float:
        """The least value that 95 % of them do not pass."""
        return self.values[max(0, -(-95 * self.n // 100) - 1)] if self.values else 0.0

    @property
    def most(self) -> float:
        """The greatest."""
        return self.values[-1] if self.values else 0.0

    def to_dict(self) -> dict[str, float]:
        """Plain data: the figures, without the values."""
        return {
            "n": self.n, "total": self.total, "median": self.median, "p95": self.p95,
            "max": self.most,
        }  # fmt: skip


class ReasonLine(NamedTuple):
    """A reason, and how many runs stopped for it. Empty: they have not ended."""

    reason: str
    kind: ResultKind
    runs: int
    share: float


@dataclass(frozen=True)
class StateLine:
    """What the actions of one state came to, over all runs. Times in seconds."""

    state: str
    action: str
    runs: int
    """Runs in which it did something, or waited."""
    failed: int
    retries: int
    time: Dist
    """Of its actions."""
    tokens: Dist
    usd: Dist
    """Of those whose price is known."""
    calls: int
    """Model and tool calls."""
    waits: Dist
    """Times for which a run was paused there: for a person, a child, a back-off."""

    @property
    def actions(self) -> int:
        """How many were finished."""
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
    """How near runs came to one bound. Shares: value over bound, 1 is reached."""

    fact: str
    bound: str
    """As the file writes it: ``limits.steps``, ``50``."""
    where: tuple[str, ...]
    """The rules and edges that hold the fact against it."""
    values: tuple[str, ...]
    """What the bound was in these runs, as people write it; several where runs differ."""
    end: Dist
    peak: Dist
    stopped: int
    """Runs that were stopped by it."""

    @property
    def text(self) -> str:
        """``run.steps ≥ limits.steps``, without what both halves say."""
        return f"{self.fact} ≥ {self.bound}"

    @property
    def runs(self) -> int:
        """Runs in which it was held against the fact."""
        return self.peak.n

    @property
    def says(self) -> str:
        """What is out: that it stops many, or that no run ever comes near."""
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
    """One sort of failure."""

    category: str
    state: str
    what: str
    """The tool that failed, or which of the known failures it was."""
    times: int
    runs: int
    message: str
    """The first of them."""


@dataclass(frozen=True)
class Figures:
    """All figures of one machine's runs. Times in seconds, cost in USD."""

    machine: str
    runs: int
    reasons: tuple[ReasonLine, ...]
    totals: dict[str, Dist]
    """Of whole runs: `steps`, `llm_calls`, `tool_calls`, `tokens`, `usd`, `elapsed`, `working`,
    `waiting`. Runs without a known price are not among `usd`."""
    states: tuple[StateLine, ...]
    margins: tuple[MarginLine, ...]
    failures: tuple[FailureLine, ...]
    unfolded: tuple[str, ...] = ()
    """Runs that cannot be decided again as they were recorded: their margins are left out."""
    unread: tuple[Unread, ...] = ()
    """Runs that could not be asked, each with the reason."""


TOTALS: Mapping[str, str] = {
    "steps": "", "llm_calls": "", "tool_calls": "", "tokens": "", "usd": "USD", "elapsed": "s",
    "working": "s", "waiting": "s",
}  # fmt: skip
"""What is told of whole runs, each with its unit."""
