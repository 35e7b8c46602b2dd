"""YAML scalars: the values of plain ones, and the source offsets of the characters of any.

A guard or a template reports its faults by offset into its own text. That text is a scalar's
value, and between the value and the file lie the opening quote, escapes, folding and the
indentation of blocks. `offsets` maps the value back to the file. It does not parse YAML: it aligns
the source with the parser's value, line by line. If that fails it returns None, never a wrong
offset.

Belongs here: pure text. Never: PyYAML, places, findings.
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

Style = Literal["", "'", '"', "|", ">"]
"""The style of a scalar, as its first character; empty for a plain one."""

BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""The line breaks of YAML 1.1, as libyaml reads them."""

_BREAKS = "\n\u2028\u2029"
"""The line breaks that occur in a value; the others become `\\n`."""
_ESCAPE = re.compile(r"\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|[^\\]", re.DOTALL)
_ESCAPED = {
    "0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f",
    "r": "\r", "e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\",
    "N": "\x85", "_": "\xa0", "L": "\u2028", "P": "\u2029",
}  # fmt: skip


MAX_DIGITS = 300
"""The most characters of a number: such an int fits a float, and is parsed quickly."""

_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|0o(?P<oct>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<word>[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))"
)
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip


def plain(text: str) -> str | int | float | bool | None:
    """The value of a scalar without quotes, by the core rules of YAML 1.2.

    Raises `OverflowError` for a number of over `MAX_DIGITS` characters, and for a float that
    overflows to infinity.
    """
    if text in _WORDS:
        return _WORDS[text]
    match = _NUMBER.fullmatch(text) if text[0] in "+-.0123456789" else None
    if match is None:
        return text
    if len(text) > MAX_DIGITS:
        raise OverflowError(text)
    match match.lastgroup:
        case "int":
            return int(text)
        case "oct":
            return int(match["oct"], 8)
        case "hex":
            return int(match["hex"], 16)
        case "word":
            return float(text.lower().replace(".", ""))
        case _:
            value = float(text)
            if math.isinf(value):
                raise OverflowError(text)
            return value


class _Unit(NamedTuple):
    """One character of the value, with its offset in the source."""

    char: str
    at: int
    blank: bool
    """Whether it is white space that folding may drop: unescaped."""


class _Line(NamedTuple):
    """One line of the source, with its characters of the value."""

    units: list[_Unit]
    end: int
    """The offset of its end."""
    glued: bool = False
    """Whether its line break is escaped: the next line follows directly."""


def offsets(source: str, value: str, style: Style) -> list[int] | None:
    """The offset in `source` of each character of `value`, and of the end of the last one.

    `source` is the scalar as written, quotes and block header included. None if they cannot be
    aligned: then only the scalar as a whole has a place.
    """
    if style in ("|", ">"):
        spans = _split(source)[1:]
        indent = _indent(source, spans, value)
        header = _Line([], spans[0][0] if spans else len(source), glued=True)
        lines = [header]
        for start, end in spans:
            units = [_Unit(source[i], i, False) for i in range(min(start + indent, end), end)]
            lines.append(_Line(units, end))
        return _align(lines, value)
    return _align(_flow_lines(source, style), value)


def _align(lines: list[_Line], value: str) -> list[int] | None:
    aligned: list[int] = []
    end = lines[0].end if lines else 0
    glued = True
    for number, line in enumerate(lines):
        if line.units:
            if number:
                aligned += [end] * _joint(value, len(aligned), glued)
            if not value.startswith("".join(u.char for u in line.units), len(aligned)):
                return None
            aligned += [u.at for u in line.units]
            end, glued = line.end, line.glued
        elif not number:
            glued = line.glued
    rest = value[len(aligned) :]
    if rest.strip(_BREAKS + " "):
        return None
    return aligned + [end] * (len(rest) + 1)


def _joint(value: str, at: int, glued: bool) -> int:
    """The number of characters that folding put between two lines: line breaks, a space or none."""
    breaks = at
    while breaks < len(value) and value[breaks] in _BREAKS:
        breaks += 1
    if breaks > at:
        return breaks - at
    return 0 if glued or value[at : at + 1] != " " else 1


def _split(source: str) -> list[tuple[int, int]]:
    """The offsets of each line's start and end, without its line break."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in BREAK.finditer(source):
        spans.append((start, match.start()))
        start = match.end()
    return [*spans, (start, len(source))]


def _indent(source: str, spans: list[tuple[int, int]], value: str) -> int:
    """The indentation that the block removed: that of its first text, less the part kept."""
    for start, end in spans:
        line = source[start:end]
        if text := line.lstrip(" "):
            kept = value.lstrip("\n")
            return max(0, len(line) - len(text) - (len(kept) - len(kept.lstrip(" "))))
    return 0


def _flow_lines(source: str, style: Style) -> list[_Line]:
    spans = _split(source)
    # The quotes are not part of the text. Both may be on one line.
    spans[0] = (len(style), spans[0][1])
    spans[-1] = (spans[-1][0], len(source) - len(style))
    lines: list[_Line] = []
    for number, (start, end) in enumerate(spans):
        units = _units(source, start, end, style)
        line = source[start:end]  # a backslash that no other one escapes joins it to the next
        glued = style == '"' and (len(line) - len(line.rstrip("\\"))) % 2 == 1
        left = number > 0 or not style
        right = not glued and (number < len(spans) - 1 or not style)
        first, last = 0, len(units)
        while left and first < last and units[first].blank:
            first += 1
        while right and last > first and units[last - 1].blank:
            last -= 1
        lines.append(_Line(units[first:last], end, glued))
    return lines


def _units(source: str, start: int, end: int, style: Style) -> list[_Unit]:
    if style == '"':
        return [_unescape(m) for m in _ESCAPE.finditer(source, start, end)]
    units: list[_Unit] = []
    at = start
    while at < end:
        units.append(_Unit(source[at], at, source[at] in " \t"))
        at += 2 if style == "'" and source[at] == "'" else 1
    return units


def _unescape(match: re.Match[str]) -> _Unit:
    text = match.group()
    if len(text) == 1:
        return _Unit(text, match.start(), text in " \t")
    char = _ESCAPED.get(text[1], "") if len(text) == 2 else chr(int(text.lstrip("\\xuU"), 16))
    return _Unit(char, match.start(), blank=False)
