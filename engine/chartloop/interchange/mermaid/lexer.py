"""The tokens of a Mermaid flowchart: Mermaid's own lexer, state by state and rule by rule.

Belongs here: the rules, in the order in which they are tried, and what each does to the stack of
states. Never: what tokens mean together (`parse`), or a rule that Mermaid does not have: that a
chart is read exactly as Mermaid reads it rests on this table. Some things differ in how, not in
what: a run of letters or of an edge's text is one token and not one a character; blanks before a
link, a line with a direction, and the id of a link are looked for once a run, where Mermaid's
patterns look anew at each token. So reading takes linear time.

Source:       mermaid 12.3, the lexer of `flow.jison` as it is published
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from chartloop.interchange.mermaid.source import BLANKS, STRIPPED, Source
from chartloop.interchange.mermaid.unicode_letters import LETTERS

END = "the end of the text"


class Token(NamedTuple):
    """One word of a chart."""

    kind: str
    """As the grammar calls it, `SQS` say; `END` when nothing is left."""
    text: str
    at: int
    """Where it starts, blanks included."""


class Unreadable(Exception):
    """No rule fits: a sign that cannot be where it is."""

    def __init__(self, at: int, state: str) -> None:
        super().__init__(at, state)
        self.at = at
        self.state = state


class _Rule(NamedTuple):
    """What is matched, the token that it gives, and the states that it leaves and enters."""

    pattern: str
    kind: str = ""
    leave: bool = False
    enter: str = ""


_LINK_CORES = {
    "edgeText": r"[xo<]?--+[-xo>]",
    "thickEdgeText": r"[xo<]?==+[=xo>]",
    "dottedEdgeText": r"[xo<]?-?\.+-[xo>]?",
}
_START_CORES = {
    "edgeText": r"[xo<]?--",
    "thickEdgeText": r"[xo<]?==",
    "dottedEdgeText": r"[xo<]?-\.",
}

# What opens a box or a text, in whatever state: the rules that Mermaid marks with `<*>`.
_QUOTES = (_Rule(r'"`', enter="md_string"), _Rule('"', enter="string"))
_INVISIBLE = _Rule(rf"[{BLANKS}]*+~~~+[{BLANKS}]*+", "LINK")
_ELLIPSE = _Rule(r"\(-", "(-", enter="ellipseText")
_STADIUM = _Rule(r"\(\[", "STADIUMSTART", enter="text")
_SUBROUTINE = _Rule(r"\[\[", "SUBROUTINESTART", enter="text")
_CYLINDER = _Rule(r"\[\(", "CYLINDERSTART", enter="text")
_DOUBLE = _Rule(r"\(\(\(", "DOUBLECIRCLESTART", enter="text")
_TRAPS = (
    _Rule(r"\[/", "TRAPSTART", enter="trapText"),
    _Rule(r"\[\\", "INVTRAPSTART", enter="trapText"),
)
_PIPE = _Rule(r"\|", "PIPE", enter="text")
_PAREN = _Rule(r"\(", "PS", enter="text")
_SQUARE = _Rule(r"\[", "SQS", enter="text")
_BRACE = _Rule(r"\{", "DIAMOND_START", enter="text")
_OPENING = (_ELLIPSE, _STADIUM, _SUBROUTINE, _CYLINDER, _DOUBLE, *_TRAPS)
_BRACKETS = (_PIPE, _PAREN, _SQUARE, _BRACE)
_ANYWHERE = (*_QUOTES, _INVISIBLE, *_OPENING, *_BRACKETS)

_KEYWORDS = (
    _Rule(rf"accTitle[{BLANKS}]*+:[{BLANKS}]*+", "acc_title", enter="acc_title"),
    _Rule(rf"accDescr[{BLANKS}]*+:[{BLANKS}]*+", "acc_descr", enter="acc_descr"),
    _Rule(rf"accDescr[{BLANKS}]*+\{{[{BLANKS}]*+", enter="acc_descr_multiline"),
    _Rule(r"@\{", "SHAPE_START", enter="shapeData"),
    _Rule(rf"call[{BLANKS}]++", enter="callbackname"),
    *_QUOTES,
    _Rule(r"style\b", "STYLE"),
    _Rule(r"default\b", "DEFAULT"),
    _Rule(r"linkStyle\b", "LINKSTYLE"),
    _Rule(r"interpolate\b", "INTERPOLATE"),
    _Rule(r"classDef\b", "CLASSDEF"),
    _Rule(r"class\b", "CLASS"),
    _Rule(rf"href[{BLANKS}]", "HREF"),
    _Rule(rf"click[{BLANKS}]++", enter="click"),
    _Rule(r"(?:flowchart-elk|swimlane-beta|graph|flowchart)\b", "GRAPH", enter="dir"),
    _Rule(r"subgraph\b", "subgraph"),
    _Rule(rf"end\b[{BLANKS}]*+", "end"),
    _Rule(r"_(?:self|blank|parent|top)\b", "LINK_TARGET"),
)
"""What is tried first outside of every label."""

_REST = (
    _Rule("[0-9]+", "NUM"),
    _Rule("#", "BRKT"),
    _Rule(":::", "STYLE_SEPARATOR"),
    _Rule(":", "COLON"),
    _Rule("&", "AMP"),
    _Rule(";", "SEMI"),
    _Rule(",", "COMMA"),
    _Rule(r"\*", "MULT"),
    _Rule("~~~+" + rf"[{BLANKS}]*+", "LINK"),
    *_OPENING[:3],
    _Rule(r"\[\|", "VERTEX_WITH_PROPS_START"),
    _Rule(">", "TAGEND", enter="text"),
    *_OPENING[3:],
    _Rule("<", "TAGSTART"),
    _Rule(r"\^", "UP"),
    _Rule(r"\\\|", "SEP"),
    _Rule(r"v\b", "DOWN"),
    _Rule(r"(?:[A-Za-z0-9!\"#$%&'*+.`?\\_/]|-(?=[^>\-.]))+", "NODE_STRING"),
    _Rule("-", "MINUS"),
    _Rule(f"[{LETTERS}]+", "UNICODE_TEXT"),
    *_BRACKETS,
    _Rule(r"\n+", "NEWLINE"),
    _Rule(rf"(?:(?!\n)[{BLANKS}])+", "SPACE"),
)
"""What is tried last; between the two stand directions, ids of links, and links."""

_LINE = _Rule(r"[^\n]*", leave=True)

STATES: Mapping[str, tuple[_Rule, ...]] = MappingProxyType(
    {
        "acc_title": (_LINE._replace(kind="acc_title_value"),),
        "acc_descr": (_LINE._replace(kind="acc_descr_value"),),
        "acc_descr_multiline": (
            _Rule(r"\}", leave=True),
            _Rule(r"[^}]+", "acc_descr_multiline_value"),
        ),
        "dir": (
            *_QUOTES,
            _Rule(rf"[{BLANKS}]*\n", "NODIR", leave=True),
            _Rule(rf"[{BLANKS}]*+(?:(?:LR|RL|TB|BT|TD|BR|v)\b|[<>^])", "DIR", leave=True),
            *_ANYWHERE[2:],
        ),
        "click": (
            *_QUOTES,
            _Rule(f"[{BLANKS}]", leave=True),
            _Rule(f"[^{BLANKS}]+", "CLICK"),
        ),
        "callbackname": (
            _Rule(rf"\([{BLANKS}]*+\)", leave=True),
            _Rule(r"\(", leave=True, enter="callbackargs"),
            _Rule(r"[^(]+", "CALLBACKNAME"),
        ),
        "callbackargs": (_Rule(r"\)", leave=True), _Rule(r"[^)]+", "CALLBACKARGS")),
        "shapeData": (
            _Rule('"', "SHAPE_DATA", enter="shapeDataStr"),
            _Rule('[^}^"]+', "SHAPE_DATA"),
            _Rule(r"\}", leave=True),
        ),
        "shapeDataStr": (_Rule('"', "SHAPE_DATA", leave=True), _Rule('[^"]+', "SHAPE_TEXT")),
        "md_string": (
            _Rule('[^`"]+', "MD_STR"),
            _Rule('`"', leave=True),
            *_ANYWHERE,
        ),
        "string": (
            _Rule('"`', enter="md_string"),
            _Rule('[^"]+', "STR"),
            _Rule('"', leave=True),
        ),
        "text": (
            *_QUOTES,
            _INVISIBLE,
            _ELLIPSE,
            _Rule(r"\]\)", "STADIUMEND", leave=True),
            _STADIUM,
            _Rule(r"\]\]", "SUBROUTINEEND", leave=True),
            _SUBROUTINE,
            _Rule(r"\)\]", "CYLINDEREND", leave=True),
            _CYLINDER,
            _Rule(r"\)\)\)", "DOUBLECIRCLEEND", leave=True),
            _DOUBLE,
            *_TRAPS,
            _Rule(r"\|", "PIPE", leave=True),
            _Rule(r"\)", "PE", leave=True),
            _PAREN,
            _Rule(r"\]", "SQE", leave=True),
            _SQUARE,
            _Rule(r"\}", "DIAMOND_STOP", leave=True),
            _BRACE,
            _Rule(r'[^\[\](){}|"]+', "TEXT"),
        ),
        "trapText": (
            *_QUOTES,
            _INVISIBLE,
            *_OPENING[:5],
            _Rule(r"[\\(?=\])]\]", "TRAPEND", leave=True),
            _Rule(r"/\]", "INVTRAPEND", leave=True),
            _Rule(r"/|\\(?!\])|[^\\\[\](){}/]+", "TEXT"),
            *_TRAPS,
            *_BRACKETS,
        ),
        "ellipseText": (
            *_QUOTES,
            _INVISIBLE,
            _Rule(r"[-/)]\)", "-)", leave=True),
            *_OPENING,
            *_BRACKETS,
        ),
    }
)
"""The rules of each state but the first, and those of an edge's text: see `Lexer`."""

_AT_END: Mapping[str, str] = MappingProxyType(
    {
        "INITIAL": "EOF",
        "acc_title": "acc_title_value",
        "acc_descr": "acc_descr_value",
        "acc_descr_multiline": "acc_descr_multiline_value",
        "click": "CLICK",
        "callbackname": "CALLBACKNAME",
        "callbackargs": "CALLBACKARGS",
    }
)
"""The last token of a text, for the states with a rule that takes no sign at all."""


class _Table(NamedTuple):
    """Rules as one pattern, of which the first that fits counts."""

    pattern: re.Pattern[str]
    rules: tuple[_Rule, ...]

    @classmethod
    def of(cls, rules: tuple[_Rule, ...]) -> _Table:
        patterns = (f"({rule.pattern})" for rule in rules)
        return cls(re.compile("|".join(patterns), re.ASCII), rules)


_TABLES = {state: _Table.of(rules) for state, rules in STATES.items()}
_FIRST, _LAST = _Table.of(_KEYWORDS), _Table.of(_REST)
_QUOTE_TABLE = _Table.of(_QUOTES)
_LINKS = [
    (state, re.compile(core + rf"[{BLANKS}]*+"), re.compile(_START_CORES[state] + rf"[{BLANKS}]*+"))
    for state, core in _LINK_CORES.items()
]
_EDGE_STOPS = {
    "edgeText": re.compile(rf'"|{_LINK_CORES["edgeText"]}|--'),
    "thickEdgeText": re.compile(rf'"|{_LINK_CORES["thickEdgeText"]}|='),
    "dottedEdgeText": re.compile(rf'"|{_LINK_CORES["dottedEdgeText"]}|\.'),
}
_ELLIPSE_STOP = re.compile(r'"|[-/)]\)|~~~|[()\[\]{}]')
_BLANK_RUN = re.compile(f"[{BLANKS}]*+")
_DIRECTION = re.compile(rf"direction[{BLANKS}]+(TB|BT|RL|LR|TD)")
_ID_RUN = re.compile(rf'[^{BLANKS}"\[\](){{}}|]+')
_ID_END = re.compile(r'@(?=[^{"])')


class Lexer:
    """Gives one token after the other of a text, by the states that the tokens themselves set."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self._at = 0
        self._states = ["INITIAL"]
        self._charted = False
        self._blank_end = self._run_end = self._id_end = self._line_end = -1
        self._directions = [
            (found.start(), found.end(), found[1]) for found in _DIRECTION.finditer(self.text)
        ]
        self._direction_starts = [start for start, _, _ in self._directions]

    def tokens(self) -> Iterator[Token]:
        """The tokens, up to a last one of the kind `END`. `Unreadable`: a sign that starts none."""
        reading: dict[str, Callable[[], Token | None]] = {
            "INITIAL": self._outside,
            **dict.fromkeys(_LINK_CORES, self._edge_text),
            "ellipseText": self._ellipse_text,
        }
        while self._at < len(self.text):
            token = reading.get(self._states[-1], self._in_state)()
            if token is not None:
                yield token
        if last := _AT_END.get(self._states[-1]):
            yield Token(last, "", self._at)
        yield Token(END, "", self._at)

    @property
    def state(self) -> str:
        """The state that the lexer is in: `text` within a label, say."""
        return self._states[-1]

    def _make_token(self, kind: str, end: int) -> Token:
        token = Token(kind, self.text[self._at : end], self._at)
        self._at = end
        return token

    def _follow(self, table: _Table) -> Token | None:
        """The token of the first rule that fits; None also where that rule gives none."""
        found = table.pattern.match(self.text, self._at)
        return self._unreadable() if found is None else self._apply(table, found)

    def _apply(self, table: _Table, found: re.Match[str]) -> Token | None:
        rule = table.rules[(found.lastindex or 0) - 1]
        token = self._make_token(rule.kind, found.end())
        if rule.leave and len(self._states) > 1:
            self._states.pop()
        if rule.enter and (rule.enter != "dir" or not self._charted):
            self._charted |= rule.enter == "dir"
            self._states.append(rule.enter)
        return token if rule.kind else None

    def _in_state(self) -> Token | None:
        return self._follow(_TABLES[self._states[-1]])

    def _outside(self) -> Token | None:
        if found := _FIRST.pattern.match(self.text, self._at):
            return self._apply(_FIRST, found)
        end = self._direction() or self._link_id()
        if end is not None:
            return self._make_token(*end)
        return self._link() or self._follow(_LAST)

    def _direction(self) -> tuple[str, int] | None:
        """Where a line ends that says `direction` from here on, whatever is before it."""
        first = bisect_left(self._direction_starts, self._at)
        if first == len(self._directions):
            return None
        if self._at >= self._line_end:
            self._line_end = self._end_of_line(self._at)
        here = self._directions[first : bisect_left(self._direction_starts, self._line_end)]
        for way in ("TB", "BT", "RL", "LR", "TD"):
            ends = [end for _, end, to in here if to == way]
            if ends:
                return f"direction_{way.lower()}", self._end_of_line(ends[-1])
        return None

    def _end_of_line(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def _link_id(self) -> tuple[str, int] | None:
        if self._at >= self._run_end:
            run = _ID_RUN.match(self.text, self._at)
            if run is None:
                return None
            self._run_end, self._id_end = run.end(), -1
            for found in _ID_END.finditer(self.text, self._at + 1, run.end() + 1):
                self._id_end = found.end()
        return ("LINK_ID", self._id_end) if self._id_end > self._at + 1 else None

    def _link(self) -> Token | None:
        """A link, or what starts one with a text in it; blanks before it belong to it."""
        core = self._behind_blanks()
        for state, link, start in _LINKS:
            if found := link.match(self.text, core):
                return self._make_token("LINK", found.end())
            if found := start.match(self.text, core):
                self._states.append(state)
                return self._make_token("START_LINK", found.end())
        if core > self._at and self.text.startswith("~~~", core):
            run = _LAST.pattern.match(self.text, core)
            return self._make_token("LINK", run.end() if run else core)
        return None

    def _behind_blanks(self) -> int:
        if self._at >= self._blank_end:
            run = _BLANK_RUN.match(self.text, self._at)
            self._blank_end = run.end() if run else self._at
        return self._blank_end

    def _edge_text(self) -> Token | None:
        """The text of an edge up to what ends it; blanks before that belong to the link."""
        state = self._states[-1]
        found = _EDGE_STOPS[state].search(self.text, self._at)
        if found is None:
            return self._make_token("EDGE_TEXT", len(self.text))
        is_link = re.fullmatch(_LINK_CORES[state], found.group()) is not None
        start = found.start()
        if is_link:
            start = self._at + len(self.text[self._at : start].rstrip(STRIPPED))
        if start > self._at:
            return self._make_token("EDGE_TEXT", start)
        if found.group() == '"':
            return self._follow(_QUOTE_TABLE)
        if not is_link:
            self._unreadable()
        self._states.pop()
        blank = _BLANK_RUN.match(self.text, found.end())
        return self._make_token("LINK", blank.end() if blank else found.end())

    def _ellipse_text(self) -> Token | None:
        found = _ELLIPSE_STOP.search(self.text, self._at)
        end = found.start() if found else len(self.text)
        if found and found.group() == "~~~":
            end = self._at + len(self.text[self._at : end].rstrip(STRIPPED))
        return self._make_token("TEXT", end) if end > self._at else self._in_state()

    def _unreadable(self) -> NoReturn:
        raise Unreadable(self._at, self._states[-1])
