"""The suite of the journal's port, for every journal there is; and what only one of them has."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import CursorGoneError
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.processes import Process, is_gone, is_mine, this_process
from chartloop.run.sync import by_hand
from chartloop.testing import JournalSuite, SharedJournalSuite
from chartloop.testing.journal_suite.requests import asked


class TestMemory(JournalSuite):
    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        return MemoryJournal(now=now)


class TestSqlite(SharedJournalSuite):
    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        return SqliteJournal(folder / "journal.db", redactor=None, now=now)


class TestSqliteGrouped(SharedJournalSuite):
    def open(self, folder: Path, now: Callable[[], float]) -> Journal:
        return SqliteJournal(folder / "journal.db", redactor=None, now=now).grouped


def test_two_journals_in_memory_do_not_know_each_other() -> None:
    one, two = MemoryJournal(), MemoryJournal()
    with pytest.raises(CursorGoneError, match="another journal"):
        by_hand(one.tail(by_hand(two.tail()).cursor))


def test_a_killed_process_that_nobody_has_collected_has_ended() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    known = this_process()._replace(pid=process.pid, born="")
    assert not is_gone(known)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(known)
    process.communicate()
    assert is_gone(known)


@pytest.mark.parametrize("field", ["pid", "place"])
def test_of_what_is_not_known_of_a_process_nothing_follows(field: str) -> None:
    mine = this_process()
    assert is_mine(mine)
    assert not is_gone(mine)
    assert not is_gone(mine._replace(pid=2**40))
    assert not is_gone(Process(**{**mine._asdict(), field: type(getattr(mine, field))()}))


@pytest.mark.parametrize("edit", ["data = 'no json'", "data = '[]'", "at = 'noon'", "outcome = 7"])
def test_an_edited_request_is_passed_over(tmp_path: Path, edit: str) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.place_request(asked("a")))
    with sqlite3.connect(journal.path) as other:
        other.execute(f"UPDATE request SET {edit}")  # noqa: S608  the table above
    other.close()
    assert by_hand(journal.requests()) == []
    by_hand(journal.place_request(asked("a")))  # and takes nobody's place
    by_hand(journal.close())


def test_only_the_journal_for_event_loops_suspends(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    suspend = [each.suspends for each in (MemoryJournal(), journal, journal.grouped)]
    assert suspend == [False, False, True]
    assert journal.grouped.direct is journal
    by_hand(journal.close())
