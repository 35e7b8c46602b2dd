"""What is written to a journal, as data: one record for each write of the port.

A write names its run, holds no connection, and is already redacted text, so writes can be grouped,
ordered by run and sent together. `Writer` makes their texts, outside of any transaction.

Belongs here: what every database with tables needs. Never: SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

from chartloop.core.codec import to_json_fast
from chartloop.core.errors import RunError
from chartloop.core.records import Record
from chartloop.run.fleet import FleetLimit, Reservation
from chartloop.run.journal import Check, Event, InboxMessage, Move, RunRow, Snapshot, Update
from chartloop.run.journal_records import WholeRun, brief
from chartloop.run.lease import Claim
from chartloop.run.payload import DEEPEST, pack, too_deep
from chartloop.run.raw_run import RawRun
from chartloop.run.redact import Redactor
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import Activation, WorkerRow

Stored: TypeAlias = str | bytes
"""A text in a column: bytes if it has lone surrogates."""
Columns: TypeAlias = tuple[Any, ...]
"""The values of the columns of a row."""


def stored_text(text: str) -> Stored:
    """Encode a text for a column."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


class Cursor(Protocol):
    """The outcome of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def close(self) -> None: ...
    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """An open database, as `sqlite3` gives it. Its caller begins and ends transactions."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor: ...


class Line(NamedTuple):
    """An event as the values of a row."""

    type: str
    record: int | None
    at: float
    data: Stored
    blobs: Mapping[str, str]


class Create(NamedTuple):
    """A new run."""

    run_id: str
    row: Columns


class Filled(NamedTuple):
    """A new run with its whole content."""

    run_id: str
    row: Columns
    lines: Sequence[Line]
    inbox_of: str
    carries: Callable[[InboxMessage], bool] | None


class CreateWhole(NamedTuple):
    """New runs with their whole content, and the runs that they replace."""

    run_id: str
    runs: Sequence[Filled]
    moves: Sequence[Move]
    claim: Claim


class Acquire(NamedTuple):
    """A claim to drive a run."""

    run_id: str
    claim: Claim


class Renew(NamedTuple):
    """A lease that lasts `ttl` seconds longer."""

    run_id: str
    token: str
    ttl: float


class Release(NamedTuple):
    """A lease that ends."""

    run_id: str
    token: str


class MarkRestored(NamedTuple):
    """The mark of a journal that was restored from a backup."""

    run_id: str
    lift: bool


class Append(NamedTuple):
    """Events at the end of a run's log, which has an expected head and epoch."""

    run_id: str
    head: int
    epoch: int
    lines: Sequence[Line]
    update: Columns | None
    """The columns of `Writer.update`."""
    consumed: Sequence[str]


class Send(NamedTuple):
    """A message for the inbox of a run."""

    run_id: str
    message: InboxMessage
    data: Stored
    check: Check | None


class PutBlob(NamedTuple):
    """A text that stays; `hide` is called only if it is new."""

    run_id: str
    key: str
    text: str
    hide: Callable[[str], str]


class PutSnapshot(NamedTuple):
    """A snapshot in place of the run's earlier one."""

    run_id: str
    snapshot: Snapshot
    data: str


class Fork(NamedTuple):
    """A new run with the events before a record of this one."""

    run_id: str
    record_seq: int
    new: Create
    notes: Sequence[Line] = ()


class Remove(NamedTuple):
    """Runs that are deleted with their children."""

    run_id: str
    run_ids: Sequence[str]


class PutRaw(NamedTuple):
    """Runs as they were stored elsewhere."""

    run_id: str
    runs: Sequence[RawRun]


class PlaceRequest(NamedTuple):
    """A request to a run."""

    run_id: str
    request: StoredRequest
    data: Stored
    outcome: Stored | None


class SettleRequest(NamedTuple):
    """The outcome of an open request, from the driver of its run since `epoch`."""

    run_id: str
    key: str
    outcome: Stored
    epoch: int
    before: Stored | None = None
    """The outcome whose place it takes; None for an open request."""


class WithdrawRequest(NamedTuple):
    """A request that had no effect."""

    run_id: str
    key: str
    before: Stored | None = None
    """The outcome that it must still have; None for any."""


class PutCron(NamedTuple):
    """A cron schedule in place of a version of it, with the runs and requests of a tick."""

    run_id: str
    name: str
    version: int | None
    """The version that it replaces; None for a new one."""
    first: int
    """The version of a new one."""
    after: tuple[float | None, Stored] | None
    """When it is due, and its text; None if it is removed."""
    whole: CreateWhole
    requests: Sequence[PlaceRequest]


class Enqueue(NamedTuple):
    """A run that is due now."""

    run_id: str


class ClaimRuns(NamedTuple):
    """A worker's claim of due runs: of `only` these, if they are named, or of lapsed ones."""

    run_id: str
    worker: str
    limit: int
    can: Mapping[str, bool]
    only: Sequence[str] | None = None
    alone: bool = False


class Keep(NamedTuple):
    """A worker that is alive."""

    run_id: str
    worker: WorkerRow
    ttl: float


class HandBack(NamedTuple):
    """A claim that is given up."""

    run_id: str
    worker: str
    run: Activation
    due: float | None


class Sweep(NamedTuple):
    """The runs of dead workers, and with `lost` those that were never made due."""

    run_id: str
    lost: bool


class SetLimit(NamedTuple):
    """A limit across runs."""

    run_id: str
    limit: FleetLimit
    only_new: bool


class RemoveLimit(NamedTuple):
    """A limit across runs that ends."""

    run_id: str
    scope: str
    what: str
    per: str


class Reserve(NamedTuple):
    """What a model call may use of the limits across runs."""

    run_id: str
    reservation: Reservation


class SettleCall(NamedTuple):
    """The usage of a model call; None if it is unknown. Without `head`, one in doubt."""

    run_id: str
    key: str
    used: Mapping[str, float] | None
    head: int | None


Write: TypeAlias = (
    Create | CreateWhole | Acquire | Renew | Release | MarkRestored
    | Append | Send | PutBlob | PutSnapshot | Fork
    | Remove | PutRaw | PlaceRequest | SettleRequest | WithdrawRequest | PutCron | Enqueue
    | ClaimRuns | Keep | HandBack | Sweep | SetLimit | RemoveLimit | Reserve
    | SettleCall
)  # fmt: skip
"""`run_id` is empty for a write to no particular run."""


class Writer:
    """Converts data to redacted text for the journal."""

    def __init__(
        self, redactor: Redactor | None, stored: Callable[[str], Stored] = stored_text
    ) -> None:
        self.redactor = redactor
        self.stored = stored
        """Encodes a text for a column."""
        self._hide: Callable[[str], str] = redactor.json if redactor else str
        self.text: Callable[[str], str] = redactor.text if redactor else str
        """Redacts plain text."""

    def hide(self, values: Iterable[str]) -> None:
        """Hide these secrets too, unless nothing is hidden."""
        if self.redactor is not None:
            self.redactor = self.redactor.also(values)
            self._hide, self.text = self.redactor.json, self.redactor.text

    def document(self, data: Mapping[str, Any] | Record) -> str:
        """Data as JSON text. Raises `RunError` if it is not JSON or nested too deeply."""
        try:
            text = data.to_json() if isinstance(data, Record) else to_json_fast(data)
        except (TypeError, ValueError, RecursionError) as error:
            raise _unfit(str(error)) from error
        if too_deep(text):
            raise _unfit(f"it is nested more than {DEEPEST} levels deep")
        return self._hide(text)

    def create(self, row: RunRow) -> Create:
        """A new run."""
        return Create(row.run_id, self._columns(row))

    def whole(self, run: WholeRun) -> Filled:
        """A new run with its content."""
        row = run.row.replace(head=len(run.events), epoch=0)
        lines = self.lines(run.events)
        return Filled(row.run_id, self._columns(row), lines, run.inbox_of, run.carries)

    def update(self, update: Update | None) -> Columns | None:
        """The columns that an append updates; None for no update."""
        return None if update is None else self._columns(update)

    def _columns(self, row: RunRow | Update) -> Columns:
        """The stored columns of a row or its update; they end with the question and the usage."""
        if isinstance(row, RunRow) and row.task:
            row = row.replace(task=brief(self.text(row.task)))
        if row.message:
            row = row.replace(message=brief(self.text(row.message)))
        question = row.question
        text = None if question is None else self.stored(self.document(question.to_mapping()))
        before = row.to_tuple()[: -5 if isinstance(row, RunRow) else -3]
        return (*before, text, row.tokens, row.cost)

    def lines(self, events: Iterable[Event]) -> list[Line]:
        """Convert events to rows."""
        lines: list[Line] = []
        for event in events:
            record = event.record
            packed = pack(self.document(event.data if record is None else record))
            number = None if record is None else record.seq
            text = self.stored(packed.text)
            lines.append(Line(event.type, number, event.at, text, packed.blobs))
        return lines


def _unfit(why: str) -> RunError:
    return RunError(
        f"this cannot be kept in a journal: {why}",
        hint="actions, tools and answers give JSON data: text, numbers, lists and mappings",
    )
