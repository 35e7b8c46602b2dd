"""Why a run stops: one vocabulary for all sources.

The lower priority number wins; equals go by the order in which they were raised. Files may
add reasons of their own or redefine these.

Source: 002 "StopReason", "StopSignals", "ExecutionContinuation"; 003 "Stopping Conditions";
000 `StopReason`; design "language", section 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

EndStatus = Literal["completed", "error"]
ResultKind = Literal["natural", "human", "error", "limit", "waiting"]


class StopReason(str):
    """A reason to stop. Compares equal to its name, so ``result.reason == "steps_limit"`` holds.

    `priority`: the lower number wins. `forced`: the run was cut short rather than finished.
    `status`: what the run ends as.
    """

    __slots__ = ("forced", "priority", "status")
    priority: int
    forced: bool
    status: EndStatus

    def __new__(
        cls, value: str, priority: int = 7, forced: bool = True, status: EndStatus = "completed"
    ) -> StopReason:
        self = super().__new__(cls, value)
        object.__setattr__(self, "priority", priority)
        object.__setattr__(self, "forced", forced)
        object.__setattr__(self, "status", status)
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a stop reason is frozen: `{name}` cannot be set")

    def __reduce__(self) -> tuple[type[StopReason], tuple[str, int, bool, EndStatus]]:
        return (StopReason, (str(self), self.priority, self.forced, self.status))

    def __repr__(self) -> str:
        more = f"priority={self.priority}, forced={self.forced}, status={self.status!r}"
        return f"StopReason({str(self)!r}, {more})"

    @property
    def value(self) -> str:
        """The name as files and journals write it."""
        return str(self)

    @property
    def was_forced(self) -> bool:
        """Whether a limit, an error or a person cut the run short.

        Source: 002 `wasForceStopped()`.
        """
        return self.forced

    @property
    def kind(self) -> ResultKind:
        """How a run that ended for this reason is counted; see `Result.kind`."""
        if self in _NATURAL:
            return "natural"
        if self.startswith("user_"):
            return "human"
        return "error" if self.status == "error" else "limit"


_NATURAL = frozenset({"completed", "finish_reason", "stop_requested"})

_TABLE: tuple[tuple[str, int, bool, EndStatus], ...] = (
    ("error guard_error critical_failure", 0, True, "error"),
    ("stop_requested", 1, True, "completed"),
    ("user_requested user_unresponsive steps_limit", 2, True, "completed"),
    ("token_limit cost_limit", 3, True, "completed"),
    ("time_limit", 4, True, "completed"),
    ("retry_limit error_threshold error_rate", 5, True, "error"),
    (
        "context_overflow stagnation no_progress health_critical diminishing_returns",
        5,
        True,
        "completed",
    ),
    ("finish_reason", 6, False, "completed"),
    ("custom", 7, True, "completed"),
    ("completed", 8, False, "completed"),
    ("unknown", 9, True, "error"),
)

REASONS: Mapping[str, StopReason] = MappingProxyType(
    {n: StopReason(n, p, f, s) for names, p, f, s in _TABLE for n in names.split()}
)
"""The reasons that every file has, by name."""


@dataclass(frozen=True, slots=True)
class StopSignal:
    """One request to stop, with what is needed to explain it later.

    Raised by a rule, a state, a tool or the caller. Several may coexist; the lowest priority
    number wins, equals by the order in which they were raised.

    Source: 002 "Stop Signals" (reason, message, context, source).
    """

    reason: StopReason
    message: str = ""
    """For people: what was measured against what, e.g. ``50 of 50 steps``."""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values that the guard read, by fact name. Units are those of the facts."""
    source: str = ""
    """The rule, state, tool or caller that raised it, as written in the file."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `interlock run --format json` prints it."""
        return {
            "reason": str(self.reason),
            "message": self.message,
            "source": self.source,
            "context": dict(self.context),
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> StopSignal:
        """Read back what `to_dict` wrote. A reason that `reasons` lacks becomes a custom one."""
        name = str(data["reason"])
        return cls(
            reasons.get(name) or StopReason(name),
            str(data.get("message", "")),
            dict(data.get("context") or {}),
            str(data.get("source", "")),
        )

    def __str__(self) -> str:
        text = f"{self.reason}: {self.message}" if self.message else str(self.reason)
        return f"{text} (from {self.source})" if self.source else text


class StopSignals(tuple[StopSignal, ...]):
    """Signals in the order in which they were raised. Immutable. Source: 002 "StopSignals"."""

    __slots__ = ()

    def add(self, *signals: StopSignal) -> StopSignals:
        """A new collection with these added at the end."""
        return StopSignals((*self, *signals))

    @property
    def highest(self) -> StopSignal | None:
        """The one that decides: lowest priority number, then the earliest. None when empty."""
        return min(self, key=lambda s: s.reason.priority) if self else None

    @property
    def first(self) -> StopSignal | None:
        """The one that was raised first. None when empty."""
        return self[0] if self else None

    @property
    def reasons(self) -> tuple[StopReason, ...]:
        """The reason of each signal, in order."""
        return tuple(s.reason for s in self)

    def to_list(self) -> list[dict[str, Any]]:
        """Plain data."""
        return [s.to_dict() for s in self]

    @classmethod
    def from_list(
        cls, data: Iterable[Mapping[str, Any]], reasons: Mapping[str, StopReason] = REASONS
    ) -> StopSignals:
        """Read back what `to_list` wrote."""
        return cls(StopSignal.from_dict(d, reasons) for d in data)

    def __iter__(self) -> Iterator[StopSignal]:
        return super().__iter__()


NO_SIGNALS = StopSignals()


@dataclass(frozen=True, slots=True)
class Continuation:
    """Signals that wait, and whether somebody asked to go on in spite of them.

    Source: 002 "ExecutionContinuation".
    """

    signals: StopSignals = NO_SIGNALS
    requested: bool = False

    @property
    def should_stop(self) -> bool:
        """True when there are signals and nobody asked to go on."""
        return bool(self.signals) and not self.requested

    def with_signal(self, signal: StopSignal) -> Continuation:
        """The same with one more signal."""
        return replace(self, signals=self.signals.add(signal))

    def with_requested(self, requested: bool = True) -> Continuation:
        """The same with the request to go on set or taken back."""
        return replace(self, requested=requested)

    def explain(self) -> str:
        """What happens and why, in one or two sentences."""
        if not self.signals:
            return "No stop signal has been raised; the run goes on."
        top = self.signals.highest
        listed = "; ".join(str(s) for s in self.signals)
        if self.requested:
            return (
                f"The run goes on although {len(self.signals)} signal(s) were raised, "
                f"because a continuation was requested: {listed}."
            )
        return (
            f"The run stops: {top} has the highest priority of "
            f"{len(self.signals)} signal(s): {listed}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"signals": self.signals.to_list(), "requested": self.requested}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Continuation:
        """Read back what `to_dict` wrote."""
        return cls(StopSignals.from_list(data.get("signals", ())), bool(data.get("requested")))
