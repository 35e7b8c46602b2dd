"""The table of bounds in the documentation is what the machines come to."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow("starts processes for seconds")
def test_the_table_of_bounds_is_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "bounds.md"
    shutil.copy(DOCS / "bounds.md", page)
    command = (sys.executable, str(DOCS / "bounds_table.py"), str(page))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    made = page.read_text("utf-8")
    assert made == (DOCS / "bounds.md").read_text("utf-8"), "run: python docs/bounds_table.py"
