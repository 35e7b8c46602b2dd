"""The committed pictures show the machines as they are: compared as graphs, never as bytes."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import pytest

from chartloop import ChartloopError, Machine, load
from chartloop.catalog import shipped_machines
from chartloop.interchange.documents import flowcharts
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.interchange.verify import Verdict, verify
from chartloop.machine.graph import graph
from chartloop.pictures.compare.difference import differences
from chartloop.pictures.flowchart import Box, Flowchart, one_line
from chartloop.pictures.from_graph import flowchart
from chartloop.pictures.ids import safe_ids

ROOT = Path(__file__).resolve().parents[2]
DIAGRAMS = ROOT / "diagrams"
SOURCES = ROOT / "tests" / "cases" / "sources"


@pytest.fixture(scope="session")
def machines() -> Mapping[str, Machine]:
    """What `diagrams/draw.py` draws: the shipped machines and the examples."""
    drawing = runpy.run_path(str(DIAGRAMS / "draw.py"))
    return cast(Callable[[], Mapping[str, Machine]], drawing["pictures"])()


def test_every_shipped_machine_and_every_example_is_drawn(machines: Mapping[str, Machine]) -> None:
    examples = {folder.parent.name for folder in ROOT.glob("examples/*/machine.yaml")}
    assert set(machines) == {*shipped_machines(), *examples}
    for suffix in ("mmd", "svg"):
        assert {p.stem for p in DIAGRAMS.glob(f"*.{suffix}")} == set(machines)


@pytest.mark.parametrize("name", sorted(p.stem for p in DIAGRAMS.glob("*.mmd")))
def test_a_committed_picture_is_the_live_machine(
    name: str, machines: Mapping[str, Machine]
) -> None:
    committed = read_mermaid((DIAGRAMS / f"{name}.mmd").read_text(encoding="utf-8"))
    found = differences(committed, flowchart(graph(machines[name].chart)))
    assert found == (), "draw them anew: python diagrams/draw.py"
    svg = (DIAGRAMS / f"{name}.svg").read_text(encoding="utf-8")
    svg = svg.replace("&#45;", "-")
    drawn = set(re.findall(r'id="[^"]*node-([a-z0-9_]+)"', svg))
    names = safe_ids(machines[name].spec.states)
    assert set(names.values()) <= drawn
    for box in committed.boxes:
        group = re.search(
            rf'id="[^"]*node-{names.get(box.id)}" class="node">(.*?)</g>', svg, re.DOTALL
        )
        if group is not None and box.shape in ("pill", "rect"):
            assert ("<polygon" in group[1]) is (box.shape == "rect"), box.id


def verdict_of(machine: Machine, document: str) -> Verdict:
    """What `chartloop verify` finds between a document's flowchart and a machine."""
    (found,) = flowcharts((SOURCES / document).read_text("utf-8"), file=document)
    return verify(found, machine)


class Drawn(NamedTuple):
    """A machine with a document's picture, and how the two differ: deviations that it declares."""

    machine: str
    document: str
    differences: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        whole = self.document.endswith(".txt")
        return f"{self.machine}-in-its-document" if whole else self.machine


EXECUTIVE = ("edge call_llm → call_llm added", "edge set_debug → save_turn added")
DOCUMENTS = [
    Drawn("geist", "seed000_executor_loop.mmd"),
    Drawn("geist_tick", "seed000_execution_flow.mmd"),
    Drawn("should_stop", "seed002_should_stop.mmd"),
    Drawn("executive", "seed001_repaired.mmd", EXECUTIVE),
    Drawn("executive", "001_bb8e222742d55083.txt", EXECUTIVE),
    Drawn("step_agent", "seed004_execution_flow.mmd"),
    Drawn(
        "step_choice",
        "seed004_step_determination.mmd",
        (
            "node user_message added",
            "edge llm → llm added",
            "edge llm → last added",
            "edge tool → last added",
        ),
    ),
    Drawn("moderator", "seed003_verbatim.mmd"),
    Drawn("moderator", "003_43f73522fa938641.txt"),
]


@pytest.mark.parametrize("drawn", DOCUMENTS, ids=lambda drawn: drawn.id)
def test_a_machine_is_its_document_but_for_what_it_declares(drawn: Drawn) -> None:
    verdict = verdict_of(load(drawn.machine), drawn.document)
    assert verdict.holds
    assert [d.text for d in verdict.accepted] == list(drawn.differences)
    assert all(d.reason for d in verdict.accepted)


CHAIN = read_mermaid((SOURCES / "seed002_should_stop.mmd").read_text("utf-8"))
"""The chain by which a loop decides to stop: it stands in a machine that has more around it."""


def said(chart: Flowchart) -> tuple[Mapping[str, Box], set[tuple[str, str, str]]]:
    """The boxes of a chart by their label, and its arrows in labels alone."""
    named = {box.id: one_line(box.label) for box in chart.boxes}
    arrows = {(named[a.source], one_line(a.label), named[a.target]) for a in chart.arrows}
    return {named[box.id]: box for box in chart.boxes}, arrows


@pytest.mark.parametrize("box", CHAIN.boxes, ids=lambda box: box.id)
def test_a_box_of_the_chain_stands_in_the_machine(box: Box) -> None:
    boxes, _ = said(flowchart(graph(load("stop_signals").chart)))
    same = boxes[one_line(box.label)]
    assert (same.shape, same.fill) == (box.shape, box.fill)


@pytest.mark.parametrize("arrow", sorted(said(CHAIN)[1]), ids=" ".join)
def test_an_arrow_of_the_chain_stands_in_the_machine(arrow: tuple[str, str, str]) -> None:
    _, arrows = said(flowchart(graph(load("stop_signals").chart)))
    assert arrow in arrows


def test_the_loop_declares_what_it_adds_to_the_chain() -> None:
    verdict = verdict_of(load("stop_signals"), "seed002_should_stop.mmd")
    assert verdict.holds
    assert len(verdict.accepted) == 26
    assert all(d.text.endswith(" added") and d.reason for d in verdict.accepted)


def test_of_the_chain_nothing_is_missing_or_changed() -> None:
    whole = flowchart(graph(load("stop_signals").chart), rules="none")
    assert {d.change for d in differences(CHAIN, whole)} == {"added"}
    text = (ROOT / "machines" / "stop_signals.yaml").read_text("utf-8")
    other = load(
        text.replace("then: continue, else: tool_calls", "then: tool_calls, else: continue")
    )
    crossed = flowchart(graph(other.chart), rules="none")
    assert {d.change for d in differences(CHAIN, crossed)} != {"added"}


def test_the_document_as_written_is_refused_as_mermaid_refuses_it() -> None:
    with pytest.raises(ChartloopError, match=":8:42") as caught:
        read_mermaid((SOURCES / "seed001_verbatim.mmd").read_text("utf-8"))
    assert "Call LLM" in str(caught.value)


SORTED_OUT = """
chartloop: 1
machine: sorted_out
vars: {kind: ""}
states:
  which: {ask: "Which kind?", of: vars.kind, cases: {order: sure}, else: done}
  sure: {ask: "Sure?", when: vars.kind != "", then: done, else: wait}
  wait: {ask: "Go on?", on: {go: done}, within: 5m, expired: done}
  done: {stop: completed}
"""


def test_an_edge_without_a_label_of_its_own_says_when_it_is_taken() -> None:
    arrows = load(SORTED_OUT).draw().chart.arrows
    assert [(arrow.source, arrow.drawn_text) for arrow in arrows] == [
        ("which", "order"),
        ("which", "else"),
        ("sure", "Yes"),
        ("sure", "No"),
        ("wait", "go"),
        ("wait", "after 5 min"),
    ]


BOXES = """
chartloop: 1
machine: boxes
states:
  start: {shape: rect, next: work}
  work: {do: nothing, next: ask}
  ask: {ask: "Which?", on: {a: over, b: stopped, c: done}}
  over: {end: completed, shape: rect}
  stopped: {stop: custom, shape: rect}
  done: {end: completed}
"""


def test_an_end_may_be_drawn_as_a_box() -> None:
    drawn = {box.id: (box.shape, box.role) for box in load(BOXES).draw().chart.boxes}
    assert drawn["start"] == ("rect", "start")
    assert drawn["over"] == ("rect", "action")
    assert drawn["stopped"] == ("rect", "stop")
    assert drawn["done"] == ("pill", "end")
