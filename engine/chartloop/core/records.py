"""Records: the log entries of a run, each with one input and its effect.

A run is its records. Each holds the input of `evolve` (state, event, outcome, clock readings,
results of opaque guards) and the decision, so that a replay can compare it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

from msgspec import UNSET, UnsetType

from chartloop.core.codec import NOT_FAST, decoder, from_json, read, to_json, to_json_fast, written
from chartloop.core.facts import EMPTY, FleetFacts
from chartloop.core.outcome import CallResult, Outcome, as_message, made_of_calls
from chartloop.core.reasons import NO_SIGNALS, REASONS, StopReason, StopSignals
from chartloop.core.reports import Part, Shown, pairs
from chartloop.core.text_table import Cell
from chartloop.core.units import say_elapsed
from chartloop.core.values import Time, Value

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
    fleet: FleetFacts | None = None
    """What limits across runs left; None if the machine names no such fact."""
    via: str = ""
    """`answer`: how it came, if that is to be told: ``link to eve@example.org``."""


class Record(Shown, Value, frozen=True, gc=False):
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
        """The record as plain data, without defaults; the format of `journal export`."""
        stored, outcome = _stored(self), self.outcome
        if stored.said and outcome is not None and outcome.reply is None:
            whole = outcome.replace(messages=outcome.messages, result=outcome.result)
            stored = stored.replace(outcome=whole)
        return written(stored)

    @classmethod
    def from_dict(
        cls, seq: int, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Record:
        """Read back what `to_dict` wrote; `seq` is the record's number. `ValueError` if damaged."""
        try:
            return _restored(seq, read(data, StoredRecord, reasons))
        except ValueError as error:
            raise ValueError(f"record {seq}: {error}") from None

    def to_json(self) -> str:
        """The record as one line of JSON, as journals hold it.

        Raises `ValueError` if it could not be read back: an action of your own may return anything.
        """
        return to_json_fast(_stored(self), _decode, _read_text)

    @classmethod
    def from_json(cls, seq: int, text: str) -> Record:
        """Read back what `to_json` wrote."""
        try:
            return _restored(seq, _decode(text))
        except NOT_FAST:
            return cls.from_dict(seq, from_json(text))

    def parts(self) -> Iterator[Part]:
        """The input, its outcome, and the next state."""
        yield pairs(self.card().items())

    def card(self) -> dict[str, str]:
        """What a notebook shows of the record, by name; what is empty is left out."""
        input_, outcome = self.input, self.input.outcome or _NO_OUTCOME
        reply = outcome.reply
        calls = reply.tool_calls if reply is not None else ()
        took = ""
        if input_.kind == "step" and input_.started:
            took = say_elapsed(max(0.0, input_.at - input_.started))
        return {
            f"record {self.seq}": f"{input_.kind} {input_.event}".strip(),
            "at": Cell(self.state, "code"),
            "took": took,
            "given": "" if input_.ahead is None else "ahead of the question",
            "via": input_.via,
            "reply": reply.text if reply is not None else "",
            "calls": Cell(", ".join(call.name for call in calls), "code"),
            "failed": Cell("\n".join(self.failures), "red"),
            "data": Cell(to_json(input_.data) if input_.data else "", "code"),
            "taken": Cell("\n".join(self.taken), "code"),
            "signals": "\n".join(map(str, self.signals)),
            "warnings": "\n".join(self.warnings),
            "next": Cell(self.next, "code"),
            "status": self.status,
        }

    def plain_text(self) -> str:
        """The record in one line."""
        target = f" → {self.next}" if self.next != self.state else ""
        failed = f", failed: {'; '.join(self.failures)}" if self.failures else ""
        return f"record {self.seq}: {self.kind} at {self.state}{target}, {self.status}{failed}"


_NO_OUTCOME = Outcome()


class StoredRecord(Value, frozen=True, gc=False, kw_only=True, forbid_unknown_fields=False):
    """A record as it is stored: flat, and what a model said only once, in its `reply`."""

    kind: str
    state: str
    at: Time
    started: Time | UnsetType = UNSET
    """Unset: `at`."""
    event: str = ""
    outcome: Outcome | None = None
    said: bool = False
    """The `reply` as a message follows the outcome's `messages`. Without a `reply`, `result` has
    `CallResult`s, and `messages` are theirs."""
    own_result: bool = False
    """The outcome has a `reply`, and a `result` that is not the reply's."""
    data: Mapping[str, Any] = EMPTY
    opaque: tuple[bool, ...] = ()
    ahead: Time | None = None
    fleet: FleetFacts | None = None
    via: str = ""
    taken: tuple[str, ...] = ()
    signals: StopSignals = NO_SIGNALS
    next: str | UnsetType = UNSET
    """Unset: `state`."""
    status: str
    wake_at: Time | None = None
    warnings: tuple[str, ...] = ()


def _stored(record: Record) -> StoredRecord:
    given, said, own_result = record.input, False, False
    outcome = given.outcome
    if outcome is not None:
        reply, messages, result = outcome.reply, outcome.held_messages, outcome.held_result
        if reply is not None:
            said = bool(messages) and messages[-1] is reply
            own_result = result is not reply
            outcome = outcome.replace(
                messages=tuple(map(as_message, messages[:-1] if said else messages)),
                result=outcome.result if own_result else None,
            )
        elif said := messages is result and made_of_calls(result):
            outcome = outcome.replace(messages=())
        else:
            outcome = outcome.replace(messages=outcome.messages, result=outcome.result)
    return StoredRecord(
        kind=given.kind, state=record.state, at=given.at,
        started=UNSET if given.started == given.at else given.started, event=given.event,
        outcome=outcome, said=said, own_result=own_result, data=given.data or EMPTY,
        opaque=given.opaque, ahead=given.ahead, fleet=given.fleet, via=given.via,
        taken=record.taken,
        signals=record.signals or NO_SIGNALS,
        next=UNSET if record.next == record.state else record.next, status=record.status,
        wake_at=record.wake_at, warnings=record.warnings,
    )  # fmt: skip


def _restored(seq: int, stored: StoredRecord) -> Record:
    outcome, at = stored.outcome, stored.at
    if outcome is not None and (reply := outcome.reply) is not None:
        messages = outcome.held_messages
        outcome = outcome.replace(
            messages=(*messages, reply) if stored.said else messages,
            result=outcome.held_result if stored.own_result else reply,
        )
    elif outcome is not None and stored.said:
        found = read(outcome.held_result, tuple[CallResult, ...], REASONS)
        calls = tuple([c.replace(result=UNSET) if c.result == c.content else c for c in found])
        outcome = outcome.replace(messages=calls, result=calls)
    return Record(
        seq=seq, state=stored.state, taken=stored.taken, signals=stored.signals,
        next=stored.state if stored.next is UNSET else stored.next, status=stored.status,
        wake_at=stored.wake_at, warnings=stored.warnings,
        input=Input(
            kind=cast(RecordKind, stored.kind), event=stored.event, outcome=outcome,
            started=at if stored.started is UNSET else stored.started, at=at, data=stored.data,
            opaque=stored.opaque, ahead=stored.ahead, fleet=stored.fleet,
            via=stored.via,
        ),
    )  # fmt: skip


_decode = decoder(StoredRecord, REASONS)


def _read_text(text: str) -> StoredRecord:
    return read(from_json(text), StoredRecord, REASONS)
