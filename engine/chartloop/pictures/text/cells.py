"""The width of texts in columns of a terminal, and wrapping.

Belongs here: grapheme clusters, their width, breaking lines. Never: a chart.

Source:       Unicode 16, annexes 11 (East Asian width) and 29 (grapheme clusters), the part that
              terminals follow
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

_JOINER = "\u200d"
_AS_EMOJI = "\ufe0f"
_EMPTY = "\ufffd"
"""Precedes a mark without width at the start of a text, so that it takes a column."""


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """The characters as people see them, each with its columns: 1 or 2."""
    found, columns, joined = "", 0, False
    for sign in text:
        own = _columns(sign)
        if found and (own == 0 or joined or _is_pair(found, sign)):
            found += sign
            columns = 2 if sign == _AS_EMOJI or _is_pair(found[:-1], sign) else columns
            joined = sign == _JOINER
            continue
        if found:
            yield found, columns
        found, columns, joined = (sign, own, False) if own else (_EMPTY + sign, 1, False)
    if found:
        yield found, columns


def size(text: str) -> int:
    """The number of columns that a text takes."""
    return len(text) if text.isascii() else sum(columns for _, columns in clusters(text))


def _columns(sign: str) -> int:
    if sign == "\xad":  # a soft hyphen is shown, since lines do not break at it
        return 1
    if 0x1160 <= ord(sign) <= 0x11FF:  # the second parts of a Korean syllable
        return 0
    if unicodedata.category(sign) in ("Mn", "Me", "Cf") or 0x1F3FB <= ord(sign) <= 0x1F3FF:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def _is_pair(found: str, sign: str) -> bool:
    """Whether two regional indicator symbols form a flag."""
    return len(found) == 1 and all(0x1F1E6 <= ord(c) <= 0x1F1FF for c in (found, sign))


def wrap_text(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` columns; only words that are too long are broken."""
    lines: list[str] = []
    for part in text.split("\n"):
        line = ""
        for word in part.split():
            longer = f"{line} {word}" if line else word
            if size(longer) <= width:
                line = longer
                continue
            lines += [line] if line else []
            # A word in pieces of at most `width` columns.
            pieces, room = [""], width
            for cluster, columns in clusters(word):
                if columns > room and pieces[-1]:
                    pieces.append("")
                    room = width
                pieces[-1] += cluster
                room -= columns
            *whole, line = pieces
            lines += whole
        lines += [line] if line else []
    return lines or [""]
