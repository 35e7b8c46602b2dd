"""What a journal keeps of a run, as records: its row, its events, its inbox, its snapshot.

Imported from `run.journal`, whose port takes and gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from chartloop.core.records import Record
from chartloop.core.values import Value

EventType = Literal["record", "intent", "result", "in_doubt"]
EVENT_TYPES: tuple[EventType, ...] = ("record", "intent", "result", "in_doubt")
DAMAGED = "damaged"
"""The status of a run whose row cannot be read; its reason says why."""
UNREADABLE = "unreadable"
"""The kind of a message that cannot be read: ``why`` says why. It is dropped, on the record."""


class Event(Value, frozen=True, gc=False):
    """One line of a run's log."""

    seq: int
    """The event's number in its run, from 0. Not the record's number: intents count here."""
    type: EventType
    at: float
    record: Record | None = None
    """For a `record`."""
    data: Mapping[str, Any] = {}
    """For the others: ``{"key": ..., "state": ...}`` and, for a `result`, its data."""
    epoch: int = 0


class OpenQuestion(Value, frozen=True, gc=False):
    """What a run that waits asks, as its row keeps it: a `Question` in plain data."""

    wait: str = ""
    """The id of the wait, which an answer may name. Empty in the row of an older version: what the
    run asks is known once it is opened (`Session.complete_row`)."""
    text: str = ""
    answers: Mapping[str, Mapping[str, str]] = {}
    """The events that the wait takes, each with the fields of its answer and their types."""
    run: str = ""
    """The id of the run that waits: this one, or a child of it."""
    state: str = ""
    """Where that one waits."""
    due: float | None = None
    """When the wait expires, in seconds since the epoch; None where it has no deadline."""

    def __hash__(self) -> int:
        return hash((self.run, self.wait))  # `answers` is a mapping, and rows are put into sets


class RunRow(Value, frozen=True, gc=False):
    """What is known about a run without reading its log."""

    run_id: str
    machine: str = ""
    machine_hash: str = ""
    epoch: int = 0
    head: int = 0
    """How many events the run has: the number of the next one."""
    status: str = "idle"
    state: str = ""
    reason: str = ""
    steps: int = 0
    wake_at: float | None = None
    agent: str = ""
    session: str = ""
    parent: str = ""
    fork_seq: int | None = None
    created: float = 0.0
    updated: float = 0.0
    question: OpenQuestion | None = None
    """What it asks; None where it does not wait for an answer."""
    tokens: int | None = None
    """What its model calls used, its children's included. None before its first record, and in
    the row of an older version."""
    cost: float | None = None
    """In USD, likewise. None where it is not known: no price of the models that were called is."""

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.status in ("completed", "error")

    def standing(self) -> Update:
        """The columns that the newest record brought up to date."""
        return Update(
            self.status, self.state, self.reason, self.steps, self.wake_at, self.question,
            self.tokens, self.cost,
        )  # fmt: skip


class Update(Value, frozen=True, gc=False):
    """The columns of the run's row that an append brings up to date."""

    status: str
    state: str
    reason: str = ""
    steps: int = 0
    wake_at: float | None = None
    question: OpenQuestion | None = None
    tokens: int | None = None
    cost: float | None = None


class InboxMessage(NamedTuple):
    """Something sent to a run from outside: an answer, a pause, a cancel, tasks."""

    msg_id: str
    at: float
    data: Mapping[str, Any]


Check: TypeAlias = Callable[[RunRow, Sequence[InboxMessage]], None]
"""Looks at a run's row and its open messages, and raises a `RunError` where nothing may be sent."""


class Snapshot(NamedTuple):
    """A position as it was after an event; a cache that may be missing."""

    seq: int
    """The number of events that are folded into it."""
    record_seq: int
    """The number of records that are folded into it."""
    data: Mapping[str, Any]


class WholeRun(NamedTuple):
    """A run that comes into being with all that it holds."""

    row: RunRow
    """Its `head` and `epoch` are set by the journal."""
    events: Sequence[Event] = ()
    """Numbered from 0; kept as of epoch 0, since no driver of this run wrote them."""
    inbox_of: str = ""
    """The run whose messages go along, those that are not yet consumed; empty for none."""
