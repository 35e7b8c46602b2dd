"""Quotes around the labels of a flowchart that Mermaid refuses without them.

Each label is quoted by itself, so that no box and no arrow is lost. A line whose labels could begin
or end elsewhere is not changed.

Belongs here: which labels are quoted, and the rule by which that is kept: Mermaid must read further
with the quotes than without. Does not change a text that Mermaid reads, and mends nothing else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from chartloop.core.errors import SpecError
from chartloop.interchange.mermaid.chains import WIDEST, read_chain
from chartloop.interchange.mermaid.grammar import parse
from chartloop.interchange.mermaid.read import Reading, read_flowchart
from chartloop.interchange.mermaid.source import Source

_WORK = 1_000_000
"""The most characters that all attempts may read in total: each reads the chart from the start."""


class Quoted(NamedTuple):
    """One line whose labels were put in quotes."""

    line: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"line {self.line} is read with quotes around a label; Mermaid refuses it without"


class _Fault(NamedTuple):
    """The point at which Mermaid stops reading."""

    line: int
    """From 0."""
    unread: int
    """Minus the characters left in the line: greater is further, whatever was inserted."""
    column: int
    error: SpecError


def read_and_quote(text: str, *, file: str = "") -> tuple[Reading, tuple[Quoted, ...]]:
    """Read a flowchart; return also the lines in which labels had to be quoted.

    Raises `SpecError`, with the place in `text`, if quotes do not help.
    """
    written = lines = re.split(r"\r\n?|\n", text)
    read = first = _read(lines, file)
    attempts = iter(range(_WORK // max(len(text), 1)))
    while isinstance(read, _Fault):
        at = read.line
        further = _quote_line(lines, read, file, attempts)
        if further is not None:
            lines, read = further
        elif lines[at] == written[at]:
            raise read.error
        else:  # the error shows the first fault of the line without quotes
            lines = [*lines[:at], written[at], *lines[at + 1 :]]
            read, attempts = _read(lines, file), iter(())
    if isinstance(first, _Fault) and not _keeps_arrows(written, "\n".join(lines)):
        raise first.error
    pairs = enumerate(zip(written, lines, strict=True), start=1)
    return read, tuple(Quoted(n, a, b) for n, (a, b) in pairs if a != b)


def _keeps_arrows(written: Sequence[str], text: str) -> bool:
    """Whether each line still has its arrows: none is within a label that was never closed."""
    source = Source(text, "")
    arrows = Counter(source.line(link.at) for link in parse(source).links)
    chains = ((number, read_chain(line)) for number, line in enumerate(written, start=1))
    return all(c is None or not c.sure or arrows[n] >= c.arrows for n, c in chains)


def _read(lines: Sequence[str], file: str) -> Reading | _Fault:
    try:
        return read_flowchart("\n".join(lines), file=file)
    except SpecError as refused:
        place = refused.findings[0].place
        line, column = min(place.line, len(lines)) - 1, place.column - 1
        return _Fault(line, column - len(lines[line].rstrip()), column, refused)


def _quote_line(
    lines: list[str], fault: _Fault, file: str, attempts: Iterator[int]
) -> tuple[list[str], Reading | _Fault] | None:
    """The first way to quote labels of the fault's line that lets Mermaid read further."""
    line = lines[fault.line]
    chain = read_chain(line)
    if len(line) > WIDEST or (chain is not None and not chain.sure):
        return None
    for quoted in _ways_to_quote(line, fault.column):
        kept = read_chain(quoted)
        if chain and kept and kept.parts < chain.parts:
            continue
        if next(attempts, None) is None:
            return None
        after = [*lines[: fault.line], quoted, *lines[fault.line + 1 :]]
        read = _read(after, file)
        if not isinstance(read, _Fault) or read[:2] > fault[:2]:
            return after, read
    return None


_SIGNS = re.compile(r'[\[\](){}|"]')
"""What Mermaid reads as a sign in a label without quotes."""
_TITLES = tuple(
    re.compile(rf"[ \t]*subgraph[ \t]+{title}")
    for title in (r"[^\s\[]+[ \t]*\[(?P<title>[^\n]+)(?=\][ \t]*$)", r"(?P<title>\S[^\n]*)")
)
"""The title of a subgraph: behind its id, or alone."""


def _ways_to_quote(line: str, column: int) -> Iterator[str]:
    """The line with labels in quotes: all with signs, then any one of them, nearest first."""
    chain = read_chain(line)
    bare = [
        label
        for label in (chain.labels if chain is not None else ())
        if label.closed and (text := line[label.start : label.end].strip()) and text[0] != '"'
    ]
    signs = [label for label in bare if _SIGNS.search(line[label.start : label.end])]
    near = sorted(bare, key=lambda label: abs(label.end - column))
    for chosen in (signs, *([label] for label in near)):
        after = line
        for label in reversed(chosen):
            after = _quote(after, label.start, label.end)
        if chosen:
            yield after
    for pattern in _TITLES:
        if title := pattern.match(line):
            if title["title"][0] != '"':
                yield _quote(line, *title.span("title"))
            return


def _quote(line: str, start: int, end: int) -> str:
    inner = line[start:end].strip().replace('"', "#quot;")
    return f'{line[:start]}"{inner}"{line[end:]}'
