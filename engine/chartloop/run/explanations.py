"""Explanations of single records, without folding the run from its beginning.

The position before the record is folded from the nearest known one: that of the run's snapshot,
one cached by an earlier explanation, or the start. Records never change, so their explanations are
cached too, for the runs used last. A cached entry is compared with the record in the journal before
use, since the id of a removed run may be used again.

Belongs here: finding the moment, and the cache. Never: the explanation (`machine.explain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Explanation, explain
from chartloop.run.journal import Journal
from chartloop.run.log import PAGE
from chartloop.run.lru_cache import LruCache
from chartloop.run.refold import Refolded, refold
from chartloop.run.renaming import as_now
from chartloop.run.replay import no_record_error
from chartloop.run.session import Session

ANSWERS = 256
"""The most cached explanations of all runs of a machine in a journal."""
RUNS = 8
"""The most runs with cached moments."""
APART = 128
"""Records between two cached moments."""


class _Place(NamedTuple):
    """A position of a run, and the place in its log."""

    event: int
    """The number of the next event."""
    records: int
    """The number of records before it."""
    position: Position
    last: Record | None = None
    """The record before it, to be compared; None if that is not needed."""


class _Answer(NamedTuple):
    event: int
    """The number of the event that holds the record."""
    record: Record
    explanation: Explanation


class _Kept:
    """The cache for the runs of one machine in one journal."""

    def __init__(self) -> None:
        self.answers = LruCache[tuple[str, int], _Answer](ANSWERS)
        self.places = LruCache[str, Mapping[int, _Place]](RUNS)


_kept: WeakKeyDictionary[Chart, WeakKeyDictionary[Journal, _Kept]] = WeakKeyDictionary()
_making = Lock()


def _kept_of(chart: Chart, journal: Journal) -> _Kept:
    with _making:
        try:
            journals = _kept.setdefault(chart, WeakKeyDictionary())
            return journals.setdefault(journal, _Kept())
        except TypeError:  # a caller's journal that does not support weak references
            return _Kept()


async def explain_record(
    session: Session, seq: int | None, journal: Journal, *, snapshot: bool = True
) -> Explanation:
    """Everything evaluated when record `seq` was decided; None: the newest.

    `journal` is the session's, through the interface to read with. `snapshot` is false if the
    run's snapshot is of another machine. `UnknownRunError` if there is no such record.
    """
    return await _Search(session, journal, snapshot=snapshot).explain(seq)


class _Search:
    def __init__(self, session: Session, journal: Journal, *, snapshot: bool) -> None:
        self.session, self.journal, self.snapshot = session, journal, snapshot
        self.chart, self.run_id = session.chart, session.run_id
        self.kept = _kept_of(session.chart, session.journal)

    async def explain(self, seq: int | None) -> Explanation:
        if not self.session.head:
            raise no_record_error(seq or 0, None)
        known = None if seq is None else self.kept.answers.get((self.run_id, seq))
        if known is not None and await self._stands(known.event, known.record):
            return known.explanation
        place = await self._nearest(seq)
        answer, last = await self._walk(place, seq)
        if answer is not None:
            return answer.explanation
        if seq is None and last is not None:  # the newest is the last one folded into the snapshot
            return await self.explain(last)
        raise no_record_error(seq or 0, last)

    async def _stands(self, event: int, record: Record) -> bool:
        """Whether the journal still has that record there; if not, clears the cache."""
        events = await self.journal.events(self.run_id, event, 1)
        there = events[0].record if events else None
        if there is not None and as_now(there, *self.session.names) == record:
            return True
        self.kept.answers.clear()
        self.kept.places.clear()
        return False

    async def _nearest(self, seq: int | None) -> _Place:
        start = _Place(0, 0, self.chart.position(self.run_id))
        known = self.kept.places.get(self.run_id) or {}
        place = known.get(max((n for n in known if seq is None or n <= seq), default=-1), start)
        if place.last is not None and not await self._stands(place.event - 1, place.last):
            place = start
        folded = await self.session.read_snapshot(self.journal) if self.snapshot else None
        if folded is None or folded.records <= place.records:
            return place
        if seq is not None and folded.records > seq:
            return place
        return _Place(folded.head, folded.records, folded.position)

    async def _walk(self, place: _Place, seq: int | None) -> tuple[_Answer | None, int | None]:
        """Refold the log up to a record, or to its end; also returns the last record's number."""
        at, count, position = place.event, place.records, place.position
        newest: tuple[int, Refolded] | None = None
        names = self.session.names
        page = await self.journal.events(self.run_id, at, PAGE)
        while page:
            records = {event.seq: event.record for event in page if event.record is not None}
            steps = refold(self.chart, records.values(), position, names=names, trace_from=seq)
            for event, step in zip(records, steps, strict=True):
                if step.record.seq == seq:
                    return self._answer(event, step.record, step.decision), seq
                newest = event, step
                count, position = step.record.seq + 1, step.after
                if count % APART == 0:
                    places = self.kept.places.get(self.run_id) or {}
                    there = {count: _Place(event + 1, count, position, step.record)}
                    self.kept.places.put(self.run_id, {**places, **there})
            at = page[-1].seq + 1
            page = await self.journal.events(self.run_id, at, PAGE) if len(page) == PAGE else []
        if newest is not None and seq is None:
            event, last = newest
            _, decision = evolve(self.chart, last.before, last.record.input, trace=True)
            return self._answer(event, last.record, decision), last.record.seq
        return None, count - 1 if count else None

    def _answer(self, event: int, record: Record, decision: Decision) -> _Answer:
        answer = _Answer(event, record, explain(self.chart, decision))
        self.kept.answers.put((self.run_id, record.seq), answer)
        return answer
