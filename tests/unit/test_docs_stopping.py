"""`docs/geist/stopping.md`: the document's table as it stands there, and a test behind each mark of ours."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.cases.test_lines import document

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "geist" / "stopping.md"
LINK = re.compile(r'\[([^\]]*)\]\((\.\./\.\./tests/[\w/.]+\.py) "([^"]+)"\)')


def cells(lines: list[str], heading: str) -> list[list[str]]:
    """The rows of the first table after a heading."""
    rows = lines[lines.index(heading) :]
    first = next(n for n, line in enumerate(rows) if line.startswith("|"))
    out: list[list[str]] = []
    for line in rows[first:]:
        if not line.startswith("|"):
            break
        out.append([cell.strip() for cell in line.strip("|").split("|")])
    return out


@cache
def page() -> list[str]:
    return PAGE.read_text("utf-8").splitlines()


def test_the_table_is_the_documents_with_one_more_column() -> None:
    written = cells(document("000"), "### Feature Matrix")
    ours = cells(page(), "## The table of the document")
    assert len(ours) == len(written) == 13
    assert ours[0] == [*written[0], "chartloop"]
    for row, theirs in zip(ours[2:], written[2:], strict=True):
        assert [re.sub(r" \[\d\]\(#[^)]*\)", "", cell) for cell in row[:-1]] == theirs


def test_every_cell_of_ours_leads_to_a_test() -> None:
    for heading in ("## The table of the document", "## Rows that no column of it has"):
        rows = cells(page(), heading)[2:]
        assert rows
        assert [row for row in rows if not LINK.search(row[-1])] == []


@pytest.mark.slow("starts processes for seconds")
def test_every_test_that_is_named_is_there() -> None:
    named = {
        (path.removeprefix("../../"), test) for _, path, test in LINK.findall("\n".join(page()))
    }
    assert len(named) > 20
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist"]
    files = sorted({path for path, _ in named})
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True, check=False)
    there = {line.strip() for line in done.stdout.splitlines() if "::" in line}
    there |= {re.sub(r"\[.*", "", test) for test in there}
    assert sorted(f"{path}::{test}" for path, test in named if f"{path}::{test}" not in there) == []
