"""Repairs of flowcharts that Mermaid refuses: the mistakes that people and models make most.

Belongs here: one function per kind of mistake, and the rule by which a repair is kept: Mermaid must
read further with it than without. Never: changes to text that Mermaid reads; guesses at what a box
or arrow means.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.chains import WIDEST, Label, is_quoted, read_chain
from chartloop.interchange.mermaid.grammar import parse
from chartloop.interchange.mermaid.read import read_flowchart
from chartloop.interchange.mermaid.source import Source

MOST = 300
"""The most repairs of one chart."""
LARGEST = 100_000
"""The most characters of a chart to repair: each attempt reads it from the start."""
_WORK = 4_000_000
"""The most characters that all attempts may read in total."""


class Repair(NamedTuple):
    """One changed line."""

    line: int
    what: str
    """The mistake: `an empty label`."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.what}\n  - {self.before}\n  + {self.after}"


class _Fault(NamedTuple):
    """The point at which Mermaid stops reading."""

    line: int
    """From 0."""
    unread: int
    """Minus the characters left in the line: greater is further, whatever was inserted."""
    column: int
    error: SpecError


_END = _Fault(10**9, 0, 0, SpecError([]))
"""Stands for no fault: Mermaid reads the whole chart."""


class _Scene(NamedTuple):
    """The line at which Mermaid stops, or the one before it."""

    line: str
    column: int
    """The column at which Mermaid stops, from 0; -1 on the line before."""
    text: str
    """The whole chart."""


Fix = Callable[[_Scene], Iterator[str]]
"""Proposes replacements for one line."""


def repair_text(text: str, *, file: str = "") -> tuple[str, tuple[Repair, ...]]:
    """Fix the mistakes of a chart; return the new text and the changed lines.

    A text that Mermaid reads comes back unchanged. Raises `SpecError`, with the place, for a
    mistake that no repair fixes.
    """
    written = lines = re.split(r"\r\n?|\n", text)
    repairs: list[Repair] = []
    fault = first = _fault(lines, file)
    attempts = iter(range(_WORK // max(len(text), 1)))
    while fault is not _END:
        repaired = None
        if len(repairs) < MOST and len(text) <= LARGEST:
            repaired = _first_repair(lines, fault, file, attempts)
        if repaired is None:
            raise fault.error
        number, what, after, fault = repaired
        repairs.append(Repair(number + 1, what, lines[number].strip(), after[number].strip()))
        lines = after
    if repairs and not _keeps_arrows(written, "\n".join(lines)):
        raise first.error
    return ("\n".join(lines), tuple(_by_line(repairs))) if repairs else (text, ())


def _keeps_arrows(written: Sequence[str], text: str) -> bool:
    """Whether each line still has its arrows: none is within a label that was never closed."""
    source = Source(text, "")
    arrows = Counter(source.line(link.at) for link in parse(source).links)
    chains = ((number, read_chain(line)) for number, line in enumerate(written, start=1))
    return all(c is None or not c.sure or arrows[n] >= c.arrows for n, c in chains)


def _by_line(repairs: Sequence[Repair]) -> Iterator[Repair]:
    """Merge the repairs of each line into one."""
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
    """The first repair, on the fault's line or the one before, that lets Mermaid read further."""
    text = "\n".join(lines)
    for number in dict.fromkeys((fault.line, fault.line - 1)):
        if not 0 <= number < len(lines) or len(lines[number]) > WIDEST:
            continue
        chain = read_chain(lines[number])
        if chain is not None and not chain.sure:
            continue
        column = fault.column if number == fault.line else -1
        for what, fix in _REPAIRS:
            for other in fix(_Scene(lines[number], column, text)):
                kept = read_chain(other)
                if other == lines[number] or (chain and kept and kept.parts < chain.parts):
                    continue
                if next(attempts, None) is None:
                    return None
                after = [*lines[:number], other, *lines[number + 1 :]]
                next_fault = _fault(after, file)
                if next_fault[:2] > fault[:2]:
                    return number, what, after, next_fault
    return None


# labels -------------------------------------------------------------------------------------

_SMART = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "″": '"'})


_SIGNS = re.compile(r'[\[\](){}|"]')
"""What Mermaid reads as a sign in a label without quotes."""


def _quote(content: str) -> str:
    inner = content.strip().translate(_SMART)
    if len(inner) > 1 and inner[0] == inner[-1] == '"':
        inner = inner[1:-1]
    return '"' + (inner.replace('"', "#quot;") or " ") + '"'


def _mistake(label: Label, text: str) -> str:
    if not label.closed:
        return "a label that is not closed"
    if text.strip() in ("", '""'):
        return "an empty label"
    return "" if is_quoted(text) else "a label that needs quotes"


def _quote_labels(mistake: str) -> tuple[str, Fix]:
    """Quote the labels with a mistake, each by itself: all, else any of them, nearest first."""

    def fix(scene: _Scene) -> Iterator[str]:
        line, column, _ = scene
        chain = read_chain(line)
        labels = chain.labels if chain is not None and chain.sure else ()
        wrong = [one for one in labels if _mistake(one, line[one.start : one.end]) == mistake]
        near = sorted(wrong, key=lambda label: abs(label.end - column))
        signs = [one for one in wrong if _SIGNS.search(line[one.start : one.end])]
        for chosen in (signs, *([one] for one in near)):
            after = line
            for start, end, opening, closing, closed in reversed(chosen):
                text = _quote(line[start:end]) + closing * (not closed)
                if opening == "|" and not line[start:end].strip():  # Mermaid has no empty pipes
                    start, text, end = start - 1, "", end + 1
                after = after[:start] + text + after[end:]
            yield after

    return mistake, fix


def _quote_title(scene: _Scene) -> Iterator[str]:
    """Quote the title of a subgraph, the one behind its id if it has one."""
    for title in (r"[^\s\[]+[ \t]*\[(?P<title>[^\n]+)(?=\][ \t]*$)", r"(?P<title>\S[^\n]*)"):
        if match := re.match(rf"[ \t]*subgraph[ \t]+{title}", scene.line):
            start, end = match.span("title")
            yield scene.line[:start] + _quote(match["title"]) + scene.line[end:]


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
    for keyword in (*_AS_TARGET.finditer(line), *_AS_ID.finditer(line)):
        start, end = keyword.span(keyword.lastindex or 0)
        if column < 0 or start <= column <= end:
            word = line[start:end]
            bare = re.search(rf"(?<![\w\"]){word}[ \t]*[\[({{>]", text) is None
            label = f'["{word}"]' if bare else ""
            yield f"{line[:start]}{word}_{label}{line[end:]}"


def _free_sign(scene: _Scene) -> Iterator[str]:
    """Insert a space after an id `o` or `x`, which Mermaid would read as part of the link."""
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
    for pattern, valid in _ARROWS:
        if pattern.search(line):
            yield pattern.sub(valid, line)
    for arrow in re.finditer(r"--+>|==+>|-\.+->", line):
        yield f"{line[: arrow.start()]} {arrow.group()} {line[arrow.end() :]}"


_WORDS = r"\w+(?:[ \t]+\w+)+"
_FIRST_WORDS = re.compile(rf"(?<![\w\])}}|>-])(?P<id>{_WORDS})(?P<label>[ \t]*[\[({{])?")
_LAST_WORDS = re.compile(rf"(?<=[->|&])[ \t]*(?P<id>{_WORDS})(?P<label>[ \t]*[\[({{])?")


def _join_ids(scene: _Scene) -> Iterator[str]:
    """Join the words of an id with underscores; they become its label unless it has one."""
    line = scene.line
    for match in (*_LAST_WORDS.finditer(line), *_FIRST_WORDS.finditer(line)):
        words = match["id"]
        either = r"[ \t_]+".join(words.split())
        labelled = re.search(rf"\b{either}[ \t]*[\[({{>]", scene.text)
        label = "" if labelled else f'["{words}"]'
        start, end = match.span("id")
        rest = line[end:].lstrip() if match["label"] else line[end:]
        yield line[:start] + re.sub(r"[ \t]+", "_", words) + label + rest


# lines --------------------------------------------------------------------------------------


def _drop_comment(scene: _Scene) -> Iterator[str]:
    line = scene.line
    for sign in ("%%", "//", r"#(?!\w+;)"):
        if (comment := re.search(sign, line)) and comment.start():
            yield line[: comment.start()].rstrip()


def _close_spaces(scene: _Scene) -> Iterator[str]:
    line = scene.line
    if re.match(r"[ \t]*(?:class|style|linkStyle|classDef)\b", line):
        yield re.sub(r"[ \t]*,[ \t]*", ",", line)
        yield line.rstrip(" ,\t")


def _plain_style(scene: _Scene) -> Iterator[str]:
    """Drop the style properties that Mermaid cannot read, such as `rgb(1,2,3)`."""
    statement = re.match(
        r"(?P<begin>[ \t]*(?:style|classDef)[ \t]+\S+)[ \t]+(?P<styles>\S[^\n]*)", scene.line
    )
    if statement:
        text = re.sub(r"[\w-]+[ \t]*:[ \t]*[^,;(]*\([^)\n]*\)[^,;]*", "", statement["styles"])
        kept = [part.strip() for part in re.split(r"[,;]", text) if part.strip()]
        yield f"{statement['begin']} {','.join(kept) or 'opacity:1'}"


def _own_line(scene: _Scene) -> Iterator[str]:
    """End the first line after the direction."""
    line = scene.line
    head = re.match(r"[ \t]*(?:graph|flowchart)[ \t]+(?:TB|TD|BT|RL|LR)\b", line)
    if head and line[head.end() :].strip():
        yield f"{line[: head.end()]};{line[head.end() :].strip()}"
    if wrong := re.match(r"[ \t]*(?:graph|flowchart)\b(?P<more>[^\n]*)", line):
        yield "flowchart TD" if wrong["more"].strip() else line


def _end_group(scene: _Scene) -> Iterator[str]:
    line = scene.line
    yield f"{line}; end" if line.strip() else "end"


_REPAIRS: tuple[tuple[str, Fix], ...] = (
    ("typographic quotes", _plain_quotes),
    _quote_labels("an empty label"),
    _quote_labels("a label that needs quotes"),
    ("a title that needs quotes", _quote_title),
    ("a keyword as an id", _rename_keyword),
    ("an id that touches the link", _free_sign),
    ("an invalid arrow", _longer_arrow),
    ("a comment after a statement", _drop_comment),
    ("spaces where none may be", _close_spaces),
    ("a style that Mermaid cannot read", _plain_style),
    _quote_labels("a label that is not closed"),
    ("an id of several words", _join_ids),
    ("an invalid first line", _own_line),
    ("a subgraph that is not closed", _end_group),
)
"""The mistakes with their fixes, in the order in which they are tried."""
