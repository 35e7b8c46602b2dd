"""The plots and heat maps of the docs say what their pages' own lines draw."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
SCRIPT: dict[str, Any] = runpy.run_path(str(DOCS / "pictures" / "plots.py"))


def texts(path: Path) -> list[str]:
    """Every text of a plot, in its order."""
    root = ET.parse(path).getroot()  # noqa: S314 - our own file
    return [node.text or "" for node in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.slow("plays the lines of a page")
@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
@pytest.mark.system("dot", install="apt-get install graphviz")
@pytest.mark.parametrize("plot", SCRIPT["PLOTS"], ids=lambda plot: plot.name)
def test_a_page_s_lines_draw_its_plot(plot: Any, tmp_path: Path) -> None:
    page = (DOCS / plot.page).read_text("utf-8")
    assert f"pictures/{plot.name}" in page
    for line in plot.lines:
        assert line in page
    assert texts(SCRIPT["draw"](plot, tmp_path)) == texts(DOCS / "pictures" / plot.name)
