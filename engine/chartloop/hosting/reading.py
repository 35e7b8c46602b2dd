"""Runs for reading. The cost of a read does not grow with the length of the run.

    row ─▶ cached at this head? ─▶ the same run
           cached, but older? ─▶ follow: only the new events are folded
           not cached? ─▶ opened from its snapshot

A cached run is never changed: its readers keep it as it was, while later ones get a newer one.
Records are found by number without reading those before them. The position after an older record
is computed again from the nearest mark.

Belongs here: what is cached of runs between two requests. Never: HTTP, an order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

from chartloop.api import Run
from chartloop.core.errors import StatusError
from chartloop.core.facts import ToolCall
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.hosting.asking import PIECE
from chartloop.hosting.machines import Machines
from chartloop.machine.evolve import evolve
from chartloop.run.journal import Journal, RunRow, direct_journal
from chartloop.run.journal_pages import EVENTS as PAGE
from chartloop.run.journal_records import DAMAGED
from chartloop.run.lru_cache import LruCache
from chartloop.run.refold import refold
from chartloop.run.renaming import Names, as_now
from chartloop.run.replay import no_record_error
from chartloop.run.sync import by_hand
from chartloop.run.tally import Tally
from chartloop.run.trace import Trace, TraceStart, asked_after, trace
from chartloop.ui.view_model.moment import Past

OPENED = 64
"""The most runs that are kept open for reading."""
SIZE = 1_000_000
"""The bytes of stored text after which a page of records ends that are read one by one."""
BESIDE = 16
"""How many records before a page of a trace are read for the calls that its steps answer."""
APART = 256
"""The initial number of records between two marks of a run."""
MARKS = 64
"""The most marks of a run; beyond that, every second one is dropped."""


# opened runs ------------------------------------------------------------------------------------


class _Opened(NamedTuple):
    row: RunRow
    run: Run


def _stamp(row: RunRow) -> tuple[object, ...]:
    """What differs if the row of a run was written."""
    return row.head, row.epoch, row.parked


class OpenRuns:
    """Runs kept open for reading. Methods may block: call them from worker threads."""

    def __init__(self, journal: Journal, machines: Machines, face: str) -> None:
        self._journal = journal
        self._face = face
        self._machines = machines
        self._kept = LruCache[str, _Opened](OPENED)

    def get(self, row: RunRow) -> Run:
        """The run as it is now, for reading: shared by all readers, never driven."""
        known = self._kept.get(row.run_id)
        if known is not None and _stamp(known.row) == _stamp(row):
            return known.run
        run = self._follow(known, row) if known is not None else None
        if run is None:
            run = self.fresh(row)
            session = run.session
            session.journal = direct_journal(session.journal)  # read from many threads
        self._kept.put(row.run_id, _Opened(run.session.row, run))
        return run

    def _follow(self, known: _Opened, row: RunRow) -> Run | None:
        """A cached run with its new events; None if another run has taken its id."""
        was = known.row
        if (was.created, was.machine_hash) != (row.created, row.machine_hash):
            return None
        if row.head < was.head or row.epoch < was.epoch:
            return None
        run = Run(known.run.machine, by_hand(known.run.session.follow()))
        run.session.holder.face = self._face
        return run

    def fresh(self, row: RunRow) -> Run:
        """The run, opened anew: for orders that write to it."""
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
    """The number of records that a run had when it was read."""
    return run.session.tally.records


def records_from(run: Run, first: int, limit: int) -> list[Record]:
    """At most `limit` records from number `first` on, up to those the run had when it was read."""
    return list(records_each(run, first, min(first + limit, count_of(run))))


def records_each(run: Run, first: int, end: int | None = None) -> Iterator[Record]:
    """The records from number `first` up to, but without, `end`: by default, all that follow."""
    session, end = run.session, count_of(run) if end is None else end
    if first >= end:
        return
    if first == end - 1 and session.newest is not None and session.newest[0].seq == first:
        yield session.newest[0]
        return
    while first < end:
        page = _page(run, first, min(PAGE, end - first), SIZE)
        if not page:
            return
        first = page[-1].seq + 1
        while page:  # each is let go of before the next is used: they may be large
            yield page.pop(0)


def records_page(run: Run, first: int, limit: int) -> tuple[list[Record], int | None]:
    """At most `limit` records from number `first` on, fewer if they are large; and the next."""
    page = _page(run, first, min(limit, count_of(run) - first), PIECE)
    if len(page) > 1 and len(str(page[-1].to_dict())) > PIECE:
        del page[-1]  # a large one is a page of its own
    end = first + len(page)
    return page, end if page and end < count_of(run) else None


def _page(run: Run, first: int, limit: int, size: int) -> list[Record]:
    if limit < 1:
        return []
    session = run.session
    page = by_hand(session.journal.records(run.id, first, limit, size=size))
    return [as_now(record, *session.names) for record in page]


def trace_page(run: Run, after: str, limit: int) -> tuple[Trace, str | None]:
    """At most `limit` records from a place on as steps, and the place of the next.

    A place is the number of a record, and how many actions were finished before it. A child that a
    step ran is traced from its first step, as far as a page goes.
    """
    first, done = map(int, after.split("."))
    page, following = records_page(run, first, limit)
    tokens = run.session.tally.tokens[:done]
    asked: Sequence[ToolCall] = ()
    for record in records_each(run, max(0, first - BESIDE), min(first, count_of(run))):
        asked = asked_after(record, asked)
    begun = _page(run, 0, 1, SIZE)[0].input.at if first else None
    start = TraceStart(done, tokens[-1] if tokens else 0, begun, asked)
    steps = by_hand(trace(run.session.journal, run.id, page, start, (limit, PIECE)))
    return steps, f"{following}.{done + len(steps)}" if following else None


# past positions -----------------------------------------------------------------------------------


class _Mark(NamedTuple):
    """The position of a run before a record."""

    position: Position
    tally: Tally


class History:
    """The past positions of a run, at each of its records. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._apart = APART
        self._marks: dict[int, _Mark] = {}
        """By the number of the record that follows."""

    def at(self, run: Run, seq: int) -> Past:
        """The run at one of its records."""
        newest, session = run.session.newest, run.session
        if newest is not None and newest[0].seq == seq:
            record, before = newest
            after, decision = evolve(run.machine.chart, before, record.input, trace=True)
            return Past(record, before, after, decision, session.tally)
        with self._lock:
            first, mark = self._nearest(run, seq)
            tally = mark.tally.copy()
            records = records_each(run, first, seq + 1)
            for step in refold(
                run.machine.chart, records, mark.position, names=Names(), trace_from=seq
            ):
                tally.add(step.record, step.decision, step.after.facts)
                if step.record.seq == seq:
                    return Past(step.record, step.before, step.after, step.decision, tally)
                self._keep(step.record.seq + 1, _Mark(step.after, tally))
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
