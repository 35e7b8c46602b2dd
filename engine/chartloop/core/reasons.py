"""Stop reasons and stop signals: one vocabulary for everything that stops a run.

The lowest priority number wins; between equals, the signal that was raised first. Files may add
reasons or redefine these.

Source: 002 "StopReason", "StopSignals", "ExecutionContinuation"; 003 "Stopping Conditions";
000 `StopReason`; docs/language.md, "Stop reasons".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

from chartloop.core.codec import Plain, read
from chartloop.core.reports import Part, Shown, Table
from chartloop.core.text_table import Cell, Line, Row
from chartloop.core.units import say_count, say_duration

EndStatus = Literal["completed", "error"]
ResultKind = Literal["natural", "human", "error", "limit", "waiting"]


class StopReason(str):
    """A reason to stop. It equals its name, so ``result.reason == "steps_limit"`` holds.

    `priority`: the lowest number wins. `forced`: the run was cut short rather than finished.
    `status`: the status with which the run ends.
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

    @classmethod
    def read(cls, name: Any, reasons: Mapping[str, StopReason]) -> StopReason:
        """The reason of that name; a custom one if it is not in `reasons`."""
        if not isinstance(name, str):
            raise ValueError("Expected a reason")  # noqa: TRY004  msgspec adds the place
        return reasons.get(name) or StopReason(name)

    @property
    def value(self) -> str:
        """The name, as in files and journals."""
        return str(self)

    @property
    def was_forced(self) -> bool:
        """Whether a limit, an error or a person cut the run short.

        Source: 002 `wasForceStopped()`.
        """
        return self.forced

    @property
    def about(self) -> str:
        """The meaning of a built-in reason; empty for a reason of the file."""
        return _ABOUT.get(str(self), "")

    @property
    def kind(self) -> ResultKind:
        """The kind of result of a run that ended for this reason; see `Result.kind`."""
        if self in _NATURAL or not (self.forced or self.status == "error"):
            return "natural"
        if self.startswith("user_"):
            return "human"
        return "error" if self.status == "error" else "limit"

    def kind_of_end(self, status: str, lost: int = 0) -> ResultKind:
        """The kind of a run that ended for this reason with `status`; see `Facts.unfinished`."""
        if status == "error":
            return "error"
        if self.kind == "error" or (lost and self.kind == "natural"):
            return "limit"  # the file ends it as `completed`
        return self.kind


_NATURAL = frozenset({"answer_submitted", "completed", "finish_reason"})

_TABLE: tuple[tuple[str, int, bool, EndStatus], ...] = (
    ("error guard_error critical_failure", 0, True, "error"),
    ("answer_submitted stop_requested", 1, True, "completed"),
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

_ABOUT: Mapping[str, str] = MappingProxyType(
    {
        "answer_submitted": "The model submitted its answer: `submit_answer`.",
        "completed": "The work is done.",
        "context_overflow": "The conversation no longer fits the model's window.",
        "cost_limit": "The money is spent.",
        "critical_failure": "Something failed that the run cannot repair.",
        "custom": "A condition of the file.",
        "diminishing_returns": "Another improvement cycle would bring too little.",
        "error": "An error prevents the run from continuing.",
        "error_rate": "Too large a share of the work fails.",
        "error_threshold": "Too many failures in a row.",
        "finish_reason": "The model ended its reply in a way that stops the run.",
        "guard_error": "A guard could not be evaluated, or no edge out of a state holds.",
        "health_critical": "The health score is too low.",
        "no_progress": "The run repeats itself or achieves nothing new.",
        "retry_limit": "The retries are used up.",
        "stagnation": "No task was finished for too long.",
        "steps_limit": "The steps are used up.",
        "stop_requested": "A tool or action requested it: `AgentStop`.",
        "time_limit": "The time is used up.",
        "token_limit": "The tokens are used up.",
        "unknown": "The run ended without a reason.",
        "user_requested": "A caller or a person requested it from outside.",
        "user_unresponsive": "No answer came in time.",
    }
)

REASONS: Mapping[str, StopReason] = MappingProxyType(
    {n: StopReason(n, p, f, s) for names, p, f, s in _TABLE for n in names.split()}
)
"""The built-in reasons, by name."""


def _made(name: str, about: str, source: str = "") -> classmethod[StopSignal, ..., StopSignal]:
    """A constructor of the signals of a reason that needs no values."""

    def make(
        cls: type[StopSignal], message: str = "", context: Mapping[str, Any] | None = None, *,
        source: str = source,
    ) -> StopSignal:  # fmt: skip
        return cls(REASONS[name], message, dict(context or {}), source)

    make.__doc__ = about
    return classmethod(make)


@dataclass(frozen=True, slots=True)
class StopSignal(Plain):
    """A request to stop, with the data that explains it later.

    A rule, a state, a tool or the caller raises it. Several may coexist; the lowest priority
    number wins, and between equals the earliest.

    Source: 002 "Stop Signals" (reason, message, context, source).
    """

    reason: StopReason
    message: str = ""
    """For people: the value and its limit, e.g. ``50 of 50 steps``."""
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The values that the guard read, by fact name. Units are those of the facts."""
    source: str = ""
    """The rule, state, tool or caller that raised it, as the file writes it."""

    @classmethod
    def steps_limit(cls, steps: int, limit: int, *, source: str = "") -> StopSignal:
        """The steps are used up: ``20 of 20 steps``."""
        return cls._limit_signal(
            "steps_limit", ("run.steps", steps), ("limits.steps", limit), source
        )

    @classmethod
    def token_limit(cls, tokens: int, limit: int, *, source: str = "") -> StopSignal:
        """The tokens are used up: ``16,200 of 16,000 tokens``."""
        spent = ("usage.total_tokens", tokens)
        return cls._limit_signal("token_limit", spent, ("limits.tokens", limit), source)

    @classmethod
    def time_limit(cls, elapsed: float, limit: float, *, source: str = "") -> StopSignal:
        """The time is used up, in seconds: ``61 s of 60 s``."""
        return cls._limit_signal(
            "time_limit", ("run.elapsed", elapsed), ("limits.time", limit), source
        )

    @classmethod
    def retry_limit(cls, retries: int, limit: int, *, source: str = "") -> StopSignal:
        """The retries are used up: ``3 of 3 retries``."""
        spent = ("errors.retries", retries)
        return cls._limit_signal("retry_limit", spent, ("limits.retries", limit), source)

    @classmethod
    def finish_reason(
        cls, reason: str, stopping: Iterable[str] = (), *, source: str = ""
    ) -> StopSignal:
        """The model ended its reply with `reason`, one of the `stopping` finish reasons."""
        context: dict[str, Any] = {"last.finish_reason": reason}
        if reasons := list(stopping):
            context["limits.finish_reasons"] = reasons
        return cls(REASONS["finish_reason"], f"the model ended with `{reason}`", context, source)

    user_requested = _made("user_requested", "A caller or a person requested the stop.", "caller")
    error = _made("error", "An error prevents the run from continuing. Source: 002 `ErrorForbade`.")
    stop_requested = _made("stop_requested", "A tool or action requested the stop.")
    completed = _made("completed", "The work is done.")

    @classmethod
    def from_exception(cls, error: BaseException, *, source: str = "") -> StopSignal:
        """The signal of an `AgentStop`; for any other exception, an `error` signal.

        Source: 002 `fromStopException()`.
        """
        if isinstance(error, AgentStop):
            return error.signal if error.source else replace(error.signal, source=source)
        kind = type(error).__name__
        return cls.error(f"{kind}: {error}", {"exception": kind}, source=source)

    @classmethod
    def _limit_signal(
        cls, name: str, value: tuple[str, float], limit: tuple[str, float], source: str
    ) -> StopSignal:
        what = limit[0].removeprefix("limits.")
        message = (
            f"{say_duration(value[1])} of {say_duration(limit[1])}"
            if what == "time"
            else f"{value[1]:,} of {say_count(int(limit[1]), what.removesuffix('s'))}"
        )
        return cls(REASONS[name], message, dict((value, limit)), source)

    def to_dict(self) -> dict[str, Any]:
        """The signal as plain data, as `chartloop run --format json` prints it."""
        return {
            "reason": str(self.reason),
            "message": self.message,
            "context": dict(self.context),
            "source": self.source,
        }

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> StopSignal:
        """Read back what `to_dict` wrote. A reason not in `reasons` becomes a custom one."""
        return read(data, cls, reasons)

    def __str__(self) -> str:
        text = f"{self.reason}: {self.message}" if self.message else str(self.reason)
        return f"{text} (from {self.source})" if self.source else text


class StopSignals(Shown, tuple[StopSignal, ...]):
    """Signals in the order in which they were raised. Immutable. Source: 002 "StopSignals"."""

    __slots__ = ()

    def add(self, *signals: StopSignal) -> StopSignals:
        """Return the signals with more at the end."""
        return StopSignals((*self, *signals))

    @property
    def highest(self) -> StopSignal | None:
        """The signal that decides: lowest priority number, then earliest. None when empty."""
        if len(self) < 2:
            return self[0] if self else None
        return min(self, key=lambda s: s.reason.priority)

    @property
    def first(self) -> StopSignal | None:
        """The signal that was raised first. None when empty."""
        return self[0] if self else None

    @property
    def reasons(self) -> tuple[StopReason, ...]:
        """The reason of each signal, in order."""
        return tuple(s.reason for s in self)

    def to_list(self) -> list[dict[str, Any]]:
        """The signals as plain data."""
        return [s.to_dict() for s in self]

    @classmethod
    def from_list(
        cls, data: Iterable[Mapping[str, Any]], reasons: Mapping[str, StopReason] = REASONS
    ) -> StopSignals:
        """Read back what `to_list` wrote."""
        return read(list(data), cls, reasons)

    @classmethod
    def read(cls, data: Any, reasons: Mapping[str, StopReason]) -> StopSignals:
        """Read the signals of a stored value."""
        return cls(read(data, tuple[StopSignal, ...], reasons))

    def __str__(self) -> str:
        return "; ".join(str(signal) for signal in self)

    def parts(self) -> Iterator[Part]:
        """A table of the signals, with a mark at the one that decides."""
        top = self.highest
        rows = [
            Row((
                "✓" if signal is top else "", str(signal.reason.priority),
                Cell(signal.reason, "code"), signal.message, signal.source,
            ))
            for signal in self
        ]  # fmt: skip
        yield Table(rows, ("", "priority", "reason", "message", "raised by"), {1})
        if not rows:
            yield Line("no stop signals", "dim")

    def plain_text(self) -> str:
        """The signals in one line."""
        return str(self) or "no stop signals"


NO_SIGNALS = StopSignals()


class AgentStop(Exception):
    """A request to stop the run, raised inside a tool or action. Not an error.

    `message` is a text or a `StopSignal`. `reason` is a reason of the file; without one the run is
    cut short, so name one that is a success where the work is done: `completed`. `context` is JSON
    data; other values are recorded as text. `source` defaults to the tool or the state, `step`
    to the number of the current step.

        raise AgentStop("The answer was found.", context={"answer": 5})

    Source: 002 "AgentStopException" (signal, step, context, source).
    """

    def __init__(
        self, message: str | StopSignal = "", *, reason: str = "stop_requested",
        context: Mapping[str, Any] | None = None, source: str = "", step: int | None = None,
    ) -> None:  # fmt: skip
        inherited: Mapping[str, Any] = {}
        if isinstance(message, StopSignal):
            reason, inherited, source = message.reason, message.context, source or message.source
            message = message.message
        self.message = str(message)
        self.reason = str(reason or "stop_requested")
        self.context = {**inherited, **(context or {})}
        self.source = str(source)
        self.step = step
        super().__init__(self.message or self.reason)

    @property
    def signal(self) -> StopSignal:
        """The stop signal that the exception carries."""
        step = {} if self.step is None else {"step": self.step}
        reason = REASONS.get(self.reason) or StopReason(self.reason)
        return StopSignal(reason, self.message, {**step, **self.context}, self.source)


@dataclass(frozen=True, slots=True)
class Continuation(Shown):
    """Pending signals, and whether a continuation defers them.

    Source: 002 "ExecutionContinuation".
    """

    signals: StopSignals = NO_SIGNALS
    requested: bool = False

    @property
    def should_stop(self) -> bool:
        """Whether there are signals and no continuation was requested."""
        return bool(self.signals) and not self.requested

    def with_signal(self, signal: StopSignal) -> Continuation:
        """Return a copy with one more signal."""
        return replace(self, signals=self.signals.add(signal))

    def with_requested(self, requested: bool = True) -> Continuation:
        """Return a copy with the request to continue set or withdrawn."""
        return replace(self, requested=requested)

    def explain(self) -> str:
        """Explain the effect and the reason in one or two sentences."""
        if not self.signals:
            return "No stop signal has been raised; the run continues."
        raised = say_count(len(self.signals), "signal")
        if self.requested:
            return f"The run continues: a continuation puts {raised} off: {self.signals}."
        if len(self.signals) == 1:
            return f"The run stops: {self.signals}."
        return (
            f"The run stops: {self.signals.highest} has the highest priority"
            f" of {raised}: {self.signals}."
        )

    def parts(self) -> Iterator[Part]:
        """The explanation and a table of the signals."""
        yield Line(self.explain())
        if self.signals:
            yield from self.signals.parts()

    plain_text = explain

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"signals": self.signals.to_list(), "requested": self.requested}

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Continuation:
        """Read back what `to_dict` wrote."""
        return read(data, cls, reasons)
