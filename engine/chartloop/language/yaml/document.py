"""Documents: the data of a YAML text, with the place of each part.

Places are computed on demand, by walking from the root, so that they cost nothing for a file
without mistakes.

Belongs here: lookups. Never: reading (`language.yaml.reading`), PyYAML, the meaning of a key.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol, cast

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place
from chartloop.core.visible import short
from chartloop.language.yaml.scalar import BREAK, Style, offsets

Path = tuple[str | int, ...]
"""The keys and list indices that lead to a value: ``("states", "monitor", "all", 0)``."""

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
"""An anchor and a tag, which the parser includes in the scalar after them."""


class Mark(Protocol):
    """A point of the text. All counts are of characters and start at 0."""

    index: int
    line: int
    column: int


class Event(Protocol):
    """A parser event. Its class determines which of these fields exist."""

    start_mark: Mark
    end_mark: Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None
    flow_style: bool


class Branch:
    """A mapping or a list, with its place and its children."""

    __slots__ = ("children", "end", "flow", "start")

    def __init__(self, start: Mark, end: Mark, flow: bool, children: Children) -> None:
        self.start = start
        self.end = end
        self.flow = flow
        self.children = children


Node = Branch | Event
"""A node of the document. A scalar is represented by its event."""
Children = Mapping[str, tuple[Event | None, Node]] | list[Node]


def is_empty(node: Node) -> bool:
    """Whether a value is missing in the text, and so is None."""
    return not isinstance(node, Branch) and node.start_mark.index == node.end_mark.index


def dotted_path(path: Path) -> str:
    """A path as in findings: ``states.monitor.all.0``."""
    return ".".join(str(part) for part in path)


class Source:
    """A text with its lines as the parser counts them."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    @cached_property
    def lines(self) -> list[str]:
        """The lines without line breaks."""
        return BREAK.split(self.text)

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(m.end() for m in BREAK.finditer(self.text))]

    def place(self, line: int, column: int, width: int) -> Place:
        """A place on one line, counted from 0. The end of the text belongs to its last line."""
        if line >= len(self.lines) or (line == len(self.lines) - 1 and not self.lines[line]):
            line = len(self.lines) - 1
            while line and not self.lines[line].strip():
                line -= 1
            column, width = len(self.lines[line]), 1
        return Place(self.file, line + 1, column + 1, max(1, width), self.lines[line])

    def between(self, start: Mark, end: Mark) -> Place:
        """The place between two marks, cut at the end of the first line."""
        return self.span(start.line, start.column, end.line, end.column)

    def span(self, line: int, column: int, end_line: int, end_column: int) -> Place:
        """The place between two points, cut at the end of the first line."""
        if end_line != line:
            text = self.lines[line] if line < len(self.lines) else ""
            end_column = len(text.rstrip())
        return self.place(line, column, end_column - column)

    def at(self, index: int, end: int) -> Place:
        """The place between two indices of the text, cut at the end of the first line."""
        line = bisect_right(self._starts, index) - 1
        column = index - self._starts[line]
        room = len(self.lines[line]) - column
        return self.place(line, column, min(end - index, room))


@dataclass(frozen=True, eq=False)
class Document:
    """The content of a text, and the place of each part.

    `data` is plain: dict, list, str, int, float, bool and None, with str keys. It is None if the
    text cannot be read, and then there is at least one finding. Aliases share one value, so it must
    not be changed.
    """

    data: Any
    file: str
    text: str
    findings: tuple[Finding, ...] = ()
    """The problems of the text, sorted by place. Of two equal keys the first is kept."""
    root: Node | None = field(default=None, repr=False)

    def at(self, path: Path) -> Place:
        """The place of a value; for a missing path, of its nearest ancestor."""
        key, node = self._find(path)
        if key is not None and node is not None and is_empty(node):
            return self._source.between(key.start_mark, key.end_mark)
        return self._place(node)

    def key(self, path: Path) -> Place:
        """The place of a value's key; for a list item, of the item."""
        key, node = self._find(path)
        return self._place(node if key is None else key)

    def part(self, path: Path, offset: int, width: int) -> Place:
        """The place of the characters `offset` to `offset + width` of a string's value.

        Quotes, escapes, folding and the indentation of blocks are taken into account; a part of
        several lines is cut at the first. If it cannot be computed, it is the whole scalar.
        """
        scalar = self._scalar(path)
        indices = self._offsets(scalar) if scalar is not None else None
        if indices is None:
            return self.at(path)
        last = len(indices) - 1
        start = indices[min(max(0, offset), last)]
        return self._source.at(start, indices[min(max(0, offset + width), last)])

    def style(self, path: Path) -> Literal["plain", "quoted", "block"] | None:
        """The style of a scalar; None for mappings, lists and missing values."""
        scalar = self._scalar(path)
        if scalar is None:
            return None
        return "block" if scalar.style in ("|", ">") else "quoted" if scalar.style else "plain"

    def raw(self, path: Path) -> str:
        """The text of a scalar before conversion: `1.10`, not 1.1.

        Quotes and escapes are resolved. Empty for mappings, lists and missing values.
        """
        scalar = self._scalar(path)
        return scalar.value if scalar is not None else ""

    def has(self, path: Path) -> bool:
        """Whether there is a value other than None at exactly this path."""
        return self._value(path) is not None

    def misread(self, path: Path) -> Finding | None:
        """CL210 for a number that differs from its text, as `1.10`, where a text is expected."""
        value, raw = self._value(path), self.raw(path)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or str(value) == raw:
            return None
        return finding(
            "CL210",
            f"YAML reads `{short(raw)}` as the number {short(str(value))}",
            self.at(path),
            hint=f'quote it: `"{short(raw)}"`',
            at=dotted_path(path),
        )

    def under(self, key: str) -> Document:
        """The document as the value of a key, for a part of a machine in its own file."""
        root = self.root
        if root is not None:
            mark = root.start if isinstance(root, Branch) else root.start_mark
            root = Branch(mark, mark, False, {key: (None, root)})
        found = (replace(f, at=f"{key}.{f.at}" if f.at else key) for f in self.findings)
        return replace(self, data={key: self.data}, findings=tuple(found), root=root)

    @cached_property
    def _source(self) -> Source:
        return Source(self.text, self.file)

    def _value(self, path: Path) -> Any:
        value = self.data
        for part in path:
            try:
                value = value[part]
            except (LookupError, TypeError):
                return None
        return value

    def _find(self, path: Path) -> tuple[Event | None, Node | None]:
        """The key and the node of a path, or of its nearest existing ancestor."""
        key: Event | None = None
        node = self.root
        for part in path:
            below = _child(node, part)
            if below is None:
                break
            key, node = below
        return key, node

    def _scalar(self, path: Path) -> Event | None:
        node = self.root
        for part in path:
            below = _child(node, part)
            if below is None:
                return None
            node = below[1]
        return None if isinstance(node, Branch) else node

    def _place(self, node: Node | None) -> Place:
        if node is None:
            return Place(self.file)
        if not isinstance(node, Branch):
            return self._source.at(self._begin(node), node.end_mark.index)
        if node.flow or not node.children:
            return self._source.between(node.start, node.end)
        if isinstance(node.children, Mapping):
            return self._place(next(iter(node.children.values()))[0])
        return self._source.place(node.start.line, node.start.column, 1)

    def _begin(self, scalar: Event) -> int:
        start = scalar.start_mark.index
        if scalar.anchor is None and scalar.tag is None:
            return start
        match = _PROPERTIES.match(self.text, start, scalar.end_mark.index)
        return match.end() if match else start

    def _offsets(self, scalar: Event) -> list[int] | None:
        start = self._begin(scalar)
        source = self.text[start : scalar.end_mark.index]
        found = offsets(source, scalar.value, cast("Style", scalar.style or ""))
        return None if found is None else [start + at for at in found]


def _child(node: Node | None, part: str | int) -> tuple[Event | None, Node] | None:
    if not isinstance(node, Branch):
        return None
    children = node.children
    if isinstance(children, Mapping):
        return children.get(part) if isinstance(part, str) else None
    if isinstance(part, int) and 0 <= part < len(children):
        return None, children[part]
    return None
