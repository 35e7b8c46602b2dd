"""What the tests of journals share: every journal there is, and small events to write to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.outcome import Outcome
from chartloop.core.records import Input, Record
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow
from chartloop.run.sync import by_hand

T = TypeVar("T")

KINDS = ("memory", "sqlite", "sqlite-grouped")
"""The journals that `open_desk` opens."""


class Desk:
    """A journal, and a way to call it that fits."""

    def __init__(self, journal: Journal, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.journal = journal
        self._call = call

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


@contextmanager
def open_desk(kind: str, folder: Path, **options: Any) -> Generator[Desk]:
    """A journal of this kind, in a file of `folder` where it has one, until the block is left."""
    if kind == "memory":
        yield Desk(MemoryJournal(**options), by_hand)
        return
    journal = SqliteJournal(folder / "journal.db", redactor=None, **options)
    if kind == "sqlite":
        yield Desk(journal, by_hand)
    else:
        with asyncio.Runner() as runner:
            yield Desk(journal.grouped, runner.run)
    by_hand(journal.close())


def record(seq: int, **outcome: Any) -> Record:
    given = Input("step", "", Outcome(**outcome), 10.5 + seq, 11.25 + seq)
    return Record(seq, "think", given, ("think.next.0",), next="act", status="running")


def step(seq: int, number: int | None = None, **outcome: Any) -> Event:
    """A `record` event: number `seq` in the log, record `number` of the run."""
    found = record(seq if number is None else number, **outcome)
    return Event(seq, "record", 11.25 + seq, found)


def intent(seq: int) -> Event:
    return Event(seq, "intent", 10.0 + seq, None, {"key": f"r/{seq}", "state": "think"})


def written(events: Sequence[Event], epoch: int) -> list[Event]:
    return [event.replace(epoch=epoch) for event in events]
