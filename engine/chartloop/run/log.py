"""The log of one run: its events in the journal, and those about to be written.

A journal holds many runs; a `RunLog` is one of them, with the number of its next event and the
epoch in which it is written. Related events share a transaction: a record that leads straight to
a paid call is held, and written with that call's intent; the result of the last paid call of an
action is written with the record that it leads to. No other effect may happen while an event is
held: an action that has one calls `settle` first.

Belongs here: reading, writing and owning the log. Never: what its records mean (`run.session`).

Source: design "architecture", section 4.
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import anyio

from chartloop.core.errors import Fenced, JournalCorrupt, RunError, UnknownRunError
from chartloop.run.context import NoteType
from chartloop.run.journal import Event, Journal, RunRow, Snapshot, Update, refuse_damaged
from chartloop.run.lease_holder import Holder

SNAPSHOT_AFTER = 256
"""Records before the first snapshot. The interval then grows with the run, by half of its length,
so that the cost of snapshots stays proportional to it."""
SNAPSHOT_FORMAT = 5
"""The format of snapshots. One of another format is ignored: the log has everything."""

PAGE = 256
"""The number of events read from the journal at a time."""


class _Held(NamedTuple):
    """Events of the run that are written together with the next one."""

    events: tuple[Event, ...] = ()
    update: Update | None = None
    consumed: tuple[str, ...] = ()

    def with_event(self, event: Event, update: Update | None, consumed: Sequence[str]) -> _Held:
        """A copy with one more event, the newest update, and further consumed messages."""
        if not self.events:
            return _Held((event,), update, (*consumed,))
        events, last_update, messages = self
        return _Held((*events, event), update or last_update, (*messages, *consumed))


_NOTHING_HELD = _Held()


class RunLog:
    """The log of one run."""

    def __init__(self, journal: Journal, run_id: str, holder: Holder) -> None:
        self.journal, self.run_id = journal, run_id
        self.holder = holder
        """The lease under which it is written; a child uses its parent's."""
        self.row = RunRow(run_id)
        """Its row in the journal, as of the last read or take-over."""
        self.head = 0
        """The number of its next event."""
        self.epoch = 0
        self.owned = False
        """This process drives the run, and raised the epoch for it."""
        self._held = _NOTHING_HELD
        # concurrent calls must write their intents one by one, since each write names the head
        self._writing = Lock()
        self._snapshot_at = SNAPSHOT_AFTER
        self._snapshot_asked = False

    # reading --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the run's row. `UnknownRunError` if there is none."""
        row = await self.journal.row(self.run_id)
        if row is None:
            raise UnknownRunError(f"there is no run `{self.run_id}` in {self.journal.name}")
        refuse_damaged(row)
        self.row, self.epoch = row, row.epoch

    async def next_page(self) -> Sequence[Event]:
        """The next page of events from the head on; the last page is shorter than `PAGE`.

        Pages keep a long log out of memory.
        """
        return await self.journal.events(self.run_id, self.head, PAGE)

    async def check(self, event: Event) -> None:
        """Refuse an event that does not follow the previous one."""
        if event.seq != self.head:
            raise self.corrupt_error(f"event {self.head} is not there")
        if event.epoch <= self.epoch:
            return
        row = await self.journal.row(
            self.run_id
        )  # another process may have taken the run over since
        if row is None or event.epoch > row.epoch:  # no driver of the run wrote it
            what = f"event {event.seq} is of epoch {event.epoch}"
            raise self.corrupt_error(f"{what}, which the run has not reached")

    def check_end(self) -> None:
        """Refuse a log that is shorter than its row says."""
        if self.head < self.row.head:
            raise self.corrupt_error(f"it ends before event {self.row.head}")

    def corrupt_error(self, how: str) -> JournalCorrupt:
        """The error for a log that was altered."""
        return JournalCorrupt(
            f"the log of run `{self.run_id}` is damaged: {how}",
            hint="it was changed by hand or by another program; a fork below it still works",
        )

    # owning ---------------------------------------------------------------------------------

    async def create(self, spec_text: str | None) -> None:
        """Put a new run into the journal, with the canonical text of its machine."""
        if spec_text is not None:
            await self.journal.put_blob(spec_text)
        try:
            await self.journal.create(self.row)
        except RunError:  # started before, by a process that died before the first record
            begun = await self.journal.row(self.run_id)
            if begun is None or begun.head or begun.machine_hash != self.row.machine_hash:
                raise
        self.row = await self.holder.acquire(self.journal, self.run_id)
        self.epoch, self.head = self.row.epoch, self.row.head
        self.owned = True

    async def take_over(self) -> bool:
        """Become the driver of this run; the previous driver is fenced.

        True if there are unread events.
        """
        row = await self.holder.acquire(self.journal, self.run_id)
        self._find_held(row)
        self.row, self.epoch, self.owned = row, row.epoch, True
        return not self._held.events and row.head != self.head

    def _find_held(self, row: RunRow) -> None:
        """Drop the held events if they were written: the acknowledgement may have been lost."""
        held = self._held.events
        if not held or row.head == held[0].seq:
            return
        if row.epoch != self.epoch + 1:
            raise Fenced(
                f"run `{self.run_id}` was driven by another process meanwhile",
                hint="nothing more was done here; open the run again to continue from there",
            )
        self._held = _NOTHING_HELD

    # writing --------------------------------------------------------------------------------

    def may_hold(self, records: int) -> bool:
        """Whether the record after `records` records may be held.

        At most one is held, so that a kill loses no more; and none that a snapshot follows.
        """
        no_record_held = self._held.update is None
        return no_record_held and not self._snapshot_asked and records + 1 < self._snapshot_at

    def hold(
        self, event: Event, update: Update | None = None, consumed: Sequence[str] = ()
    ) -> None:
        """Keep an event, to be written with the next one."""
        self._held = self._held.with_event(event, update, consumed)
        self.head += 1

    async def append(
        self, event: Event, update: Update | None = None, consumed: Sequence[str] = ()
    ) -> None:
        """Write the held events and this one."""
        await self._write(self._held.with_event(event, update, consumed))

    async def note(
        self, type: NoteType, data: Mapping[str, Any], now: Callable[[], float], *, last: bool
    ) -> Event:
        """Write a note about a call. The `last` one before a record is held until that record."""
        if not self.journal.suspends:  # no other call is made meanwhile
            return await self._note(type, data, now, last)
        async with self._writing:
            return await self._note(type, data, now, last)

    async def _note(
        self, type: NoteType, data: Mapping[str, Any], now: Callable[[], float], last: bool
    ) -> Event:
        event = Event(self.head, type, now(), None, data, self.epoch)
        if last:
            self.hold(event)
        else:
            await self.append(event)
        return event

    def end_action(self) -> None:
        """Allow the next action to run on another event loop."""
        if self.journal.suspends:
            self._writing = Lock()

    async def settle(self) -> None:
        """Write the held events, if any."""
        if self._held.events:
            async with self._writing:
                if self._held.events:
                    await self._write(self._held)

    async def rest(self) -> None:
        """Settle despite a cancellation, unless an earlier write has an unknown outcome."""
        if self._held.events and self.owned:
            with anyio.CancelScope(shield=True) if self.journal.suspends else nullcontext():
                await self.settle()

    async def _write(self, held: _Held) -> None:
        events, update, consumed = held
        try:
            self.head = await self.journal.append(
                self.run_id, events[0].seq, self.epoch, events, update=update, consumed=consumed
            )
            self._held = _NOTHING_HELD
        except Fenced as error:
            raise await self.holder.explain_fenced(error) from error
        except BaseException:  # it may have been written: the next step reads the journal first
            self.owned = False
            raise

    # snapshots ------------------------------------------------------------------------------

    async def snapshot(self, journal: Journal | None = None) -> Snapshot | None:
        """The newest snapshot, if it has this format and is of the run's machine.

        `journal`: another interface to the same journal, to read it through.
        """
        stored = await (journal or self.journal).snapshot(self.run_id)
        usable = (self.row.machine_hash, SNAPSHOT_FORMAT)
        if stored is None or (stored.data.get("machine"), stored.data.get("format")) != usable:
            return None
        return stored

    def start_after(self, head: int, records: int) -> None:
        """Read on after a snapshot, into which the first `head` events are folded."""
        self.head = head
        self._snapshot_at = _next_snapshot(records)

    def ask_for_snapshot(self) -> None:
        """Have a snapshot follow the next record."""
        self._snapshot_asked = True

    def wants_snapshot(self, records: int) -> bool:
        """Whether a snapshot is due after this many records."""
        return self._snapshot_asked or records >= self._snapshot_at

    async def put_snapshot(self, records: int, data: Mapping[str, Any]) -> None:
        """Store a snapshot of the run after this many records."""
        self._snapshot_asked = False
        self._snapshot_at = _next_snapshot(records)
        content = {"machine": self.row.machine_hash, "format": SNAPSHOT_FORMAT, **data}
        await self.journal.put_snapshot(self.run_id, Snapshot(self.head, records, content))


def _next_snapshot(records: int) -> int:
    """The number of records at which the snapshot after one at `records` is due."""
    return records + records // 2 + SNAPSHOT_AFTER
