"""A run as data: what pickling one gives, until a machine attaches it again.

    kept = pickle.loads(pickle.dumps(run))
    run = machine.attach(kept, script=replies)

Models, clocks and files do not travel; a journal in memory does, since nobody else has it.

Imported by: api.run, api.machine
Source: design "architecture", section 2: "pickled data".
"""

from __future__ import annotations

from typing import NamedTuple

from interlock.core.position import Position
from interlock.core.records import Input
from interlock.run.journal import Event, Letter, MemoryJournal, RunRow, Update
from interlock.run.session import Session
from interlock.run.sync import by_hand


class DetachedRun(NamedTuple):
    """A run that nothing drives: it can be read, and attached to its machine again."""

    row: RunRow
    """Its id, its machine's hash, and how it stood."""
    position: Position
    begun: Input | None
    """What it was given, when it had no record yet."""
    events: tuple[Event, ...] | None
    """Its log, when that was kept in memory; else it is in its journal."""
    letters: tuple[Letter, ...] = ()

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.row.run_id

    def __repr__(self) -> str:
        at = f"{self.position.status} at {self.position.state}"
        return f"<DetachedRun {self.run_id} of {self.row.machine}: {at}>"

    def journal(self) -> MemoryJournal:
        """A journal in memory that holds what was kept."""
        journal, row, events = MemoryJournal(), self.row, self.events or ()
        by_hand(journal.create(row._replace(head=0, epoch=0)))
        update = Update(row.status, row.state, row.reason, row.steps, row.wake_at)
        epoch = by_hand(journal.acquire(row.run_id)).epoch
        by_hand(journal.append(row.run_id, 0, epoch, events, update=update))
        for letter in self.letters:
            by_hand(journal.send(row.run_id, letter))
        return journal


def detached(session: Session) -> DetachedRun:
    """A session as data."""
    journal, row = session.journal, session.row
    if not session.head:
        return DetachedRun(row, session.position, session.begun, None)
    if not isinstance(journal, MemoryJournal):
        return DetachedRun(row, session.position, None, None)
    found = by_hand(journal.row(session.run_id))
    events = tuple(by_hand(journal.events(session.run_id)))
    letters = tuple(by_hand(journal.letters(session.run_id)))
    return DetachedRun(found or row, session.position, None, events, letters)
