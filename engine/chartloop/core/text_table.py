"""Lines and tables of text: aligned columns and wrapped cells.

Belongs here: widths and padding. Never: the content of tables (`reports`), or escape codes for
colours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Self

GAP = "  "
_NARROWEST = 8
"""The least width of a wrapped column, in characters."""
_READABLE = 16
"""The least width at which a wrapped cell is still easy to read."""
_NAME = 24
"""The longest name that is not broken as long as other columns can shrink."""
_FEW = 4
"""The fewest characters of a broken name before the break."""
_WORD = re.compile(r"\s*\S+")
_SIGNS = "._/(,="
"""The characters after which a long name may be broken."""


class Cell(str):
    """A cell with a colour of its own, which only HTML paints: text paints whole rows."""

    __slots__ = ("colour",)

    colour: str

    def __new__(cls, text: str, colour: str = "") -> Self:
        """Make a text with a colour: the words of `Span.colour`, of which ``code`` is a font."""
        self = super().__new__(cls, text)
        self.colour = colour
        return self


class Row(NamedTuple):
    """A row of a table; `colour` applies to all its cells."""

    cells: tuple[str, ...]
    colour: str = ""
    hang: int = 0
    """The indent of the last cell's continuation lines, in characters."""


class Span(NamedTuple):
    """A part of a line with its own colour."""

    text: str
    colour: str = ""
    """``red``, ``dim``, ``red bold``; ``code`` for a name in backticks."""
    whole: bool = False
    """Whether wrapping must keep it on one line."""


class Line(NamedTuple):
    """A line of text and its colour; the `lines` of results consist of these."""

    text: str
    colour: str = ""
    spans: tuple[Span, ...] = ()
    """The parts, if they have their own colours; joined they are `text`."""

    @classmethod
    def of(cls, *parts: str | Span) -> Line:
        """Make a line of parts, each with its own colour."""
        spans = tuple(p if isinstance(p, Span) else Span(p) for p in parts)
        return cls("".join(span.text for span in spans), spans=spans)


def text_of(lines: Iterable[Line]) -> str:
    """Join lines into one text without colours: `str()` of a result."""
    return "\n".join(line.text for line in lines)


def size(text: str) -> int:
    """The width of a text in terminal columns."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _end_within(text: str, width: int, start: int = 0) -> int:
    """The end of the longest part of a text from `start` on that fits into `width` columns."""
    if text.isascii():
        return min(len(text), start + width)
    for at in range(start, len(text)):
        width -= _columns_of(text[at])
        if width < 0:
            return at
    return len(text)


def lay_out(
    rows: Sequence[Row],
    *,
    width: int,
    right: Collection[int] = (),
    spare: Sequence[int] = (),
    indent: str = "",
) -> list[Line]:
    """Lay out a table in `width` terminal columns, as far as its columns fit.

    `right` holds the indices of right-aligned columns. The columns in `spare` are dropped one by
    one while the others would be too narrow to read.
    """
    if not rows:
        return []
    columns = range(len(rows[0].cells))
    wanted = [max(size(line) for r in rows for line in r.cells[c].split("\n")) for c in columns]
    kept = [*columns]
    for column in spare:
        if sum(min(wanted[c], _READABLE) + len(GAP) for c in kept) - len(GAP) <= width - len(
            indent
        ):
            break
        kept.remove(column)
    room = width - len(indent) - len(GAP) * (len(kept) - 1)
    words = [max((size(w) for r in rows for w in r.cells[c].split()), default=0) for c in kept]
    whole = [max(_NARROWEST, min(word, _NAME)) for word in words]
    # shrink the widest columns until all fit, and break words only as a last resort
    widths = _cut_down([wanted[c] for c in kept], whole, room)
    widths = _cut_down(widths, [_NARROWEST] * len(kept), room)
    at_right = {n for n, c in enumerate(kept) if c in right}
    return [
        Line(f"{indent}{line}".rstrip(), row.colour)
        for row in rows
        for line in _draw_row([row.cells[c] for c in kept], widths, at_right, row.hang)
    ]


def _cut_down(wanted: list[int], least: list[int], room: int) -> list[int]:
    """Shrink widths down to their least, the widest first, until they fit into `room`."""
    widths = list(wanted)
    while (over := sum(widths) - room) > 0:
        wide = sorted((c for c, w in enumerate(widths) if w > least[c]), key=lambda c: -widths[c])
        if not wide:
            break
        widest, *others = wide
        level = widths[others[0]] if others else 0
        now = widths[widest]
        widths[widest] = max(now - over, min(level, now - 1), least[widest])
    return widths


def _draw_row(
    cells: list[str], widths: list[int], right: Collection[int], hang: int
) -> Iterator[str]:
    wrapped = [list(_wrap(cell, widths[n])) for n, cell in enumerate(cells)]
    if hang and hang + _NARROWEST <= widths[-1]:
        first, *_ = _wrap(cells[-1], widths[-1])
        rest = cells[-1].removeprefix(first).lstrip()
        behind = _wrap(rest, widths[-1] - hang) if rest else ()
        wrapped[-1] = [first, *(" " * hang + line for line in behind)]
    for number in range(max(len(lines) for lines in wrapped)):
        parts = [lines[number] if number < len(lines) else "" for lines in wrapped]
        yield GAP.join(_pad(part, widths[n], n in right) for n, part in enumerate(parts))


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - size(text))
    return space + text if right else text + space


def _wrap(cell: str, width: int) -> Iterator[str]:
    for line in cell.split("\n"):
        row = ""
        for word in _WORD.findall(line):
            if _end_within(row + word, width) == len(row + word):
                row += word
                continue
            if row.strip():
                yield row
            row = word.lstrip()
            start = 0
            while _end_within(row, width, start) < len(row):
                most = max(start + 1, _end_within(row, width, start))
                sign = max(row.rfind(sign, start, most) for sign in _SIGNS) + 1
                end = sign if sign - start >= _FEW else most
                yield row[start:end]
                start = end
            row = row[start:]
        yield row
