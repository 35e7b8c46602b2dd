"""Several real processes over one file: fencing, messages, kills."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.durability import DURABILITIES, Durability
from chartloop.core.errors import Fenced
from chartloop.run.journal import Event, InboxMessage, RunRow, Update
from chartloop.run.sync import by_hand

pytestmark = pytest.mark.slow("kills processes")

PRELUDE = """
import asyncio, sys
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import Fenced
from chartloop.run.journal import Event, InboxMessage, RunRow, Update
from chartloop.run.sync import by_hand

path, name, durability = sys.argv[1:]

def event(seq):
    return Event(seq, "result", float(seq), None, {"by": name, "text": "x" * (seq % 50) * 400})
"""

WRITER = """
journal = SqliteJournal(path)
by_hand(journal.create(RunRow(name)))
epoch = by_hand(journal.acquire(name))[0].epoch
for head in range(150):
    by_hand(journal.append(name, head, epoch, [event(head)], update=Update("running", "s", steps=head)))
by_hand(journal.close())
"""

INTRUDER = """
journal = SqliteJournal(path)
row, _ = by_hand(journal.acquire(name))
by_hand(journal.append(name, row.head, row.epoch, [event(row.head)]))
by_hand(journal.send(name, InboxMessage("stop", 5.0, {"kind": "cancel"})))
by_hand(journal.close())
"""

BY_HAND_UNTIL_KILLED = """
journal = SqliteJournal(path, durability=durability)
runs = [f"{name}-{n}" for n in range(5)]
for run in runs:
    by_hand(journal.create(RunRow(run)))
    by_hand(journal.send(run, InboxMessage("m", 1.0, {})))
head = 0
while True:
    for run in runs:
        by_hand(journal.append(run, head, 0, [event(head), event(head + 1)], consumed=["m"]))
        print(run, head + 2, flush=True)
    head += 2
"""

GROUPED_UNTIL_KILLED = """
async def begin(journal, run):
    await journal.create(RunRow(run))
    await journal.send(run, InboxMessage("m", 1.0, {}))

async def drive(journal, run):
    head = 0
    while True:
        head = await journal.append(run, head, 0, [event(head), event(head + 1)], consumed=["m"])
        print(run, head, flush=True)

async def main():
    journal = SqliteJournal(path, durability=durability).grouped
    runs = [f"{name}-{n}" for n in range(20)]
    await asyncio.gather(*(begin(journal, run) for run in runs))
    await asyncio.gather(*(drive(journal, run) for run in runs))

asyncio.run(main())
"""


def start(
    script: str, path: Path, name: str, durability: Durability = "process"
) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PRELUDE + script, str(path), name, durability]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


def test_processes_make_the_same_file_and_write_different_runs(tmp_path: Path) -> None:
    path = tmp_path / "new" / "journal.db"
    writers = [start(WRITER, path, name) for name in "abc"]
    for writer in writers:
        finish(writer)
    journal = SqliteJournal(path)
    for name in "abc":
        events = by_hand(journal.events(name))
        assert [event.seq for event in events] == list(range(150))
        assert {event.data["by"] for event in events} == {name}
        row = by_hand(journal.row(name))
        assert row is not None
        assert (row.head, row.steps) == (150, 149)
    by_hand(journal.close())


def test_a_run_that_another_process_acquired_is_fenced_here(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    by_hand(journal.create(RunRow("r")))
    epoch = by_hand(journal.acquire("r"))[0].epoch
    mine = Event(0, "intent", 1.0, None, {"key": "mine"})
    assert by_hand(journal.append("r", 0, epoch, [mine])) == 1
    assert by_hand(journal.inbox("r")) == []

    finish(start(INTRUDER, path, "r"))

    before = by_hand(journal.row("r")), by_hand(journal.events("r"))
    assert [event.data.get("by") for event in before[1]] == [None, "r"]
    for head in (1, 2):
        with pytest.raises(Fenced):
            by_hand(
                journal.append(
                    "r", head, epoch, [mine], update=Update("error", "x"), consumed=["stop"]
                )
            )
    assert (by_hand(journal.row("r")), by_hand(journal.events("r"))) == before
    assert by_hand(journal.inbox("r")) == [InboxMessage("stop", 5.0, {"kind": "cancel"})]
    by_hand(journal.close())


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("script", [BY_HAND_UNTIL_KILLED, GROUPED_UNTIL_KILLED], ids=["by-hand", "grouped"])  # fmt: skip
def test_a_writer_killed_at_any_moment_leaves_whole_runs(
    tmp_path: Path, script: str, durability: Durability
) -> None:
    path = tmp_path / "journal.db"
    for life in range(4):
        writer = start(script, path, f"life{life}", durability)
        assert writer.stdout is not None
        first = writer.stdout.readline()
        time.sleep(random.uniform(0.0, 0.3))  # noqa: S311 - no secret
        writer.kill()
        said = first + writer.communicate(timeout=60)[0]
        confirmed: dict[str, int] = {}
        for line in said.splitlines():
            if len(words := line.split()) == 2:
                confirmed[words[0]] = int(words[1])
        assert confirmed
        check(path, confirmed)


def check(path: Path, confirmed: dict[str, int]) -> None:
    """Runs are whole, and what was confirmed stands."""
    journal = SqliteJournal(path)
    for row in by_hand(journal.rows()):
        events = by_hand(journal.events(row.run_id))
        assert [event.seq for event in events] == list(range(row.head))
        assert row.head % 2 == 0  # appended two by two
        assert bool(by_hand(journal.inbox(row.run_id))) == (row.head == 0)
        # a number that the kill cut short is only smaller
        assert row.head >= confirmed.pop(row.run_id, 0)
    assert not confirmed
    by_hand(journal.close())
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    left = "SELECT count(*) FROM blob WHERE hash NOT IN (SELECT hash FROM event_blob)"
    assert database.execute(left).fetchone() == (0,)
    database.close()
