"""The public suite finds what is wrong with somebody's journal."""

from __future__ import annotations

from textwrap import dedent

import pytest

HEAD = """
from chartloop import MemoryJournal, SqliteJournal
from chartloop.testing import JournalSuite, SharedJournalSuite
"""
BROKEN = {
    "delivers-a-message-twice": (
        "messages",
        """
        class Broken(MemoryJournal):
            async def send(self, run_id, message, *, check=None):
                await super().send(run_id, message, check=check)
                return True

        class TestBroken(JournalSuite):
            def open(self, folder, now):
                return Broken(now=now)
        """,
        "test_messages_come_in_order_and_once",
    ),
    "has-a-clock-of-its-own": (
        "lease",
        """
        class TestBroken(JournalSuite):
            def open(self, folder, now):
                return MemoryJournal()
        """,
        "test_a_lease_of_another_machine_lasts_until_its_end",
    ),
    "copies-only-open-messages": (
        "whole_run",
        """
        class Broken(SqliteJournal):
            async def raw(self, run_id):
                raw = await super().raw(run_id)
                return raw._replace(messages=[m for m in raw.messages if m.seq is None])

        class TestBroken(JournalSuite):
            def open(self, folder, now):
                return Broken(folder / "my.db", now=now)
        """,
        "test_a_whole_run_is_given_and_put_back_as_it_was",
    ),
    "numbers-before-it-commits": (
        "tail_misses",
        """
        class Broken(SqliteJournal):
            held = ()

            async def tail(self, cursor="", limit=1000, **more):
                tail = await super().tail(cursor, limit, **more)
                late = [e for e in tail.events if e.cursor not in self.held and e.cursor[-1] == "7"]
                self.held = {*self.held, *(e.cursor for e in late)}
                return tail._replace(events=[e for e in tail.events if e not in late])

        class TestBroken(SharedJournalSuite):
            def open(self, folder, now):
                return Broken(folder / "my.db", now=now)
        """,
        "test_the_tail_misses_nothing_while_others_write",
    ),
}
"""Faults of a journal: the cases that are run, the journal, and the case that must fail."""


@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_of_a_journal_fails_its_case(fault: str, pytester: pytest.Pytester) -> None:
    cases, journal, fails = BROKEN[fault]
    pytester.makepyfile(test_mine=HEAD + dedent(journal))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q", "-k", cases)
    result.stdout.fnmatch_lines([f"FAILED *{fails}*"])
    result.stdout.fnmatch_lines(["E *assert *"])


def test_a_subclass_says_how_its_journal_is_opened(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_mine=HEAD + "class TestMine(JournalSuite): pass\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q", "-k", "snapshot_stands")
    result.stdout.fnmatch_lines(["*open(folder, now)*"])
