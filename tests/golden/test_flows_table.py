"""The tables of flows in the documentation are what the machines answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow("starts processes for seconds")
def test_the_tables_of_flows_are_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "data.md"
    shutil.copy(DOCS / "data.md", page)
    command = (sys.executable, str(DOCS / "flows_table.py"), str(page))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    made = page.read_text("utf-8")
    assert made == (DOCS / "data.md").read_text("utf-8"), "run: python docs/flows_table.py"
