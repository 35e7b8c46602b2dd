"""Every line of the five documents is a case, or says why it is none.

`lines/NNN_name.txt` has a row for each stretch of a document:

    LINES | what it is | why, or the case

`LINES` is a number or `first-last`; blank lines need no row. What it is: `case` (then one or
more test ids, with `;` between them, of a test function, of one of its parameters, or of a
scenario), `prose` or `deviation` (then the reason, and after another `|` the tests that show it,
if there are any). The pages in `docs/documents` print the deviations.

The tables are held against the documents in `../shared/sources`, or, where that is not there,
against the copy in `sources/`. Without either the test says so and skips.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = (ROOT.parent / "shared" / "sources", HERE / "sources")
TABLES = sorted((HERE / "lines").glob("*.txt"))
SHORTEST_REASON = 12
"""Letters. A reason of one word is none."""


class Row(NamedTuple):
    """One row of a table."""

    number: int
    first: int
    last: int
    what: str
    says: str
    """The reason; for a `case`, its tests."""
    tests: str

    @property
    def cases(self) -> list[str]:
        """The ids of the tests that it names."""
        return [part.strip() for part in self.tests.split(";") if part]


def rows(table: Path) -> list[Row]:
    """The rows of a table, comments and blank lines left out."""
    return [row for row, _ in _read(table) if row is not None]


def _read(table: Path) -> list[tuple[Row | None, str]]:
    out: list[tuple[Row | None, str]] = []
    for number, line in enumerate(table.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"(\d+)(?:-(\d+))? *\| *(case|prose|deviation) *\| *(\S.*)", line)
        if found is None:
            out.append((None, f"{table.name}:{number} is not a row: {line}"))
            continue
        first, last, what, says = found.groups()
        reason, _, tests = (part.strip() for part in says.partition(" | "))
        tests = reason if what == "case" else tests
        out.append((Row(number, int(first), int(last or first), what, reason, tests), ""))
    return out


def document(number: str) -> list[str]:
    """The lines of a document."""
    for folder in FOLDERS:
        for path in folder.glob(f"{number}_*.txt"):
            return path.read_text(encoding="utf-8").splitlines()
    pytest.skip(f"document {number} is neither in `shared/sources` nor in `tests/cases/sources`")


@cache
def collected() -> frozenset[str]:
    """The ids of all tests that the tables name a file of, with and without parameters."""
    files = {case.split("::")[0] for table in TABLES for row in rows(table) for case in row.cases}
    there = sorted(file for file in files if (ROOT / file).is_file())
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", *there]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    ids = {line.strip() for line in done.stdout.splitlines() if "::" in line}
    bare = {re.sub(r"\[.*", "", found) for found in ids}
    return frozenset({*ids, *bare, *(found.split("::")[0] for found in ids)})


def test_every_document_has_its_table() -> None:
    assert [table.name[:3] for table in TABLES] == ["000", "001", "002", "003", "004"]


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_every_line_is_classified_once(table: Path) -> None:
    lines = document(table.name[:3])
    wrong = [said for row, said in _read(table) if row is None]
    assert wrong == []
    covered = Counter(n for row in rows(table) for n in range(row.first, row.last + 1))
    not_blank = {number for number, line in enumerate(lines, 1) if line.strip()}
    assert sorted(not_blank - covered.keys()) == [], "lines without a row"
    assert sorted(n for n, times in covered.items() if times > 1) == [], "lines of several rows"
    assert [row for row in rows(table) if not 1 <= row.first <= row.last <= len(lines)] == []
    blank = [row for row in rows(table) if not not_blank & set(range(row.first, row.last + 1))]
    assert blank == [], "rows of blank lines only"


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.stem)
def test_every_case_is_a_test_and_every_other_line_has_its_reason(table: Path) -> None:
    missing = [
        f"{table.name}:{row.number}: {case}"
        for row in rows(table)
        for case in row.cases
        if case not in collected()
    ]
    assert missing == []
    short = [row for row in rows(table) if row.what != "case" and len(row.says) < SHORTEST_REASON]
    assert short == []


def test_the_copies_of_the_documents_are_the_documents() -> None:
    shared, copies = FOLDERS
    for path in shared.glob("0*.txt"):
        assert path.read_text("utf-8") == (copies / path.name).read_text("utf-8"), path.name
