"""Explanations of single records, without folding the run from its beginning.

The position before the record is folded from the nearest known moment: the run's snapshot, one
cached by an earlier explanation, or the start. Records never change, so their explanations are
cached too, for the runs used last. A cached entry is compared with the record in the journal before
use, since the id of a removed run may be used again.

Belongs here: finding the moment, and the cache. Never: the explanation (`machine.explain`).
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Explanation, explain
from chartloop.run.journal import Journal
from chartloop.run.log import PAGE
from chartloop.run.lru_cache import LruCache
from chartloop.run.renaming import as_now
from chartloop.run.replay import Moment, no_record_error
from chartloop.run.session import Session

ANSWERS = 256
"""The most cached explanations of all runs of a machine in a journal."""
RUNS = 8
"""The most runs with cached moments."""
APART = 128
"""Records between two cached moments."""


class _Place(NamedTuple):
    """A moment of a run, and the place in its log."""

    event: int
    """The number of the next event."""
    moment: Moment
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
        if events and events[0].record is not None and self._now(events[0].record) == record:
            return True
        self.kept.answers.clear()
        self.kept.places.clear()
        return False

    def _now(self, record: Record) -> Record:
        return as_now(record, *self.session.names)

    async def _nearest(self, seq: int | None) -> _Place:
        start = _Place(0, Moment(0, self.chart.position(self.run_id)))
        known = self.kept.places.get(self.run_id) or {}
        place = known.get(max((n for n in known if seq is None or n <= seq), default=-1), start)
        if place.last is not None and not await self._stands(place.event - 1, place.last):
            place = start
        folded = await self.session.read_snapshot(self.journal) if self.snapshot else None
        if folded is None or folded.records <= place.moment.seq:
            return place
        if seq is not None and folded.records > seq:
            return place
        return _Place(folded.head, Moment(folded.records, folded.position, folded.tally.rest))

    async def _walk(self, place: _Place, seq: int | None) -> tuple[_Answer | None, int | None]:
        """Fold the log up to a record, or to its end; also returns the last record's number."""
        at, moment = place.event, place.moment
        newest: tuple[int, Moment, Record] | None = None
        page = await self.journal.events(self.run_id, at, PAGE)
        while page:
            for event in page:
                at = event.seq + 1
                if event.record is None:
                    continue
                record = self._now(event.record)
                newest = event.seq, moment, record
                if record.seq == seq:
                    return self._answer(*newest), seq
                moment = moment.after(self.chart, record)
                if moment.seq % APART == 0:
                    places = self.kept.places.get(self.run_id) or {}
                    there = {moment.seq: _Place(at, moment, record)}
                    self.kept.places.put(self.run_id, {**places, **there})
            page = await self.journal.events(self.run_id, at, PAGE) if len(page) == PAGE else []
        if newest is not None and seq is None:
            return self._answer(*newest), newest[2].seq
        return None, moment.seq - 1 if moment.seq else None

    def _answer(self, event: int, moment: Moment, record: Record) -> _Answer:
        _, decision = evolve(self.chart, moment.position, record.input, trace=True)
        answer = _Answer(event, record, explain(self.chart, decision))
        self.kept.answers.put((self.run_id, record.seq), answer)
        return answer
