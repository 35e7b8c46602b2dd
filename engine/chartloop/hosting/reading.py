"""Runs as they are read: what a look costs does not grow with the length of the run.

    row ─▶ known at that head? ─▶ the same run
                    older? ─▶ follow: only the new events are folded
                    not at all? ─▶ opened, from its snapshot

A run that was opened is never changed: who reads it has it as it was, while the next one is given a
newer one. Records are found by their number without those before them. Where a run was after an
older record is decided again from the nearest mark that is kept.

Belongs here: what is kept of runs between two requests. Never: HTTP, an order.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.errors import StatusError
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.hosting.machines import Machines
from chartloop.machine.evolve import evolve
from chartloop.run.journal import Event, Journal, RunRow, direct_journal
from chartloop.run.journal_pages import EVENTS as PAGE
from chartloop.run.journal_records import DAMAGED
from chartloop.run.lru_cache import LruCache
from chartloop.run.renaming import as_now
from chartloop.run.replay import no_record_error
from chartloop.run.sync import by_hand
from chartloop.run.tally import Tally
from chartloop.view_model.moment import Past

OPENED = 64
"""Runs that are kept open for reading."""
APART = 256
"""Records between two marks of a run, to begin with."""
MARKS = 64
"""Marks of a run that are kept; with more of them, every second is dropped."""
NEAR = 64
"""Events that are read one after the other to find a record among them."""


# opened runs ------------------------------------------------------------------------------------


class _Opened(NamedTuple):
    row: RunRow
    run: Run


class OpenRuns:
    """Runs that are open for reading. Methods may block: call them from threads."""

    def __init__(self, journal: Journal, machines: Machines, face: str) -> None:
        self._journal = journal
        self._face = face
        self._machines = machines
        self._kept = LruCache[str, _Opened](OPENED)

    def get(self, row: RunRow) -> Run:
        """The run as it stands, to be read: never driven, and shared by those who read it."""
        known = self._kept.get(row.run_id)
        if known is not None and (known.row.head, known.row.epoch) == (row.head, row.epoch):
            return known.run
        run = self._followed(known, row) if known is not None else None
        if run is None:
            run = self.fresh(row)
            log = run.session.log
            log.journal = direct_journal(log.journal)  # it is read from threads
        self._kept.put(row.run_id, _Opened(run.session.row, run))
        return run

    def _followed(self, known: _Opened, row: RunRow) -> Run | None:
        """A run that is known, read on; None where another has come in its place."""
        was = known.row
        if (was.created, was.machine_hash) != (row.created, row.machine_hash):
            return None
        if row.head < was.head or row.epoch < was.epoch:
            return None
        run = Run(known.run.machine, by_hand(known.run.session.follow()))
        run.session.holder.face = self._face
        return run

    def fresh(self, row: RunRow) -> Run:
        """The run, opened anew: for what is written to it."""
        if row.head == 0 and row.status != DAMAGED:
            raise StatusError(
                f"run `{row.run_id}` stopped before its first record",
                hint="nothing has happened yet: start it again",
            )
        run = self._machines.to_read(row).open(row.run_id, journal=self._journal)
        run.session.holder.face = self._face
        return run


# records ----------------------------------------------------------------------------------------


def count_of(run: Run) -> int:
    """How many records a run has that was read."""
    return run.session.tally.records


def records_from(run: Run, first: int, limit: int) -> list[Record]:
    """At most `limit` records from number `first` on, of those that the run had when read."""
    return list(_each(run, first, min(first + limit, count_of(run))))


def _each(run: Run, first: int, end: int) -> Iterator[Record]:
    """The records from number `first` on, below `end`."""
    session = run.session
    if first >= end:
        return
    if first == end - 1 and session.newest is not None and session.newest[0].seq == first:
        yield session.newest[0]
        return
    at = _event_of(session.journal, run.id, first, session.head)
    size = min(PAGE, 3 * (end - first) + NEAR)
    while events := by_hand(session.journal.events(run.id, at, size)):
        at = events[-1].seq + 1
        for record in _records(events):
            if record.seq >= first:
                yield as_now(record, *session.names)
            if record.seq >= end - 1:
                return


def _records(events: list[Event]) -> list[Record]:
    return [event.record for event in events if event.record is not None]


def _event_of(journal: Journal, run_id: str, seq: int, head: int) -> int:
    """The number of an event shortly before that of record `seq`, and not behind it.

    An event's number is never below that of its record, and both rise.
    """
    low, high = seq, head
    while high - low > NEAR:
        middle = (low + high) // 2
        found = _record_at(journal, run_id, middle, high)
        if found is None or found.seq > seq:
            high = middle
        elif found.seq == seq:
            return middle
        else:
            low = middle + 1
    return low


def _record_at(journal: Journal, run_id: str, at: int, end: int) -> Record | None:
    """The first record from event `at` on."""
    size = 2
    while at < end and (events := by_hand(journal.events(run_id, at, size))):
        if found := _records(events):
            return found[0]
        at, size = events[-1].seq + 1, PAGE
    return None


# what was -----------------------------------------------------------------------------------------


class _Mark(NamedTuple):
    """Where a run was before a record."""

    position: Position
    tally: Tally


class History:
    """Where a run was at each of its records. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._apart = APART
        self._marks: dict[int, _Mark] = {}
        """By the number of the record that comes next."""

    def at(self, run: Run, seq: int) -> Past:
        """The run at a record that it has."""
        newest, session = run.session.newest, run.session
        if newest is not None and newest[0].seq == seq:
            record, before = newest
            after, decision = evolve(run.machine.chart, before, record.input, trace=True)
            return Past(record, before, after, decision, session.tally)
        with self._lock:
            return self._folded(run, seq)

    def _folded(self, run: Run, seq: int) -> Past:
        chart = run.machine.chart
        first, mark = self._nearest(run, seq)
        before, tally = mark.position, mark.tally.copy()
        for record in _each(run, first, seq + 1):
            after, decision = evolve(chart, before, record.input, trace=record.seq == seq)
            tally.add(record, decision, after.facts)
            if record.seq == seq:
                return Past(record, before, after, decision, tally)
            before = after
            self._keep(record.seq + 1, _Mark(after, tally))
        raise no_record_error(seq, count_of(run) - 1)

    def _nearest(self, run: Run, seq: int) -> tuple[int, _Mark]:
        first = max((number for number in self._marks if number <= seq), default=0)
        if seq - first > self._apart and (kept := by_hand(run.session.read_snapshot())) is not None:
            if first < kept.records <= seq:
                return kept.records, _Mark(kept.position, kept.tally)
        if first:
            return first, self._marks[first]
        return 0, _Mark(run.machine.chart.position(run.id), Tally())

    def _keep(self, number: int, mark: _Mark) -> None:
        if number % self._apart or number in self._marks:
            return
        position, tally = mark
        counts = Tally(
            tally.records, tally.rest, taken={**tally.taken}, signals=[*tally.signals],
            profile={**tally.profile},
        )  # fmt: skip
        self._marks[number] = _Mark(position, counts)
        if len(self._marks) > MARKS:
            self._apart *= 2
            self._marks = {n: one for n, one in self._marks.items() if n % self._apart == 0}
