"""The defaults of stored fields are frozen: a record leaves out what has its default.

A default that is changed would change what every record of every journal says. So each released
journal stands beside the fields and defaults with which it was written. A new field is free
if it has a default, which then stands for the records before it.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.golden.journals.make import fields_of_records

FOLDER = Path(__file__).parent / "journals"
JOURNALS = sorted(FOLDER.glob("*.db"))


def frozen(journal: Path) -> dict[str, dict[str, Any]]:
    """The fields of a journal by struct, each with its default unless it is required."""
    return json.loads(journal.with_suffix(".fields.json").read_text())


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_stored_field_keeps_its_name_and_default(journal: Path) -> None:
    now = fields_of_records()
    for struct, fields in frozen(journal).items():
        assert struct in now, f"`{struct}` is stored in {journal.name}"
        kept = {name: now[struct].get(name) for name in fields}
        assert kept == fields, f"{journal.name} was written with these fields of `{struct}`"


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_a_new_field_has_a_default(journal: Path) -> None:
    then = frozen(journal)
    for struct, fields in fields_of_records().items():
        for name in fields.keys() - then.get(struct, fields).keys():
            assert "default" in fields[name], f"the records of {journal.name} have no `{name}`"


@pytest.mark.parametrize("journal", JOURNALS, ids=lambda path: path.stem)
def test_every_key_of_a_record_is_a_stored_field(journal: Path) -> None:
    known = fields_of_records()
    with closing(sqlite3.connect(journal)) as database:
        texts = database.execute("SELECT data FROM event WHERE type = 'record'").fetchall()
    assert texts
    for (text,) in texts:
        record = json.loads(text)
        assert record.keys() <= known["Record"].keys()
        assert record.get("outcome", {}).keys() <= known["Outcome"].keys()
