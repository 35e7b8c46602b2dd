"""What holds for every state diagram and SCXML document: taken whole, or refused at its place."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, lifecycle
from chartloop.core.errors import SpecError
from chartloop.interchange.documents import Read, flowcharts, read
from chartloop.interchange.import_chart import import_chart
from chartloop.interchange.scxml import to_scxml
from chartloop.interchange.verify import verify
from chartloop.language.load import load
from chartloop.machine.build import Chart
from tests.mermaid import Oracle
from tests.strategies import machines
from tests.support import actions

REGISTRY = with_own(specs_of(actions({})))


def reading_of(text: str, file: str) -> Read:
    (found,) = flowcharts(text, file=file)
    return read(found)


@settings(max_examples=60)
@given(machines(), st.booleans())
def test_an_export_comes_back(data: dict[str, Any], all: bool) -> None:
    """The boxes, labels and arrows of the picture: all of it that SCXML carries."""
    loaded = load(json.dumps(data), "generated.yaml", REGISTRY)
    assert loaded.spec is not None
    machine = Machine(Chart(loaded.spec, lifecycle()))
    text = to_scxml(machine, all=all)
    made = reading_of(text, "x.scxml")
    assert made.reading.unlike(machine.draw(rules="none").chart) == ()
    assert made.reading.start == machine.spec.start
    assert verify(made.found, import_chart(made).machine).holds
    notes = " ".join(note.text for note in made.reading.notes)
    for rule in re.findall(r'chartloop:edge="([^"]+)" chartloop:kind="rule"', text):
        assert f"`{rule}`" in notes


class Tree(NamedTuple):
    """States within states, and transitions between any of them."""

    around: dict[str, str]
    """The state around each; empty at the top."""
    ways: list[tuple[str, str, str]]

    def inside(self, name: str) -> list[str]:
        return [part for part, around in self.around.items() if around == name]

    def leaves(self, name: str) -> set[str]:
        inside = self.inside(name)
        return {leaf for part in inside for leaf in self.leaves(part)} if inside else {name}

    def entered(self, name: str) -> str:
        inside = self.inside(name)
        return self.entered(inside[0]) if inside else name

    @property
    def arrows(self) -> list[tuple[str, str, str]]:
        return sorted(
            (leaf, self.entered(target), label)
            for source, target, label in self.ways
            for leaf in self.leaves(source)
        )

    def diagram(self, name: str = "") -> str:
        lines = list[str]()
        for number, part in enumerate(self.inside(name)):
            if name and not number:
                lines.append(f"[*] --> {part}")
            lines += [f"state {part} {{", self.diagram(part), "}"] if self.inside(part) else [part]
        if not name:
            lines += [f"{a} --> {b}" + (f": {label}" if label else "") for a, b, label in self.ways]
        return "\n".join(lines)

    def scxml(self, name: str = "") -> str:
        parts = list[str]()
        for part in self.inside(name):
            ways = [
                f"<transition event={quoteattr(label)} target={quoteattr(b)}/>"
                for a, b, label in self.ways
                if a == part
            ]
            parts.append(f"<state id={quoteattr(part)}>{''.join(ways)}{self.scxml(part)}</state>")
        return "\n".join(parts)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    names = [f"Part{n}" for n in range(draw(st.integers(1, 7)))]
    around = {
        name: draw(st.sampled_from(["", *names[:number]])) for number, name in enumerate(names)
    }
    name, label = st.sampled_from(names), st.sampled_from(["", "go", "stop it", "x: y"])
    return Tree(around, draw(st.lists(st.tuples(name, name, label), max_size=7)))


@settings(max_examples=80)
@given(trees(), st.booleans())
def test_a_transition_of_a_state_leaves_all_that_is_inside(tree: Tree, as_scxml: bool) -> None:
    text = f"<scxml>{tree.scxml()}</scxml>" if as_scxml else f"stateDiagram-v2\n{tree.diagram()}"
    made = reading_of(text, "x.scxml" if as_scxml else "x.mmd")
    chart = made.reading.chart
    assert {box.id for box in chart.boxes} == tree.leaves("")
    assert sorted((a.source, a.target, a.label) for a in chart.arrows) == tree.arrows
    assert verify(made.found, import_chart(made).machine).holds


@pytest.mark.slow("starts Mermaid")
@pytest.mark.node("mermaid")
@settings(max_examples=40)
@given(trees())
def test_mermaid_draws_the_same_nesting(mermaid: Oracle, tree: Tree) -> None:
    answer = mermaid.read(f"stateDiagram-v2\n{tree.diagram()}\n")
    pairs = {(part, group) for part, group in answer.owners if part in tree.around}
    assert pairs == {(part, around) for part, around in tree.around.items() if around}
    arrows = [(a, b, text) for a, b, text, _, _ in answer.edges if a in tree.around]
    assert sorted(arrows) == sorted(tree.ways)


PIECES = [
    *("A", "B", " --> ", ": x", "[*]", "\n", "state ", " {", "}", "note right of A", "end note"),
    *('"', "as ", "<<choice>>", "<<fork>>", "--", ":::hot", "%%", "direction LR", " ", "\u2028"),
    *("<scxml>", "</scxml>", '<state id="A">', "</state>", '<transition target="A"/>', "<final/>"),
    *("<!DOCTYPE x>", "&a;", "<initial>", "---\n", "title: [", "\x00", "\ud800", "é", "{{", "#1;"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.booleans())
def test_any_other_text_is_refused_at_its_place(text: str, as_scxml: bool) -> None:
    whole = f"<scxml>{text}</scxml>" if as_scxml else f"stateDiagram-v2\n{text}"
    try:
        made = reading_of(whole, "x.scxml" if as_scxml else "x.mmd")
    except SpecError as refused:
        places = [finding.place for finding in refused.findings]
    else:
        places = []
        assert len(made.reading.arrow_lines) == len(made.reading.chart.arrows)
    lines = whole.split("\n")
    for place in places:
        assert 1 <= place.line <= len(lines)
