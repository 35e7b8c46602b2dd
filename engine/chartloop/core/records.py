"""Records: one input of a run and what came of it.

A run is its records. Each holds what `evolve` was given (state, event, outcome, clock
readings, answers of opaque guards) and, to be compared by a replay, what it decided.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from chartloop.core.facts import EMPTY
from chartloop.core.html_table import Cell, bundle, pairs
from chartloop.core.outcome import Outcome
from chartloop.core.reasons import NO_SIGNALS, REASONS, StopReason, StopSignals
from chartloop.core.units import say_elapsed
from chartloop.core.values import Value

RecordKind = Literal[
    "start",
    "step",
    "answer",
    "expired",
    "blocked",
    "pause",
    "resume",
    "stop",
    "edit",
    "enqueue",
    "drop",
]

KINDS: tuple[RecordKind, ...] = (
    "start", "step", "answer", "expired", "blocked", "pause", "resume", "stop", "edit", "enqueue",
    "drop",
)  # fmt: skip


ASIDE: frozenset[RecordKind] = frozenset({"pause", "resume", "edit", "enqueue", "drop"})
"""Records that may leave the current action as it is."""


class Input(Value, frozen=True, gc=False):
    """An input to a run: everything that `evolve` cannot compute itself."""

    kind: RecordKind
    event: str = ""
    """The event answered or dropped, the reason of a stop, the status trigger of a pause."""
    outcome: Outcome | None = None
    started: float = 0.0
    """When the action was started, seconds since the epoch."""
    at: float = 0.0
    """When it ended, or when the event arrived: the reading that decides."""
    data: Mapping[str, Any] = EMPTY
    """`start`: task, limits, vars, messages ...; `answer`: its data; `edit`: the new values;
    `enqueue`: tasks; `blocked`: until and on; `stop`: message and source; `drop`: why."""
    opaque: tuple[bool, ...] = ()
    """The results of registered Python guards, in the order in which they were evaluated."""
    ahead: float | None = None
    """`answer`: when it was given, if that was before its question was asked."""


class Record(Value, frozen=True, gc=False):
    """One input and its outcome."""

    seq: int
    """The record's number in its run, from 0."""
    state: str
    """Where the run was."""
    input: Input
    taken: tuple[str, ...] = ()
    """Ids of the edges and rules that were taken, in order."""
    signals: StopSignals = NO_SIGNALS
    """Signals raised by this input."""
    next: str = ""
    """Where the run is now."""
    status: str = ""
    wake_at: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> RecordKind:
        """The kind of input."""
        return self.input.kind

    @property
    def aside(self) -> bool:
        """Whether the current action stayed as it was: what it had started is still started."""
        return self.kind in ASIDE and self.next == self.state

    @property
    def outcome(self) -> Outcome | None:
        """The action's return value, for a `step`."""
        return self.input.outcome

    @property
    def failures(self) -> tuple[str, ...]:
        """The failure of the action, else of single tool calls whose errors the model read."""
        outcome = self.input.outcome
        if outcome is None:
            return ()
        if outcome.ok:
            return outcome.tool_errors
        error = outcome.error
        return (f"{error.category}: {error.message}" if error is not None else "failed",)

    def to_dict(self) -> dict[str, Any]:
        """Plain data without what was left at its default; the shape of `runs export`."""
        given = self.input
        out: dict[str, Any] = {"kind": given.kind, "state": self.state, "at": given.at}
        if given.started != given.at:
            out["started"] = given.started
        if given.event:
            out["event"] = given.event
        if given.outcome is not None:
            out["outcome"] = given.outcome.to_dict()
        if given.data:
            out["data"] = dict(given.data)
        if given.opaque:
            out["opaque"] = list(given.opaque)
        if given.ahead is not None:
            out["ahead"] = given.ahead
        if self.taken:
            out["taken"] = list(self.taken)
        if self.signals:
            out["signals"] = self.signals.to_list()
        if self.next != self.state:
            out["next"] = self.next
        out["status"] = self.status
        if self.wake_at is not None:
            out["wake_at"] = self.wake_at
        if self.warnings:
            out["warnings"] = list(self.warnings)
        return out

    @classmethod
    def from_dict(
        cls, seq: int, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Record:
        """Read back what `to_dict` wrote; `seq` is the record's number."""
        outcome = data.get("outcome")
        given = Input(
            data["kind"],
            data.get("event", ""),
            None if outcome is None else Outcome.from_dict(outcome, reasons),
            data.get("started", data["at"]),
            data["at"],
            data.get("data", EMPTY),
            tuple(data.get("opaque", ())),
            data.get("ahead"),
        )
        signals = data.get("signals")
        return cls(
            seq,
            data["state"],
            given,
            tuple(data.get("taken", ())),
            StopSignals.from_list(signals, reasons) if signals else NO_SIGNALS,
            data.get("next", data["state"]),
            data["status"],
            data.get("wake_at"),
            tuple(data.get("warnings", ())),
        )

    def to_json(self) -> str:
        """One line of JSON."""
        return to_json(self.to_dict())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook view: the input, its outcome, and where the run went."""
        given, outcome = self.input, self.input.outcome or _NOTHING
        reply = outcome.reply
        calls = reply.tool_calls if reply is not None else ()
        shown = pairs(
            (
                (f"record {self.seq}", f"{given.kind} {given.event}".strip()),
                ("at", Cell(self.state, "code")),
                ("took", _took(given)),
                ("given", "" if given.ahead is None else "ahead of the question"),
                ("reply", reply.text if reply is not None else ""),
                ("calls", Cell(", ".join(call.name for call in calls), "code")),
                ("failed", Cell("\n".join(self.failures), "bad")),
                ("data", Cell(to_json(given.data) if given.data else "", "code")),
                ("taken", Cell("\n".join(self.taken), "code")),
                ("signals", "\n".join(map(str, self.signals))),
                ("warnings", "\n".join(self.warnings)),
                ("next", Cell(self.next, "code")),
                ("status", self.status),
            )
        )
        led = f" → {self.next}" if self.next != self.state else ""
        failed = f", failed: {'; '.join(self.failures)}" if self.failures else ""
        message = f"record {self.seq}: {given.kind} at {self.state}{led}, {self.status}{failed}"
        return bundle(shown, message)


_NOTHING = Outcome()


def _took(given: Input) -> str:
    """How long an action took; empty for what is not an action."""
    took = max(0.0, given.at - given.started)
    return say_elapsed(took) if given.kind == "step" and given.started else ""


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=dict).encode
_encode_fast = msgspec.json.Encoder(enc_hook=dict).encode
_decode_fast = msgspec.json.Decoder().decode
_NOT_FAST = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)


def to_json(data: Any) -> str:
    """Compact JSON, as journals hold it."""
    return _encode(data)


def to_json_fast(data: Any) -> str:
    """The same, in a fraction of the time; numbers may be written differently and mean the same.

    What msgspec writes is kept where it reads back as what was given. It is wider than JSON (dates,
    bytes, sets) and narrower (infinity, lone surrogates): there `to_json` decides.
    """
    try:
        text = _encode_fast(data)
        if _decode_fast(text) == data:
            return text.decode()
    except _NOT_FAST:
        pass
    return to_json(data)


def from_json(text: str) -> Any:
    """The value of JSON text, as `json.loads` reads it."""
    try:
        return _decode_fast(text)
    except _NOT_FAST:  # infinity, lone surrogates: `json` reads more, or knows what is wrong
        return json.loads(text)
