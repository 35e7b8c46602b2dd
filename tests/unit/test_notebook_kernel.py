"""In a real Jupyter kernel: one output that later cells change, and tables in the others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.extra("nbclient", install="pip install nbclient"),  # noqa: S610 - no Django
    pytest.mark.extra("ipykernel", install="pip install ipykernel"),  # noqa: S610 - no Django
    pytest.mark.extra(  # noqa: S610 - no Django
        "pygraphviz", install='pip install -e ".[diagrams]"'
    ),
]
DOCS = Path(__file__).parents[2] / "docs"
OPEN = """
from pathlib import Path
from chartloop import live, load
from chartloop.adapters.journal.sqlite import SqliteJournal
journal = SqliteJournal(Path("journal.db"))
machine = load("agent")
"""
START = 'run = machine.start("x", script=["Hello."], journal=journal, run_id="mine")'


def played(folder: Path, *cells: str) -> list[list[Any]]:
    """The outputs of the cells of a notebook that is run in a kernel of its own."""
    import nbformat  # noqa: PLC0415 - an extra
    from nbclient import NotebookClient  # noqa: PLC0415 - an extra

    made: Any = nbformat.v4
    notebook = made.new_notebook(cells=[made.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel writes nothing outside, and finds this tree."""
    import chartloop  # noqa: PLC0415 - where it is found

    engine = Path(chartloop.__file__).parents[1]
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(engine), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))


def text(output: Any) -> str:
    return output["data"]["text/plain"]


@pytest.mark.slow("starts a kernel")
def test_a_later_step_changes_the_output_of_an_earlier_cell(tmp_path: Path) -> None:
    _, opened, first, second, again, last = played(
        tmp_path,
        OPEN + START,
        "picture = live(run)",
        "_ = run.advance()",
        "live(run)",  # shown here too, and both change
        "for _ in range(2): record = run.advance()\nrecord",
        "run",
    )
    assert [o.output_type for o in opened] == ["display_data"]
    assert set(opened[0]["data"]) == {"text/html", "text/plain"}
    assert "▶ done" in text(opened[0])
    assert first == []
    assert [text(o) for o in second] == [text(opened[0])]
    assert [o.output_type for o in again] == ["execute_result"]
    assert "image/svg+xml" in last[0]["data"]


@pytest.mark.slow("starts a kernel")
def test_what_came_too_soon_is_in_the_notebook_when_its_cell_has_ended(tmp_path: Path) -> None:
    """The steps of one cell take no time, and nothing is waited for after it."""
    _, opened, _ = played(
        tmp_path, OPEN + START, "picture = live(run)", "run.advance(); run.advance();"
    )
    assert "▶ llm_inference  ● NOW" in text(opened[0])


@pytest.mark.slow("starts a kernel")
def test_a_live_that_is_the_last_line_is_shown_once(tmp_path: Path) -> None:
    _, opened, shown = played(tmp_path, OPEN + START, "picture = live(run)\npicture", "picture")
    assert len(opened) == len(shown) == 1


@pytest.mark.slow("starts a kernel")
def test_inside_the_loop_of_the_kernel_both_faces_are_painted(tmp_path: Path) -> None:
    _, opened, _, result = played(
        tmp_path, OPEN + START, "picture = live(run)", "record = run.advance()", "await run.arun()"
    )
    assert "▶ done  ✓ completed" in text(opened[0])
    assert "Done at" in result[0]["data"]["text/html"]


@pytest.mark.slow("starts a kernel")
def test_after_a_restart_of_the_kernel_the_run_goes_on(tmp_path: Path) -> None:
    _, before, _ = played(tmp_path, OPEN + START, "live(run)", "run.advance(); run.advance();")
    _, after, _ = played(
        tmp_path, OPEN, 'run = machine.open("mine", journal=journal, script=["Hello."])\nlive(run)',
        "result = run.run()",
    )  # fmt: skip
    assert "▶ llm_inference  ● NOW" in text(before[0])
    assert "▶ done  ✓ completed" in text(after[0])
    assert "×1" in text(after[0])


@pytest.mark.slow("starts a kernel")
@pytest.mark.extra("nbconvert", install="pip install nbconvert")  # noqa: S610 - no Django
def test_an_exported_panel_is_its_picture_as_the_page_says(tmp_path: Path) -> None:
    """Without the state of widgets, of which nbconvert would make one that needs a network."""
    import nbformat  # noqa: PLC0415 - an extra
    from nbconvert.exporters import HTMLExporter  # noqa: PLC0415 - an extra
    from nbconvert.preprocessors import ExecutePreprocessor  # noqa: PLC0415 - an extra

    assert "store_widget_state=False" in (DOCS / "panel.md").read_text("utf-8")
    made: Any = nbformat.v4
    cells = [OPEN + START, "from chartloop import panel\npanel(run)"]
    notebook = made.new_notebook(cells=[made.new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(tmp_path)}}
    ExecutePreprocessor(timeout=100, store_widget_state=False).preprocess(notebook, resources)
    page, _ = HTMLExporter().from_notebook_node(notebook)
    shown = page[page.index("jp-OutputArea-output") :]
    assert "widget-view" not in page
    assert 'alt="Flowchart of Step-based agent' in shown or "<svg" in shown
