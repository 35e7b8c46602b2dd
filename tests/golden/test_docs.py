"""The generated pages say what the code does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
LLMS = "../llms.txt"
GENERATED = (
    LLMS,
    "machine.schema.json",
    *(f"reference/{p.name}" for p in (DOCS / "reference").iterdir()),
)


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the generator has just written."""
    folder = tmp_path_factory.mktemp("docs")
    command = (sys.executable, str(DOCS / "generate.py"), str(folder))
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow("generates the pages again")
@pytest.mark.parametrize("name", sorted(GENERATED))
def test_a_generated_page_is_up_to_date(name: str, written: Path) -> None:
    made = (written / name).read_text("utf-8")
    assert (DOCS / name).read_text("utf-8") == made, "run: python docs/generate.py"


@pytest.mark.slow("generates the pages again")
def test_no_page_is_missing(written: Path) -> None:
    made = {p.relative_to(written).as_posix() for p in written.rglob("*") if p.is_file()}
    assert made == set(GENERATED) - {LLMS}


def test_the_list_for_models_names_every_page() -> None:
    """`llms.txt` is written from the tables of `docs/README.md`: a page that is not there is not found."""
    listed = (DOCS / LLMS).read_text("utf-8")
    pages = [page for page in DOCS.rglob("*.md") if page != DOCS / "README.md"]
    root = DOCS.parent
    missing = [
        path for page in pages if f"]({(path := page.relative_to(root).as_posix())})" not in listed
    ]
    assert missing == []
