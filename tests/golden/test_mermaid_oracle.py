"""Our reader of Mermaid charts beside Mermaid itself: what it accepts, and what it sees.

The charts of `tests/cases/mermaid/FEATURE` were written for the purpose, three at least for each
feature of the syntax, some of which Mermaid refuses (`refused_*`).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chartloop.interchange.mermaid.read import read_flowchart
from tests.mermaid import Oracle, ours

CASES = Path(__file__).parents[1] / "cases" / "mermaid"
FEATURES = sorted(folder.name for folder in CASES.iterdir())
FILES = sorted(CASES.glob("*/*.mmd"))
SOURCES = sorted((Path(__file__).parents[1] / "cases" / "sources").glob("*.mmd"))
DIAGRAMS = sorted((Path(__file__).parents[2] / "diagrams").glob("*.mmd"))

pytestmark = [pytest.mark.node("mermaid"), pytest.mark.slow("asks Mermaid")]


def written(path: Path) -> str:
    """The text of a chart, with the line ends that it has."""
    return path.read_bytes().decode()


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("feature", FEATURES)
def test_a_feature_has_three_charts_that_are_read_and_one_that_is_refused(feature: str) -> None:
    assert len(list((CASES / feature).glob("read_*.mmd"))) >= 3
    assert list((CASES / feature).glob("refused_*.mmd"))


@pytest.mark.parametrize("path", [*FILES, *SOURCES, *DIAGRAMS], ids=named)
def test_a_chart_is_read_as_mermaid_reads_it(path: Path, mermaid: Oracle) -> None:
    text = written(path)
    theirs = mermaid.read(text)
    assert ours(text).without_cause == theirs.without_cause
    refused = path.stem.startswith("refused") or path.stem == "seed001_verbatim"
    assert bool(theirs.refused) == refused, theirs.refused


@pytest.mark.slow("asks Mermaid")
@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem.startswith("read")], ids=named
)
def test_what_is_read_becomes_a_chart_of_which_every_end_is_a_box(path: Path) -> None:
    reading = read_flowchart(written(path))
    boxes = {box.id for box in reading.chart.boxes}
    assert {end for arrow in reading.chart.arrows for end in (arrow.source, arrow.target)} <= boxes
    assert set(reading.lines) == boxes
    assert len(reading.arrow_lines) == len(reading.chart.arrows)
