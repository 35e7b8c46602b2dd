"""Journals of released versions: every later one opens them, and decides as they were decided."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine
from chartloop.api.loader import find_faults
from chartloop.catalog import shipped_machines
from chartloop.run.journal import CHILD_MARK, RunRow
from chartloop.run.journal_pages import RunFilter
from chartloop.run.question import update_at
from chartloop.run.recorded import check_chain
from chartloop.run.sync import by_hand

NEWER = {"should_stop"}
"""Machines that are newer than the oldest journal."""
FILES = sorted((Path(__file__).parent / "journals").glob("*.db"))


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteJournal]:
    """A copy: opening brings its tables up to date."""
    opened = SqliteJournal(shutil.copy(request.param, tmp_path / "journal.db"))
    yield opened
    by_hand(opened.close())


def machine_of(journal: SqliteJournal, row: RunRow) -> Machine:
    """The machine as the journal has it; what it names of its own is taken as named."""
    text = by_hand(journal.blob(row.machine_hash))
    assert text is not None
    machine, findings = find_faults(text + "\n", assume=True)
    assert machine is not None, findings
    return machine


def test_there_is_a_run_of_every_shipped_machine(journal: SqliteJournal) -> None:
    rows = by_hand(journal.rows(children=False))
    assert {row.machine for row in rows} >= shipped_machines().keys() - {"lifecycle"} - NEWER
    assert {row.ended for row in rows} == {True, False}


def test_every_run_is_as_it_was_written(journal: SqliteJournal) -> None:
    for row in by_hand(journal.rows()):
        checked = by_hand(check_chain(journal, row.run_id))
        assert checked is not None
        assert (checked.fault, checked.records > 0) == ("", True)


@pytest.mark.slow("takes seconds")
def test_every_run_is_opened_and_decided_as_it_was(journal: SqliteJournal) -> None:
    for row in by_hand(journal.rows(children=False)):
        run = machine_of(journal, row).open(row.run_id, journal=journal)
        assert run.replay().same, row.run_id
        assert CHILD_MARK not in run.id
        if row.ended:
            assert (run.status, run.result.reason) == (row.status, row.reason)
        else:
            assert (run.ended, run.state) == (False, row.state)


def test_a_run_goes_on(journal: SqliteJournal) -> None:
    """It is stopped from outside: that needs no reply of a model."""
    rows = by_hand(journal.rows(children=False, status="running"))
    assert rows
    for row in rows:
        machine = machine_of(journal, row)
        run = machine.open(row.run_id, journal=journal, script=["never asked for"])
        run.cancel()
        record = run.advance()
        assert record is not None
        assert record.kind == "stop"
        assert machine.open(row.run_id, journal=journal).state == run.state
        assert run.replay().same


@pytest.mark.slow("takes seconds")
def test_a_row_says_what_the_run_asks_and_has_used(journal: SqliteJournal) -> None:
    asks: set[str] = set()
    for row in by_hand(journal.rows(children=False)):
        run = machine_of(journal, row).open(row.run_id, journal=journal)
        session = run.session
        position, rest = session.position, session.tally.rest
        now = update_at(run.machine.chart, run.id, position, rest, None)
        # what a list shows is written when a run ends; a migration reads no log
        assert row.standing() == now.replace(reason=row.reason, message="")
        assert row.tokens == run.facts.usage.total_tokens
        assert (row.question is None) is (run.question is None)
        asks |= {row.run_id} if row.question else set()
    assert {row.run_id for row in by_hand(journal.page(RunFilter(waiting=True))).rows} == asks


def test_its_records_are_found_by_number(journal: SqliteJournal) -> None:
    for row in by_hand(journal.rows()):
        whole = [e.record for e in by_hand(journal.events(row.run_id)) if e.record is not None]
        assert by_hand(journal.records(row.run_id)) == whole
        assert by_hand(journal.records(row.run_id, 1, 2)) == whole[1:3]


def test_its_events_are_followed_in_the_order_of_its_runs(journal: SqliteJournal) -> None:
    seen: dict[str, list[int]] = {}
    for event in by_hand(journal.tail("", 10**6)).events:
        assert event.event is not None, event.problem
        seen.setdefault(event.run_id, []).append(event.event.seq)
    heads = {row.run_id: row.head for row in by_hand(journal.rows()) if row.head}
    assert seen == {run_id: list(range(head)) for run_id, head in heads.items()}
