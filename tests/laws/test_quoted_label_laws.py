"""Every flowchart with labels that need quotes has the boxes, arrows and labels that were meant.

A chart is written twice: with each label in quotes, which is what was meant, and with some labels
bare. The second is read as the first, or it is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.read import Reading, read_flowchart
from chartloop.interchange.quote_labels import read_and_quote

NESTED = [
    *("Load", "Check it", "f(x)", "List[str]", "{x}", "[opt]", "(a) and (b)", "valid (now)?", "#1"),
    *('say "hi" now', "a --> b", "if x[0] -> y", "go --> B[x]", "50%", "a; b", "/api/v1", "a | b"),
    *("then == x", "see [the {docs} (here)]", "x & y", "1. plan", "-- no", "end", "a.b.c()"),
]
LOOSE = ["half [open", "closed) early", "smile :)", "array[0", "{", 'a " quote', "->"]
BRACKETS = [
    *(("[", "]"), ("(", ")"), ("{", "}"), ("([", "])"), ("((", "))"), ("{{", "}}"), ("[[", "]]")),
    *(("[(", ")]"), ("(((", ")))"), ("[/", "/]"), ("[\\", "\\]"), (">", "]")),
]


class Written(NamedTuple):
    """A chart as it was meant, and with bare labels."""

    meant: str
    bare: str


@st.composite
def lines(draw: st.DrawFn, names: list[str], labels: st.SearchStrategy[str]) -> Written:
    """A statement: boxes joined by arrows and `&`, each with a label or none."""
    meant, bare = "", ""
    for number, name in enumerate(names):
        if number:
            arrow = draw(st.sampled_from([" --> ", " -->|{}| ", " -- {} --> ", " & ", " ==> "]))
            text = draw(st.sampled_from(["yes", "f(x)", "at least [2]"]))
            between = arrow.format(f'"{text}"')
            meant, bare = meant + between, bare + (arrow.format(text) if draw(_HALF) else between)
        meant, bare = meant + name, bare + name
        if draw(st.integers(0, 4)):
            (opening, closing), label = draw(st.sampled_from(BRACKETS)), draw(labels)
            quoted = opening + '"' + label.replace('"', "#quot;") + '"' + closing
            meant += quoted
            plain = opening + label + closing
            bare += plain if draw(_HALF) and is_label(plain, quoted) else quoted
        tail = draw(st.sampled_from(["", "", "", ":::hot"]))
        meant, bare = meant + tail, bare + tail
    return Written(meant, bare)


_HALF = st.booleans()


def is_label(plain: str, quoted: str) -> bool:
    """Whether Mermaid does not read the bare label as another one: `[[x]]` is a shape."""
    alone, meant = f"flowchart TD\nA{plain}\n", f"flowchart TD\nA{quoted}\n"
    return refused(alone) or content(read_flowchart(alone)) == content(read_flowchart(meant))


@st.composite
def written(draw: st.DrawFn, labels: st.SearchStrategy[str]) -> Written:
    """A chart of such lines, some of them within a subgraph that an arrow leads to."""
    out: list[Written] = []
    for row in range(draw(st.integers(1, 3))):
        names = [f"B{row}{column}" for column in range(draw(st.integers(1, 4)))]
        out.append(draw(lines(names, labels)))
    if draw(_HALF):
        title = draw(st.sampled_from(["Group (1)", "Plan [x]", "Work"]))
        ends = Written("end\nA --> group", "end\nA --> group")
        out = [Written(f'subgraph group["{title}"]', f"subgraph group[{title}]"), *out, ends]
    pairs = [("flowchart TD", "flowchart TD"), *out]
    return Written(*("\n  ".join(side) + "\n" for side in zip(*pairs, strict=True)))


class Content(NamedTuple):
    """What a chart holds, in no order."""

    boxes: list[tuple[str, str, str]]
    arrows: list[tuple[str, str, str]]

    @property
    def shape(self) -> tuple[set[str], set[tuple[str, str]]]:
        """The boxes and arrows without their labels."""
        return {box[0] for box in self.boxes}, {arrow[:2] for arrow in self.arrows}


def content(reading: Reading) -> Content:
    chart = reading.chart
    return Content(
        sorted((box.id, box.label, box.shape) for box in chart.boxes),
        sorted((arrow.source, arrow.target, arrow.label) for arrow in chart.arrows),
    )


def quoted(text: str) -> Content | None:
    """The content of a chart whose labels were quoted; None if it is refused, or needs no quotes."""
    try:
        reading, lines = read_and_quote(text)
    except SpecError:
        return None
    return content(reading) if lines else None


def refused(text: str) -> bool:
    try:
        read_flowchart(text)
    except SpecError:
        return True
    return False


@settings(max_examples=150)
@given(written(st.lists(st.sampled_from(NESTED), min_size=1, max_size=2).map(" ".join)))
def test_quotes_give_what_was_meant_or_nothing(chart: Written) -> None:
    assert quoted(chart.bare) in (None, content(read_flowchart(chart.meant)))


@settings(max_examples=150)
@given(written(st.sampled_from([*NESTED, *LOOSE])))
def test_quotes_lose_no_box_and_no_arrow(chart: Written) -> None:
    found = quoted(chart.bare)
    if found is not None:
        boxes, arrows = content(read_flowchart(chart.meant)).shape
        assert found.shape[0] >= boxes
        assert found.shape[1] >= arrows
