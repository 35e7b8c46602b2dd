"""Printing: results to stdout, everything else to stderr.

Texts come from models, files and journals, and a terminal obeys what it is sent. So both streams
are a `Door` while a command runs: whoever writes, no escape sequence passes it. Colours are ours:
`style` puts signs round a text that the door alone turns into colours.

Belongs here: streams, colours, JSON, and what a terminal may be sent.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from chartloop.core.plain import plain as as_data

WIDEST = 100
"""Columns that a table takes at most."""

_SIGNS = {
    "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "·": "-", "•": "*", "…": "...",
    "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "«": "<<", "»": ">>",
    "█": "#", "░": ".", "▌": ">", "▶": ">", "✓": "+", "✗": "x", "│": "|", "─": "-",
    "×": "x", "−": "-", "▼": "v", "◀": "<", "■": "#", "●": "*", "╱": "/", "╲": "\\",
    "╌": "-", "╎": "|", "━": "=", "┃": "|", "═": "=", "║": "|",
    **dict.fromkeys("▏▎▍▌", ""), **dict.fromkeys("▋▊▉", "#"),
    **dict.fromkeys("┌┐└┘╭╮╰╯├┤┬┴┼┏┓┗┛┠┯╔╗╚╝╟", "+"),
}  # fmt: skip
"""How signs are written where the terminal has only ASCII."""


_OBEYED = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Signs that JSON leaves as they are and a terminal obeys: 0x9b starts an escape sequence."""


_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters that a terminal obeys, except newlines and tabs."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

_INKS = {
    "bold": "\x1b[1m", "dim": "\x1b[2m", "red": "\x1b[31m", "green": "\x1b[32m",
    "yellow": "\x1b[33m", "magenta": "\x1b[35m", "cyan": "\x1b[36m", "": "\x1b[0m",
}  # fmt: skip
_FIRST = 0x100000 + int.from_bytes(os.urandom(2)) % 0xFF00
"""The first sign of a colour: private, and another one in each process, so no text can know it."""
_SIGN_OF = {name: chr(_FIRST + number) for number, name in enumerate(_INKS)}
_INK_OF = {sign: _INKS[name] for name, sign in _SIGN_OF.items()}
_INKED = re.compile(f"[{_SIGN_OF['bold']}-{_SIGN_OF['']}]")


class Door:
    """A stream to people: what is written to it is cleaned first.

    What would steer a terminal becomes U+FFFD, colours that others chose are left out. All else is
    as with the stream behind it.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, cleaned."""
        self.stream.write(_INKED.sub(_ink, clean(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _ink(sign: re.Match[str]) -> str:
    return _INK_OF[sign[0]]


def clean(text: str) -> str:
    """The text as it is where a terminal obeys nothing in it, else as `plain` has it."""
    return plain(_COLOUR.sub("", text)) if _STEERS.search(text) else text


def open_doors() -> None:
    """Put a door before stdout and stderr."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Door):
            setattr(sys, name, Door(stream))


def close_doors() -> None:
    """Take them away: what follows is not the command line's."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, behind(getattr(sys, name)))


def behind(stream: TextIO) -> TextIO:
    """The stream itself, for who moves the cursor and cleans what it shows."""
    return stream.stream if isinstance(stream, Door) else stream


def repaint(text: str, *, up: int = 0) -> None:
    """Put a text in place of the line of stderr where the cursor is, or of one above it."""
    stream = behind(sys.stderr)
    where = f"\x1b[{up}A" if up else "\r"
    stream.write(f"{where}\x1b[2K{clean(text)}")
    stream.flush()


def fit_streams() -> None:
    """Let all streams take any text: what they cannot encode is written in another way."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed by whoever started us
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for good
    codecs.register_error("chartloop", _stand_in)
    streams = {"chartloop": (sys.stdout, sys.stderr), "replace": (sys.stdin,)}
    for errors, named in streams.items():
        for stream in map(behind, named):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=errors)


def leave_terminal() -> None:
    """Where a terminal was, which has gone, what is still said goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        with contextlib.suppress(OSError):
            if os.isatty(fd):
                os.dup2(nowhere, fd)
    os.close(nowhere)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_SIGNS.get(sign, "?") for sign in text), error.end


def speaks_unicode(stream: TextIO) -> bool:
    """Whether the stream can show signs beyond ASCII."""
    try:
        "█→✓".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at the stream, on a terminal that can move its cursor."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def takes_colour(stream: TextIO) -> bool:
    """Whether the stream takes colours. Source: no-color.org."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def style(text: str, colour: str = "", *, bold: bool = False, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (default: stdout) takes colours."""
    stream = stream or sys.stdout
    if not text or not (colour or bold) or not isinstance(stream, Door) or not takes_colour(stream):
        return text
    ink = "".join(_SIGN_OF[name] for name in colour.split()) + _SIGN_OF["bold"] * bold
    return f"{ink}{text}{_SIGN_OF['']}"


def plain(text: str) -> str:
    """The text without anything that a terminal would obey. Newlines and tabs stay."""
    from chartloop.view_model.table import plain_text

    return plain_text(text)


def width() -> int:
    """Columns for tables: the terminal's, at most `WIDEST`."""
    return max(40, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def columns(stream: TextIO) -> int | None:
    """The columns of the terminal; None where the stream is none."""
    return max(40, shutil.get_terminal_size().columns) if is_terminal(stream) else None


def wrap_to_terminal(text: str, stream: TextIO) -> list[str]:
    """The text in lines that fit the terminal, if the stream is one; words stay whole."""
    lines = text.split("\n")
    wide = columns(stream)
    return lines if wide is None else [part for line in lines for part in _broken(line, wide)]


def _broken(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    indent = " " * (min(columns // 2, len(line) - len(line.lstrip())) + 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)


def result(text: str = "", stream: TextIO | None = None) -> None:
    """A line of the result, on stdout. A reader that has gone raises `BrokenPipeError`."""
    (stream or sys.stdout).write(text + "\n")


def say(text: str = "", colour: str = "") -> None:
    """A line for the person at the terminal, on stderr. That no one reads it stops nothing."""
    try:
        sys.stderr.write(style(text, colour, stream=sys.stderr) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, RuntimeError):  # closed, or in the middle of another line
        return


def as_json(data: Any, *, indent: int | None = 2) -> str:
    """Data as JSON, in ASCII where stdout has nothing else; nothing in it that a terminal obeys."""
    ascii_only = not speaks_unicode(sys.stdout)
    text = json.dumps(as_data(data), ensure_ascii=ascii_only, indent=indent, default=str)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
