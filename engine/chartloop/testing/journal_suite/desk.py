"""What the cases of a journal share: a way to call any journal, and small events to write to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import pytest

from chartloop.core.outcome import Outcome
from chartloop.core.records import Input, Record
from chartloop.run.journal import Event, Journal, RunRow
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock

T = TypeVar("T")


class Desk:
    """A journal, and a way to call it that fits."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._runner = asyncio.Runner() if journal.suspends else None
        self._call: Callable[[Coroutine[Any, Any, Any]], Any] = (
            by_hand if self._runner is None else self._runner.run
        )

    def close(self) -> None:
        """Close the journal, and the event loop that called it."""
        self(self.journal.close())
        if self._runner is not None:
            self._runner.close()

    def __call__(self, call: Coroutine[Any, Any, T]) -> T:
        return self._call(call)

    def begin(self, run_id: str = "r", **columns: Any) -> int:
        """A run that this process drives; gives its epoch."""
        self(self.journal.create(RunRow(run_id, **columns)))
        return self(self.journal.acquire(run_id))[0].epoch

    def write(self, run_id: str, head: int, events: Sequence[Event], **more: Any) -> int:
        """Append in the run's present epoch."""
        row = self(self.journal.row(run_id))
        assert row is not None
        return self(self.journal.append(run_id, head, row.epoch, events, **more))

    def all(self, run_id: str = "r") -> tuple[Any, ...]:
        """Everything that can be seen of a run."""
        journal = self.journal
        return (
            self(journal.row(run_id)), self(journal.events(run_id)),
            self(journal.inbox(run_id)), self(journal.snapshot(run_id)),
        )  # fmt: skip


class Opening:
    """The journal of the cases, opened as often as a case needs it."""

    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        """Open the journal that belongs to `folder`, with `now` as its clock.

        An empty one at first; opened a second time with the same folder it is the same journal, as
        another process would open it.
        """
        raise NotImplementedError(f"{type(self).__name__} must give `open(folder, now)`")

    @pytest.fixture
    def clock(self) -> ManualClock:
        """The journal's clock."""
        return ManualClock()

    @pytest.fixture
    def another(self, tmp_path: Path, clock: ManualClock) -> Iterator[Callable[[], Desk]]:
        """Opens the journal once more."""
        with ExitStack() as opened:

            def another() -> Desk:
                desk = Desk(self.open(tmp_path, clock.now))
                opened.callback(desk.close)
                return desk

            yield another

    @pytest.fixture
    def desk(self, another: Callable[[], Desk]) -> Desk:
        """The journal."""
        return another()


def record(seq: int, **outcome: Any) -> Record:
    """Record `seq` of a run, of a model's reply."""
    given = Input("step", "", Outcome(**outcome), 10.5 + seq, 11.25 + seq)
    return Record(seq, "think", given, ("think.next.0",), next="act", status="running")


def step(seq: int, number: int | None = None, **outcome: Any) -> Event:
    """A `record` event: number `seq` in the log, record `number` of the run."""
    found = record(seq if number is None else number, **outcome)
    return Event(seq, "record", 11.25 + seq, found)


def intent(seq: int) -> Event:
    """An `intent` event, number `seq` in the log."""
    return Event(seq, "intent", 10.0 + seq, None, {"key": f"r/{seq}", "state": "think"})


def written(events: Sequence[Event], epoch: int) -> list[Event]:
    """These events as they are read back."""
    return [event.replace(epoch=epoch) for event in events]
