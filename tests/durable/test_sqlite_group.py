"""Many runs on event loops over one file: groups, and that nobody pays for a neighbour."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS, Connection, Migration
from chartloop.core.errors import Fenced, JournalError, JournalLocked, RunError, UnknownRunError
from chartloop.run.journal import Event, InboxMessage, RunRow
from chartloop.run.sync import by_hand


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    opened = SqliteJournal(tmp_path / "journal.db", wait=0.3)
    yield opened
    by_hand(opened.close())


def note(seq: int, text: str = "x") -> Event:
    return Event(seq, "intent", 1.0 + seq, None, {"key": text})


def heads(journal: SqliteJournal) -> dict[str, int]:
    rows = by_hand(journal.rows())
    assert all(len(by_hand(journal.events(row.run_id))) == row.head for row in rows)
    return {row.run_id: row.head for row in rows}


def log_size(journal: SqliteJournal) -> int:
    return journal.path.with_name("journal.db-wal").stat().st_size


async def drive(journal: SqliteJournal, run_id: str, steps: int) -> int:
    head = 0
    for _ in range(steps):
        head = await journal.grouped.append(run_id, head, 0, [note(head)])
    return head


def test_runs_of_one_tick_share_a_transaction(journal: SqliteJournal) -> None:
    """Each transaction writes the pages it touched once more, so the log tells how many there were."""
    names = [f"run{n:03}" for n in range(100)]
    for name in names:
        by_hand(journal.create(RunRow(name)))
    before = log_size(journal)
    for name in names:
        by_hand(journal.append(name, 0, 0, [note(0)]))
    alone = log_size(journal) - before

    async def all_at_once() -> list[int]:
        appends = [journal.grouped.append(name, 1, 0, [note(1)]) for name in names]
        return await asyncio.gather(*appends)

    before = log_size(journal)
    assert asyncio.run(all_at_once()) == [2] * 100
    assert (log_size(journal) - before) * 5 < alone
    assert heads(journal) == dict.fromkeys(names, 2)


def test_each_caller_gets_its_own_result_or_error(journal: SqliteJournal) -> None:
    for name in ("a", "b", "c", "d"):
        by_hand(journal.create(RunRow(name)))
    by_hand(journal.acquire("c"))
    grouped = journal.grouped

    async def all_at_once() -> Sequence[object]:
        return await asyncio.gather(
            grouped.append("a", 0, 0, [note(0)]),
            grouped.append("b", 7, 0, [note(7)]),
            grouped.append("c", 0, 0, [note(0)]),
            grouped.append("no such run", 0, 0, [note(0)]),
            grouped.append("d", 0, 0, [note(0)], consumed=["lone \ud800"]),
            grouped.send("a", InboxMessage("m", 1.0, {})),
            grouped.create(RunRow("a")),
            grouped.row("a"),
            grouped.append("a", 1, 0, [note(1)], consumed=["m"]),
            return_exceptions=True,
        )

    found = asyncio.run(all_at_once())
    assert [type(answer) for answer in found] == [
        int, Fenced, Fenced, UnknownRunError, RunError, bool, RunError, RunRow, int,
    ]  # fmt: skip
    assert heads(journal) == {"a": 2, "b": 0, "c": 0, "d": 0}
    assert by_hand(journal.inbox("a")) == []


def test_loops_in_several_threads_share_a_journal(journal: SqliteJournal) -> None:
    names = [f"{loop}-{run}" for loop in range(3) for run in range(8)]
    for name in [*names, "by hand"]:
        by_hand(journal.create(RunRow(name)))
    ends: list[int] = []

    def loop(number: int) -> None:
        async def runs() -> list[int]:
            return await asyncio.gather(
                *(drive(journal, f"{number}-{run}", 20) for run in range(8))
            )

        ends.extend(asyncio.run(runs()))

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for head in range(50):
        by_hand(journal.append("by hand", head, 0, [note(head)]))
    for thread in threads:
        thread.join()
    assert ends == [20] * 24
    assert heads(journal) == {**dict.fromkeys(names, 20), "by hand": 50}


def test_a_loop_that_comes_after_another_has_groups_of_its_own(journal: SqliteJournal) -> None:
    for name in ("a", "b"):
        by_hand(journal.create(RunRow(name)))
        assert asyncio.run(drive(journal, name, 5)) == 5


def test_who_is_cancelled_before_its_group_begins_has_written_nothing(
    journal: SqliteJournal,
) -> None:
    for name in ("a", "b"):
        by_hand(journal.create(RunRow(name)))

    holder = sqlite3.connect(journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # so that neither is written at once

    async def cancel_one() -> int:
        tasks = [
            asyncio.create_task(journal.grouped.append(name, 0, 0, [note(0)])) for name in "ab"
        ]
        await asyncio.sleep(0)
        tasks[0].cancel()
        holder.execute("ROLLBACK")
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()
        return tasks[1].result()

    assert asyncio.run(cancel_one()) == 1
    holder.close()
    assert heads(journal) == {"a": 0, "b": 1}


def test_a_locked_file_is_told_to_all_after_one_wait_and_the_loop_goes_on(
    journal: SqliteJournal,
) -> None:
    for name in ("a", "b", "c"):
        by_hand(journal.create(RunRow(name)))
    holder = sqlite3.connect(journal.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    async def all_at_once() -> Sequence[object]:
        clock = asyncio.create_task(tick())
        appends = [journal.grouped.append(name, 0, 0, [note(0)]) for name in "abc"]
        found = await asyncio.gather(*appends, return_exceptions=True)
        clock.cancel()
        return found

    refused = asyncio.run(all_at_once())
    assert [type(error) for error in refused] == [JournalLocked] * 3
    assert len({id(error) for error in refused}) == 1  # one wait, told to all
    assert ticks > 5
    holder.execute("ROLLBACK")
    holder.close()
    assert asyncio.run(drive(journal, "a", 1)) == 1


def test_one_that_does_not_fit_on_the_disk_does_not_take_the_others_with_it(
    tmp_path: Path,
) -> None:
    opened: list[Connection] = []
    keep = Migration(len(MIGRATIONS) + 1, "keeps the connection", opened.append)
    journal = SqliteJournal(tmp_path / "journal.db", migrations=(*MIGRATIONS, keep))
    for name in ("a", "b", "c"):
        by_hand(journal.create(RunRow(name)))
    pages = opened[0].execute("PRAGMA page_count").fetchone()[0]
    opened[0].execute(f"PRAGMA max_page_count = {pages + 1}")

    async def all_at_once() -> Sequence[object]:
        return await asyncio.gather(
            journal.grouped.append("a", 0, 0, [note(0)]),
            journal.grouped.append("b", 0, 0, [note(0, "x" * 30_000)]),
            journal.grouped.append("c", 0, 0, [note(0)]),
            return_exceptions=True,
        )

    found = asyncio.run(all_at_once())
    assert [type(answer) for answer in found] == [int, JournalError, int]
    assert heads(journal) == {"a": 1, "b": 0, "c": 1}
    by_hand(journal.close())


def test_a_closed_journal_says_so(journal: SqliteJournal) -> None:
    before = set(threading.enumerate())  # another test's may not have ended yet
    by_hand(journal.create(RunRow("a")))

    async def after_close() -> None:
        assert await journal.grouped.append("a", 0, 0, [note(0)]) == 1
        await journal.grouped.close()
        for call in (journal.grouped.inbox("a"), journal.grouped.events("a")):
            with pytest.raises(JournalError, match="is closed"):
                await call

    asyncio.run(after_close())
    assert not [
        t for t in set(threading.enumerate()) - before if t.name.startswith("chartloop-journal")
    ]
    with pytest.raises(JournalError, match="is closed"):
        by_hand(journal.row("a"))


def test_what_is_gathered_when_the_journal_closes_is_written_or_refused(
    journal: SqliteJournal,
) -> None:
    names = [f"run{n}" for n in range(20)]
    for name in names:
        by_hand(journal.create(RunRow(name)))

    async def close_amid() -> dict[str, int]:
        first = [asyncio.create_task(drive(journal, name, 3)) for name in names]
        await asyncio.sleep(0.003)
        await journal.grouped.close()
        await asyncio.wait(first, timeout=5)
        assert all(isinstance(t.exception(), JournalError | None) for t in first)
        return {name: 3 for name, task in zip(names, first, strict=True) if not task.exception()}

    done = asyncio.run(close_amid())
    again = SqliteJournal(journal.path)
    assert heads(again).items() >= done.items()
    by_hand(again.close())
