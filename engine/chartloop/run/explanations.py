"""Why one record of a run was decided as it was, without folding the run from its beginning.

The position before the record is folded from the nearest moment that is known: the run's snapshot,
one that an earlier question came by, or the start. A record never changes, so that neither does
its explanation: both are kept, for the runs that were asked about last. What is kept is held to
the record in the journal before it is used, since a removed run may leave its id to another.

Belongs here: finding the moment, and what is kept. Never: what is looked at (`machine.explain`).
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from chartloop.core.records import Record
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Explanation, explain
from chartloop.run.journal import Journal
from chartloop.run.log import PAGE
from chartloop.run.renaming import as_now
from chartloop.run.replay import Moment, no_record_error
from chartloop.run.session import Session

T = TypeVar("T")
K = TypeVar("K")
ANSWERS = 256
"""Explanations that are kept, of all runs of a machine in a journal."""
RUNS = 8
"""Runs whose moments are kept."""
APART = 128
"""Records between two moments that are kept."""


class _Place(NamedTuple):
    """A moment of a run, and where its log goes on."""

    event: int
    """The number of the next event."""
    moment: Moment
    last: Record | None = None
    """The record before; None where nothing need be compared."""


class _Answer(NamedTuple):
    event: int
    """The number of the event that holds the record."""
    record: Record
    explanation: Explanation


class _Kept:
    """What is known of the runs of one machine in one journal. Threads may share it."""

    def __init__(self) -> None:
        self.answers: OrderedDict[tuple[str, int], _Answer] = OrderedDict()
        self.places: OrderedDict[str, dict[int, _Place]] = OrderedDict()
        self._lock = Lock()

    def answer(self, run_id: str, seq: int) -> _Answer | None:
        with self._lock:
            return _used(self.answers, (run_id, seq))

    def add_answer(self, run_id: str, answer: _Answer) -> None:
        with self._lock:
            _add(self.answers, (run_id, answer.record.seq), answer, ANSWERS)

    def place(self, run_id: str, seq: int | None) -> _Place | None:
        """The last place of a run that is not behind a record."""
        with self._lock:
            known = _used(self.places, run_id) or {}
            numbers = (n for n in known if seq is None or n <= seq)
            return known.get(max(numbers, default=-1))

    def add_place(self, run_id: str, place: _Place) -> None:
        with self._lock:
            known = _used(self.places, run_id)
            if known is None:
                known = dict[int, _Place]()
                _add(self.places, run_id, known, RUNS)
            known[place.moment.seq] = place

    def forget(self, run_id: str) -> None:
        with self._lock:
            self.places.pop(run_id, None)
            for key in [key for key in self.answers if key[0] == run_id]:
                del self.answers[key]


def _used(kept: OrderedDict[K, T], key: K) -> T | None:
    if key in kept:
        kept.move_to_end(key)
    return kept.get(key)


def _add(kept: OrderedDict[K, T], key: K, value: T, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)


_kept: WeakKeyDictionary[Chart, WeakKeyDictionary[Journal, _Kept]] = WeakKeyDictionary()
_making = Lock()


def _kept_of(chart: Chart, journal: Journal) -> _Kept:
    with _making:
        try:
            journals = _kept.setdefault(chart, WeakKeyDictionary())
            return journals.setdefault(journal, _Kept())
        except TypeError:  # a journal of the caller's that takes no weak references
            return _Kept()


async def explain_record(
    session: Session, seq: int | None, journal: Journal, *, snapshot: bool = True
) -> Explanation:
    """Everything that was looked at when record `seq` was decided; None: the newest.

    `journal` is the session's, by the face that is to be read through. Without `snapshot` it is
    not asked for one: it would be of another machine. `UnknownRunError`: there is no such record.
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
        known = None if seq is None else self.kept.answer(self.run_id, seq)
        if known is not None and await self._stands(known.event, known.record):
            return known.explanation
        place = await self._nearest(seq)
        found, last = await self._walk(place, seq)
        if found is not None:
            return found.explanation
        if seq is None and last is not None:  # the newest is the last one folded into the snapshot
            return await self.explain(last)
        raise no_record_error(seq or 0, last)

    async def _stands(self, event: int, record: Record) -> bool:
        """Whether the journal still has that record there; if not, what is kept is forgotten."""
        found = await self.journal.events(self.run_id, event, 1)
        if found and found[0].record is not None and self._now(found[0].record) == record:
            return True
        self.kept.forget(self.run_id)
        return False

    def _now(self, record: Record) -> Record:
        return as_now(record, *self.session.names)

    async def _nearest(self, seq: int | None) -> _Place:
        start = _Place(0, Moment(0, self.chart.position(self.run_id)))
        place = self.kept.place(self.run_id, seq) or start
        if place.last is not None and not await self._stands(place.event - 1, place.last):
            place = start
        found = await self.session.read_snapshot(self.journal) if self.snapshot else None
        if found is None or found.records <= place.moment.seq:
            return place
        if seq is not None and found.records > seq:
            return place
        return _Place(found.head, Moment(found.records, found.position, found.tally.rest))

    async def _walk(self, place: _Place, seq: int | None) -> tuple[_Answer | None, int | None]:
        """Fold the log on to a record, or to its end; and the number of the last record."""
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
                    self.kept.add_place(self.run_id, _Place(at, moment, record))
            page = await self.journal.events(self.run_id, at, PAGE) if len(page) == PAGE else []
        if newest is not None and seq is None:
            return self._answer(*newest), newest[2].seq
        return None, moment.seq - 1 if moment.seq else None

    def _answer(self, event: int, moment: Moment, record: Record) -> _Answer:
        _, decision = evolve(self.chart, moment.position, record.input, trace=True)
        answer = _Answer(event, record, explain(self.chart, decision))
        self.kept.add_answer(self.run_id, answer)
        return answer
