"""What a write survives: the two promises, where they are asked for, and who waits for the disk."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from chartloop import load
from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.journal.sqlite import COMMITS, SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS, Connection, Migration
from chartloop.core.durability import DURABILITIES, Durability
from chartloop.core.errors import SetupError
from chartloop.run.journal import Event, MemoryJournal, RunRow
from chartloop.run.sync import by_hand

WORKER = "chartloop-journal"


def note(seq: int, text: str = "x") -> Event:
    return Event(seq, "intent", 1.0 + seq, None, {"key": text})


@pytest.mark.parametrize(("durability", "flushes"), [("process", 1), ("power", 2)])
def test_a_commit_goes_as_far_as_was_promised(
    tmp_path: Path, durability: Durability, flushes: int
) -> None:
    """SQLite's own words: 1 is NORMAL, to the operating system; 2 is FULL, to the disk."""
    opened: list[Connection] = []
    keep = Migration(len(MIGRATIONS) + 1, "keeps the connection", opened.append)
    path = tmp_path / "new" / "er" / "journal.db"
    journal = SqliteJournal(path, durability=durability, migrations=(*MIGRATIONS, keep))
    assert (journal.durability, journal.grouped.durability) == (durability, durability)
    assert opened[0].execute("PRAGMA synchronous").fetchone() == (flushes,)
    by_hand(journal.create(RunRow("r")))
    assert by_hand(journal.append("r", 0, 0, [note(0)])) == 1
    assert opened[0].execute("PRAGMA synchronous").fetchone() == (flushes,)
    by_hand(journal.close())


def test_a_promise_that_there_is_not_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    wrong: Any = "disk"
    calls = (
        lambda: SqliteJournal(path, durability=wrong),
        lambda: load("agent").start("x", script=["y"], journal=path, durability=wrong),
    )
    for call in calls:
        with pytest.raises(SetupError, match="`durability` is 'disk'") as caught:
            call()
        assert "process, power" in caught.value.message
        assert "kill -9" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durability", DURABILITIES)
def test_a_path_is_opened_as_it_is_asked_for(tmp_path: Path, durability: Durability) -> None:
    path, agent = tmp_path / "runs.db", load("agent")
    run = agent.start("x", script=["y"], journal=path, durability=durability, run_id="r")
    assert getattr(run.session.journal, "durability", None) == durability
    assert run.run().output == "y"
    after = run.next("more", script=["z"])  # the same file, asked for in the same words
    assert getattr(after.session.journal, "durability", None) == durability
    assert agent.open("r", journal=path).ended  # who does not ask takes it as it is
    assert agent.open("r", journal=path, durability=durability).ended
    by_hand(journal_of(path).close())


def test_one_file_is_not_opened_with_two_promises(tmp_path: Path) -> None:
    path, agent = tmp_path / "runs.db", load("agent")
    run = agent.start("x", script=["y"], journal=path, run_id="r")
    with pytest.raises(SetupError, match="is open in this process with the durability `process`"):
        agent.start("x", script=["y"], journal=path, durability="power")
    run.run()
    own = SqliteJournal(path, durability="power")
    by_hand(journal_of(path).close())
    assert agent.open("r", journal=own, durability="power").ended
    with pytest.raises(SetupError, match="durability `power`, not `process`"):
        agent.open("r", journal=own, durability="process")
    by_hand(own.close())


@pytest.mark.parametrize("journal", [None, MemoryJournal()], ids=["none", "memory"])
def test_a_journal_in_memory_promises_nothing(journal: MemoryJournal | None) -> None:
    with pytest.raises(SetupError, match="of a journal's file, and this one is `memory`") as caught:
        load("agent").start("x", script=["y"], journal=journal, durability="power")
    assert "runs.db" in caught.value.hint


# who waits --------------------------------------------------------------------------------------


class Threads:
    """A clock that notes in which thread it was asked: that is where a lease is written."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def now(self) -> float:
        self.asked.append(threading.current_thread().name)
        return 1.0

    def take(self) -> set[bool]:
        """Whether it was the worker's, each time since this was asked last."""
        asked, self.asked = self.asked, []
        return {name.startswith(WORKER) for name in asked}


@pytest.fixture
def threads() -> Threads:
    return Threads()


async def acquire(journal: SqliteJournal, *names: str) -> None:
    await asyncio.gather(*(journal.grouped.acquire(name) for name in names))


def test_a_run_that_is_alone_writes_where_it_is(tmp_path: Path, threads: Threads) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", now=threads.now)
    by_hand(journal.create(RunRow("r")))

    async def alone() -> None:
        for _ in range(20):
            await acquire(journal, "r")

    asyncio.run(alone())
    assert threads.take() == {False}
    by_hand(journal.close())


def test_what_waits_for_the_disk_does_so_in_the_worker(tmp_path: Path, threads: Threads) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", now=threads.now, durability="power")
    by_hand(journal.create(RunRow("r")))
    asyncio.run(acquire(journal, "r"))
    assert threads.take() == {True}
    by_hand(journal.close())


def test_the_first_write_to_a_file_waits_for_the_disk(tmp_path: Path, threads: Threads) -> None:
    path = tmp_path / "journal.db"
    first = SqliteJournal(path)
    by_hand(first.create(RunRow("r")))
    by_hand(first.close())
    journal = SqliteJournal(path, now=threads.now)
    asyncio.run(acquire(journal, "r"))
    assert threads.take() == {True}
    asyncio.run(acquire(journal, "r"))
    assert threads.take() == {False}
    by_hand(journal.close())


def test_many_runs_are_written_together(tmp_path: Path, threads: Threads) -> None:
    journal = SqliteJournal(tmp_path / "journal.db", now=threads.now)
    names = [f"r{n}" for n in range(40)]
    for name in names:
        by_hand(journal.create(RunRow(name)))
    asyncio.run(acquire(journal, *names))
    assert sum(name.startswith(WORKER) for name in threads.asked) >= 30
    by_hand(journal.close())


@pytest.mark.parametrize("grouped", [False, True], ids=["by-hand", "grouped"])
def test_the_log_is_brought_into_the_file_from_time_to_time(tmp_path: Path, grouped: bool) -> None:
    """It is begun anew then, so that it does not grow with the run."""
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.create(RunRow("r")))
    log = tmp_path / "journal.db-wal"

    async def write(count: int, head: int) -> int:
        to = journal.grouped if grouped else journal
        for _ in range(count):
            head = await to.append("r", head, 0, [note(head)])
        return head

    head = asyncio.run(write(COMMITS - 100, 0))
    size, kept = log.stat().st_size, journal.path.stat().st_size
    head = asyncio.run(write(COMMITS, head))
    assert log.stat().st_size < size * 1.3
    assert journal.path.stat().st_size > kept
    assert len(by_hand(journal.events("r"))) == head
    by_hand(journal.close())
