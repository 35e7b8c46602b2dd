"""The tokens of a Mermaid flowchart: Mermaid's own lexer, state by state and rule by rule.

Charts are read exactly as Mermaid reads them because these rules are Mermaid's. To take linear
time, some are applied differently, with the same result: a run of letters or of an edge's text is
one token instead of one per character; blanks before a link, a line with a direction, and the id
of a link are searched once per run, where Mermaid's patterns search again at each token.

Belongs here: the rules, in the order in which they are tried, and their effect on the stack of
states. Never: what tokens mean together (`grammar`), or a rule that Mermaid does not have.

Source:       mermaid 12.3, the lexer of `flow.jison` as it is published
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from chartloop.interchange.mermaid.source import BLANKS, STRIPPED, Source

_RANGES = """
aa b5 ba c0-d6 d8-f6 f8-2c1 2c6-2d1 2e0-2e4 2ec 2ee 370-374 376-377 37a-37d 386 388-38a 38c
38e-3a1 3a3-3f5 3f7-481 48a-527 531-556 559 561-587 5d0-5ea 5f0-5f2 620-64a 66e-66f 671-6d3 6d5
6e5-6e6 6ee-6ef 6fa-6fc 6ff 710 712-72f 74d-7a5 7b1 7ca-7ea 7f4-7f5 7fa 800-815 81a 824 828
840-858 8a0 8a2-8ac 904-939 93d 950 958-961 971-977 979-97f 985-98c 98f-990 993-9a8 9aa-9b0 9b2
9b6-9b9 9bd 9ce 9dc-9dd 9df-9e1 9f0-9f1 a05-a0a a0f-a10 a13-a28 a2a-a30 a32-a33 a35-a36 a38-a39
a59-a5c a5e a72-a74 a85-a8d a8f-a91 a93-aa8 aaa-ab0 ab2-ab3 ab5-ab9 abd ad0 ae0-ae1 b05-b0c
b0f-b10 b13-b28 b2a-b30 b32-b33 b35-b39 b3d b5c-b5d b5f-b61 b71 b83 b85-b8a b8e-b90 b92-b95
b99-b9a b9c b9e-b9f ba3-ba4 ba8-baa bae-bb9 bd0 c05-c0c c0e-c10 c12-c28 c2a-c33 c35-c39 c3d
c58-c59 c60-c61 c85-c8c c8e-c90 c92-ca8 caa-cb3 cb5-cb9 cbd cde ce0-ce1 cf1-cf2 d05-d0c d0e-d10
d12-d3a d3d d4e d60-d61 d7a-d7f d85-d96 d9a-db1 db3-dbb dbd dc0-dc6 e01-e30 e32-e33 e40-e46
e81-e82 e84 e87-e88 e8a e8d e94-e97 e99-e9f ea1-ea3 ea5 ea7 eaa-eab ead-eb0 eb2-eb3 ebd ec0-ec4
ec6 edc-edf f00 f40-f47 f49-f6c f88-f8c 1000-102a 103f 1050-1055 105a-105d 1061 1065-1066
106e-1070 1075-1081 108e 10a0-10c5 10c7 10cd 10d0-10fa 10fc-1248 124a-124d 1250-1256 1258
125a-125d 1260-1288 128a-128d 1290-12b0 12b2-12b5 12b8-12be 12c0 12c2-12c5 12c8-12d6 12d8-1310
1312-1315 1318-135a 1380-138f 13a0-13f4 1401-166c 166f-167f 1681-169a 16a0-16ea 1700-170c
170e-1711 1720-1731 1740-1751 1760-176c 176e-1770 1780-17b3 17d7 17dc 1820-1877 1880-18a8 18aa
18b0-18f5 1900-191c 1950-196d 1970-1974 1980-19ab 19c1-19c7 1a00-1a16 1a20-1a54 1aa7 1b05-1b33
1b45-1b4b 1b83-1ba0 1bae-1baf 1bba-1be5 1c00-1c23 1c4d-1c4f 1c5a-1c7d 1ce9-1cec 1cee-1cf1
1cf5-1cf6 1d00-1dbf 1e00-1f15 1f18-1f1d 1f20-1f45 1f48-1f4d 1f50-1f57 1f59 1f5b 1f5d 1f5f-1f7d
1f80-1fb4 1fb6-1fbc 1fbe 1fc2-1fc4 1fc6-1fcc 1fd0-1fd3 1fd6-1fdb 1fe0-1fec 1ff2-1ff4 1ff6-1ffc
2071 207f 2090-209c 2102 2107 210a-2113 2115 2119-211d 2124 2126 2128 212a-212d 212f-2139
213c-213f 2145-2149 214e 2183-2184 2c00-2c2e 2c30-2c5e 2c60-2ce4 2ceb-2cee 2cf2-2cf3 2d00-2d25
2d27 2d2d 2d30-2d67 2d6f 2d80-2d96 2da0-2da6 2da8-2dae 2db0-2db6 2db8-2dbe 2dc0-2dc6 2dc8-2dce
2dd0-2dd6 2dd8-2dde 2e2f 3005-3006 3031-3035 303b-303c 3041-3096 309d-309f 30a1-30fa 30fc-30ff
3105-312d 3131-318e 31a0-31ba 31f0-31ff 3400-4db5 4e00-9fcc a000-a48c a4d0-a4fd a500-a60c
a610-a61f a62a-a62b a640-a66e a67f-a697 a6a0-a6e5 a717-a71f a722-a788 a78b-a78e a790-a793
a7a0-a7aa a7f8-a801 a803-a805 a807-a80a a80c-a822 a840-a873 a882-a8b3 a8f2-a8f7 a8fb a90a-a925
a930-a946 a960-a97c a984-a9b2 a9cf aa00-aa28 aa40-aa42 aa44-aa4b aa60-aa76 aa7a aa80-aaaf aab1
aab5-aab6 aab9-aabd aac0 aac2 aadb-aadd aae0-aaea aaf2-aaf4 ab01-ab06 ab09-ab0e ab11-ab16
ab20-ab26 ab28-ab2e abc0-abe2 ac00-d7a3 d7b0-d7c6 d7cb-d7fb f900-fa6d fa70-fad9 fb00-fb06
fb13-fb17 fb1d fb1f-fb28 fb2a-fb36 fb38-fb3c fb3e fb40-fb41 fb43-fb44 fb46-fbb1 fbd3-fd3d
fd50-fd8f fd92-fdc7 fdf0-fdfb fe70-fe74 fe76-fefc ff21-ff3a ff41-ff5a ff66-ffbe ffc2-ffc7
ffca-ffcf ffd2-ffd7 ffda-ffdc
"""


def _class(ranges: str) -> str:
    ends = (part.partition("-") for part in ranges.split())
    return "".join(
        f"{chr(int(first, 16))}-{chr(int(last or first, 16))}" for first, _, last in ends
    )


LETTERS = _class(_RANGES)
"""The letters of Mermaid's ids, for use inside the square brackets of a pattern."""


END = "the end of the text"


class Token(NamedTuple):
    """One word of a chart."""

    kind: str
    """The grammar's name, such as `SQS`; `END` after the last token."""
    text: str
    at: int
    """Its offset, leading blanks included."""


class Unreadable(Exception):
    """No rule matches at this offset."""

    def __init__(self, at: int, state: str) -> None:
        super().__init__(at, state)
        self.at = at
        self.state = state


class _Rule(NamedTuple):
    """A pattern, the kind of its token, and the states that it leaves and enters."""

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

# The rules for openings of boxes and texts in any state, which Mermaid marks with `<*>`.
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
"""The rules tried first outside labels."""

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
"""The rules tried last outside labels; directions, ids of links, and links come between."""

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
"""The rules of each state, except `INITIAL` and the states of an edge's text: see `Lexer`."""

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
"""The last token of a text, for states with a rule that matches the empty text."""


class _Table(NamedTuple):
    """Rules as one pattern; the first that matches counts."""

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
    """Splits a text into tokens; the tokens switch the lexer's state."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text
        self._at = 0
        self._states = ["INITIAL"]
        self._charted = False
        self._blank_end = self._run_end = self._id_end = self._line_end = -1
        self._directions = [
            (match.start(), match.end(), match[1]) for match in _DIRECTION.finditer(self.text)
        ]
        self._direction_starts = [start for start, _, _ in self._directions]

    def tokens(self) -> Iterator[Token]:
        """The tokens, the last of kind `END`. Raises `Unreadable` if no rule matches."""
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
        """The lexer's state: `text` inside a label, for example."""
        return self._states[-1]

    def _make_token(self, kind: str, end: int) -> Token:
        token = Token(kind, self.text[self._at : end], self._at)
        self._at = end
        return token

    def _follow(self, table: _Table) -> Token | None:
        """The token of the first rule that matches; None if that rule makes no token."""
        match = table.pattern.match(self.text, self._at)
        return self._unreadable() if match is None else self._apply(table, match)

    def _apply(self, table: _Table, match: re.Match[str]) -> Token | None:
        rule = table.rules[(match.lastindex or 0) - 1]
        token = self._make_token(rule.kind, match.end())
        if rule.leave and len(self._states) > 1:
            self._states.pop()
        if rule.enter and (rule.enter != "dir" or not self._charted):
            self._charted |= rule.enter == "dir"
            self._states.append(rule.enter)
        return token if rule.kind else None

    def _in_state(self) -> Token | None:
        return self._follow(_TABLES[self._states[-1]])

    def _outside(self) -> Token | None:
        if match := _FIRST.pattern.match(self.text, self._at):
            return self._apply(_FIRST, match)
        end = self._direction() or self._link_id()
        if end is not None:
            return self._make_token(*end)
        return self._link() or self._follow(_LAST)

    def _direction(self) -> tuple[str, int] | None:
        """The token of a `direction` in the rest of this line, whatever comes before it."""
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
            for end in _ID_END.finditer(self.text, self._at + 1, run.end() + 1):
                self._id_end = end.end()
        return ("LINK_ID", self._id_end) if self._id_end > self._at + 1 else None

    def _link(self) -> Token | None:
        """A link, or the start of one with a text inside; blanks before it belong to it."""
        if self._at >= self._blank_end:
            run = _BLANK_RUN.match(self.text, self._at)
            self._blank_end = run.end() if run else self._at
        core = self._blank_end
        for state, link, start in _LINKS:
            if match := link.match(self.text, core):
                return self._make_token("LINK", match.end())
            if match := start.match(self.text, core):
                self._states.append(state)
                return self._make_token("START_LINK", match.end())
        if core > self._at and self.text.startswith("~~~", core):
            run = _LAST.pattern.match(self.text, core)
            return self._make_token("LINK", run.end() if run else core)
        return None

    def _edge_text(self) -> Token | None:
        """The text of an edge, or the link that ends it; blanks before the link belong to it."""
        state = self._states[-1]
        stop = _EDGE_STOPS[state].search(self.text, self._at)
        if stop is None:
            return self._make_token("EDGE_TEXT", len(self.text))
        is_link = re.fullmatch(_LINK_CORES[state], stop.group()) is not None
        start = stop.start()
        if is_link:
            start = self._at + len(self.text[self._at : start].rstrip(STRIPPED))
        if start > self._at:
            return self._make_token("EDGE_TEXT", start)
        if stop.group() == '"':
            return self._follow(_QUOTE_TABLE)
        if not is_link:
            self._unreadable()
        self._states.pop()
        blank = _BLANK_RUN.match(self.text, stop.end())
        return self._make_token("LINK", blank.end() if blank else stop.end())

    def _ellipse_text(self) -> Token | None:
        stop = _ELLIPSE_STOP.search(self.text, self._at)
        end = stop.start() if stop else len(self.text)
        if stop and stop.group() == "~~~":
            end = self._at + len(self.text[self._at : end].rstrip(STRIPPED))
        return self._make_token("TEXT", end) if end > self._at else self._in_state()

    def _unreadable(self) -> NoReturn:
        raise Unreadable(self._at, self._states[-1])
