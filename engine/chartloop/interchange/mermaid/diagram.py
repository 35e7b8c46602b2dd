"""The content of a Mermaid flowchart: its vertices, links and groups.

Belongs here: Mermaid's own store of a flowchart, as far as it decides what is drawn or refused.
Never: tokens, labels as people read them, charts of states (`read`).

Source: mermaid 12.3, `flowDb.ts`
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from chartloop.core.errors import nearest
from chartloop.language.yaml.reading import read as read_yaml
from chartloop.pictures.mermaid_shapes import is_shape, shape_names

MOST_LINKS = 20_000
"""The most links of a chart."""

_NULL = re.compile(r"\s*(?:null|Null|NULL|~)\s*")


class Refused(Exception):
    """Mermaid refuses something that its grammar allows. The message says what and why."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class Text(NamedTuple):
    """A label as written, without its quotes."""

    text: str
    kind: str = "text"
    """`text`, `string` in quotes, `markdown` in quotes and backticks."""


@dataclass(slots=True)
class Vertex:
    """A box, or the attributes of a group."""

    id: str
    at: int
    text: str
    kind: str = "text"
    shape: str = ""
    """Mermaid's name of the shape; empty for the default."""
    styles: list[str] = field(default_factory=list[str])
    classes: list[str] = field(default_factory=list[str])
    picture: str = ""
    """`icon` or `img` if it shows one."""


class Strokes(NamedTuple):
    """How a link is drawn."""

    head: str
    """`arrow_open arrow_point arrow_cross arrow_circle`, prefixed by `double_` if both ends have
    one; `INVALID` if the two halves of a link do not fit."""
    stroke: str
    """`normal thick dotted invisible`, or `INVALID`."""


class Link(NamedTuple):
    """A link from one box to another."""

    source: str
    target: str
    at: int
    text: Text | None
    drawn: Strokes
    id: str


class Group(NamedTuple):
    """A subgraph."""

    id: str
    title: Text
    at: int


class Diagram:
    """A flowchart as Mermaid stores it. Each statement calls one method, in order."""

    def __init__(self) -> None:
        self.title = ""
        self.described = False
        self.direction = "TB"
        self.vertices: dict[str, Vertex] = {}
        self.links: list[Link] = []
        self.groups: dict[str, Group] = {}
        self.owners: dict[str, str] = {}
        """The enclosing group of each box or group that has one."""
        self.class_styles: dict[str, list[str]] = {}
        self.clicked: list[str] = []
        self.link_styles = 0
        self.collapsed: set[str] = set()
        self.swallowed: list[tuple[str, int]] = []
        """Signs `x` or `o` that Mermaid took for a part of a link, with their offsets."""
        self._group_count = 0
        self._link_ids: dict[str, int] = {}
        self._between: Counter[tuple[str, str]] = Counter()

    def vertex(self, name: str, at: int, text: Text | None = None, shape: str = "") -> None:
        """Add a box, or change its text and shape if they are given."""
        vertex = self._vertex(name, at)
        if vertex is None:
            return
        if text is not None:
            vertex.text, vertex.kind = _unquote(text.text), text.kind
        vertex.shape = shape or vertex.shape

    def _vertex(self, name: str, at: int) -> Vertex | None:
        """The box of this name, created if needed; None if a link has the name."""
        if not name.strip() or name in self._link_ids:
            return None
        return self.vertices.setdefault(name, Vertex(name, at, name))

    def describe(self, name: str, at: int, written: str) -> None:
        """Apply the `@{ ... }` of a box, a link or a group."""
        data = _metadata(written)
        fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
        if name in self.groups and data is not None:
            if fields.get("view") == "collapsed":
                self.collapsed.add(name)
        elif vertex := self._vertex(name, at):
            if shape := fields.get("shape"):
                if not isinstance(shape, str) or not is_shape(shape):
                    hint = nearest(str(shape), shape_names(), otherwise="")
                    raise Refused(f"Mermaid has no shape `{shape}`", hint)
                vertex.shape = shape
            label = fields.get("label")
            if label:
                kind = fields.get("labelType")
                vertex.text = _as_text(label)
                vertex.kind = kind if kind in ("text", "string") else "markdown"
            for picture in ("icon", "img"):
                if fields.get(picture):
                    vertex.picture = picture
                    if label and not isinstance(label, str):
                        raise Refused(f"the label `{label}` next to `{picture}` is not a text")
                    if not (label or "").strip() and vertex.text == vertex.id:
                        vertex.text = ""

    def style(self, name: str, at: int, styles: Sequence[str]) -> None:
        """Apply a `style` statement."""
        if vertex := self._vertex(name, at):
            vertex.styles += styles

    def define_class(self, names: str, styles: Sequence[str]) -> None:
        """Apply a `classDef` statement."""
        for name in names.split(","):
            self.class_styles.setdefault(name, []).extend(styles)

    def set_class(self, names: str, of_class: str) -> None:
        """Apply a `class` statement or `:::`."""
        for name in names.split(","):
            if name in self.vertices:
                self.vertices[name].classes.append(of_class)

    def click(self, names: str) -> None:
        """Apply a `click` statement."""
        self.clicked += names.split(",")

    def style_links(self, numbers: Sequence[str]) -> None:
        """Apply a `linkStyle` statement. Raises `Refused` for a link that does not exist."""
        for number in numbers:
            if int(number[:9]) >= len(self.links) or number != str(int(number[:9])):
                raise Refused(
                    f"there is no link {number}: links are counted from 0, and before this line"
                    f" there are {len(self.links)}"
                )
        self.link_styles += 1

    def link(
        self, ends: tuple[Sequence[str], Sequence[str]], at: int, drawn: Strokes,
        text: Text | None = None, name: str = "",
    ) -> None:  # fmt: skip
        """Link each source to each target."""
        sources, targets = ends
        if len(self.links) + len(sources) * len(targets) > MOST_LINKS:
            raise Refused(f"the chart has more than {MOST_LINKS:,} arrows")
        if text is not None:
            text = text._replace(text=_unquote(text.text))
        for source in sources:
            for target in targets:
                own = name if source == sources[-1] and target == targets[0] else ""
                made = Link(source, target, at, text, drawn, self._link_name(source, target, own))
                self._link_ids.setdefault(made.id, len(self.links))
                self.links.append(made)

    def _link_name(self, source: str, target: str, name: str) -> str:
        count = self._between[source, target]
        self._between[source, target] += 1
        if name and name not in self._link_ids:
            return name
        return f"L_{source}_{target}_{count + 1 if count else 0}"

    def group(self, name: Text, title: Text, at: int, parts: Iterable[str]) -> str:
        """Add a subgraph with its content, when it ends; return its id."""
        own = name.text.strip()
        if name is title and re.search(r"\s", name.text):
            own = f"subGraph{self._group_count}"
        self._group_count += 1
        self.groups.setdefault(own, Group(own, title, at))
        around = {own, *self._around(own)}
        for part in parts:
            if part not in around:  # a group cannot contain itself
                self.owners.setdefault(part, own)
        return own

    def _around(self, name: str) -> Iterator[str]:
        while (name := self.owners.get(name, "")) != "":
            yield name


def _unquote(text: str) -> str:
    text = text.strip()
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _metadata(written: str) -> object:
    yaml = f"{written}\n" if "\n" in written else f"{{\n{written}\n}}"
    document = read_yaml(yaml)
    # CL007, a lone word, is an error only in machine files.
    errors = [fault for fault in document.findings if fault.is_error and fault.code != "CL007"]
    if errors:
        raise Refused(f"what `@{{` says is not YAML: {errors[0].message}", errors[0].hint)
    if isinstance(document.data, str) and _falls_back(written):
        raise Refused("what `@{` says is not YAML: a line starts left of the first one")
    if _NULL.fullmatch(written):
        raise Refused("what `@{` says is null", "write `@{ shape: rect }`")
    return document.data


def _falls_back(written: str) -> bool:
    """Whether a line of the text is indented less than the first: Mermaid's YAML refuses that."""
    indents = [len(line) - len(line.lstrip(" ")) for line in written.split("\n") if line.strip()]
    return any(indent < indents[0] for indent in indents)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, str) else str(cast("Mapping[str, Any]", value))


def strokes(end: str, start: str = "") -> Strokes:
    """The strokes of a link by its end sign and, if it has a text inside, its start sign."""
    by_end = _of_end(end.strip())
    if not start:
        return by_end
    first, *_ = start = start.strip()
    head = {"<": "arrow_point", "x": "arrow_cross", "o": "arrow_circle"}.get(first, "arrow_open")
    stroke = "dotted" if "." in start else "thick" if "=" in start else "normal"
    if stroke != by_end.stroke:
        return Strokes("INVALID", "INVALID")
    if head == "arrow_open":
        return Strokes(by_end.head, stroke)
    return (
        Strokes(f"double_{head}", stroke) if head == by_end.head else Strokes("INVALID", "INVALID")
    )


def _of_end(text: str) -> Strokes:
    line, last = text[:-1], text[-1]
    head = {"x": "arrow_cross", ">": "arrow_point", "o": "arrow_circle"}.get(last, "arrow_open")
    if head != "arrow_open" and text[0] == ("<" if last == ">" else last):
        head, line = f"double_{head}", line[1:]
    stroke = {"=": "thick", "~": "invisible"}.get(line[:1], "normal")
    return Strokes(head, "dotted" if "." in line else stroke)
