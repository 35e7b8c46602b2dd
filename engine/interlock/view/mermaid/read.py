"""Mermaid flowcharts as charts: those of the documents, and everything that we write ourselves.

Belongs here: the grammar of statements and what they add up to. Never: the tokens
(`tokens`), comparing, drawing. What Mermaid refuses is refused here, with the line, the
column and the cure; so is what Mermaid reads and a chart of states has no room for.

Imports:      view.mermaid.tokens, view.flowchart, view.mermaid (tables)
Imported by:  api, cli, review
Source:       mermaid 11.17, `flow.jison` and `flowDb.ts`
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from interlock.view.flowchart import COLOUR, FILLS, Arrow, Box, Flowchart, Role, Shape
from interlock.view.mermaid.tokens import Label, Scanner

_MOST_ARROWS = 20_000

_DIRECTION = re.compile(r"(?:TB|TD|BT|RL|LR|BR|v)\b|[<>^]")
_FRONT_MATTER = re.compile(r"\s*---[ \t]*\n(?P<lines>(?:(?!---)[^\n]*\n)*)---[ \t]*(?:\n|$)")
_FRONT_TITLE = re.compile(r"^title:[ \t]*(\S[^\n]*)", re.MULTILINE)
_DESCRIPTION = re.compile(r"[^}]*\}")
_NAMES = re.compile(r"[ \t]+\w[\w.,-]*")
_CLASS = re.compile(r"\w+(?:-\w+)*")


def read_mermaid(text: str, *, file: str = "") -> Flowchart:
    """The chart that a Mermaid text draws. The id of a box is the one that the text gives it.

    `file` names the text in errors. Direction, and all styles but fills, are not kept.
    SpecError: the text is no Mermaid flowchart, or has parts that a chart of states cannot hold.
    """
    reader = _Reader(Scanner(text, file))
    reader.read()
    return reader.chart()


@dataclass(slots=True)
class _Node:
    label: str
    shape: Shape = "rect"
    fill: str | None = None
    of_class: str | None = None


class _Reader:
    """Reads one statement after the other and remembers what they said."""

    def __init__(self, scanner: Scanner) -> None:
        self.scanner = scanner
        self.title = ""
        self.nodes: dict[str, _Node] = {}
        self.arrows: list[Arrow] = []
        self.class_fills: dict[str, str | None] = {}

    def read(self) -> None:
        self._header()
        scanner = self.scanner
        scanner.separators()
        while not scanner.ended:
            self._statement()
            scanner.blanks()
            if not scanner.ended and scanner.text[scanner.at] not in ";\n":
                scanner.fail(
                    f"`{scanner.text[scanner.at]}` stands where the statement should end",
                    "write each statement on a line of its own",
                )
            scanner.separators()

    def _header(self) -> None:
        scanner = self.scanner
        if front := _FRONT_MATTER.match(scanner.text):
            scanner.at = front.end()
            if title := _FRONT_TITLE.search(front["lines"]):
                self.title = title[1].strip().strip("\"'")
        scanner.separators()
        if scanner.keyword("graph", "flowchart") is None:
            scanner.fail(
                "this is no Mermaid flowchart", "the first line is `flowchart TD`, or `graph TD`"
            )
        scanner.blanks()
        scanner.read(_DIRECTION)
        scanner.blanks()
        if not scanner.ended and scanner.text[scanner.at] not in ";\n":
            scanner.fail("the direction is one of TB TD BT RL LR", "write `flowchart TD`")

    def _statement(self) -> None:
        scanner = self.scanner
        word = scanner.keyword(
            *("style", "classDef", "class", "linkStyle", "click"),
            *("accTitle", "accDescr", "subgraph", "direction"),
        )
        match word:
            case None:
                self._links()
            case "style":
                name, styles = self._two_parts()
                self._node(name).fill = _fill(styles)
            case "classDef":
                name, styles = self._two_parts()
                self.class_fills |= dict.fromkeys(name.split(","), _fill(styles))
            case "class":
                names, of_class = self._two_parts()
                for name in names.split(","):
                    if name in self.nodes:
                        self.nodes[name].of_class = of_class
            case "accTitle":
                self.title = Label(scanner.rest_of_line().removeprefix(":")).text
            case "accDescr":
                scanner.blanks()
                if not scanner.sign("{"):
                    scanner.rest_of_line()
                elif scanner.read(_DESCRIPTION) is None:
                    scanner.fail("the description is never closed", "end it with `}`")
            case "linkStyle" | "click":
                scanner.rest_of_line()
            case _:
                scanner.at -= len(word)
                scanner.fail(
                    f"`{word}` is not read: a chart of states has no groups", width=len(word)
                )

    def _two_parts(self) -> tuple[str, str]:
        """What `style`, `classDef` and `class` have: names, and what is said of them."""
        names = self.scanner.read(_NAMES)
        said = self.scanner.rest_of_statement()
        if names is None or not said:
            self.scanner.fail("a name and what is said of it are meant here")
        return names.strip(), said

    def _links(self) -> None:
        sources = self._group()
        while (label := self.scanner.link()) is not None:
            targets = self._group()
            if len(self.arrows) + len(sources) * len(targets) > _MOST_ARROWS:
                self.scanner.fail(f"the chart has more than {_MOST_ARROWS:,} arrows")
            number, text = label.numbered()
            self.arrows += [
                Arrow(source, target, text, number=number)
                for source in sources
                for target in targets
            ]
            sources = targets

    def _group(self) -> list[str]:
        """One box, or several with `&` between them."""
        names = [self._box()]
        while True:
            before = self.scanner.at
            self.scanner.blanks()
            if not self.scanner.sign("&"):
                self.scanner.at = before
                return names
            self.scanner.blanks()
            names.append(self._box())

    def _box(self) -> str:
        scanner = self.scanner
        name = scanner.word()
        node = self._node(name)
        if drawn := scanner.shape():
            node.shape, node.label = drawn[0], drawn[1].text
        if scanner.sign(":::"):
            node.of_class = scanner.read(_CLASS)
            if node.of_class is None:
                scanner.fail("the name of a class is meant here")
        return name

    def _node(self, name: str) -> _Node:
        return self.nodes.setdefault(name, _Node(label=name))

    def chart(self) -> Flowchart:
        entered = {arrow.target for arrow in self.arrows if arrow.source != arrow.target}
        left = {arrow.source for arrow in self.arrows if arrow.source != arrow.target}
        boxes: list[Box] = []
        for name, node in self.nodes.items():
            fill = node.fill or self.class_fills.get(node.of_class or "")
            role = _role(node.shape, fill, entered=name in entered, left=name in left)
            boxes.append(Box(name, node.label, node.shape, role, fill))
        return Flowchart(self.title, tuple(boxes), tuple(self.arrows))


def _fill(styles: str) -> str | None:
    pairs: Iterable[tuple[str, str, str]] = (style.partition(":") for style in styles.split(","))
    fills = [value.strip().lower() for name, _, value in pairs if name.strip() == "fill"]
    return fills[-1] if fills and COLOUR.fullmatch(fills[-1]) else None


def _role(shape: Shape, fill: str | None, *, entered: bool, left: bool) -> Role:
    """What a box is, from its colour where the document gives one, else from its place."""
    for role, known in FILLS.items():
        if fill == known and role not in ("start", "end"):
            return role
    if fill == FILLS["start"] or shape == "pill":
        return "end" if entered and not left else "start" if not entered else "action"
    return "decision" if shape == "diamond" else "action"
