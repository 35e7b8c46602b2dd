"""A log that somebody changed is found out when the run is opened: nothing goes on from it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import load
from chartloop.core.errors import JournalCorrupt
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock

MACHINE = """
chartloop: 1
machine: m
model: {name: scripted}
states:
  a: {do: receive, next: b}
  b: {do: infer, next: c}
  c: {ask: Go on?, on: {yes: z, no: b}}
  z: {stop: completed}
"""


class Damage(NamedTuple):
    id: str
    sql: str
    says: str


SPENT = """UPDATE event SET data = json_set(data, '$.outcome.spent.NAME', json('VALUE'))
WHERE json_extract(data, '$.outcome.spent') IS NOT NULL"""

DAMAGES = [
    Damage("hole", "DELETE FROM event WHERE seq = 1", "event 1 is not there"),
    Damage("first-gone", "DELETE FROM event WHERE seq = 0", "event 0 is not there"),
    Damage("end-gone", "DELETE FROM event WHERE seq = 3", "it ends before event 4"),
    Damage("emptied", "DELETE FROM event", "it ends before event 4"),
    Damage(
        "another-way",
        """UPDATE event SET data = replace(data, '"next":"c"', '"next":"z"') WHERE seq = 3""",
        "record 2 went to `z`, and what it holds leads to `c`",
    ),
    *(
        Damage(
            f"spent-{name}",
            SPENT.replace("NAME", name).replace("VALUE", value),
            f"record 2: it cannot have used {name}",
        )
        for name, value in (
            ("prompt_tokens", "-200000"),
            ("cost", "-1"),
            ("llm_calls", "-1"),
        )
    ),
    Damage(
        "spent-completion_tokens",
        SPENT.replace("NAME", "completion_tokens").replace("VALUE", '"many"'),
        "record 2: `outcome.spent.completion_tokens`: expected `int`, got `str`",
    ),
    Damage(
        "note-without-key",
        "UPDATE event SET data = '{}' WHERE type = 'intent'",
        "the call it belongs to",
    ),
]


@pytest.mark.parametrize("case", DAMAGES, ids=lambda case: case.id)
def test_a_damaged_log_is_named(case: Damage, tmp_path: Path) -> None:
    machine, path = load(MACHINE), tmp_path / "journal.db"
    journal = SqliteJournal(path)
    machine.run("x", script=["hello"], journal=journal, clock=ManualClock(1000), run_id="r")
    assert by_hand(journal.row("r")) is not None
    by_hand(journal.close())
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(case.sql)
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorrupt, match=case.says):
        machine.open("r", journal=journal)
    by_hand(journal.close())
