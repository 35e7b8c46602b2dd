"""The table of coverage in the documentation is what our scenarios come to, and edges are whole."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (DOCS / "coverage.md",)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as the script has just written them."""
    folder = tmp_path_factory.mktemp("pages")
    copies = [str(shutil.copy(page, folder)) for page in PAGES]
    command = (sys.executable, str(DOCS / "coverage_table.py"), *copies)
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow("plays every scenario in processes")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_table_of_coverage_is_up_to_date(page: Path, written: Path) -> None:
    made = (written / page.name).read_text("utf-8")
    again = f"run: python docs/coverage_table.py {page.relative_to(DOCS.parent)}"
    assert page.read_text("utf-8") == made, again


@pytest.mark.slow("plays every scenario in processes")
def test_every_state_edge_rule_reason_and_child_of_every_shipped_machine(written: Path) -> None:
    page = (written / "coverage.md").read_text("utf-8")
    totals = next(line for line in page.splitlines() if line.startswith("| **all** |"))
    cells = [cell.strip() for cell in totals.split("|")[3:8]]
    assert len(cells) == 5
    assert all(cell.endswith("100 %") for cell in cells), totals
