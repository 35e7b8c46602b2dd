"""Mermaid flowcharts as charts of states, with a list of the parts that are not kept.

Belongs here: which parts of a flowchart a chart of states keeps. Never: the grammar (`grammar`),
comparing, drawing. A text that Mermaid refuses is refused, with line, column and cure.

Kept are boxes with their ids, labels, shapes and fills, arrows with their labels, and the title. Of
the rest:

- A group (`subgraph`) is not a state: its boxes are kept, its frame is not. An arrow to a group
  leads to its first boxes, one from a group comes from its last boxes.
- An arrow with points at both ends becomes two arrows. A link without a head, or with a cross or
  circle, becomes an arrow from its first box to its second. An invisible link (`~~~`) places boxes
  and is left out. That a link is thick, dotted or long is not kept.
- Of styles only the fill of boxes is kept, whether from `style`, a class or the class `default`.
- Left out are clicks, tooltips, icons and pictures (the label stays), descriptions, settings of
  front matter and directives besides the title, and tags in labels. Markdown stays as written.
- Mermaid reads charts of more than 500 arrows only if configured to; here they are always read.

`read_flowchart` returns notes on the parts that were not kept, `read_mermaid` the chart alone.

Source: mermaid 12.3, `flow.jison` and `flowDb.ts`
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from chartloop.core.units import say_some
from chartloop.interchange.mermaid.diagram import Diagram, Link, Refused, Vertex
from chartloop.interchange.mermaid.grammar import parse
from chartloop.interchange.mermaid.groups import Groups
from chartloop.interchange.mermaid.source import Source
from chartloop.pictures.compare.difference import Difference, differences
from chartloop.pictures.flowchart import (
    COLOUR,
    FILLS,
    Arrow,
    Box,
    Direction,
    Flowchart,
    Role,
    Shape,
)
from chartloop.pictures.mermaid import ARROWS, NUMBERED
from chartloop.pictures.mermaid_shapes import shape_of

WAYS: Mapping[str, Direction] = MappingProxyType(
    {
        "TB": "tb", "TD": "tb", "v": "tb", "LR": "lr", ">": "lr", "BT": "bt", "^": "bt",
        "RL": "rl", "<": "rl",
    }
)  # fmt: skip


class Note(NamedTuple):
    """A part of a flowchart that a chart of states cannot hold."""

    text: str
    lines: tuple[int, ...]
    """The lines, from 1; empty if it concerns the whole chart."""

    def __str__(self) -> str:
        if not self.lines:
            return self.text
        word = "line" if len(self.lines) == 1 else "lines"
        return f"{self.text} ({word} {say_some(self.lines, 5)})"


class Reading(NamedTuple):
    """A chart after reading, with notes on the parts that were not kept."""

    chart: Flowchart
    notes: tuple[Note, ...]
    lines: Mapping[str, int]
    """The line on which each box first occurs, by its id."""
    arrow_lines: tuple[int, ...]
    """The line of each arrow, in the order of the chart."""
    shapes: bool = True
    """Whether the shapes of boxes mean anything: only a flowchart has them."""

    def unlike(self, drawn: Flowchart) -> tuple[Difference, ...]:
        """The differences that turn the chart into the picture of a machine."""
        found = differences(self.chart, drawn)
        return tuple(one for one in found if self.shapes or one.change not in ("shape", "fill"))


def read_mermaid(text: str, *, file: str = "") -> Flowchart:
    """The chart that a Mermaid text draws. The id of a box is the one that the text gives it.

    `file` names the text in errors. SpecError: the text is not a flowchart, or Mermaid refuses it.
    """
    return read_flowchart(text, file=file).chart


def read_flowchart(text: str, *, file: str = "") -> Reading:
    """The chart that a Mermaid text draws, and what of it is not kept. See `read_mermaid`."""
    source = Source(text, file)
    return _Chart(source, parse(source)).reading()


class _Chart:
    """A chart of states that is made from what Mermaid stores."""

    def __init__(self, source: Source, diagram: Diagram) -> None:
        self.source = source
        self.diagram = diagram
        self._lost: dict[str, list[int]] = {}

    def reading(self) -> Reading:
        """The chart and the notes."""
        drawn = [link for link in self.diagram.links if self._is_drawn(link)]
        for link in drawn:
            self._note_looks(link)
        arrows = self._all_arrows(drawn)
        ends = {end for arrow, _ in arrows for end in (arrow.source, arrow.target)}
        boxes = self._boxes(ends, [arrow for arrow, _ in arrows])
        self._note_the_rest(len(arrows))
        title = self.source.front.get("title")
        chart = Flowchart(
            says(self.diagram.title) if title is None else str(title),
            tuple(boxes),
            tuple(arrow for arrow, _ in arrows),
            direction=WAYS.get(self.diagram.direction, "tb"),
        )
        return Reading(
            chart,
            tuple(Note(text, tuple(sorted(lines))) for text, lines in self._lost.items()),
            {name: self.source.line(v.at) for name, v in self._vertices(ends).items()},
            tuple(self.source.line(at) for _, at in arrows),
        )

    def _note(self, text: str, at: int | None = None) -> None:
        lines = self._lost.setdefault(text, [])
        if at is not None and (line := self.source.line(at)) not in lines[-1:]:
            lines.append(line)

    # arrows ---------------------------------------------------------------------------------

    def _is_drawn(self, link: Link) -> bool:
        if link.drawn.stroke == "invisible":
            self._note("an invisible link only places boxes, and is left out", link.at)
        return link.drawn.stroke != "invisible"

    def _all_arrows(self, links: Sequence[Link]) -> list[tuple[Arrow, int]]:
        """Every arrow that is meant, and where it is."""
        turned = [one for link in links for one in self._ways(link)]
        try:
            groups = Groups(self.diagram, turned)
            found = list(groups.arrows())
        except Refused as refused:
            self.source.fail(links[0].at, str(refused), "draw arrows between boxes", width=1)
        for link in turned:
            if link.target in groups:
                names = _some(groups.begins(link.target))
                message = f"an arrow to the group `{link.target}` leads to where it starts: {names}"
                self._note(message, link.at)
            if link.source in groups:
                names = _some(groups.ends(link.source))
                message = (
                    f"an arrow from the group `{link.source}` comes from where it ends: {names}"
                )
                self._note(message, link.at)
        return [(_arrow(*one), one[0].at) for one in found]

    def _ways(self, link: Link) -> list[Link]:
        """The link, and the one back where it has points at both ends."""
        if link.drawn.head != "double_arrow_point":
            return [link]
        self._note("a link with points at both ends becomes two arrows", link.at)
        return [link, link._replace(source=link.target, target=link.source)]

    def _note_looks(self, link: Link) -> None:
        head, stroke = link.drawn
        if head == "arrow_open":
            self._note("a link without a head becomes an arrow", link.at)
        elif head == "INVALID":
            self._note("a link whose halves do not fit becomes an arrow", link.at)
        elif not head.endswith("point"):
            self._note("a link with a cross or a circle becomes an arrow", link.at)
        if stroke in ("thick", "dotted"):
            self._note(f"a {stroke} link becomes a plain arrow", link.at)
        if link.text:
            self._note_text(link.text.text, link.text.kind, link.at)

    def _note_text(self, text: str, kind: str, at: int) -> None:
        if _TAG.search(_BREAK.sub("", text)) is not None:
            self._note("tags in a label are left out, but for breaks", at)
        if kind == "markdown" and set(text) & set("*_"):
            self._note("Markdown in a label stays as it is written", at)

    # boxes ----------------------------------------------------------------------------------

    def _vertices(self, ends: Iterable[str]) -> dict[str, Vertex]:
        """What is drawn as a box: every vertex but those that stand for a group with boxes."""
        at_ends = set(ends)
        groups = self.diagram.groups
        found = {n: v for n, v in self.diagram.vertices.items() if n in at_ends or n not in groups}
        for link in self.diagram.links:
            for end in (link.source, link.target):
                if end in at_ends and end not in found:  # it has the name of a link
                    found[end] = Vertex(end, link.at, end)
        return found

    def _boxes(self, ends: set[str], arrows: list[Arrow]) -> list[Box]:
        entered = {arrow.target for arrow in arrows if arrow.source != arrow.target}
        left = {arrow.source for arrow in arrows if arrow.source != arrow.target}
        boxes: list[Box] = []
        for name, vertex in self._vertices(ends).items():
            label, shape, fill = self._label(vertex), self._shape(vertex), self._fill(vertex)
            role = _role(shape, fill, entered=name in entered, left=name in left)
            boxes.append(Box(name, label, shape, role, fill))
        return boxes

    def _label(self, vertex: Vertex) -> str:
        group = self.diagram.groups.get(vertex.id)
        if group is None:
            self._note_text(vertex.text, vertex.kind, vertex.at)
            return says(vertex.text)
        self._note(f"the group `{group.id}` is empty and has arrows: it becomes a box", group.at)
        return says(group.title.text)

    def _shape(self, vertex: Vertex) -> Shape:
        if vertex.picture:
            self._note(f"`{vertex.id}` shows a picture, which is left out", vertex.at)
            return "rect"
        shape = shape_of(vertex.shape)
        if shape is None:
            self._note(
                f"the shape `{vertex.shape}` of another kind of chart becomes a box", vertex.at
            )
        return shape or "rect"

    def _fill(self, vertex: Vertex) -> str | None:
        styles = self.diagram.class_styles
        classes = ("default", "node", *vertex.classes)
        declared = [style for name in classes for style in styles.get(name, ())]
        pairs = [style.partition(":") for style in (*declared, *vertex.styles)]
        if any(name.strip() != "fill" for name, _, _ in pairs):
            self._note("of styles only the fill is kept")
        fills = [value.strip().lower() for name, _, value in pairs if name.strip() == "fill"]
        return fills[-1] if fills and COLOUR.fullmatch(fills[-1]) else None

    # the rest -------------------------------------------------------------------------------

    def _note_the_rest(self, arrows: int) -> None:
        diagram = self.diagram
        for group in diagram.groups.values():
            self._note("the frame of a group is left out, its boxes stay", group.at)
        if diagram.collapsed:
            self._note("a collapsed group is drawn open")
        if diagram.direction not in WAYS:
            self._note(f"the direction `{diagram.direction}` is left out: the chart goes down")
        for sign, at in diagram.swallowed:
            self._note(f"the `{sign}` before an arrow is read as a part of the arrow", at)
        if diagram.clicked:
            self._note("clicks are left out")
        if diagram.link_styles:
            self._note("styles of links are left out")
        if diagram.described:
            self._note("the description is left out")
        if self.source.front.keys() - {"title"}:
            self._note("of the front matter only the title is kept")
        if arrows > ARROWS:
            self._note(f"Mermaid draws more than {ARROWS} arrows only where `maxEdges` is raised")


def _arrow(link: Link, source: str, target: str) -> Arrow:
    number, label = split_number(link.text.text) if link.text else (None, "")
    return Arrow(source, target, label, number=number)


def _some(names: Sequence[str]) -> str:
    return say_some([f"`{name}`" for name in names], 3)


def _role(shape: Shape, fill: str | None, *, entered: bool, left: bool) -> Role:
    """What a box is, from its colour where the document gives one, else from its place."""
    for role, known in FILLS.items():
        if fill == known and role not in ("start", "end"):
            return role
    if fill == FILLS["start"] or shape == "pill":
        return "end" if entered and not left else "start" if not entered else "action"
    return "decision" if shape == "diamond" else "action"


_BREAK = re.compile(r"</?br\s*/?>|\\n", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*(?:>|\Z)")


def says(written: str) -> str:
    """A label as people read it: breaks are newlines, codes are their characters, no tags."""
    text = _TAG.sub("", _BREAK.sub("\n", written.strip()))
    for mark, meant in (("ﬂ°°", "&#"), ("ﬂ°", "&"), ("¶ß", ";")):
        text = text.replace(mark, meant)
    return "\n".join(line.strip() for line in html.unescape(text).split("\n")).strip("\n")


def split_number(written: str) -> tuple[int | None, str]:
    """The order of trial that our own charts write in front of a label, and what the rest says."""
    found = NUMBERED.match(written)
    if found is None:
        return None, says(written)
    return int(found[1]), says(written[found.end() :])
