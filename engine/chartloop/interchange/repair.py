"""Mends what Mermaid refuses: the mistakes that people and models make most in flowcharts.

Belongs here: one function for each mistake, and the rule by which one is kept: Mermaid must read
further with it than without. Never: a change of what Mermaid reads anyway; guessing what a box or
arrow means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.read import read_flowchart

MOST = 300
"""Repairs of one chart."""
LARGEST = 100_000
"""Characters of a chart that is repaired: each attempt reads it anew."""
_WIDEST = 2_000
"""Characters of a line that is repaired."""
_WORK = 4_000_000
"""Characters that all attempts together read."""


class Repair(NamedTuple):
    """One line that was changed."""

    line: int
    what: str
    """What was wrong with it."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}\n  - {self.before}\n  + {self.after}"


class _Fault(NamedTuple):
    """Where Mermaid stops reading."""

    line: int
    """From 0."""
    unread: int
    """Minus the characters of the line that are left: less is further, whatever was put in."""
    column: int
    error: SpecError


_END = _Fault(10**9, 0, 0, SpecError([]))
"""Where it stops in a chart that it reads."""


class _Scene(NamedTuple):
    """A line at which Mermaid stops, or the one before."""

    line: str
    column: int
    """Where it stops, from 0; -1 on the line before."""
    text: str
    """The whole chart."""


Mend = Callable[[_Scene], Iterator[str]]
"""Other lines in the place of one."""


def repair_text(text: str, *, file: str = "") -> tuple[str, tuple[Repair, ...]]:
    """The text with its mistakes fixed, and what was changed; itself where Mermaid reads it.

    SpecError: a mistake that none of the repairs fixes, at its place.
    """
    lines = re.split(r"\r\n?|\n", text)
    repairs: list[Repair] = []
    fault = _fault(lines, file)
    attempts = iter(range(_WORK // max(len(text), 1)))
    while fault is not _END:
        mended = None
        if len(repairs) < MOST and len(text) <= LARGEST:
            mended = _first_repair(lines, fault, file, attempts)
        if mended is None:
            raise fault.error
        number, what, after, fault = mended
        repairs.append(Repair(number + 1, what, lines[number].strip(), after[number].strip()))
        lines = after
    return ("\n".join(lines), tuple(_by_line(repairs))) if repairs else (text, ())


def _by_line(repairs: Sequence[Repair]) -> Iterator[Repair]:
    """The repairs of each line as one."""
    for line, group in groupby(repairs, key=lambda repair: repair.line):
        first, *more = group
        whats = dict.fromkeys([first.what, *(repair.what for repair in more)])
        yield Repair(line, ", ".join(whats), first.before, (more or [first])[-1].after)


def _fault(lines: Sequence[str], file: str) -> _Fault:
    try:
        read_flowchart("\n".join(lines), file=file)
    except SpecError as refused:
        place = refused.findings[0].place
        line, column = min(place.line, len(lines)) - 1, place.column - 1
        return _Fault(line, column - len(lines[line].rstrip()), column, refused)
    return _END


def _first_repair(
    lines: Sequence[str], fault: _Fault, file: str, attempts: Iterator[int]
) -> tuple[int, str, list[str], _Fault] | None:
    """The first repair with which Mermaid reads further: at the fault's line, or the one before."""
    text = "\n".join(lines)
    for number in dict.fromkeys((fault.line, fault.line - 1)):
        if not 0 <= number < len(lines) or len(lines[number]) > _WIDEST:
            continue
        column = fault.column if number == fault.line else -1
        for what, mend in _REPAIRS:
            for other in mend(_Scene(lines[number], column, text)):
                if other == lines[number]:
                    continue
                if next(attempts, None) is None:
                    return None
                after = [*lines[:number], other, *lines[number + 1 :]]
                left = _fault(after, file)
                if left[:2] > fault[:2]:
                    return number, what, after, left
    return None


# labels -------------------------------------------------------------------------------------

_PAIRS = tuple(
    pair.split()
    for pair in (
        *("((( )))", "(( ))", "([ ])", "[[ ]]", "[( )]", "{{ }}", "[/ /]", "[\\ \\]", "[/ \\]"),
        *("[\\ /]", "(- -)", "[ ]", "( )", "{ }", "> ]"),
    )
)
_BEHIND = re.compile(r"[ \t]*(?:$|;|:::|@\{|&|%%|[xo<]?[-=~–—→])")
_SMART = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "″": '"'})


def _quote(content: str) -> str:
    inner = content.strip().translate(_SMART)
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        inner = inner[1:-1]
    return '"' + (inner.replace('"', "#quot;") or " ") + '"'


def _quote_labels(scene: _Scene) -> Iterator[str]:
    """Quotes for the label around the place, or for every one that needs them."""
    line, column, _ = scene
    for opening, closing in _PAIRS:
        starts = [m.start() for m in re.finditer(rf"(?<=[\w.-]){re.escape(opening)}", line)]
        for start in reversed([at for at in starts if column < 0 or at <= column]):
            begin = start + len(opening)
            for end in _ends(line, begin, closing):
                content = line[begin:end]
                if _is_quoted(content):
                    break
                if content.strip():
                    yield line[:begin] + _quote(content) + line[end:]


def _is_quoted(content: str) -> bool:
    return content.startswith('"') and content.endswith('"') and '"' not in content[1:-1]


def _ends(line: str, begin: int, closing: str) -> Iterator[int]:
    """Where a label may end, the nearest first: a closing sign with a link or an end behind it."""
    at = line.find(closing, begin)
    while at >= 0:
        if _BEHIND.match(line, at + len(closing)):
            yield at
        at = line.find(closing, at + 1)


def _quote_pipes(scene: _Scene) -> Iterator[str]:
    line, column, text = scene
    for found in re.finditer(r"\|([^|\n]*)\|", line):
        if not _is_quoted(found[1]) and (column < 0 or found.start() <= column <= found.end()):
            text = _quote(found[1]) if found[1].strip() else ""
            yield line[: found.start()] + (f"|{text}|" if text else "") + line[found.end() :]


def _quote_wide_pipes(scene: _Scene) -> Iterator[str]:
    """Quotes for a text between pipes that has a pipe in it."""
    if found := re.search(r"(?<=[->=.])[ \t]*\|(?P<text>[^\n]*)\|", scene.line):
        start, end = found.span("text")
        yield scene.line[:start] + _quote(found["text"]) + scene.line[end:]


def _quote_title(scene: _Scene) -> Iterator[str]:
    """Quotes for the title of a subgraph."""
    if found := re.match(r"(?P<begin>[ \t]*subgraph[ \t]+)(?P<title>\S[^\n]*)", scene.line):
        yield found["begin"] + _quote(found["title"])


def _quote_link_text(scene: _Scene) -> Iterator[str]:
    line = scene.line
    for found in re.finditer(
        r"(?P<start>--|==|-\.)[ \t]+(?P<text>\S[^\n]*?)[ \t]+(?P<end>--+>|==+>|\.+->|--+|==+)", line
    ):
        if not _is_quoted(found["text"]):
            quoted = f"{found['start']} {_quote(found['text'])} {found['end']}"
            yield line[: found.start()] + quoted + line[found.end() :]


def _fill_empty(scene: _Scene) -> Iterator[str]:
    line = scene.line
    for opening, closing in _PAIRS:
        empty = re.compile(
            rf'(?<=[\w.-]){re.escape(opening)}[ \t]*(?:"")?[ \t]*{re.escape(closing)}'
        )
        if found := empty.search(line):
            yield f'{line[: found.start()]}{opening}" "{closing}{line[found.end() :]}'


def _close(scene: _Scene) -> Iterator[str]:
    """The sign that closes the last label, where a line ends within it."""
    line = scene.line
    for opening, closing in _PAIRS:
        found = re.search(rf"(?<=[\w.-]){re.escape(opening)}(?P<text>[^\n]*)$", line)
        text = found["text"].strip().removesuffix(closing) if found else ""
        if found and text and closing not in text:
            text = text.removeprefix('"').removesuffix('"')
            yield line[: found.start()] + opening + _quote(text) + closing


def _plain_quotes(scene: _Scene) -> Iterator[str]:
    line = scene.line
    yield line.translate(_SMART)


# ids and links ------------------------------------------------------------------------------

_KEYWORD = (
    r"(?<![\w.\-\"])(end|graph|subgraph|class|classDef|style|linkStyle|click|flowchart|call|href)"
)
_AS_ID = re.compile(_KEYWORD + r"(?=[ \t]*(?:[\[({>&;]|[xo<]?(?:--|==|-\.|~~~)|:::|$))")
_AS_TARGET = re.compile(r"(?<=[->=.|&x])(?P<gap>[ \t]*)" + _KEYWORD + r"\b")


def _rename_keyword(scene: _Scene) -> Iterator[str]:
    line, column, text = scene
    for found in (*_AS_TARGET.finditer(line), *_AS_ID.finditer(line)):
        start, end = found.span(found.lastindex or 0)
        if column < 0 or start <= column <= end:
            word = line[start:end]
            bare = re.search(rf"(?<![\w\"]){word}[ \t]*[\[({{>]", text) is None
            label = f'["{word}"]' if bare else ""
            yield f"{line[:start]}{word}_{label}{line[end:]}"


def _free_sign(scene: _Scene) -> Iterator[str]:
    """A space behind an id `o` or `x` that Mermaid takes for a part of the link."""
    line = scene.line
    if re.search(r"(?<!\w)[xo](?:--|==|-\.)", line):
        yield re.sub(r"(?<!\w)([xo])(?=--|==|-\.)", r"\1 ", line)


_ARROWS = (
    (re.compile(r"[ \t]*(?:→|⟶|➔|➜|⇒|⟹)[ \t]*"), " --> "),
    (re.compile(r"(?<![-=.<])(?:[–—]+-*>|-[–—]+>)"), "-->"),
    (re.compile(r"(?<![-=.<~])->(?!>)"), "-->"),
    (re.compile(r"(?<![-=.<])=>"), "==>"),
    (re.compile(r"-[ \t]+-[ \t]*>|--[ \t]+>(?=[ \t]*\w)"), "-->"),
    (re.compile(r"<-(?=>)|<-(?![-.])"), "<--"),
    (re.compile(r"-->>"), "-->"),
    (re.compile(r"-\.>"), "-.->"),
)


def _longer_arrow(scene: _Scene) -> Iterator[str]:
    line = scene.line
    for pattern, arrow in _ARROWS:
        if pattern.search(line):
            yield pattern.sub(arrow, line)
    for found in re.finditer(r"--+>|==+>|-\.+->", line):
        yield f"{line[: found.start()]} {found.group()} {line[found.end() :]}"


_WORDS = r"\w+(?:[ \t]+\w+)+"
_FIRST_WORDS = re.compile(rf"(?<![\w\])}}|>-])(?P<id>{_WORDS})(?P<label>[ \t]*[\[({{])?")
_LAST_WORDS = re.compile(rf"(?<=[->|&])[ \t]*(?P<id>{_WORDS})(?P<label>[ \t]*[\[({{])?")


def _join_ids(scene: _Scene) -> Iterator[str]:
    """Ids of several words, as one; the words stay as the label where there is no other."""
    line = scene.line
    for found in (*_LAST_WORDS.finditer(line), *_FIRST_WORDS.finditer(line)):
        words = found["id"]
        either = r"[ \t_]+".join(words.split())
        labelled = re.search(rf"\b{either}[ \t]*[\[({{>]", scene.text)
        label = "" if labelled else f'["{words}"]'
        start, end = found.span("id")
        rest = line[end:].lstrip() if found["label"] else line[end:]
        yield line[:start] + re.sub(r"[ \t]+", "_", words) + label + rest


# lines --------------------------------------------------------------------------------------


def _drop_comment(scene: _Scene) -> Iterator[str]:
    line = scene.line
    for sign in ("%%", "//", "#"):
        if (at := line.find(sign)) > 0:
            yield line[:at].rstrip()


def _close_spaces(scene: _Scene) -> Iterator[str]:
    line = scene.line
    if re.match(r"[ \t]*(?:class|style|linkStyle|classDef)\b", line):
        yield re.sub(r"[ \t]*,[ \t]*", ",", line)
        yield line.rstrip(" ,\t")


def _plain_style(scene: _Scene) -> Iterator[str]:
    """A style without the properties that Mermaid cannot read, such as `rgb(1,2,3)`."""
    found = re.match(
        r"(?P<begin>[ \t]*(?:style|classDef)[ \t]+\S+)[ \t]+(?P<said>\S[^\n]*)", scene.line
    )
    if found:
        text = re.sub(r"[\w-]+[ \t]*:[ \t]*[^,;(]*\([^)\n]*\)[^,;]*", "", found["said"])
        kept = [part.strip() for part in re.split(r"[,;]", text) if part.strip()]
        yield f"{found['begin']} {','.join(kept) or 'opacity:1'}"


def _own_line(scene: _Scene) -> Iterator[str]:
    """A first line that ends behind the direction."""
    line = scene.line
    found = re.match(r"[ \t]*(?:graph|flowchart)[ \t]+(?:TB|TD|BT|RL|LR)\b", line)
    if found and line[found.end() :].strip():
        yield f"{line[: found.end()]};{line[found.end() :].strip()}"
    if wrong := re.match(r"[ \t]*(?:graph|flowchart)\b(?P<more>[^\n]*)", line):
        yield "flowchart TD" if wrong["more"].strip() else line


def _end_group(scene: _Scene) -> Iterator[str]:
    line = scene.line
    yield f"{line}; end" if line.strip() else "end"


_REPAIRS: tuple[tuple[str, Mend], ...] = (
    ("typographic quotes", _plain_quotes),
    ("an empty label", _fill_empty),
    ("a label that needs quotes", _quote_labels),
    ("a label that needs quotes", _quote_pipes),
    ("a label that needs quotes", _quote_wide_pipes),
    ("a label that needs quotes", _quote_link_text),
    ("a title that needs quotes", _quote_title),
    ("a keyword as an id", _rename_keyword),
    ("an id that touches the link", _free_sign),
    ("an invalid arrow", _longer_arrow),
    ("a comment after a statement", _drop_comment),
    ("spaces where none may be", _close_spaces),
    ("a style that Mermaid cannot read", _plain_style),
    ("a label that is not closed", _close),
    ("an id of several words", _join_ids),
    ("an invalid first line", _own_line),
    ("a subgraph that is not closed", _end_group),
)
"""What may be wrong, in the order in which it is tried."""
