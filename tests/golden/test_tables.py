"""Tables in the documentation are what the machines answer: bounds, flows of data."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize(
    ("script", "name"), [("bounds_table.py", "bounds.md"), ("flows_table.py", "data.md")]
)
def test_a_table_is_up_to_date(tmp_path: Path, script: str, name: str) -> None:
    page = tmp_path / name
    shutil.copy(DOCS / name, page)
    command = (sys.executable, str(DOCS / script), str(page))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    made = page.read_text("utf-8")
    assert made == (DOCS / name).read_text("utf-8"), f"run: python docs/{script}"
