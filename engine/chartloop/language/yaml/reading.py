"""Reading of YAML 1.2 with a place for every node: the only import of PyYAML.

PyYAML reads YAML 1.1, where `on`, `off`, `yes` and `no` are booleans (as keys too), `12:30:45`
is a number and `2026-01-01` a date. Only its parser events are used here; their values follow the
core schema of YAML 1.2:

    null    nothing, `~`, `null`
    bool    `true`, `false`
    int     `12`, `-3`, `010` (ten), `0o17`, `0xff`
    float   `1.5`, `1e3`, `.inf`, `.nan`
    string  all else: `on`, `off`, `yes`, `no`, `12:30:45`, `2026-01-01`, and `1_000_000`, which the
            language converts where a number is expected (`core.units.parse_number`)

Keys are always strings. Tags, merge keys and directives are refused, so that no text can construct
an object. Aliases may repeat a part, within the bounds below. A word without a value in ``{...}``
is refused although YAML allows it, because it is nearly always a text cut by a comma.

Belongs here: text to plain data and findings. Never: what a key means.

Source: `docs/language.md`, "States"; `docs/checks.md`; YAML 1.2.2, section 10.3 "Core Schema"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn, cast

import yaml

from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place
from chartloop.language.yaml.document import (
    Branch,
    Children,
    Document,
    Event,
    Mark,
    Node,
    Path,
    Source,
    dotted_path,
    is_empty,
    short,
)
from chartloop.language.yaml.fault import Complaint, explain, quote_hint
from chartloop.language.yaml.scalar import plain

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "Document", "Path", "read"]

MAX_BYTES = 1_000_000
"""The largest file, in bytes of UTF-8."""
MAX_NODES = 50_000
"""The most mappings, lists and scalars, without keys; an alias counts as its whole expansion."""
MAX_DEPTH = 60
"""The most levels of nested mappings and lists."""
TOO_DEEP = f"more than {MAX_DEPTH} mappings and lists inside each other"
MAX_FINDINGS = 100
"""The most findings of a file; reading stops there."""

_LOADER: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""The loader of libyaml if PyYAML was built with it: the same events, ten times faster."""

_STREAM_END: type[Any] = yaml.StreamEndEvent
_ALIAS: type[Any] = yaml.AliasEvent
_SCALAR: type[Any] = yaml.ScalarEvent
_MAPPING: type[Any] = yaml.MappingStartEvent
_MAPPING_END: type[Any] = yaml.MappingEndEvent
_LIST: type[Any] = yaml.SequenceStartEvent
_LIST_END: type[Any] = yaml.SequenceEndEvent

_UNREADABLE = re.compile(
    "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_NOTHING = re.compile("(?:\\s+|#[^\n\r\x85\u2028\u2029]*)*")
"""Whitespace and comments."""
_COLON = re.compile(r"\s*:")


def read(text: str, file: str = "<text>") -> Document:
    """Read the data of a text with the place of each part. Never raises for an invalid text.

    `file` is the name in places. All findings are collected. After a fatal one (CL001, CL005, or
    CL007 for text that YAML cannot read) `data` is None.
    """
    text = text.removeprefix("\ufeff")
    if fault := _unreadable(text, file):
        return Document(None, file, text, (fault,))
    reader = _Reader(text, file)
    data, root = reader.document()
    findings = sorted(reader.findings, key=lambda f: (f.place.line, f.place.column))
    if reader.broken:
        data = root = None
    return Document(data, file, text, tuple(findings), root)


def _unreadable(text: str, file: str) -> Finding | None:
    """The finding for a text that must not be passed to the parser; None if it may be."""
    if len(text) > MAX_BYTES or len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES:,} bytes"
        return finding("CL005", message, Place(file), hint="split the machine")
    if match := _UNREADABLE.search(text):
        place = Source(text, file).at(match.start(), match.end())
        sign = ord(match.group())
        if 0xDC80 <= sign <= 0xDCFF:  # an undecodable byte, kept as a surrogate
            message = f"a byte that is not UTF-8: 0x{sign - 0xDC00:02X}"
            return finding("CL001", message, place, hint="save the file as UTF-8")
        message = f"a character that no text file holds: U+{sign:04X}"
        hint = "remove it, or write it as an escape in double quotes; is the file UTF-8?"
        return finding("CL001", message, place, hint=hint)
    start = _behind_nothing(text, 0)
    if text[start : start + 1] == "%":
        # A long list of `%TAG` would also take the parser quadratic time.
        return finding(
            "CL001",
            "a directive: the reader always goes by YAML 1.2",
            Source(text, file).at(start, start + 1),
            hint="remove the line",
        )
    return None


def _behind_nothing(text: str, start: int) -> int:
    match = _NOTHING.match(text, start)
    return match.end() if match else start


class _Stop(Exception):
    """Reading cannot continue; its finding is recorded."""


class _Anchor(NamedTuple):
    """A complete part of the text with an anchor."""

    data: Any
    node: Node
    size: int
    """The number of nodes, with aliases expanded."""
    height: int
    """The number of nested levels."""


class _Reader:
    """Converts events to data and nodes in one pass, and collects findings."""

    def __init__(self, text: str, file: str) -> None:
        self.findings: list[Finding] = []
        self.broken = False
        """Whether a finding was fatal, so that there is no data."""
        self._source = Source(text, file)
        loader = _LOADER(text)
        self._next = cast("Callable[[], Event]", loader.get_event)
        self._nodes = 0
        self._deepest = 0
        self._path: list[str | int] = []
        self._anchors: dict[str, _Anchor | None] = {}
        """The anchors by name; None while the part is being read, as an alias in it would recur."""

    def document(self) -> tuple[Any, Node | None]:
        """Read the only document of the text."""
        try:
            self._next()
            if type(self._next()) is _STREAM_END:
                self._break("CL001", "the file is empty", self._source.place(0, 0, 1))
            data, root = self._value(self._next(), 0)
            # Refuse text after the document, without the parser: see `_unreadable`.
            source = self._source
            start = _behind_nothing(source.text, self._next().end_mark.index)
            if source.text.startswith("---", start):
                message = "a second document starts here; a file holds one"
                hint = "remove the `---`, or move what follows into its own file"
                self._break("CL001", message, source.at(start, start + 3), hint=hint)
            if start < len(source.text):
                message = "text after the end of the document"
                hint = "a file is one mapping: check the indentation, and remove `...`"
                self._break("CL001", message, source.at(start, len(source.text)), hint=hint)
            if data is None and not self.broken:
                self._break("CL001", "the file says nothing", source.place(0, 0, 1))
        except _Stop:
            return None, None
        except yaml.YAMLError as error:
            self._syntax(error)
            return None, None
        return data, root

    def _value(self, event: Event, depth: int) -> tuple[Any, Node]:
        kind = type(event)
        if kind is _ALIAS:
            return self._alias(event, depth)
        first, outer = self._nodes, self._deepest
        self._count(event, 1)
        if event.tag is not None:
            self._refuse_tag(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
            self._deepest = depth
        if kind is _SCALAR:
            data, node = self._scalar(event), event
        else:
            self._sink(event, depth + 1)
            read_on = self._mapping if kind is _MAPPING else self._list
            data, node = read_on(event, depth + 1)
        if event.anchor is not None:
            size, height = self._nodes - first, self._deepest - depth
            self._anchors[event.anchor] = _Anchor(data, node, size, height)
            self._deepest = max(outer, self._deepest)
        return data, node

    def _list(self, event: Event, depth: int) -> tuple[list[Any], Branch]:
        data: list[Any] = []
        nodes: list[Node] = []
        path = self._path
        while type(item := self._next()) is not _LIST_END:
            path.append(len(data))
            value, node = self._value(item, depth)
            path.pop()
            data.append(value)
            nodes.append(node)
        return data, _branch(event, item, nodes)

    def _mapping(self, event: Event, depth: int) -> tuple[dict[str, Any], Branch]:
        data: dict[str, Any] = {}
        nodes: dict[str, tuple[Event, Node]] = {}
        path, text = self._path, self._source.text
        while type(key := self._next()) is not _MAPPING_END:
            name = self._key(key, event, depth)
            path.append(name or "")
            value, node = self._value(self._next(), depth)
            path.pop()
            if name is None:
                continue
            if name in data:
                message = f"`{short(key.value)}` appears twice"
                related = ("first written here", self._span(nodes[name][0]))
                hint = "rename or remove one; the first was kept for the other findings"
                self._note("CL002", message, key, hint, name=key.value, related=related)
            elif event.flow_style and is_empty(node) and not _COLON.match(text, key.end_mark.index):
                self._alone(key, nodes)
            else:
                data[name] = value
                nodes[name] = (key, node)
        return data, _branch(event, key, nodes)

    def _key(self, key: Event, parent: Event, depth: int) -> str | None:
        """The name of a key; None if it is not usable."""
        if type(key) is not _SCALAR:
            self._no_word(key, parent)
            known = len(self.findings)
            self._value(key, depth)
            del self.findings[known:]
            return None
        if key.tag is not None:
            self._refuse_tag(key)
        if key.anchor is not None:
            self._anchors[key.anchor] = _Anchor(self._scalar(key), key, 1, 0)
        if key.style or key.value not in ("<<", ""):
            return key.value
        if key.value:
            self._note("CL004", "`<<` is not a merge key in YAML 1.2", key, "write the keys out")
        else:
            self._note("CL006", "a key is missing before `:`", key, "write a word as the key")
        return None

    def _scalar(self, event: Event) -> Any:
        text = event.value
        if event.style:
            return text
        try:
            return plain(text)
        except OverflowError:
            message = f"`{short(text)}` is too large for a number"
            self._note("CL210", message, event, "if it is text, put it in quotes")
            return text

    def _alias(self, event: Event, depth: int) -> tuple[Any, Node]:
        name = event.anchor or ""
        if name not in self._anchors:
            hint = f"text that starts with `*` needs quotes; a part is named by `&{name}`"
            self._note("CL001", f"nothing has the name `&{name}`", event, hint)
            self.broken = True
            self._count(event, 1)
            return None, Branch(event.start_mark, event.end_mark, True, [])
        anchor = self._anchors[name]
        if anchor is None:
            self._break("CL005", f"`*{name}` is inside what it repeats", self._span(event))
        self._count(event, anchor.size)
        self._sink(event, depth + anchor.height)
        node = anchor.node
        if isinstance(node, Branch):
            node = Branch(event.start_mark, event.end_mark, True, node.children)
        return anchor.data, node

    def _count(self, event: Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._break(
                "CL005",
                f"more than {MAX_NODES:,} values, aliases expanded",
                self._span(event),
            )

    def _sink(self, event: Event, depth: int) -> None:
        self._deepest = max(self._deepest, depth)
        if depth > MAX_DEPTH:
            self._break("CL005", TOO_DEEP, self._span(event))

    def _alone(self, key: Event, before: dict[str, tuple[Event, Node]]) -> None:
        """Report a word without `:` in `{...}`, the rest of a text that a comma has cut."""
        cut = next(reversed(before.items()), None)
        message = f"`{short(key.value)}` has no value in `{{...}}`"
        hint = f"write `{short(key.value)}: value`, or put the text in quotes"
        if cut is not None and not isinstance(node := cut[1][1], Branch) and not node.style:
            message += f": the comma before it ended the text of `{short(cut[0])}`"
            hint = quote_hint(cut[0], f"{node.value}, {key.value}")
        self._note("CL007", message, key, hint, name=key.value)

    def _no_word(self, key: Event, parent: Event) -> None:
        inner = key.start_mark.index == parent.start_mark.index + 1
        if type(key) is _MAPPING and key.flow_style and inner:
            hint = 'put the whole text in quotes: `"{{ ... }}"`, or write it as a block after `|`'
            self._note("CL007", "`{{` starts a mapping here, not a template", parent, hint)
            return
        what = {_MAPPING: "a mapping", _LIST: "a list"}.get(type(key), "an alias")
        hint = "write a word as the key; text with signs needs quotes"
        self._note("CL006", f"a key is {what}", key, hint)

    def _refuse_tag(self, event: Event) -> None:
        tag = (event.tag or "").replace("tag:yaml.org,2002:", "!!")
        hint = "remove the tag"
        if tag == "!!str":
            hint = "remove the tag and put the value in quotes"
        elif not tag.startswith("!!") and type(event) is _SCALAR:
            hint = "text that starts with `!` needs quotes; in a guard write `not`"
        self._note("CL003", f"a tag: `{short(tag)}`", event, hint)

    def _syntax(self, error: yaml.YAMLError) -> None:
        """Report the parser's error with our own message and place."""
        self.broken = True
        if not isinstance(error, yaml.MarkedYAMLError):
            self.findings.append(finding("CL001", str(error), Place(self._source.file)))
            return
        context = cast("Mark | None", error.context_mark)
        mark = cast("Mark | None", error.problem_mark) or context
        if mark and "nesting depth" in (error.problem or ""):
            # libyaml's own bound, which some releases have and which it meets while looking ahead
            place = self._source.place(mark.line, mark.column, 1)
            self.findings.append(finding("CL005", TOO_DEEP, place))
            return
        fault = explain(
            Complaint(
                error.problem or "",
                error.context or "",
                mark.line if mark else 0,
                mark.column if mark else 0,
                (context.line, context.column) if context else None,
            ),
            self._source.lines,
        )
        place = self._source.place(fault.line, fault.column, fault.width)
        # Earlier findings of the same kind on this line would only repeat the cause.
        self.findings = [
            f for f in self.findings if (f.code, f.place.line) != (fault.code, place.line)
        ]
        related = None
        if fault.related:
            note, line, column = fault.related
            related = (note, self._source.place(line, column, 1))
        self.findings.append(
            finding(fault.code, fault.message, place, hint=fault.hint, related=related)
        )

    def _span(self, event: Event) -> Place:
        return self._source.between(event.start_mark, event.end_mark)

    def _note(
        self,
        code: str,
        message: str,
        event: Event,
        hint: str,
        *,
        name: str | None = None,
        related: tuple[str, Place] | None = None,
    ) -> None:
        """Add a non-fatal finding, up to `MAX_FINDINGS`; `name` is the key that it is about."""
        at = dotted_path(tuple(self._path) if name is None else (*self._path, name))
        place = self._span(event)
        self.findings.append(finding(code, message, place, hint=hint, at=at, related=related))
        if len(self.findings) >= MAX_FINDINGS:
            self._break("CL005", f"over {MAX_FINDINGS} mistakes: reading ends here", place)

    def _break(self, code: str, message: str, place: Place, *, hint: str = "") -> NoReturn:
        self.broken = True
        self.findings.append(finding(code, message, place, hint=hint))
        raise _Stop


def _branch(first: Event, last: Event, children: Children) -> Branch:
    return Branch(first.start_mark, last.end_mark, bool(first.flow_style), children)
