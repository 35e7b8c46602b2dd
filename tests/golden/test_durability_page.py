"""The tables of `docs/durability.md` are those of its figures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_has_the_tables_of_its_figures(tmp_path: Path) -> None:
    page = tmp_path / "durability.md"
    shutil.copy(DOCS / "durability.md", page)
    command = (sys.executable, str(DOCS / "durability_table.py"), str(page))
    subprocess.run(command, check=True)
    again = "run: python docs/durability_table.py"
    assert (DOCS / "durability.md").read_text() == page.read_text(), again
