"""A journal's file, watched: other writers, other processes, `VACUUM`, edited rows."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import CursorGoneError
from chartloop.run.journal import Event, RunRow, Update
from chartloop.run.journal_pages import RunFilter, Tail
from chartloop.run.journal_records import DAMAGED, OpenQuestion
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand

WRITER = """
import sys
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.journal import Event, RunRow
from chartloop.run.sync import by_hand

journal = SqliteJournal(sys.argv[1])
for number in range(20):
    run_id = f"{sys.argv[2]}-{number}"
    by_hand(journal.create(RunRow(run_id)))
    epoch = by_hand(journal.acquire(run_id))[0].epoch
    for seq in range(0, 20, 2):
        events = [Event(n, "intent", 1.0, None, {"key": str(n)}) for n in (seq, seq + 1)]
        by_hand(journal.append(run_id, seq, epoch, events))
    if number % 4 == 3:
        by_hand(journal.remove([f"{sys.argv[2]}-{number - 2}"]))
by_hand(journal.close())
"""


def intent(seq: int) -> Event:
    return Event(seq, "intent", 1.0, None, {"key": str(seq)})


def begin(journal: SqliteJournal, run_id: str, events: int = 2, *, created: float = 0.0) -> int:
    by_hand(journal.create(RunRow(run_id, created=created)))
    epoch = by_hand(journal.acquire(run_id))[0].epoch
    by_hand(journal.append(run_id, 0, epoch, [intent(n) for n in range(events)]))
    return epoch


def places(tail: Tail) -> list[tuple[str, int]]:
    return [(e.run_id, e.event.seq) for e in tail.events if e.event is not None]


@pytest.mark.slow("starts processes")
def test_whoever_follows_misses_nothing_of_many_writers(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "abc"]
    seen: list[tuple[str, int]] = []
    cursor = token = ""
    running = True
    while running:
        running = any(writer.poll() is None for writer in writers)
        if (now := by_hand(journal.changed(token))) is None:
            continue
        token = now
        while True:
            tail = by_hand(journal.tail(cursor, 7))
            cursor = tail.cursor
            seen += places(tail)
            if cursor == tail.newest:
                break
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    assert len(set(seen)) == len(seen)
    by_run: dict[str, list[int]] = {}
    for run_id, seq in seen:
        by_run.setdefault(run_id, []).append(seq)
    assert all(seqs == list(range(len(seqs))) for seqs in by_run.values())  # in order, no gap
    left = {row.run_id: row.head for row in by_hand(journal.rows())}
    assert {run_id: len(by_run[run_id]) for run_id in left} == left == dict.fromkeys(left, 20)
    by_hand(journal.close())


def test_a_vacuum_leaves_cursors_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for run_id in "abcd":
        begin(journal, run_id)
    whole = by_hand(journal.tail())
    page = by_hand(journal.page(RunFilter(), "", 1))
    by_hand(journal.remove(["a", "c"]))
    with closing(sqlite3.connect(path)) as database:
        database.execute("VACUUM")
    assert places(by_hand(journal.tail(whole.events[0].cursor))) == [
        ("b", 0), ("b", 1), ("d", 0), ("d", 1),
    ]  # fmt: skip
    assert by_hand(journal.tail(whole.cursor)).events == []
    assert [row.run_id for row in by_hand(journal.page(RunFilter(), page.next)).rows] == ["b"]
    begin(journal, "e", 1)
    assert places(by_hand(journal.tail(whole.cursor))) == [("e", 0)]
    by_hand(journal.close())
    again = SqliteJournal(path)  # and through an end of the process
    assert places(by_hand(again.tail(whole.cursor))) == [("e", 0)]
    by_hand(again.close())


def test_a_cursor_of_another_file_is_refused(tmp_path: Path) -> None:
    one, two = SqliteJournal(tmp_path / "1.db"), SqliteJournal(tmp_path / "2.db")
    with pytest.raises(CursorGoneError, match="is of another journal"):
        by_hand(one.tail(by_hand(two.tail()).cursor))
    by_hand(one.close())
    by_hand(two.close())


def test_an_event_that_cannot_be_read_stops_nobody_who_follows(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    begin(journal, "a", 3)
    begin(journal, "b", 1)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE event SET data = '{' WHERE run_id = 'a' AND seq = 1")
        database.execute("UPDATE event SET type = 'more' WHERE run_id = 'a' AND seq = 2")
        database.commit()
    tail = by_hand(journal.tail())
    assert [(e.run_id, e.event is None) for e in tail.events] == [
        ("a", False), ("a", True), ("a", True), ("b", False),
    ]  # fmt: skip
    assert "cannot be read" in tail.events[1].problem
    assert "does not know" in tail.events[2].problem
    by_hand(journal.close())


EDITED = ["{", "[]", '{"wait": 1}', '{"answers": []}', '{"answers": {"e": {"n": 1}}}',
          '{"due": "soon"}', '{"more": 1}', "7", b"\xff\xfe", 5, '{"answers": {"e": []}}']  # fmt: skip


@pytest.mark.parametrize("value", EDITED, ids=ascii)
def test_a_question_that_cannot_be_read_is_a_damaged_row(tmp_path: Path, value: object) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    begin(journal, "a", created=2.0)
    begin(journal, "b", created=1.0)
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE run SET question = ? WHERE run_id = 'a'", (value,))
        database.commit()
    damaged, sound = by_hand(journal.page()).rows
    assert (damaged.run_id, damaged.status, sound.status) == ("a", DAMAGED, "idle")
    assert "`question` of its row" in damaged.reason
    by_hand(journal.close())


@pytest.mark.parametrize("at", ["soon", b"\x00\xff", -1.0, 1e300])
def test_pages_go_on_behind_a_row_of_an_odd_time(tmp_path: Path, at: object) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for number, run_id in enumerate("abcd"):
        begin(journal, run_id, created=float(number))
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE run SET created = ? WHERE run_id = 'b'", (at,))
        database.commit()
    found, cursor = list[str](), ""
    while True:
        page = by_hand(journal.page(RunFilter(), cursor, 1))
        found += [row.run_id for row in page.rows]
        if not (cursor := page.next):
            break
    assert sorted(found) == ["a", "b", "c", "d"]
    by_hand(journal.close())


def test_a_question_is_kept_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, redactor=Redactor({"PIN": "correct-horse"}, environ={}))
    asked = OpenQuestion("1", "Is correct-horse right?", {"yes": {}}, "a", "gate")
    epoch = begin(journal, "a", 1)
    by_hand(
        journal.append("a", 1, epoch, [intent(1)], update=Update("paused", "gate", question=asked))
    )
    [row] = by_hand(journal.page(RunFilter(waiting=True))).rows
    assert row.question == asked.replace(text="Is «redacted:PIN» right?")
    by_hand(journal.close())
    assert b"correct-horse" not in b"".join(f.read_bytes() for f in tmp_path.iterdir())
