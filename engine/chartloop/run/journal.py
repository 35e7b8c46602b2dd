"""The journal: an append-only log, the only truth about a run.

    run(run_id, machine, machine_hash, epoch, head, status, state, reason, wake_at, agent,
        session, parent, fork_seq, created, updated, question, tokens, cost)
    event(number, run_id, seq, epoch, type, at, data)   types: record, intent, result, in_doubt
    inbox(run_id, msg_id, at, data, seq)          answers, pauses, cancels
    lease(run_id, driver, since, renewed, until)  who drives it, and until when
    request(key, run_id, kind, digest, at, data, outcome)  what was asked of it over HTTP
    blob(hash, data)                              large payloads, canonical specs of machines
    snapshot(run_id, seq, data)                   a cache, never an event

An append names the event number that it expects to write (`head`) and the epoch in which this
process took the run over; if either is not what the journal holds, another process drives the
run and `Fenced` is raised with nothing written. A commit whose answer was lost is met again as
the same event by the same epoch and counts as done. Whoever acquires a run that someone drives
is refused before it comes to that (`run.lease`).

The `number` of an event is the order of commits over all runs, by which a journal is watched
(`run.journal_pages`). A run's row says what its newest record led to, in the same transaction: who
lists runs, or looks for what they ask, opens none.

Belongs here: the port and the in-memory journal, which defines what the others must do.
Source: design "architecture", section 4; 004 "Step checkpointing and recovery".
"""

from __future__ import annotations

import hashlib
import heapq
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from chartloop.core.errors import Fenced, JournalCorrupt, RunError, UnknownRunError
from chartloop.run.journal_pages import (
    ALL,
    EVENTS,
    PAGE,
    EventCursors,
    RunFilter,
    RunPage,
    Tail,
    TailEvent,
    check_page,
    read_run_cursor,
    run_cursor,
)
from chartloop.run.journal_records import (
    DAMAGED,
    Check,
    Event,
    InboxMessage,
    RunRow,
    Snapshot,
    Update,
    WholeRun,
)
from chartloop.run.lease import CHILD_MARK, TTL, Acquired, Claim, Driver, Leases, MemoryLeases
from chartloop.run.redact import Redactor
from chartloop.run.requests import MemoryRequests, Requests


class Journal(Leases, Requests, Protocol):
    """Where runs are kept. All methods are coroutines; `suspends` says whether they ever wait."""

    @property
    def suspends(self) -> bool:
        """Whether a method may give the event loop away."""
        ...

    @property
    def name(self) -> str:
        """Where it is, for people: a file, ``memory``."""
        ...

    async def create(self, row: RunRow) -> None:
        """A new run with no events. `RunError` when the id is taken."""
        ...

    async def create_whole(
        self, runs: Sequence[WholeRun], *, after: Sequence[RunRow] = (), take_over: bool = False
    ) -> None:
        """New runs with all that they hold, in one transaction: all of them, or none.

        `after` are runs in whose place these continue, as they were read: their epochs rise.
        `Driven` when someone drives one, unless that is taken over; `Fenced` when one continued
        since, `RunError` when an id is taken. Then nothing is written.
        """
        ...

    async def acquire(
        self,
        run_id: str,
        driver: Driver | None = None,
        *,
        ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:
        """Take the run: its epoch rises, and whoever drove it is fenced from now on.

        `driver` gets a lease for `ttl` seconds; without one none is kept. `Driven` while another's
        lease of the run, or of a run that it is a child of, is alive, unless that is taken over.
        """
        ...

    async def append(
        self,
        run_id: str,
        head: int,
        epoch: int,
        events: Sequence[Event],
        *,
        update: Update | None = None,
        consumed: Sequence[str] = (),
    ) -> int:
        """Write events `head`, `head + 1` ... in one transaction; gives the new head.

        `consumed` are messages that these events answer. When this returns, the events survive
        what the journal promises to survive (`Durability`). Raises `Fenced` with nothing written,
        unless the very same events are the run's last, of this epoch: then they count as done.
        """
        ...

    async def events(self, run_id: str, start: int = 0, limit: int | None = None) -> list[Event]:
        """The events from number `start` on, in order; at most `limit` of them."""
        ...

    async def row(self, run_id: str) -> RunRow | None:
        """One run's row, or None."""
        ...

    async def rows(
        self,
        *,
        machine: str | None = None,
        status: str | None = None,
        agent: str | None = None,
        session: str | None = None,
        parent: str | None = None,
        prefix: str | None = None,
        children: bool = True,
        limit: int | None = None,
    ) -> list[RunRow]:
        """Runs that fit, the newest first; with `children` false no child's (see `CHILD_MARK`)."""
        ...

    async def page(self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE) -> RunPage:
        """At most `limit` runs that fit, the newest first, behind `cursor` (default: the first).

        A cursor stays right while runs are added and removed: no run comes twice, and none that
        was there is left out. `CursorError` for one that no page gave.
        """
        ...

    async def tail(self, cursor: str = "", limit: int = EVENTS) -> Tail:
        """At most `limit` events of all runs behind `cursor`, in the order of their commits.

        Without a cursor it starts at the first event; with a `limit` of 0 it only tells where the
        journal ends, `Tail.newest`. Events are as stored, without secrets where the journal hides
        them. An event that cannot be read is included and says why. The events of a fork are
        events of a new run.

        `CursorError` for a text that is not a cursor, `CursorGoneError` for a cursor of another
        journal or from the future: it carries the oldest and the newest.
        """
        ...

    async def changed(self, token: str = "") -> str | None:
        """A new token where something may have changed since `token` was given, else None.

        Without a token you always get one. Ask before you read: what is written after that is a
        change. It costs microseconds while nothing happens. A token is for this very object; any
        other text gets a new one.
        """
        ...

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        """Put a message into the run's inbox. False when a message of that id was put there before.

        `check` is called in the same transaction, for a new message: what it looks at is still so
        when the message is written. What it raises is raised, with nothing written.
        """
        ...

    async def has_message(self, run_id: str, msg_id: str) -> bool:
        """Whether the inbox of the run or of a child ever held a message of that id."""
        ...

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        """Messages not yet consumed, in order of arrival."""
        ...

    async def put_blob(self, data: str) -> str:
        """Keep a text for good; gives its hash. The same text is kept once."""
        ...

    async def blob(self, digest: str) -> str | None:
        """The text of that hash, or None."""
        ...

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the run's earlier one."""
        ...

    async def snapshot(self, run_id: str) -> Snapshot | None:
        """The run's snapshot, or None."""
        ...

    async def fork(self, run_id: str, record_seq: int, row: RunRow) -> int:
        """A new run `row` with the events below record `record_seq`; gives its head.

        The copied events are of epoch 0: no driver of the new run wrote them.
        """
        ...

    async def remove(self, run_ids: Iterable[str]) -> int:
        """Forget runs, their children's and everything that only they hold.

        Gives how many of those that were named there were.
        """
        ...

    async def close(self) -> None:
        """Let the file or connection go."""
        ...


def direct_journal(journal: Journal) -> Journal:
    """The same journal by a face that never suspends, where it has one: for worker threads."""
    return getattr(journal, "direct", journal)


BY_HAND = "it was changed by hand or by another program"


def digest(data: str) -> str:
    """The hash by which a blob is kept."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass")).hexdigest()


def refuse_damaged(row: RunRow) -> None:
    """`JournalCorrupt` where the row of a run cannot be read."""
    if row.status == DAMAGED:
        raise JournalCorrupt(
            f"run `{row.run_id}` is damaged: {row.reason}",
            hint=f"{BY_HAND}; `chartloop runs rm` removes it",
        )


def is_own_commit(row: RunRow, head: int, epoch: int, count: int) -> bool:
    """Whether `count` refused events may be the run's last, this driver's: yet to be compared."""
    return row.epoch == epoch and row.head == head + count


def fenced_error(row: RunRow, head: int, epoch: int) -> Fenced:
    """The error for an append that does not fit the run's row."""
    return Fenced(
        f"run `{row.run_id}` is driven by another process",
        hint=f"this one expected event {head} in epoch {epoch}, "
        f"the journal holds {row.head} in epoch {row.epoch}",
    )


def duplicate_run_error(run_id: str) -> RunError:
    """The error for a new run whose id is in use."""
    return RunError(f"there is a run `{run_id}` already", hint="choose another run id")


def refuse_overtaken(row: RunRow, read: RunRow) -> None:
    """`Fenced` where a run is no more as it was `read`: someone drove it, or moved it."""
    if (row.head, row.epoch) != (read.head, read.epoch):
        raise Fenced(
            f"run `{row.run_id}` was driven or moved by another process since it was read",
            hint="nothing was written; read the run again, and retry",
        )


@dataclass(slots=True)
class _Log:
    row: RunRow
    events: list[Event] = field(default_factory=list[Event])
    inbox: dict[str, tuple[InboxMessage, bool]] = field(
        default_factory=dict[str, tuple[InboxMessage, bool]]
    )
    snapshot: Snapshot | None = None


class MemoryJournal(MemoryLeases, MemoryRequests):
    """A journal that lives as long as the process. The default of the library.

    Honours the whole port, the fence too: two runs over one `MemoryJournal` behave as two
    processes over one file.
    """

    suspends = False
    name = "memory"

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        MemoryLeases.__init__(self, now)
        MemoryRequests.__init__(self, self._note_change)
        self.redactor: Redactor | None = None
        """Hides secrets from those who listen; what is kept here stays as it is."""
        self._logs: dict[str, _Log] = {}
        self._blobs: dict[str, str] = {}
        self._id = secrets.token_hex(4)
        self._changes = 0
        # event number n + 1 is the n-th of these; lists of plain values, for a step to stay cheap
        self._runs: list[str | None] = []
        """The run of each event; None where it was removed."""
        self._seqs: list[int] = []
        """The number of each event in its run."""

    async def create(self, row: RunRow) -> None:
        if row.run_id in self._logs:
            raise duplicate_run_error(row.run_id)
        self._logs[row.run_id] = _Log(row)
        self._changes += 1

    async def create_whole(
        self, runs: Sequence[WholeRun], *, after: Sequence[RunRow] = (), take_over: bool = False
    ) -> None:
        for read in after:
            row = self._log(read.run_id).row
            self.grant(read.run_id, Claim(take_over=take_over))
            refuse_overtaken(row, read)
        for run in runs:
            if run.row.run_id in self._logs:
                raise duplicate_run_error(run.row.run_id)
        waiting = [await self.inbox(run.inbox_of) if run.inbox_of else [] for run in runs]
        for read in after:
            await self.acquire(read.run_id, take_over=True)
        for (row, events, _), messages in zip(runs, waiting, strict=True):
            self._logs[row.run_id] = _Log(
                row.replace(head=len(events), epoch=0),
                [event.replace(epoch=0) for event in events],
                {message.msg_id: (message, False) for message in messages},
            )
            self._count(row.run_id, 0, len(events))

    async def acquire(
        self, run_id: str, driver: Driver | None = None, *, ttl: float = TTL,
        take_over: bool = False,
    ) -> tuple[RunRow, Acquired]:  # fmt: skip
        log = self._log(run_id)
        acquired = self.take(run_id, Claim(driver, ttl, take_over))
        log.row = log.row.replace(epoch=log.row.epoch + 1)
        self._changes += 1
        return log.row, acquired

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *,
        update: Update | None = None, consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        log = self._log(run_id)
        row = log.row
        events = [e if e.epoch == epoch else e.replace(epoch=epoch) for e in events]
        if row.head != head or row.epoch != epoch:
            if is_own_commit(row, head, epoch, len(events)) and log.events[head:] == events:
                return row.head
            raise fenced_error(row, head, epoch)
        log.events.extend(events)
        self._count(run_id, head, len(events))
        head += len(events)
        if update is None:
            log.row = row.replace(head=head)
        else:
            log.row = RunRow(
                row.run_id, row.machine, row.machine_hash, epoch, head, update.status, update.state,
                update.reason, update.steps, update.wake_at, row.agent, row.session, row.parent,
                row.fork_seq, row.created, events[-1].at if events else row.updated,
                update.question, update.tokens, update.cost,
            )  # fmt: skip
        for msg_id in consumed:
            if msg_id in log.inbox:
                log.inbox[msg_id] = (log.inbox[msg_id][0], True)
        return head

    async def events(self, run_id: str, start: int = 0, limit: int | None = None) -> list[Event]:
        return self._log(run_id).events[start : None if limit is None else start + limit]

    async def row(self, run_id: str) -> RunRow | None:
        log = self._logs.get(run_id)
        return log.row if log else None

    async def rows(
        self, *, machine: str | None = None, status: str | None = None, agent: str | None = None,
        session: str | None = None, parent: str | None = None, prefix: str | None = None,
        children: bool = True, limit: int | None = None,
    ) -> list[RunRow]:  # fmt: skip
        found = [
            log.row
            for log in reversed(self._logs.values())  # equally old: the one created last is first
            if (machine is None or log.row.machine == machine)
            and (status is None or log.row.status == status)
            and (agent is None or log.row.agent == agent)
            and (session is None or log.row.session == session)
            and (parent is None or log.row.parent == parent)
            and (prefix is None or log.row.run_id.startswith(prefix))
            and (children or CHILD_MARK not in log.row.run_id)
        ]
        found.sort(key=lambda r: r.created, reverse=True)
        return found[:limit]

    async def page(self, filter: RunFilter = ALL, cursor: str = "", limit: int = PAGE) -> RunPage:
        check_page(limit)
        behind: Any = read_run_cursor(cursor) if cursor else None
        rows = (log.row for log in [*self._logs.values()])
        found = (r for r in rows if filter.fits(r) and (not behind or _place(r) < behind))
        first = heapq.nlargest(limit + 1, found, _place)
        more = len(first) > limit
        return RunPage(first[:limit], run_cursor(*_place(first[limit - 1])) if more else "")

    async def tail(self, cursor: str = "", limit: int = EVENTS) -> Tail:
        check_page(limit, 0)
        runs, seqs, newest = self._runs, self._seqs, len(self._seqs)
        cursors = EventCursors(self._id, 0, newest)
        at = cursors.read(cursor)
        found: list[TailEvent] = []
        while at < newest and len(found) < limit:
            run_id, seq = runs[at], seqs[at]
            at += 1
            if run_id is not None:
                event = self._logs[run_id].events[seq]
                found.append(TailEvent(cursors.write(at), run_id, event))
        return Tail(found, cursors.write(at), cursors.write(newest))

    async def changed(self, token: str = "") -> str | None:
        now = f"{self._id}-{self._changes}"
        return None if now == token else now

    def _note_change(self) -> None:
        self._changes += 1

    def _count(self, run_id: str, start: int, count: int) -> None:
        """Give each of a run's events from `start` on its number among all."""
        self._changes += 1
        self._runs += [run_id] * count
        self._seqs += range(start, start + count)

    async def send(self, run_id: str, message: InboxMessage, *, check: Check | None = None) -> bool:
        log = self._log(run_id)
        inbox = log.inbox
        if message.msg_id in inbox:
            return False
        if check is not None:
            check(log.row, await self.inbox(run_id))
        inbox[message.msg_id] = (message, False)
        self._changes += 1
        return True

    async def has_message(self, run_id: str, msg_id: str) -> bool:
        below = run_id + CHILD_MARK
        return any(
            msg_id in log.inbox
            for name, log in self._logs.items()
            if name == run_id or name.startswith(below)
        )

    async def inbox(self, run_id: str) -> list[InboxMessage]:
        inbox = self._log(run_id).inbox
        return [message for message, used in inbox.values() if not used] if inbox else []

    async def put_blob(self, data: str) -> str:
        key = digest(data)
        self._blobs[key] = data
        return key

    async def blob(self, digest: str) -> str | None:
        return self._blobs.get(digest)

    async def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self._log(run_id).snapshot = snapshot

    async def snapshot(self, run_id: str) -> Snapshot | None:
        return self._log(run_id).snapshot

    async def fork(self, run_id: str, record_seq: int, row: RunRow) -> int:
        events = self._log(run_id).events
        kept = events[: events_below(events, record_seq)]
        await self.create(row.replace(parent=run_id, fork_seq=record_seq, head=len(kept)))
        self._logs[row.run_id].events.extend(event.replace(epoch=0) for event in kept)
        self._count(row.run_id, 0, len(kept))
        return len(kept)

    async def remove(self, run_ids: Iterable[str]) -> int:
        removed = 0
        before = len(self._logs)
        for run_id in run_ids:
            removed += self._logs.pop(run_id, None) is not None
            for child in [n for n in self._logs if n.startswith(run_id + CHILD_MARK)]:
                del self._logs[child]
            self.forget(run_id)
            self.forget_requests(run_id)
        if len(self._logs) < before:
            self._changes += 1
            self._runs[:] = [run if run in self._logs else None for run in self._runs]
        return removed

    async def close(self) -> None:
        return None

    def _log(self, run_id: str) -> _Log:
        log = self._logs.get(run_id)
        if log is None:
            raise UnknownRunError(f"there is no run `{run_id}` in this journal")
        return log


def _place(row: RunRow) -> tuple[float, str]:
    """Where a run is in the order of pages."""
    return row.created, row.run_id


def events_below(events: Sequence[Event], record_seq: int) -> int:
    """How many events are below record `record_seq`, its own intents left out.

    They belong to the record after them: a fork must not inherit what it is about to do again.
    """
    kept = 0
    for number, event in enumerate(events):
        if event.record is not None:
            if event.record.seq >= record_seq:
                break
            kept = number + 1
    return kept
