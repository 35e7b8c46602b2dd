"""A run as data: what pickling one gives, until a machine attaches it again.

    kept = pickle.loads(pickle.dumps(run))
    run = machine.attach(kept, script=replies)

Models, clocks and files do not travel; a journal in memory does, since no one else has it.

Source: design "architecture", section 2: "pickled data".
"""

from __future__ import annotations

from typing import NamedTuple

from chartloop.core.position import Position
from chartloop.core.records import Input
from chartloop.run.journal import CHILD_MARK, Event, InboxMessage, MemoryJournal, RunRow, Update
from chartloop.run.session import Session
from chartloop.run.sync import by_hand


class StoredLog(NamedTuple):
    """The row, events and inbox messages that a journal in memory holds of one run."""

    row: RunRow
    events: tuple[Event, ...]
    messages: tuple[InboxMessage, ...]


class DetachedRun(NamedTuple):
    """A run that nothing drives: it can be read, and attached to its machine again."""

    row: RunRow
    """Its id, its machine's hash, and how it stood."""
    position: Position
    begun: Input | None
    """What it was given, when it had no record yet."""
    logs: tuple[StoredLog, ...] = ()
    """Its log and its children's, when they were kept in memory; else they are in its journal."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id

    def __repr__(self) -> str:
        at = f"{self.position.status} at {self.position.state}"
        return f"<DetachedRun {self.run_id} of {self.row.machine}: {at}>"

    def journal(self) -> MemoryJournal:
        """A journal in memory that holds what was kept."""
        journal = MemoryJournal()
        for row, events, messages in self.logs:
            by_hand(journal.create(row.replace(head=0, epoch=0)))
            update = Update(row.status, row.state, row.reason, row.steps, row.wake_at)
            epoch = by_hand(journal.acquire(row.run_id))[0].epoch
            by_hand(journal.append(row.run_id, 0, epoch, events, update=update))
            for message in messages:
                by_hand(journal.send(row.run_id, message))
        return journal


def detach(session: Session) -> DetachedRun:
    """A session as data."""
    journal, row = session.journal, session.row
    if not session.head:
        return DetachedRun(row, session.position, session.begun)
    if not isinstance(journal, MemoryJournal):
        return DetachedRun(row, session.position, None)
    own = by_hand(journal.row(session.run_id)) or row
    below = by_hand(journal.rows(prefix=session.run_id + CHILD_MARK))
    logs = tuple(_read_log(journal, one) for one in (own, *reversed(below)))
    return DetachedRun(own, session.position, None, logs)


def _read_log(journal: MemoryJournal, row: RunRow) -> StoredLog:
    events, messages = journal.events(row.run_id), journal.inbox(row.run_id)
    return StoredLog(row, tuple(by_hand(events)), tuple(by_hand(messages)))
