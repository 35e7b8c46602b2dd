"""The differences between two charts, in words; empty if and only if they are the same chart.

Belongs here: which differences count, and their wording. Never: matching boxes (`align`), reading
or drawing. Ignored are ids and order, line breaks in labels, titles, numbers of evaluation, the
origin of a box, and whether an arrow without a label shows its guard, as in our pictures.

Source: docs/documents.md, "Holding the two together"
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

from chartloop.pictures.compare.align import align
from chartloop.pictures.compare.cost import Graph, Labels, Node
from chartloop.pictures.flowchart import Flowchart, one_line

Change = Literal["added", "removed", "label", "shape", "fill"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that must change to make the first chart the second."""

    change: Change
    what: Literal["node", "edge"]
    name: str
    """The id of the box, or `from → to`: as the second chart calls them, else the first."""
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        if self.change in ("added", "removed"):
            return f"{self.what} {self.name} {self.change}"
        of = f"edge {self.name}" if self.what == "edge" else self.name
        quote = '"' if self.change == "label" else ""
        return (
            f"{self.change} of {of}: {quote}{self.before}{quote} became {quote}{self.after}{quote}"
        )


def differences(a: Flowchart, b: Flowchart) -> tuple[Difference, ...]:
    """The changes that turn `a`, such as a document's chart, into `b`.

    Boxes are matched by their place in the chart, not by id, and not by label alone. Parallel
    arrows are counted. Fills are compared if `a` has any.
    """
    graph_a, graph_b = _graphs(a, b)
    found = align(graph_a, graph_b)
    back = {v: u for u, v in enumerate(found) if v is not None}
    names_a = [a.boxes[u].id if v is None else b.boxes[v].id for u, v in enumerate(found)]
    names_b = [box.id for box in b.boxes]
    gone = [Difference("removed", "node", names_a[u]) for u, v in enumerate(found) if v is None]
    new = [Difference("added", "node", name) for v, name in enumerate(names_b) if v not in back]
    changed = [
        difference
        for u, v in enumerate(found)
        if v is not None
        for difference in _box_changes(graph_a.nodes[u], graph_b.nodes[v], names_b[v])
    ]
    return (*gone, *new, *changed, *_edge_differences(graph_a, graph_b, found, (names_a, names_b)))


def match_boxes(a: Flowchart, b: Flowchart) -> dict[str, str]:
    """The id in `a` of each box of `b` with a match there, and of each box of `a` without one.

    The keys are the names that `differences` uses.
    """
    found = align(*_graphs(a, b))
    ours = {box.id: box.id for box, v in zip(a.boxes, found, strict=True) if v is None}
    pairs = zip(a.boxes, found, strict=True)
    return ours | {b.boxes[v].id: box.id for box, v in pairs if v is not None}


def _graphs(a: Flowchart, b: Flowchart) -> tuple[Graph, Graph]:
    """Both as plain graphs, with arrows by label or by drawn words, whichever are more alike."""
    fills = any(box.fill for box in a.boxes)
    labels = [[one_line(arrow.label) for arrow in chart.arrows] for chart in (a, b)]
    words = [[one_line(arrow.words) for arrow in chart.arrows] for chart in (a, b)]
    texts = words if _unlike(*words) < _unlike(*labels) else labels
    return _graph(a, texts[0], fills=fills), _graph(b, texts[1], fills=fills)


def _unlike(a: Sequence[str], b: Sequence[str]) -> int:
    ours, theirs = Counter(a), Counter(b)
    return (ours - theirs).total() + (theirs - ours).total()


def _graph(chart: Flowchart, said: Sequence[str], *, fills: bool) -> Graph:
    place = {box.id: at for at, box in enumerate(chart.boxes)}
    arrows = zip(chart.arrows, said, strict=True)
    return Graph.of(
        [
            Node(one_line(box.label), box.shape, (box.fill or "none").lower() if fills else "")
            for box in chart.boxes
        ],
        ((place[a.source], place[a.target], words) for a, words in arrows),
    )


def _box_changes(a: Node, b: Node, name: str) -> Iterator[Difference]:
    if a.label != b.label:
        yield Difference("label", "node", name, a.label, b.label)
    if a.shape != b.shape:
        yield Difference("shape", "node", name, a.shape, b.shape)
    if a.fill != b.fill:
        yield Difference("fill", "node", name, a.fill, b.fill)


def _edge_differences(
    a: Graph,
    b: Graph,
    found: Sequence[int | None],
    names: tuple[Sequence[str], Sequence[str]],
) -> Iterator[Difference]:
    back = {v: u for u, v in enumerate(found) if v is not None}
    for (u, w), said in a.edges.items():
        v, x = found[u], found[w]
        there = () if v is None or x is None else b.edges.get((v, x), ())
        yield from _label_changes(said, there, f"{names[0][u]} → {names[0][w]}")
    for (v, x), said in b.edges.items():
        if (back.get(v), back.get(x)) not in a.edges:
            yield from _label_changes((), said, f"{names[1][v]} → {names[1][x]}")


def _label_changes(ours: Labels, theirs: Labels, name: str) -> Iterator[Difference]:
    gone = sorted((Counter(ours) - Counter(theirs)).elements())
    new = sorted((Counter(theirs) - Counter(ours)).elements())
    for before, after in zip_longest(gone, new):
        if after is None:
            yield Difference("removed", "edge", name)
        elif before is None:
            yield Difference("added", "edge", name)
        else:
            yield Difference("label", "edge", name, before, after)
