"""Records: the log entries of a run, each with one input and its effect.

A run is its records. Each holds the input of `evolve` (state, event, outcome, clock readings,
results of opaque guards) and the decision, so that a replay can compare it.
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
    """The event of an answer or a drop, the reason of a stop, the status trigger of a pause."""
    outcome: Outcome | None = None
    started: float = 0.0
    """When the action started, seconds since the epoch."""
    at: float = 0.0
    """When the action ended or the event arrived; decisions use this clock reading."""
    data: Mapping[str, Any] = EMPTY
    """`start`: task, limits, vars, messages ...; `answer`: its data; `edit`: the new values;
    `enqueue`: tasks; `blocked`: until and on; `stop`: message and source; `drop`: the reason."""
    opaque: tuple[bool, ...] = ()
    """The results of registered Python guards, in the order of evaluation."""
    ahead: float | None = None
    """`answer`: when it was given, if it came ahead of its question."""


class Record(Value, frozen=True, gc=False):
    """One entry of a run's log: an input and its effect."""

    seq: int
    """The record's number in its run, from 0."""
    state: str
    """The state before the input."""
    input: Input
    taken: tuple[str, ...] = ()
    """The ids of the edges and rules that were taken, in order."""
    signals: StopSignals = NO_SIGNALS
    """The signals that this input raised."""
    next: str = ""
    """The state after the input."""
    status: str = ""
    wake_at: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def kind(self) -> RecordKind:
        """The kind of the input."""
        return self.input.kind

    @property
    def aside(self) -> bool:
        """Whether the record left the current action and its started calls untouched."""
        return self.kind in ASIDE and self.next == self.state

    @property
    def outcome(self) -> Outcome | None:
        """The action's return value, for a `step`."""
        return self.input.outcome

    @property
    def failures(self) -> tuple[str, ...]:
        """The action's failure, else the failures of tool calls that the model was shown."""
        outcome = self.input.outcome
        if outcome is None:
            return ()
        if outcome.ok:
            return outcome.tool_errors
        error = outcome.error
        return (f"{error.category}: {error.message}" if error is not None else "failed",)

    def to_dict(self) -> dict[str, Any]:
        """The record as plain data, without defaults; the format of `runs export`."""
        input_ = self.input
        out: dict[str, Any] = {"kind": input_.kind, "state": self.state, "at": input_.at}
        if input_.started != input_.at:
            out["started"] = input_.started
        if input_.event:
            out["event"] = input_.event
        if input_.outcome is not None:
            out["outcome"] = input_.outcome.to_dict()
        if input_.data:
            out["data"] = dict(input_.data)
        if input_.opaque:
            out["opaque"] = list(input_.opaque)
        if input_.ahead is not None:
            out["ahead"] = input_.ahead
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
        input_ = Input(
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
            input_,
            tuple(data.get("taken", ())),
            StopSignals.from_list(signals, reasons) if signals else NO_SIGNALS,
            data.get("next", data["state"]),
            data["status"],
            data.get("wake_at"),
            tuple(data.get("warnings", ())),
        )

    def to_json(self) -> str:
        """The record as one line of JSON."""
        return to_json(self.to_dict())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook view: the input, its outcome, and the next state."""
        input_, outcome = self.input, self.input.outcome or _NO_OUTCOME
        reply = outcome.reply
        calls = reply.tool_calls if reply is not None else ()
        view = pairs(
            (
                (f"record {self.seq}", f"{input_.kind} {input_.event}".strip()),
                ("at", Cell(self.state, "code")),
                ("took", _say_time_taken(input_)),
                ("given", "" if input_.ahead is None else "ahead of the question"),
                ("reply", reply.text if reply is not None else ""),
                ("calls", Cell(", ".join(call.name for call in calls), "code")),
                ("failed", Cell("\n".join(self.failures), "bad")),
                ("data", Cell(to_json(input_.data) if input_.data else "", "code")),
                ("taken", Cell("\n".join(self.taken), "code")),
                ("signals", "\n".join(map(str, self.signals))),
                ("warnings", "\n".join(self.warnings)),
                ("next", Cell(self.next, "code")),
                ("status", self.status),
            )
        )
        target = f" → {self.next}" if self.next != self.state else ""
        failed = f", failed: {'; '.join(self.failures)}" if self.failures else ""
        text = f"record {self.seq}: {input_.kind} at {self.state}{target}, {self.status}{failed}"
        return bundle(view, text)


_NO_OUTCOME = Outcome()


def _say_time_taken(input_: Input) -> str:
    """The duration of an action in words; empty for other inputs."""
    seconds = max(0.0, input_.at - input_.started)
    return say_elapsed(seconds) if input_.kind == "step" and input_.started else ""


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=dict).encode
_encode_fast = msgspec.json.Encoder(enc_hook=dict).encode
_decode_fast = msgspec.json.Decoder().decode
_NOT_FAST = (msgspec.MsgspecError, ArithmeticError, RecursionError, TypeError, ValueError)


def to_json(data: Any) -> str:
    """Compact JSON, as journals hold it."""
    return _encode(data)


def to_json_fast(data: Any) -> str:
    """Like `to_json`, but much faster. Numbers may be written differently with the same value.

    The text of msgspec is used only if it reads back equal to `data`; otherwise `to_json`
    decides. msgspec accepts more than JSON (dates, bytes, sets) and also less (infinity, lone
    surrogates).
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
    except _NOT_FAST:  # `json` reads infinity and lone surrogates, and names the fault otherwise
        return json.loads(text)
