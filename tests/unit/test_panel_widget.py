"""The widget of a panel: what stands in its traits, and what it says where it cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import chartloop
from chartloop import Run, load
from chartloop import panel as open_panel
from chartloop.core.errors import SetupError
from chartloop.extras import install
from chartloop.pictures import page_parts
from chartloop.ui.notebook.panel import open as opening

ANYWIDGET = pytest.mark.extra("anywidget", install=install("notebook"))  # noqa: S610 - no Django
FOLDER = Path(chartloop.__file__).parent / "ui" / "notebook" / "panel"
SMALL = """
chartloop: 1
machine: small
limits: {steps: 5}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  look: {do: nothing, next: done}
  done: {stop: completed}
"""


@pytest.fixture
def run() -> Run:
    return load(SMALL).start()


@pytest.fixture
def panel(run: Run) -> Iterator[Any]:
    made = open_panel(run)
    assert made.controller.settle(20)
    yield made
    made.close()


@ANYWIDGET
def test_an_order_comes_by_a_trait_and_the_board_goes_by_one(panel: Any, run: Run) -> None:
    assert panel.board["state"] == "look"
    panel.order = {"do": "step", "id": 5}
    panel.controller.settle(20)
    assert (panel.heard, panel.board["state"], panel.fault) == (5, "done", None)
    assert run.ended
    assert repr(panel) == f"<Panel of run {run.id}>"


@ANYWIDGET
def test_a_saved_notebook_has_a_picture_beside_the_widget(panel: Any, run: Run) -> None:
    data, _ = panel._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == panel.model_id
    assert data["image/svg+xml"].startswith("<svg")
    assert "idle at look" in data["text/html"]
    assert "run the cell to drive it" in data["text/html"]
    assert data["text/plain"].startswith(f"<Panel of run {run.id}>")
    assert "look" in data["text/plain"]


@ANYWIDGET
def test_all_that_goes_to_the_page_is_json(panel: Any) -> None:
    panel.order = {"do": "run", "id": 1}
    panel.controller.settle(20)
    names = ("board", "sheet", "paint", "why", "busy", "fault", "heard")
    state = {name: getattr(panel, name) for name in names}
    assert json.loads(json.dumps(state, allow_nan=False)) == state


@ANYWIDGET
def test_a_closed_panel_hears_no_more_of_the_run(run: Run) -> None:
    opened = open_panel(run)
    opened.controller.settle(20)
    opened.close()
    run.run()
    assert not opened.controller.settle(0.3), "its thread has ended"
    assert opened.board["state"] == "look"


@ANYWIDGET
def test_two_panels_show_one_run(panel: Any, run: Run) -> None:
    other: Any = open_panel(run)
    panel.order = {"do": "run", "id": 1}
    assert panel.controller.settle(20)
    assert other.controller.settle(20)
    assert panel.board == other.board
    other.close()


@pytest.mark.parametrize(
    "file",
    [
        *(
            Path(page_parts.__file__).with_name(n)
            for n in ("elements.js", "questions.js", "picture.js", "style.css")
        ),
        FOLDER / "page" / "panel.js",
    ],
    ids=lambda file: file.name,
)
def test_the_page_is_files_that_ask_nobody_outside(file: Path) -> None:
    text = file.read_text("utf-8")
    asking = ("http:", "https:", "import(", "import ", "fetch(", "url(", "@import", "innerHTML")
    assert [words for words in asking if words in text] == []


def test_without_anywidget_it_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        assert name == "anywidget"

    monkeypatch.setattr(opening, "find_spec", missing)
    with pytest.raises(SetupError, match="needs anywidget") as refused:
        open_panel(run)
    assert refused.value.hint == install("notebook")


def test_a_run_without_a_panel_loads_no_widget() -> None:
    code = f"import sys; from chartloop import load; load({SMALL!r}).start().run(); print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = {*done.stdout.split()}
    assert (
        not {"anywidget", "traitlets", "ipywidgets", "chartloop.ui.notebook.panel.controller"}
        & loaded
    )
