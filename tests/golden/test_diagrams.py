"""The committed pictures show the machines as they are: compared as graphs, never as bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from interlock import InterlockError, Machine, load
from interlock.catalog import shipped
from interlock.machine.graph import graph
from interlock.view.compare import differences
from interlock.view.from_graph import flowchart
from interlock.view.read_mermaid import read_mermaid

ROOT = Path(__file__).resolve().parents[2]
DIAGRAMS = ROOT / "diagrams"
SOURCES = ROOT / "tests" / "cases" / "sources"


def test_every_shipped_machine_is_drawn() -> None:
    for suffix in ("mmd", "svg"):
        assert {p.stem for p in DIAGRAMS.glob(f"*.{suffix}")} == set(shipped())


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_committed_picture_is_the_live_machine(name: str) -> None:
    committed = read_mermaid((DIAGRAMS / f"{name}.mmd").read_text(encoding="utf-8"))
    found = differences(committed, flowchart(graph(load(name).chart)))
    assert found == (), "draw them anew: python diagrams/draw.py"
    svg = (DIAGRAMS / f"{name}.svg").read_text(encoding="utf-8")
    drawn = set(re.findall(r'id="[^"]*node-([a-z0-9_]+)"', svg.replace("&#45;", "-")))
    assert set(load(name).spec.states) <= drawn


def differs(machine: Machine, document: str) -> list[str]:
    """How a machine's picture differs from a document's flowchart, in words."""
    drawn = flowchart(graph(machine.chart), rules="none")
    return [
        str(d) for d in differences(read_mermaid((SOURCES / document).read_text("utf-8")), drawn)
    ]


def test_executive_is_its_document_but_for_one_edge() -> None:
    machine = load("executive")
    assert differs(machine, "seed001_repaired.mmd") == ["edge set_debug → save_turn added"]
    assert [d.difference for d in machine.spec.deviations] == ["edge set_debug → save_turn added"]


def test_the_document_as_written_is_refused_as_mermaid_refuses_it() -> None:
    with pytest.raises(InterlockError, match=":8:42") as caught:
        read_mermaid((SOURCES / "seed001_verbatim.mmd").read_text("utf-8"))
    assert "Call LLM" in str(caught.value)
