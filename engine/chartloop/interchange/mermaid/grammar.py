"""The grammar of a Mermaid flowchart: tokens to statements.

The parser looks one token ahead; nested subgraphs are a stack, not recursive calls.

Belongs here: which token may follow which, as in Mermaid's own grammar. Never: where a token ends
(`lexer`), what a statement does (`diagram`).

Source:       mermaid 12.3, the grammar of `flow.jison`
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from chartloop.interchange.mermaid import faults
from chartloop.interchange.mermaid.diagram import Diagram, Refused, Text, strokes
from chartloop.interchange.mermaid.lexer import END, Lexer, Token, Unreadable
from chartloop.interchange.mermaid.source import BLANKS, Source

_ID = frozenset("NUM NODE_STRING DOWN MINUS DEFAULT COMMA COLON AMP BRKT MULT UNICODE_TEXT".split())
_TEXT = frozenset("TEXT TAGSTART TAGEND UNICODE_TEXT".split())
_WORDS = frozenset("STYLE LINKSTYLE CLASSDEF CLASS CLICK GRAPH DIR subgraph end DOWN UP".split())
_TITLE = (
    frozenset("NUM NODE_STRING SPACE MINUS AMP UNICODE_TEXT COLON MULT BRKT START_LINK".split())
    | _WORDS
)
_STYLE = frozenset("NUM NODE_STRING COLON SPACE BRKT STYLE".split())
_PLAIN = frozenset("NUM UNICODE_TEXT NODE_STRING DIR DOWN MINUS COMMA COLON AMP BRKT MULT".split())
_SEPARATORS = frozenset({"NEWLINE", "SEMI", "EOF"})
_BETWEEN = _SEPARATORS | {"SPACE"}


class _Bracket(NamedTuple):
    """The shapes of an opening bracket, by the bracket that closes it."""

    closing: Mapping[str, str]
    twice: str = ""
    """The shape for a doubled opening, as in `{{`."""


_BRACKETS: Mapping[str, _Bracket] = MappingProxyType(
    {
        "SQS": _Bracket({"SQE": "square"}),
        "DOUBLECIRCLESTART": _Bracket({"DOUBLECIRCLEEND": "doublecircle"}),
        "PS": _Bracket({"PE": "round"}, twice="circle"),
        "(-": _Bracket({"-)": "ellipse"}),
        "STADIUMSTART": _Bracket({"STADIUMEND": "stadium"}),
        "SUBROUTINESTART": _Bracket({"SUBROUTINEEND": "subroutine"}),
        "VERTEX_WITH_PROPS_START": _Bracket({"SQE": "rect"}),
        "CYLINDERSTART": _Bracket({"CYLINDEREND": "cylinder"}),
        "DIAMOND_START": _Bracket({"DIAMOND_STOP": "diamond"}, twice="hexagon"),
        "TAGEND": _Bracket({"SQE": "odd"}),
        "TRAPSTART": _Bracket({"TRAPEND": "trapezoid", "INVTRAPEND": "lean_right"}),
        "INVTRAPSTART": _Bracket({"INVTRAPEND": "inv_trapezoid", "TRAPEND": "lean_left"}),
    }
)

_OTHER_CHARTS = re.compile(r"C4(?:Container|Component|Dynamic|Deployment)")
_CHART = re.compile(rf"[{BLANKS}]*(?:graph|flowchart)")


def parse(source: Source) -> Diagram:
    """Parse a flowchart. Raises `SpecError` if the text is not one, or if Mermaid refuses it."""
    if not _CHART.match(source.text):
        source.fail(0, faults.NO_CHART, faults.FIRST_LINE)
    if other := _OTHER_CHARTS.search(source.text):
        message = f"Mermaid takes a text with the word `{other.group()}` for another kind of chart"
        source.fail(other.start(), message, "write the word differently", width=len(other.group()))
    parser = _Parser(source)
    try:
        parser.read()
    except Unreadable as sign:
        faults.unreadable(source, sign.at, sign.state, parser.opened)
    except Refused as refused:
        source.fail(parser.token.at, str(refused), refused.hint)
    return parser.diagram


class _Parser:
    """Parses statements with one token of lookahead."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagram = Diagram()
        self.opened: Token | None = None
        """The token that opened the current label."""
        self._tokens = Lexer(source).tokens()
        self._groups: list[tuple[Text, Text, int] | None] = []
        self._parts: list[list[str]] = []
        """The content of each of these groups."""
        self.token = Token("", "", 0)

    # tokens ---------------------------------------------------------------------------------

    def next(self) -> Token:
        """Advance by one token and return the one before."""
        before, self.token = self.token, next(self._tokens)
        return before

    def take(self, *kinds: str) -> Token | None:
        """Consume the token if it is of one of these kinds, otherwise return None."""
        return self.next() if self.token.kind in kinds else None

    def want(self, *kinds: str) -> Token:
        """Consume a token of one of these kinds, or fail."""
        return self.take(*kinds) or self.fail(*kinds)

    def fail(self, *kinds: str) -> NoReturn:
        """Raise `SpecError`: a token of another kind belongs here."""
        faults.fail_unexpected(self.source, self.token, kinds, self.opened)

    def join_tokens(self, kinds: frozenset[str], *meant: str) -> str:
        """Consume one or more tokens of these kinds and return their text."""
        parts: list[str] = []
        while self.token.kind in kinds:
            parts.append(self.next().text)
        return "".join(parts) if parts else self.fail(*meant)

    # the chart ------------------------------------------------------------------------------

    def read(self) -> None:
        """Parse the whole chart."""
        self.next()
        while self.take("SPACE", "NEWLINE"):
            pass
        self.want("GRAPH")
        if self.take("NODIR") is None:
            self.diagram.direction = self.want("DIR").text.strip()
            if self.take("SEMI", "NEWLINE") is None:
                self.want("SPACE")
                self.want("NEWLINE")
        while self.token.kind != END:
            self._line()
        if self._groups:
            self.fail("end")

    def _line(self) -> None:
        if self.take(*_BETWEEN):
            return
        read = {
            "STYLE": self._style,
            "LINKSTYLE": self._link_style,
            "CLASSDEF": self._class_def,
            "CLASS": self._class,
            "CLICK": self._click,
        }.get(self.token.kind)
        if read is not None:
            read()
            self.want(*_SEPARATORS)
        elif self.token.kind in _ID:
            self._links()
            self.want(*_SEPARATORS)
        elif self.token.kind == "subgraph":
            self._group()
        elif self.token.kind == "end" and self._groups:
            self._end()
        elif self.token.kind.startswith("direction_"):
            self.next()
        else:
            self._title()

    def _title(self) -> None:
        if self.take("acc_title"):
            self.diagram.title = self.want("acc_title_value").text.strip()
        elif self.take("acc_descr"):
            self.want("acc_descr_value")
            self.diagram.described = True
        else:
            self.want("acc_descr_multiline_value")
            self.diagram.described = True

    def _group(self) -> None:
        at = self.next().at
        self._parts.append([])
        if self.take(*_SEPARATORS):
            self._groups.append(None)
            return
        self.want("SPACE")
        name = title = self._label(_TITLE, "string")
        if name.kind == "string":
            name = title = name._replace(kind="text")
        if self.take("SQS"):
            title = self._label(_TEXT)
            self.want("SQE")
        self.want(*_SEPARATORS)
        self._groups.append((name, title, at))

    def _end(self) -> None:
        at = self.next().at
        opened = self._groups.pop()
        if opened is None:
            self.source.fail(at, "a subgraph without a name", "write `subgraph NAME`", width=3)
        own = self.diagram.group(*opened, self._parts.pop())
        if self._parts:
            self._parts[-1].append(own)

    # boxes and links ------------------------------------------------------------------------

    def _links(self) -> None:
        sources = self._boxes()
        while self.token.kind in ("LINK_ID", "LINK", "START_LINK"):
            at = self.token.at
            name = id.text.replace("@", "", 1) if (id := self.take("LINK_ID")) else ""
            text = None
            if start := self.take("START_LINK"):
                self.opened = start
                text = self._label(frozenset({"EDGE_TEXT"}))
                end = self.want("LINK")
                self.opened = None
                if end.text[0] in "xo" and start.text.strip()[0] in "-=":
                    self.diagram.swallowed.append((end.text[0], end.at))
                drawn = strokes(end.text, start.text)
            else:
                link = self.want("LINK")
                drawn, sign = strokes(link.text), link.text.strip()[0]
                if sign in "xo" and not drawn.head.startswith("double"):
                    self.diagram.swallowed.append((sign, link.at))
                if opened := self.take("PIPE"):
                    text = self._closed_text(opened, "PIPE")
                    self.take("SPACE")
            targets = self._boxes()
            self.diagram.link((sources, targets), at, drawn, text, name)
            sources = targets

    def _boxes(self) -> list[str]:
        """Parse one box, or several joined by `&`."""
        names = [self._box()]
        while True:
            shape = self._shape_data() if self.token.kind == "SHAPE_START" else None
            more = self.take("SPACE") is not None and self.take("AMP") is not None
            if more:
                self.want("SPACE")
                names.append(self._box())
            if shape is not None:  # Mermaid too applies it only after the next box
                try:
                    self.diagram.describe(names[-2] if more else names[-1], *shape)
                except Refused as refused:
                    self.source.fail(shape[0], str(refused), refused.hint, width=2)
            if not more:
                return names

    def _box(self) -> str:
        at = self.token.at
        name = self.join_tokens(_ID, "an id")
        if self._parts:
            self._parts[-1].append(name)
        if bracket := _BRACKETS.get(self.token.kind):
            shape, text = self._in_brackets(bracket)
            self.diagram.vertex(name, at, text, shape)
        else:
            self.diagram.vertex(name, at)
        if self.take("STYLE_SEPARATOR"):
            self.diagram.set_class(name, self.join_tokens(_ID, "the name of a class"))
        return name

    def _in_brackets(self, bracket: _Bracket) -> tuple[str, Text]:
        opened = self.next()
        twice = bool(bracket.twice) and self.take(opened.kind) is not None
        if opened.kind == "VERTEX_WITH_PROPS_START":
            for kind in ("NODE_STRING", "COLON", "NODE_STRING", "PIPE"):
                self.want(kind)
        if twice:
            opened = opened._replace(text=opened.text * 2)
        self.opened = opened
        text = self._label(_TEXT)
        closing = self.want(*bracket.closing)
        if twice:
            self.want(closing.kind)
        self.opened = None
        return bracket.twice if twice else bracket.closing[closing.kind], text

    def _closed_text(self, opened: Token, *closing: str) -> Text:
        self.opened = opened
        text = self._label(_TEXT)
        self.want(*closing)
        self.opened = None
        return text

    def _label(self, kinds: frozenset[str], meant: str = "text") -> Text:
        """Parse a label: a quoted text, possibly followed by more, or a plain one."""
        kind, parts = "text", list[str]()
        if first := self.take("STR", "MD_STR"):
            kind = "string" if first.kind == "STR" else "markdown"
            parts.append(first.text)
        while self.token.kind in kinds:
            parts.append(self.next().text)
        return Text("".join(parts), kind) if parts else self.fail(meant)

    def _shape_data(self) -> tuple[int, str]:
        at = self.token.at
        parts: list[str] = []
        while token := self.take("SHAPE_START", "SHAPE_DATA", "SHAPE_TEXT"):
            if token.kind == "SHAPE_TEXT":
                parts.append(re.sub(rf"\n[{BLANKS}]*+", "<br/>", token.text))
            elif token.kind == "SHAPE_DATA":
                parts.append(token.text)
        return at, "".join(parts)

    # styles and clicks ----------------------------------------------------------------------

    def _gap(self, meant: str) -> None:
        """Consume the space between a keyword or name and the `meant` part after it."""
        if self.take("SPACE") is None:
            self.fail(meant)

    def _style(self) -> None:
        at = self.next().at
        self._gap("the id of a box")
        name = self.join_tokens(_ID, "the id of a box")
        self._gap("a style")
        self.diagram.style(name, at, self._styles())

    def _styles(self) -> list[str]:
        styles = [self.join_tokens(_STYLE, "a style")]
        while self.take("COMMA"):
            styles.append(self.join_tokens(_STYLE, "a style"))
        return styles

    def _class_def(self) -> None:
        self.next()
        self._gap("the name of a class")
        names = self.join_tokens(_ID, "the name of a class")
        self._gap("a style")
        self.diagram.define_class(names, self._styles())

    def _class(self) -> None:
        self.next()
        self._gap("the id of a box")
        names = self.join_tokens(_ID, "the id of a box")
        self._gap("the name of a class")
        self.diagram.set_class(names, self.join_tokens(_ID, "the name of a class"))

    def _link_style(self) -> None:
        at = self.next().at
        self._gap("the number of a link")
        numbers: list[str] = []
        if self.take("DEFAULT") is None:
            numbers.append(self.want("NUM").text)
            while self.take("COMMA"):
                numbers.append(self.want("NUM").text)
        self._gap("a style")
        if self.take("INTERPOLATE"):
            self.want("SPACE")
            self.join_tokens(_PLAIN, "the name of a curve")
            if self.take("SPACE"):
                self._styles()
        else:
            self._styles()
        try:
            self.diagram.style_links(numbers)
        except Refused as refused:
            self.source.fail(at, str(refused), refused.hint, width=len("linkStyle"))

    def _click(self) -> None:
        names = self.next().text
        if self.take("CALLBACKNAME"):
            self.take("CALLBACKARGS")
            if self.take("SPACE"):
                self.want("STR")
        elif self.take("HREF"):
            self.want("STR")
            self._tip()
        elif self.take("STR"):
            self._tip()
        else:
            self.join_tokens(_PLAIN, "what a click does")
            if self.take("SPACE"):
                self.want("STR")
        self.diagram.click(names)

    def _tip(self) -> None:
        """Parse a tooltip, a target, or both, after the address of a link."""
        if not self.take("SPACE"):
            return
        if self.take("STR"):
            if self.take("SPACE"):
                self.want("LINK_TARGET")
        else:
            self.want("LINK_TARGET")
