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
from chartloop.run.sync import by_hand

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
    assert {row.machine for row in rows} >= shipped_machines().keys() - {"lifecycle"}
    assert {row.ended for row in rows} == {True, False}


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
