"""The journal: an append-only log, the single source of truth about a run.

    run(run_id, ..., origin, chain)               a `RunRow`, and its hash chain (`run.chain`)
    event(number, run_id, seq, epoch, type, record, at, digest, data)   its types: `EVENT_TYPES`
    inbox(run_id, msg_id, at, data, seq)          answers, pauses, cancels
    lease(run_id, driver, since, renewed, until)  its driver, and when the lease lapses
    request(key, run_id, kind, digest, at, data, outcome)  a request to drive it (`run.schedule`)
    cron(name, version, due, data)                schedules that start runs (`run.cron`)
    blob(hash, data)                              large payloads, canonical specs of machines
    quota, reservation                            limits across runs (`run.fleet`)
    snapshot(run_id, seq, data)                   a cache, never an event

An append names the event number that it expects to write (`head`) and the epoch in which this
process took the run over. If the journal holds other values, another process drives the run:
`Fenced` is raised and nothing is written. A second driver is normally refused when it acquires the
run (`run.lease`). The `number` of an event is its place among the commits of all runs.

Belongs here: the port and the in-memory journal, which defines what the others must do.
Source: docs/design.md, "The journal"; 004 "Step checkpointing and recovery".
"""

from __future__ import annotations

import hashlib
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, Unpack

from chartloop.core.durability import Durability
from chartloop.core.errors import Fenced, JournalCorrupt, RunError, UnknownRunError
from chartloop.core.records import Record
from chartloop.run.chain import Chains
from chartloop.run.cron import CronSchedules, MemoryCrons
from chartloop.run.fleet import Fleet, MemoryFleet
from chartloop.run.journal_pages import (
    ALL,
    EVENTS,
    NEWEST_FIRST,
    PAGE,
    EventCursors,
    RunCount,
    RunFilter,
    RunOrder,
    RunPage,
    Tail,
    TailEvent,
    Wanted,
    check_page,
    count_runs,
    page_of,
    part_of,
)
from chartloop.run.journal_records import (
    DAMAGED,
    MOVED,
    Check,
    Event,
    InboxMessage,
    Move,
    RunRow,
    Snapshot,
    Update,
    WholeRun,
    brief,
    events_below,
    moved_row,
)
from chartloop.run.lease import (
    CHILD_MARK,
    TTL,
    Acquired,
    Claim,
    Driver,
    Leases,
    ancestry,
    holds,
)  # fmt: skip
from chartloop.run.raw_run import Copies, RawRun
from chartloop.run.redact import Redactor
from chartloop.run.requests import Requests, StoredRequest, refuse_second
from chartloop.run.schedule import Census, MemorySchedule, Schedule
from chartloop.run.succession import (
    is_unbegun,
    refuse_followed,
    refuse_move,
    refuse_moved,
    refuse_overtaken,
)
from chartloop.run.tenants import covers, refuse_stranger


class Journal(
    Leases, Requests, Schedule, Census, CronSchedules, Fleet, Chains, Copies, Protocol
):  # fmt: skip
    """Storage of runs. All methods are coroutines; `suspends` says whether they ever wait."""

    @property
    def suspends(self) -> bool:
        """Whether a method may yield to the event loop."""
        ...

    @property
    def name(self) -> str:
        """Where it is, for people: a file, ``memory``, a URL without its password."""
        ...

    @property
    def path(self) -> Path | None:
        """The file that holds it; None if it is not kept in one."""
        ...

    @property
    def durability(self) -> Durability | None:
        """What a completed write survives; None if the journal ends with this process."""
        ...

    async def now(self) -> float:
        """The journal's clock, by which all its times are meant, in seconds since the epoch."""
        ...

    async def create(self, row: RunRow) -> None:
        """Create a run without events. `RunError` if the id is taken.

        `FollowedError` if another run `follows` the same parent, in the same session, unless that
        one was never begun (`succession.is_unbegun`).
        """
        ...

    async def create_whole(
        self, runs: Sequence[WholeRun], *, moves: Sequence[Move] = (), take_over: bool = False
    ) -> None:
        """Create runs with their whole content, in one transaction: all of them, or none.

        `moves` lists the runs that the new ones replace. Each gets an event that names its
        successor, its epoch rises, and from then on it is driven no more and takes no messages.
        Raises `MovedError` if one of them was moved before, `Driven` if one is being driven, unless
        `take_over`; `Fenced` if one has continued since it was read; `FollowedError` if another run
        follows one, or what a new one `follows`; `RunError` if an id is taken. Nothing is written
        then.
        """
        ...

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        """Take the run: its epoch rises, which fences its previous driver.

        `driver` gets a lease for `ttl` seconds; without a driver no lease is stored. `Driven`
        while another driver's lease of the run or of an ancestor is alive, unless `take_over`.
        `MovedError` if the run continues as another one.
        """
        ...

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *,
        update: Update | None = None, consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        """Write events `head`, `head + 1` ... in one transaction; returns the new head.

        `consumed` are the ids of the messages that these events process. When this returns, the
        events are as durable as the journal promises (`Durability`). If `head` or `epoch` does not
        match, raises `Fenced` with nothing written, unless exactly these events are the newest of
        the run, in this epoch: then they count as written.
        """
        ...

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Event]:
        """The events from number `start` on, in order; at most `limit`.

        `size` ends the reading with the event whose text reaches that many bytes, all counted.
        """
        ...

    async def records(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Record]:
        """The records from number `start` on, in order; at most `limit`, `size` as of `events`."""
        ...

    async def row(self, run_id: str) -> RunRow | None:
        """The row of a run, or None."""
        ...

    async def rows(self, *, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunRow]:
        """The matching runs, newest first; without child runs if `children` is false."""
        ...

    async def page(
        self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE, *,
        order: RunOrder = NEWEST_FIRST,
    ) -> RunPage:  # fmt: skip
        """At most `limit` matching runs in an order, after `cursor` (default: from the first).

        A cursor stays valid while runs are added and removed: no run is returned twice, and no
        existing one is skipped, unless what it is sorted by changed. `CursorError` for a text
        that is not a cursor.
        """
        ...

    async def tally(self, filter: RunFilter, width: float) -> list[RunCount]:
        """How many matching runs began in each `width` seconds from `created_from` on, by phase."""
        ...

    async def tail(
        self, cursor: str = "", limit: int = EVENTS, *, size: int | None = None, run: str = ""
    ) -> Tail:
        """At most `limit` events of all runs after `cursor`, in commit order.

        `size` as in `events`. With `run`, the events of that run and its children only, or, with
        ``acme:``, those of a tenant's runs; ``:`` are those without a tenant. A page may end, even
        without any, before all events were looked through: its `cursor` is not `newest` then.

        Without a cursor it starts at the first event; a `limit` of 0 only returns the end of the
        journal, `Tail.newest`. Events are as stored, with secrets removed where the journal hides
        them. An unreadable event is included with the reason. A fork's events appear as events
        of a new run.

        `CursorError` for a text that is not a cursor, `CursorGoneError` for a cursor of another
        journal or from the future: it carries the oldest and the newest.
        """
        ...

    async def changed(self, token: str = "") -> str | None:
        """A new token if anything may have changed since `token` was returned, else None.

        Call it before you read, so that later writes count as changes. Without a token, or with
        one of another journal object, you always get a new one. Takes microseconds while nothing
        happens.
        """
        ...

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        """Put a message into the run's inbox. False if a message with its id was already sent.

        `check` is called for a new message, in the same transaction: what it sees is still true
        when the message is written. If it raises, nothing is written. `MovedError` for a new
        message to a run that continues as another one.
        """
        ...

    async def message(self, run_id: str, msg_id: str) -> InboxMessage | None:
        """The message with that id that the inbox of the run or of a child ever held, or None."""
        ...

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        """Messages not yet consumed, in order of arrival."""
        ...

    async def put_blob(self, data: str) -> str:
        """Store a text, once; returns its hash."""
        ...

    async def blob(self, digest: str) -> str | None:
        """The text with that hash, or None."""
        ...

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        """Store a snapshot in place of the run's earlier one."""
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The run's snapshot, or None."""
        ...

    async def fork(
        self, run_id: str, record_seq: int, row: RunRow, notes: Sequence[Event] = ()
    ) -> int:
        """Create the run `row` with the events before record `record_seq`; returns its head.

        `notes` follow them: no records. They all have epoch 0: no driver of the new run wrote them.
        """
        ...

    async def remove(self, run_ids: Iterable[str]) -> int:
        """Delete runs, their children and all that only they hold; returns how many existed."""
        ...

    async def close(self) -> None:
        """Close the file or connection."""
        ...


def direct_journal(journal: Journal) -> Journal:
    """The journal's interface that never suspends, if it has one: for worker threads."""
    return getattr(journal, "direct", journal)


BY_HAND = "it was changed by hand or by another program"


def digest(data: str) -> str:
    """The hash under which a blob is stored."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_damaged(row: RunRow) -> None:
    """Raise `JournalCorrupt` if the row of a run is unreadable."""
    if row.status == DAMAGED:
        raise JournalCorrupt(
            f"run `{row.run_id}` is damaged: {row.reason}",
            hint=f"{BY_HAND}; `chartloop runs rm` removes it",
        )


def is_own_commit(row: RunRow, head: int, epoch: int, count: int) -> bool:
    """Whether `count` refused events may be the run's newest; the caller must compare them."""
    return row.epoch == epoch and row.head == head + count


def fenced_error(row: RunRow, head: int, epoch: int) -> Fenced:
    """The error for an append that does not fit the run's row."""
    return Fenced(
        f"run `{row.run_id}` is driven by another process",
        hint=f"this one expected event {head} in epoch {epoch}, "
        f"the journal holds {row.head} in epoch {row.epoch}",
    )


def duplicate_run_error(run_id: str, or_else: str = "") -> RunError:
    """The error for a new run whose id is in use."""
    return RunError(f"there is a run `{run_id}` already", hint=f"choose another run id{or_else}")


class _Log:
    """One run: its events and messages, and its row, which is made when it is read."""

    __slots__ = ("_found", "epoch", "events", "head", "inbox", "newest", "snapshot")

    def __init__(self, row: RunRow, events: list[Event], inbox: Iterable[InboxMessage]) -> None:
        self.row, self.events = row, events
        self.inbox = {message.msg_id: (message, False) for message in inbox}
        self.snapshot: Snapshot | None = None
        self._found: tuple[int, list[Record]] = 0, []

    @property
    def records(self) -> list[Record]:
        """The records by number, gathered from the events that are new since the last reading."""
        read, found = self._found
        if new := self.events[read:]:
            found = found + [event.record for event in new if event.record is not None]
            self._found = read + len(new), found  # in one: other threads read too
        return found

    @property
    def row(self) -> RunRow:
        """The row of the run. Other threads may read it during an append."""
        row, head, at, update = self.newest
        if head == row.head:
            return row
        return row.replace(head=head, **({"updated": at, **update.to_mapping()} if update else {}))

    @row.setter
    def row(self, row: RunRow) -> None:
        self.head, self.epoch = row.head, row.epoch
        self.newest: tuple[RunRow, int, float, Update | None] = row, row.head, 0.0, None


class MemoryJournal(MemorySchedule, MemoryCrons, MemoryFleet):
    """A journal that lives as long as the process. The default of the library.

    The whole port, fencing included: two runs over it behave like two processes over one file.
    """

    suspends = False
    name = "memory"
    path = None
    durability = None

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        MemorySchedule.__init__(self, now)
        MemoryCrons.__init__(self)
        MemoryFleet.__init__(self, now)
        self.redactor: Redactor | None = None
        """Hides secrets from listeners; the stored records keep them."""
        self._logs: dict[str, _Log] = {}
        self._followers: dict[str, list[str]] = {}
        """The runs that follow each, in the order in which they came."""
        self._blobs: dict[str, str] = {}
        self._id = secrets.token_hex(4)
        # event number n + 1 is entry n of these lists; plain values keep a step cheap
        self._runs: list[str | None] = []
        """The run of each event; None once it is removed."""
        self._seqs: list[int] = []
        """The number of each event in its run."""

    async def now(self) -> float:
        return self._now()

    async def create(self, row: RunRow) -> None:
        refuse_stranger(row.run_id, row.parent)
        await self._refuse(row)
        self._add(row, [], ())
        self._changes += 1

    async def _refuse(self, row: RunRow) -> None:
        """Raise if the id of a new run is taken, or another run follows what it follows."""
        if row.run_id in self._logs:
            raise duplicate_run_error(row.run_id)
        if row.follows and (origin := self.row_now(row.parent)) is not None:
            refuse_moved(origin)
        for run_id in self._followers.get(row.parent, [])[::-1] if row.follows else ():
            one = self._log(run_id).row
            if is_unbegun(one, self._now()) and await self.living_lease(run_id) is None:
                await self.remove([run_id])
            elif one.session == row.session or row.follows.startswith("attempt"):
                refuse_followed(row, one)
                break

    def _add(self, row: RunRow, events: list[Event], inbox: Iterable[InboxMessage]) -> None:
        row = row.replace(task=brief(row.task), successor="")
        self._logs[row.run_id] = _Log(row, events, inbox)
        if row.follows:
            self._followers.setdefault(row.parent, []).append(row.run_id)
            self._mark(row.parent)

    def _mark(self, run_id: str) -> None:
        """Write into a run's row which one follows it."""
        if (log := self._logs.get(run_id)) is not None:
            log.row = log.row.replace(successor=([""] + self._followers[run_id])[-1])

    async def create_whole(
        self, runs: Sequence[WholeRun], *, moves: Sequence[Move] = (), take_over: bool = False
    ) -> None:
        for read, to in moves:
            refuse_stranger(to, read.run_id)
            row = self._log(read.run_id).row
            refuse_move(row)
            self.grant(read.run_id, Claim(take_over=take_over))
            refuse_overtaken(row, read)
        for run in runs:
            refuse_stranger(run.row.run_id, run.row.parent)
            await self._refuse(run.row)
        for row, events, inbox_of, carries in runs:
            messages = await self.inbox(inbox_of) if inbox_of else []
            self._add(
                row.replace(head=len(events), epoch=0),
                [event.replace(epoch=0) for event in events],
                (m for m in messages if carries is None or carries(m)),
            )
            self._count(row.run_id, 0, len(events))
        for read, to in moves:
            self.take(read.run_id, Claim(take_over=True))
            self.close_reservations(read.run_id)
            log = self._log(read.run_id)
            moved = moved_row(log.row, to)
            log.events.append(
                Event(log.row.head, MOVED, self._now(), None, {"to": to}, moved.epoch)
            )
            log.row = moved
            self._count(read.run_id, moved.head - 1, 1)
            self.wake(read.run_id)

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        log = self._log(run_id)
        refuse_moved(log.row)
        acquired = self.take(run_id, Claim(driver, ttl, take_over))
        self.close_reservations(run_id)
        log.row = log.row.replace(epoch=log.row.epoch + 1)
        self._changes += 1
        return log.row, acquired

    async def mark_restored(self, *, lift: bool = False) -> None:
        for log in () if lift else self._logs.values():
            log.row = log.row if log.row.ended else log.row.replace(epoch=log.row.epoch + 1)
        newest = max((log.row.created for log in self._logs.values()), default=0.0)
        self._restored = 0.0 if lift else max(self._now(), newest)
        self._changes += 1

    def check_driver(self, run_id: str, head: int, epoch: int) -> None:
        if (row := self._log(run_id).row).epoch != epoch:
            raise fenced_error(row, head, epoch)

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *,
        update: Update | None = None, consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        log = self._logs.get(run_id) or self._log(run_id)
        if events and not events[0].epoch == events[-1].epoch == epoch:
            events = [event.replace(epoch=epoch) for event in events]
        if log.head != head or log.epoch != epoch:
            own = is_own_commit(log.row, head, epoch, len(events))
            if own and log.events[head:] == [*events]:
                return log.head
            raise fenced_error(log.row, head, epoch)
        if update is not None and update.message:
            update = update.replace(message=brief(update.message))
        if events:
            row, _, at, before = log.newest
            at, newest = (at, before) if update is None else (events[-1].at, update)
            log.events += events
            log.head = head + len(events)
            log.newest = row, log.head, at, newest
        elif update is not None:
            log.row = log.row.replace(**update.to_mapping())
        self._count(run_id, head, len(events))
        for msg_id in consumed:
            if msg_id in log.inbox:
                log.inbox[msg_id] = (log.inbox[msg_id][0], True)
        return log.head

    async def events(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Event]:
        return part_of(self._log(run_id).events, start, limit, size)

    async def records(
        self, run_id: str, start: int = 0, limit: int | None = None, *, size: int | None = None
    ) -> list[Record]:
        return part_of(self._log(run_id).records, start, limit, size)

    async def place_request(self, request: StoredRequest) -> StoredRequest:
        if (known := self._requests.get(request.key)) is not None:
            return known
        if request.is_open and (log := self._logs.get(request.run_id)) is not None:
            refuse_moved(log.row)
        before = await self.requests(request.run_id, open_only=True)
        refuse_second(request, next(iter(before), None))
        self._requests[request.key] = request
        self._changes += 1
        return request

    async def settle_request(
        self, key: str, outcome: Mapping[str, Any], epoch: int = 0, *, before: Any = None
    ) -> bool:
        if (request := self._requests.get(key)) is None or request.outcome != before:
            return False
        row = self.row_now(request.run_id)
        if before is None and not holds(row, epoch, partial(self.grant, request.run_id)):
            return False
        self._requests[key] = request._replace(outcome=outcome)
        self._changes += 1
        return True

    async def withdraw_request(self, key: str, *, before: Any = None) -> None:
        if before is None or getattr(self._requests.get(key), "outcome", None) == before:
            self._changes += self._requests.pop(key, None) is not None

    async def requests(
        self, run_id: str | None = None, *, key: str | None = None, open_only: bool = False,
        limit: int | None = None,
    ) -> list[StoredRequest]:  # fmt: skip
        found = (
            one
            for one in reversed([*self._requests.values()])
            if run_id in (None, one.run_id) and key in (None, one.key)
            if one.is_open or not open_only
        )
        return list(islice(found, limit))

    async def chain(self, run_id: str) -> None:
        self._log(run_id)  # nothing is stored as bytes

    async def raw(self, run_id: str) -> None:
        self._log(run_id)

    async def put_raw(self, runs: Sequence[RawRun]) -> None:
        raise RunError("a journal in memory takes no whole runs", hint="name a file or a database")

    async def chain_ends(self, run_ids: Sequence[str]) -> dict[str, bytes]:
        return {}

    def row_now(self, run_id: str) -> RunRow | None:
        return log.row if (log := self._logs.get(run_id)) else None

    async def row(self, run_id: str) -> RunRow | None:
        return None if (row := self.row_now(run_id)) is None else self.with_parked(row)

    def _rows(self) -> list[RunRow]:
        return [self.with_parked(log.row) for log in [*self._logs.values()]]

    async def rows(self, *, limit: int | None = None, **wanted: Unpack[Wanted]) -> list[RunRow]:
        wanted.setdefault("children", True)
        filter = RunFilter(**wanted)
        matches = [
            row for row in self._rows()[::-1] if filter.fits(row)
        ]  # equals: the last created first
        matches.sort(key=lambda r: r.created, reverse=True)
        return matches[:limit]

    async def page(
        self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE, *,
        order: RunOrder = NEWEST_FIRST,
    ) -> RunPage:  # fmt: skip
        return page_of(self._rows(), filter, cursor, limit, order)

    async def tally(self, filter: RunFilter, width: float) -> list[RunCount]:
        return count_runs(self._rows(), filter, width)

    async def tail(
        self, cursor: str = "", limit: int = EVENTS, *, size: int | None = None, run: str = ""
    ) -> Tail:
        check_page(limit, 0)
        left = math.inf if size is None else size
        runs, seqs, newest = self._runs, self._seqs, len(self._seqs)
        cursors = EventCursors(self._id, 0, newest)
        at = cursors.read(cursor)
        events: list[TailEvent] = []
        while at < newest and len(events) < limit and left > 0:
            run_id, seq = runs[at], seqs[at]
            at += 1
            if run_id is not None and covers(run, run_id):
                event = self._logs[run_id].events[seq]
                events.append(TailEvent(cursors.write(at), run_id, event))
                left -= 0 if size is None else len(str(event))
        return Tail(events, cursors.write(at), cursors.write(newest))

    async def changed(self, token: str = "") -> str | None:
        now = f"{self._id}-{self._changes}"
        return None if now == token else now

    def _count_records(self, run_id: str) -> int:
        tree = (log for name, log in self._logs.items() if run_id in ancestry(name))
        return sum(len(log.records) for log in tree)

    def _count(self, run_id: str, start: int, count: int) -> None:
        """Number `count` events of a run, from `start` on, among those of all runs."""
        self._changes += 1
        self._runs += [run_id] * count
        self._seqs += range(start, start + count)

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        log = self._log(run_id)
        if message.msg_id in log.inbox:
            return False
        refuse_moved(log.row)
        if check is not None:
            check(log.row, await self.inbox(run_id))
        log.inbox[message.msg_id] = (message, False)
        self._changes += 1
        self.wake(run_id)
        return True

    async def message(self, run_id: str, msg_id: str) -> InboxMessage | None:
        inboxes = (log.inbox for name, log in self._logs.items() if covers(run_id, name))
        return next((inbox[msg_id][0] for inbox in inboxes if msg_id in inbox), None)

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        inbox = (self._logs.get(run_id) or self._log(run_id)).inbox
        return [message for message, used in inbox.values() if not used] if inbox else []

    async def put_blob(self, data: str) -> str:
        self._blobs[key := digest(data)] = data
        return key

    async def blob(self, digest: str) -> str | None:
        return self._blobs.get(digest)

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self._log(run_id).snapshot = snapshot

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return self._log(run_id).snapshot

    async def fork(
        self, run_id: str, record_seq: int, row: RunRow, notes: Sequence[Event] = ()
    ) -> int:
        events = self._log(run_id).events
        kept = [*events[: events_below(events, record_seq)], *notes]
        await self.create(row.replace(parent=run_id, fork_seq=record_seq, head=len(kept)))
        self._logs[row.run_id].events.extend(event.replace(epoch=0) for event in kept)
        self._count(row.run_id, 0, len(kept))
        return len(kept)

    async def remove(self, run_ids: Iterable[str]) -> int:
        removed, gone = 0, set[str]()
        for run_id in run_ids:
            removed += run_id in self._logs
            below = run_id + CHILD_MARK
            for name in (run_id, *(n for n in self._logs if n.startswith(below))):
                gone.add(name)
                self.close_reservations(name, removed=True)
                log = self._logs.pop(name, None)
                if log is not None and (row := log.row).follows:
                    self._followers[row.parent].remove(name)
                    self._mark(row.parent)
            self.forget(run_id)
        self._changes += 1
        self._requests = {k: one for k, one in self._requests.items() if one.run_id not in gone}
        self._runs[:] = [None if run in gone else run for run in self._runs]
        return removed

    async def close(self) -> None:
        return None

    def _log(self, run_id: str) -> _Log:
        if (log := self._logs.get(run_id)) is None:
            raise UnknownRunError(f"there is no run `{run_id}` in this journal")
        return log
