"""What holds for every state diagram: taken whole, or refused at its place."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.core.errors import SpecError
from chartloop.interchange.documents import Read, flowcharts, read
from chartloop.interchange.import_chart import import_chart
from chartloop.interchange.verify import verify
from tests.mermaid import Oracle


def reading_of(text: str) -> Read:
    (found,) = flowcharts(f"stateDiagram-v2\n{text}", file="x.mmd")
    return read(found)


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


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    names = [f"Part{n}" for n in range(draw(st.integers(1, 7)))]
    around = {
        name: draw(st.sampled_from(["", *names[:number]])) for number, name in enumerate(names)
    }
    name, label = st.sampled_from(names), st.sampled_from(["", "go", "stop it", "x: y"])
    return Tree(around, draw(st.lists(st.tuples(name, name, label), max_size=7)))


@settings(max_examples=80)
@given(trees())
def test_a_transition_of_a_state_leaves_all_that_is_inside(tree: Tree) -> None:
    made = reading_of(tree.diagram())
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
    *("&a;", "---\n", "title: [", "\x00", "\ud800", "é", "{{", "#1;"),
]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_any_other_text_is_refused_at_its_place(text: str) -> None:
    try:
        made = reading_of(text)
    except SpecError as refused:
        places = [finding.place for finding in refused.findings]
    else:
        places = []
        assert len(made.reading.arrow_lines) == len(made.reading.chart.arrows)
    for place in places:
        assert 1 <= place.line <= 1 + len(text.split("\n"))
