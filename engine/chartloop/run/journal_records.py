"""The records that a journal keeps of a run: its row, events, inbox and snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from chartloop.core.codec import written
from chartloop.core.errors import SetupError
from chartloop.core.facts import EMPTY
from chartloop.core.phase import Phase, phase_if_followed, phase_if_parked, phase_of
from chartloop.core.records import Record
from chartloop.core.values import Time, Value
from chartloop.run.tenants import tenant_of

EventType = Literal["record", "intent", "result", "in_doubt", "forked", "moved"]
EVENT_TYPES: tuple[EventType, ...] = get_args(EventType)
FORKED = "forked"
"""The type of the event after the copied ones of a fork: the key of its first action."""
MOVED = "moved"
"""The status of a run that continues as another one, and the type of its last event."""
DAMAGED = "damaged"
"""The status of a run whose row is unreadable; its reason says why."""
UNREADABLE = "unreadable"
"""The kind of an unreadable message, with the cause in ``why``. Dropping it is recorded."""


class Intent(Value, frozen=True, gc=False):
    """The usual data of an intent."""

    key: str
    state: str
    action: str = ""
    tool: str = ""


class HeldEvent(Value, frozen=True, gc=False):
    """The fields of an `Event`, whose data may be an `Intent`."""

    seq: int
    """The event's number in its run, from 0. Not the record's number, since intents count too."""
    type: EventType
    at: float
    record: Record | None = None
    """Set for a `record`."""
    data: Mapping[str, Any] | Intent = EMPTY
    """For other types: ``{"key": ..., "state": ...}`` and, for a `result`, its data; for `forked`
    also the number of `steps`; for `moved` the run that continues this one, ``{"to": ...}``."""
    epoch: int = 0
    """That of the driver who wrote it, as `Journal.append` was given it."""


class Event(HeldEvent, frozen=True, gc=False):
    """One entry of a run's log."""

    held_data = HeldEvent.data

    @property
    def data(self) -> Mapping[str, Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The data of an event that is no record."""
        held: Any = self.held_data
        return written(held) if type(held) is Intent else held


class OpenQuestion(Value, frozen=True, gc=False):
    """The question of a waiting run, as its row stores it: a `Question` in plain data."""

    wait: str = ""
    """The id of the wait, which an answer may name."""
    text: str = ""
    answers: Mapping[str, Mapping[str, str]] = {}
    """The events that the wait accepts, each with the fields of its answer and their types."""
    run: str = ""
    """The id of the run that waits: this one, or a child of it."""
    state: str = ""
    """The state in which that run waits."""
    due: Time | None = None
    """When the wait expires, in seconds since the epoch; None without a deadline."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """The tool calls that the question is about, without their schemas."""
    about: str = ""
    """What is decided. With `text`, at most the first `run.question.LONGEST` characters."""
    rest: int = 0
    """The number of characters that follow."""

    def __hash__(self) -> int:
        return hash((self.run, self.wait))  # `answers` is not hashable, and rows are put into sets


PRIORITIES = range(1, 10)
"""The priorities of runs, by which workers take them up: 1 is the highest."""
PRIORITY = 5
"""That of a run which nobody gave one."""


def check_priority(given: int) -> int:
    """The priority of a run. Raises `SetupError` if it cannot be one."""
    if type(given) is not int or given not in PRIORITIES:
        raise SetupError(
            f"{given!a} is not a priority",
            hint=f"give a whole number from 1, the highest, to {PRIORITIES[-1]}",
        )
    return given


class RunRow(Value, frozen=True, gc=False):
    """A run, as far as it is known without reading its log."""

    run_id: str
    machine: str = ""
    machine_hash: str = ""
    epoch: int = 0
    head: int = 0
    """The number of events, and so the number of the next one."""
    status: str = "idle"
    state: str = ""
    reason: str = ""
    steps: int = 0
    wake_at: float | None = None
    agent: str = ""
    session: str = ""
    parent: str = ""
    fork_seq: int | None = None
    moved_to: str = ""
    """The run that continues this one under a changed machine; empty for none."""
    follows: str = ""
    """How it follows the run `parent`: as another `attempt`, or as the `next` message. With
    `` after X`` if the caller insisted, although run X followed that one. Else empty."""
    priority: int = PRIORITY
    """When workers take it up, of all that are due: one of `PRIORITIES`."""
    created: float = 0.0
    updated: float = 0.0
    task: str = ""
    """The beginning of its task, on one line; empty in runs of before 0.2."""
    ending: str = ""
    """The name of the phase in which it ended; empty before."""
    message: str = ""
    """What it ended with, on one line: the error, what was spent of a limit, the last text."""
    last_state: str = ""
    """The state of the file at which it stopped, if its `state` is an end of the engine."""
    question: OpenQuestion | None = None
    """Its question; None if it does not wait for an answer."""
    tokens: int | None = None
    """Tokens of its model calls, its children's included. None before its first record."""
    cost: float | None = None
    """In USD, likewise. None also if the models called have no known price."""
    successor: str = ""
    """The newest run that follows this one. Not stored here: it is that run's `follows`."""
    parked: tuple[float, ...] | None = None
    """When processes died with it, for a run that no worker takes up; none if it rests since an
    import. None for all others. Not stored here: it is that of its request."""

    @property
    def tenant(self) -> str:
        """Whose run it is; empty for nobody's."""
        return tenant_of(self.run_id)

    @property
    def ended(self) -> bool:
        """Whether nothing more happens to the run: it is over, or continues as another one."""
        return self.status in ("completed", "error", MOVED)

    @property
    def stopped_at(self) -> str:
        """The state of the file at which it is, for people."""
        return self.last_state or self.state

    @property
    def duration(self) -> float:
        """Seconds from its start to its newest record."""
        return self.updated - self.created

    def phase(self, *, driven: bool | None = None, queued: bool = False) -> Phase:
        """How it stands. Its lease says whether it is driven, its requests whether it is queued."""
        phase = phase_of(
            self.status, self.reason, ending=self.ending, asks=self.question is not None,
            wakes=self.wake_at is not None, driven=driven, queued=queued,
        )  # fmt: skip
        phase = phase_if_parked(phase, self.parked is not None, driven)
        return phase_if_followed(phase, self.successor)

    def standing(self) -> Update:
        """The columns that each record updates, with their current values."""
        return Update(
            self.status, self.state, self.reason, self.steps, self.wake_at, self.ending,
            self.message, self.last_state, self.question, self.tokens, self.cost,
        )  # fmt: skip


class Update(Value, frozen=True, gc=False):
    """The columns of a run's row that an append updates."""

    status: str
    state: str
    reason: str = ""
    steps: int = 0
    wake_at: float | None = None
    ending: str = ""
    message: str = ""
    last_state: str = ""
    """These three change with the status only."""
    question: OpenQuestion | None = None
    tokens: int | None = None
    cost: float | None = None


LISTED = 300
"""The most characters of a task or message that a row keeps."""


def brief(text: str) -> str:
    """The beginning of a text for a row: one line, and only what can be printed.

    Call it after secrets are hidden: a cut secret is not recognised.
    """
    line = " ".join(text[: 8 * LISTED].split())
    cut = line if len(line) <= LISTED else f"{line[: LISTED - 1]}…"
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cut)


class InboxMessage(NamedTuple):
    """Something sent to a run from outside: an answer, a pause, a cancel, tasks."""

    msg_id: str
    at: float
    data: Mapping[str, Any]


Check: TypeAlias = Callable[[RunRow, Sequence[InboxMessage]], None]
"""Raises a `RunError` if a run's row and open messages forbid sending."""


class Snapshot(NamedTuple):
    """The position after an event: a cache, which may be missing."""

    seq: int
    """The number of events folded into it."""
    record_seq: int
    """The number of records folded into it."""
    data: Mapping[str, Any]


class Move(NamedTuple):
    """A run that a new one replaces."""

    read: RunRow
    """Its row, as it was read: if it has continued since, nothing is moved."""
    to: str
    """The id of the run that continues it."""


class WholeRun(NamedTuple):
    """A new run with its whole content."""

    row: RunRow
    """Its `head` and `epoch` are set by the journal."""
    events: Sequence[Event] = ()
    """Numbered from 0; stored with epoch 0, since no driver of this run wrote them."""
    inbox_of: str = ""
    """The run whose unconsumed messages are copied; empty for none."""
    carries: Callable[[InboxMessage], bool] | None = None
    """Selects the messages that are copied, in the transaction that copies them; None for all."""


def moved_row(row: RunRow, to: str) -> RunRow:
    """The row of a run after its move to another one. Its event takes the number `head`."""
    after = row.replace(epoch=row.epoch + 1, head=row.head + 1, question=None, wake_at=None)
    return after.replace(status=MOVED, moved_to=to)


def events_below(events: Sequence[Event], record_seq: int) -> int:
    """The number of events before record `record_seq`, without that record's own intents.

    An intent belongs to the record after it: a fork must not inherit one of a call that it is about
    to make again.
    """
    kept = 0
    for number, event in enumerate(events, 1):
        if event.record is not None:
            if event.record.seq >= record_seq:
                break
            kept = number
    return kept
