"""The notebooks of `examples/` run, show what they ran, and tell nothing of the machine they ran on.

Each runs in a process of its own, as a reader would run it: what the Jupyter packages warn about
there is theirs.
"""

from __future__ import annotations

import base64
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOK = EXAMPLES / "stepping.ipynb"
MARIMO = EXAMPLES / "stepping_marimo.py"
INSTALL = 'pip install -e ".[test-all]"'

NBMAKE = pytest.mark.extra("nbmake", install=INSTALL)  # noqa: S610 - no Django
NBCLIENT = pytest.mark.extra("nbclient", install=INSTALL)  # noqa: S610 - no Django
WITH_MARIMO = pytest.mark.extra("marimo", install=INSTALL)  # noqa: S610 - no Django


def cells(kind: str) -> list[dict[str, Any]]:
    """The cells of the notebook of one kind, as the file has them."""
    found: list[dict[str, Any]] = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == kind]


def outputs() -> list[dict[str, Any]]:
    """Everything that the notebook shows."""
    return [output for cell in cells("code") for output in cell["outputs"]]


@pytest.fixture
def alone(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a module of this Python in an empty folder, with no settings but its own."""
    env = {
        n: v for n, v in os.environ.items() if not n.startswith(("JUPYTER", "IPYTHON", "PYTEST"))
    }
    env |= {"HOME": str(tmp_path), "JUPYTER_PLATFORM_DIRS": "1", "PYTHONUTF8": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            (sys.executable, *arguments), cwd=tmp_path, env=env, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip

    return run


@pytest.mark.slow("runs notebooks")
@NBMAKE
def test_the_notebook_runs(alone: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    done = alone(
        "-m", "pytest", "-q", "--nbmake", "--nbmake-timeout=90", "-c", os.devnull,
        "-p", "no:cacheprovider", "--rootdir", str(EXAMPLES), str(NOTEBOOK),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.slow("runs notebooks")
@NBMAKE
def test_a_notebook_that_fails_is_found(
    tmp_path: Path, alone: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    wrong = NOTEBOOK.read_text("utf-8").replace(
        '"run.replay().same"', '"assert not run.replay().same"'
    )
    assert wrong != NOTEBOOK.read_text("utf-8")
    (tmp_path / "wrong.ipynb").write_text(wrong, "utf-8")
    done = alone("-m", "pytest", "-q", "--nbmake", "-c", os.devnull, "wrong.ipynb")
    assert "1 failed" in done.stdout, done.stdout + done.stderr


@NBCLIENT
def test_the_outputs_are_those_of_the_sources() -> None:
    generator = runpy.run_path(str(EXAMPLES / "generate.py"))
    up_to_date = cast(Callable[[Path], bool], generator["up_to_date"])
    assert up_to_date(NOTEBOOK), "run: python examples/generate.py"


def test_every_cell_was_run_in_order_and_none_failed() -> None:
    counts = [cell["execution_count"] for cell in cells("code")]
    assert counts == [*range(1, len(counts) + 1)]
    assert not [output for output in outputs() if output["output_type"] == "error"]


def test_the_pictures_are_there_in_a_form_that_needs_no_trust() -> None:
    """SVG is drawn for who trusts the notebook: beside it stands a PNG, or an image in HTML."""
    drawn = [o["data"] for o in outputs() if "image/svg+xml" in o.get("data", ())]
    assert len(drawn) == 4  # the panel leaves one, too
    for data in drawn:
        assert "".join(data["image/svg+xml"]).startswith("<svg")
        png = base64.b64decode(data.get("image/png", ""))
        assert png.startswith(b"\x89PNG") or "<img" in "".join(data["text/html"])


def test_nothing_of_the_machine_is_in_it() -> None:
    text = NOTEBOOK.read_text("utf-8")
    assert not re.findall(r"(?:/tmp/|/usr/|/var/|[A-Z]:\\\\Users|site-packages|ipykernel_\d)", text)


@pytest.mark.slow("runs notebooks")
@WITH_MARIMO
def test_the_marimo_file_is_sound_and_runs(
    tmp_path: Path, alone: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    copy = shutil.copy(MARIMO, tmp_path)  # marimo leaves files beside what it opens
    for arguments in (("-m", "marimo", "check", "--strict", copy), (copy,)):
        done = alone(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow("runs notebooks")
@WITH_MARIMO
def test_the_marimo_file_shows_its_cells(
    tmp_path: Path, alone: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    done = alone(
        "-m", "marimo", "-q", "export", "html", shutil.copy(MARIMO, tmp_path), "-o", "made.html"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "made.html").read_text("utf-8")
    assert "token_limit" in page
    assert page.count("node-use_tools") >= 1


def machine_in(text: str) -> list[str]:
    """The machine file that stands in a notebook, line by line."""
    found = re.search(r'SHOP = """(.*?)"""', text, re.DOTALL)
    assert found
    return [line.strip() for line in found[1].strip().splitlines()]


def test_both_tell_of_the_same_machine() -> None:
    first = "".join(cells("code")[0]["source"])
    assert machine_in(first) == machine_in(MARIMO.read_text("utf-8"))
