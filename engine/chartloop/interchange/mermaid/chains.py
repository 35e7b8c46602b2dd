"""A line of boxes and arrows as its author meant it, whether or not Mermaid reads it.

A label without quotes may hold any sign, so that a line can be read in several ways. Labels whose
brackets nest are preferred; among the readings, the one with the most boxes and arrows is meant.
Where these disagree, or several readings have as many, nothing tells which one is meant.

Belongs here: where the labels of one line begin and end. Never: what Mermaid reads (`grammar`),
which labels are quoted (`quote_labels`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

WIDEST = 1_000
"""The most characters of a line: its readings are compared label by label."""

_PAIRS = tuple(
    tuple(pair.split())
    for pair in (
        *("((( )))", "(( ))", "([ ])", "[[ ]]", "[( )]", "{{ }}", "[/ /]", "[/ \\]", "[\\ \\]"),
        *("[\\ /]", "(- -)", "[ ]", "( )", "{ }", "> ]"),
    )
)
"""The brackets of boxes, longest openings first: Mermaid takes the longest."""
_NESTS = {")": "(", "]": "[", "}": "{"}
_STATEMENT = re.compile(
    r"[ \t]*(?!(?:subgraph|end|style|classDef|class|click|linkStyle|direction|graph|flowchart"
    r"|accTitle|accDescr)\b)"
)
_ID = re.compile(
    r"(?:[^\s\[\](){}|<>\"&;:@=~–—→⟶➔➜⇒⟹.-]|[.-](?![-=.>–—]))+(?:[ \t]+\w+(?![\w@]))*[ \t]*"
)
_TAIL = re.compile(r"[ \t]*(?::::[\w-]+)?[ \t]*(?:@\{[^}\n]*\})?[ \t]*")
_END = re.compile(r"(?:;[ \t]*)?(?:(?:%%|//|#)[^\n]*)?$")
_NEXT = re.compile(r"(?:&|;)[ \t]*")
_CORE = r"[xo<]?--+[-xo>]>*|[xo<]?==+[=xo>]|[xo<]?-?\.+-[xo>]?"
_LINK = re.compile(
    rf"(?:[\w-]+@)?(?:{_CORE}|~~~+|[–—]+-*>|-[–—]+>|->|=>|-[ \t]+-[ \t]*>|--[ \t]+>|-\.>|<-+"
    r"|[→⟶➔➜⇒⟹])[ \t]*"
)
_WORDED = re.compile(r"(?:[\w-]+@)?[xo<]?(?:--|==|-\.)[ \t]*(?=[^\s>=.|~-])")
_QUOTED = re.compile(r'"[^"]*"')
_WORDS_END = re.compile(rf"[ \t]*(?:{_CORE})[ \t]*")


class Label(NamedTuple):
    """The text of a box or of an arrow."""

    start: int
    end: int
    opening: str = ""
    """Its bracket, `|`, or nothing for the text within an arrow."""
    closing: str = ""
    closed: bool = True


class Chain(NamedTuple):
    """One reading of a line, or of its rest."""

    parts: int
    """Its boxes and arrows."""
    loose: int
    """Minus the labels that are not closed, and those whose brackets do not nest."""
    opening: int
    """The characters of the opening brackets."""
    labels: tuple[Label, ...]
    arrows: int
    sure: bool = True
    """Whether no other reading is as good."""


@lru_cache(1_000)
def read_chain(line: str) -> Chain | None:
    """The reading that is meant, not `sure` if it is unclear; None for a line of something else."""
    if len(line) > WIDEST:
        return None
    nested = _best(line, nested=True, unclosed=False)
    most = _best(line, nested=False, unclosed=nested is None)
    if nested is not None and most is not None and most.parts > nested.parts:
        return most._replace(sure=False)
    return nested or most


def _best(line: str, *, nested: bool, unclosed: bool) -> Chain | None:
    """The best reading of a line, found from its end: at each offset, of the rest from there."""
    statement = _STATEMENT.match(line)
    boxes: list[Chain | None] = [None] * (len(line) + 1)
    behind: list[Chain | None] = [None] * (len(line) + 1)
    for at in range(len(line), -1, -1):
        behind[at] = _choose(_after_box(line, at, boxes))
        if name := _ID.match(line, at):
            readings = [_add(behind[name.end()], parts=1)]
            nesting: dict[int, set[int]] = {}
            for label in _labels(line, name.end(), unclosed=unclosed):
                if label.start not in nesting:
                    nesting[label.start] = _nested_ends(line, label.start)
                nests = label.end in nesting[label.start]
                quoted = _QUOTED.fullmatch(line, label.start, label.end)
                loose = -(not label.closed) - (not nests and quoted is None)
                if not (nested and loose):
                    end = label.end + len(label.closing) * label.closed
                    readings.append(_add(behind[end], label, 1, loose))
            boxes[at] = _choose(readings)
    return boxes[statement.end()] if statement else None


def _after_box(line: str, at: int, boxes: list[Chain | None]) -> Iterator[Chain | None]:
    """The readings of what follows a box: nothing, another box, or an arrow and a box."""
    tail = _TAIL.match(line, at)
    at = tail.end() if tail else at
    if _END.match(line, at):
        yield Chain(0, 0, 0, (), 0)
    if more := _NEXT.match(line, at):
        yield boxes[more.end()]
    if link := _LINK.match(line, at):
        yield _add(boxes[link.end()], parts=1, arrows=1)
        pipe = link.end()
        for end in _signs(line, "|", pipe + 1) if line.startswith("|", pipe) else ():
            target = len(line) - len(line[end + 1 :].lstrip(" \t"))
            yield _add(boxes[target], Label(pipe + 1, end, "|", "|"), 1, arrows=1)
    if words := _WORDED.match(line, at):
        for end in _WORDS_END.finditer(line, words.end() + 1):
            label = Label(words.end(), end.start())
            yield _add(boxes[end.end()], label, 1, arrows=1)


def _labels(line: str, at: int, *, unclosed: bool) -> Iterator[Label]:
    """Each label that may stand at an offset."""
    for opening, closing in _PAIRS:
        if not line.startswith(opening, at):
            continue
        start = at + len(opening)
        quoted = line.find('"', start + 1) if line.startswith('"', start) else -1
        if quoted >= 0 and line.startswith(closing, quoted + 1):
            yield Label(start, quoted + 1, opening, closing)
            continue
        for end in _signs(line, closing, start):
            yield Label(start, end, opening, closing)
        if unclosed:
            for link in (*_WORDS_END.finditer(line, start), re.compile("$").search(line)):
                if link is not None and line[start : link.start()].strip():
                    yield Label(start, link.start(), opening, closing, closed=False)


def _signs(line: str, sign: str, at: int) -> Iterator[int]:
    while (at := line.find(sign, at)) >= 0:
        yield at
        at += 1


def _add(
    rest: Chain | None, label: Label | None = None, parts: int = 0, loose: int = 0, *,
    arrows: int = 0,
) -> Chain | None:  # fmt: skip
    """A reading with one more box or arrow in front."""
    if rest is None:
        return None
    labels = rest.labels if label is None else (label, *rest.labels)
    width = 0 if label is None else len(label.opening)
    return Chain(
        rest.parts + parts, rest.loose + loose, rest.opening + width, labels,
        rest.arrows + arrows, rest.sure,
    )  # fmt: skip


def _choose(readings: Iterator[Chain | None] | list[Chain | None]) -> Chain | None:
    found = [reading for reading in readings if reading is not None]
    if not found:
        return None
    best = max(found, key=lambda reading: reading[:3])
    rivals = {reading.labels for reading in found if reading[:3] == best[:3]}
    return best if len(rivals) == 1 else best._replace(sure=False)


def _nested_ends(line: str, start: int) -> set[int]:
    """The offsets at which each bracket since `start` is closed."""
    ends: set[int] = set()
    opened: list[str] = []
    for at, sign in enumerate(line[start:], start):
        if not opened:
            ends.add(at)
        if sign in _NESTS.values():
            opened.append(sign)
        elif sign in _NESTS and (not opened or opened.pop() != _NESTS[sign]):
            return ends
    return ends if opened else ends | {len(line)}
