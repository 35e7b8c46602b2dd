"""The log of one run: its events in the journal, and those about to be written.

A journal holds many runs; a `RunLog` is one of them, with the number of its next event and the
epoch in which it is written. Related events share a transaction: a record that leads straight to
a paid call is held, and written with that call's intent; the result of the last paid call of an
action is held, and not written if the record that follows has it. No other effect may happen while
an event is held: an action that has one calls `settle` first.

A held record is adopted before it is durable. A kill before the next write takes it back: its paid
call has an intent and no result, so it is in doubt, as if the kill had come during the call.

Belongs here: reading, writing and owning the log. Never: what its records mean (`run.session`).

Source: docs/design.md, "The journal".
"""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache
from typing import Any, Literal

import anyio

from chartloop.core.errors import Fenced, JournalCorrupt, RunError, UnknownRunError
from chartloop.core.facts import Facts, Failure, Task, ToolCall
from chartloop.core.position import Position, Return, ReturnPoint
from chartloop.core.records import Record
from chartloop.core.values import Value
from chartloop.run.calls import Calls
from chartloop.run.journal import (
    CHILD_MARK,
    Event,
    Journal,
    RunRow,
    Snapshot,
    Update,
    digest,
    duplicate_run_error,
    refuse_damaged,
)
from chartloop.run.journal_records import Intent
from chartloop.run.lease_holder import Holder

SNAPSHOT_AFTER = 256
"""Records before the first snapshot. The interval then grows with the run, by half of its length,
so that the cost of snapshots stays proportional to it."""
SNAPSHOT_RULES = 8
"""Rises when a snapshot with the same fields means something else."""


SNAPSHOT_HOLDS: tuple[type[Value], ...] = (
    Position, Facts, *(type(one) for one in Facts().to_tuple() if isinstance(one, Value)),
    Failure, Task, ToolCall, Return, ReturnPoint,
)  # fmt: skip
"""The kinds of values in a snapshot."""


@cache
def snapshot_format() -> str:
    """The format of snapshots: other rules, or other fields of a position, make another one.

    A snapshot of another format is ignored: the log has everything. Else a new fact would have its
    default in a run that was recorded before there was one.
    """
    names = {kind.__name__: kind.__struct_fields__ for kind in SNAPSHOT_HOLDS}
    return f"{SNAPSHOT_RULES}-{digest(repr(names))}"


PAGE = 256
"""The number of events read from the journal at a time."""


NoteType = Literal["intent", "result", "in_doubt"]


class RunLog:
    """The log of one run."""

    def __init__(self, journal: Journal, run_id: str, holder: Holder) -> None:
        self.journal, self.run_id = journal, run_id
        self.holder = holder
        """The lease under which it is written; a child uses its parent's."""
        self.row: RunRow = RunRow(run_id)
        """Its row in the journal, as of the last read or take-over."""
        self.head = 0
        """The number of its next event."""
        self.epoch = 0
        self.owned = False
        """This process raised the epoch, and no write since has failed with an unknown outcome."""
        self.restored = False
        """Its calls may have been made before the journal was restored from a backup."""
        self.calls = Calls()
        """The calls with effects of the current action."""
        self.snapshot_at = SNAPSHOT_AFTER
        """The number of records after which a snapshot is due; 0 if one was asked for."""
        self._held: list[Event] = []
        """The events that are written with the next one."""
        self._update: Update | None = None
        """The update of the row by the held record; None if none is held."""
        # concurrent calls must write their intents one by one, since each write names the head
        self._writing = Lock()

    # reading --------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the run's row. `UnknownRunError` if there is none."""
        row = await self.journal.row(self.run_id)
        if row is None:
            raise UnknownRunError(f"there is no run `{self.run_id}` in {self.journal.name}")
        refuse_damaged(row)
        self.row, self.epoch = row, row.epoch

    async def check(self, event: Event) -> None:
        """Refuse an event that does not follow the previous one."""
        if event.seq != self.head:
            raise self.corrupt_error(f"event {self.head} is not there")
        if event.epoch <= self.epoch:
            return
        row = await self.journal.row(self.run_id)  # another process may have taken it over since
        if row is None or event.epoch > row.epoch:  # no driver of the run wrote it
            what = f"event {event.seq} is of epoch {event.epoch}"
            raise self.corrupt_error(f"{what}, which the run has not reached")

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
        if self.row.head:  # another one has begun it since: a second `start` would end its log
            if self.holder.run_id == self.run_id:
                await self.holder.release()
            raise duplicate_run_error(self.run_id)
        self.epoch, self.head, self.owned = self.row.epoch, self.row.head, True
        self.restored = await self._is_restored()

    async def become_driver(self) -> bool:
        """Become the driver of this run; the previous driver is fenced.

        True if there are unread events.
        """
        row = await self.holder.acquire(self.journal, self.run_id)
        if self._held and row.head != self._held[0].seq:
            if row.epoch != self.epoch + 1:
                raise Fenced(
                    f"run `{self.run_id}` was driven by another process meanwhile",
                    hint="no more was recorded here; open the run again to continue from there",
                )
            self._held, self._update = [], None  # written: the acknowledgement was lost
        self.row, self.epoch, self.owned = row, row.epoch, True
        self.restored = await self._is_restored()
        return not self._held and row.head != self.head

    async def _is_restored(self) -> bool:
        """Whether the run, or the one that it is a child or a fork of, began before the mark."""
        row, mark = self.row, self.holder.restored
        while mark and row.created > mark:
            if row.fork_seq is None and CHILD_MARK not in row.run_id:
                return False
            above = await self.journal.row(row.parent)
            if above is None:
                return False
            row = above
        return mark > 0

    # writing --------------------------------------------------------------------------------

    def may_hold(self, records: int) -> bool:
        """Whether the record after `records` records may be held.

        At most one is held, so that a kill loses no more; and none that a snapshot follows.
        """
        return self._update is None and records + 1 < self.snapshot_at

    def hold(self, event: Event, update: Update | None = None) -> None:
        """Keep an event, to be written with the next one."""
        self._held.append(event)
        if update is not None:
            self._update = update
        self.head += 1

    def drop_result(self) -> None:
        """Forget the held result of an action's last call: the record that follows has it."""
        if self._held and self._held[-1].type == "result":
            self._held.pop()
            self.head -= 1

    async def append(
        self, *events: Event, update: Update | None = None, consumed: Sequence[str] = ()
    ) -> None:
        """Write what is held and these events, in one transaction."""
        if self._held:
            events, update = (*self._held, *events), update or self._update
        try:
            self.head = await self.journal.append(
                self.run_id, events[0].seq, self.epoch, events, update=update, consumed=consumed
            )
        except Fenced as error:
            raise await self.holder.explain_fenced(error) from error
        except BaseException:  # it may have been written: the next step reads the journal first
            self.owned = False
            raise
        if self._held:
            self._held, self._update = [], None

    def hold_result(self, key: str, data: Mapping[str, Any], at: float) -> None:
        """Hold the result of an action's last call. It is written unless the record has it too."""
        content = {"key": key, **data}
        self.calls.add("result", key, content)
        self.hold(Event(self.head, "result", at, None, content, self.epoch))

    async def note(
        self, type: NoteType, key: str, data: Mapping[str, Any] | Intent, at: float
    ) -> None:
        """Write an intent, a result or a doubt about a paid call."""
        content = data if isinstance(data, Intent) else {"key": key, **data}
        if self.journal.suspends:  # else no other call is made meanwhile
            await self._writing.acquire()
        try:
            await self.append(Event(self.head, type, at, None, content, self.epoch))
        finally:
            if self.journal.suspends:
                self._writing.release()
        self.calls.add(type, key, content)

    def close_calls(self, record: Record, before: Position) -> None:
        """Drop the calls that a record settles."""
        if not record.aside:
            self.calls.close(record.input, before.doubt)

    def end_action(self) -> None:
        """Allow the next action to run on another event loop."""
        self._writing = Lock()

    async def settle(self) -> None:
        """Write the held events, if any."""
        if self._held:
            async with self._writing:
                if self._held:
                    await self.append()

    async def settle_shielded(self) -> None:
        """Settle despite a cancellation, unless an earlier write has an unknown outcome."""
        if self._held and self.owned:
            with anyio.CancelScope(shield=True) if self.journal.suspends else nullcontext():
                await self.settle()

    # snapshots ------------------------------------------------------------------------------

    async def snapshot(self, journal: Journal | None = None) -> Snapshot | None:
        """The newest snapshot, if it has this format and is of the run's machine.

        `journal`: another interface to the same journal, to read it through.
        """
        stored = await (journal or self.journal).snapshot(self.run_id)
        usable = (self.row.machine_hash, snapshot_format())
        if stored is None or (stored.data.get("machine"), stored.data.get("format")) != usable:
            return None
        return stored

    def start_after(self, head: int, records: int) -> None:
        """Read on after a snapshot, into which the first `head` events are folded."""
        self.head, self.snapshot_at = head, _next_snapshot(records)

    def ask_to_save(self) -> None:
        """Have a snapshot follow the next record."""
        self.snapshot_at = 0

    async def store_snapshot(self, records: int, data: Mapping[str, Any]) -> None:
        """Store a snapshot of the run after this many records."""
        self.snapshot_at = _next_snapshot(records)
        content = {"machine": self.row.machine_hash, "format": snapshot_format(), **data}
        await self.journal.put_snapshot(self.run_id, Snapshot(self.head, records, content))


def _next_snapshot(records: int) -> int:
    """The number of records at which the snapshot after one at `records` is due."""
    return records + records // 2 + SNAPSHOT_AFTER
