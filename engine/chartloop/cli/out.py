"""What is printed, and where: results on stdout, everything else on stderr.

Belongs here: streams, colours, JSON, and what a terminal may be sent. Texts come from models,
files and journals, so whatever is shown on a terminal passes `plain`: no escape sequence of
theirs reaches it.

Imported by: every command
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
from pathlib import Path
from typing import Any, TextIO

import click

from chartloop.core.plain import plain as as_data

WIDEST = 100
"""Columns that a table takes at most."""

_SIGNS = {
    "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "·": "-", "•": "*", "…": "...",
    "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "«": "<<", "»": ">>",
    "█": "#", "░": ".", "▌": ">", "▶": ">", "✓": "+", "✗": "x", "│": "|", "─": "-",
    "×": "x", "−": "-", "▼": "v", "◀": "<", "■": "#", "●": "*", "╱": "/", "╲": "\\",
    "╌": "-", "╎": "|", "━": "=", "┃": "|", "═": "=", "║": "|",
    **dict.fromkeys("┌┐└┘╭╮╰╯├┤┬┴┼┏┓┗┛┠┯╔╗╚╝╟", "+"),
}  # fmt: skip
"""How signs are written where the terminal has only ASCII."""


_OBEYED = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Signs that JSON leaves as they are and a terminal obeys: 0x9b begins an escape sequence."""


def fit_streams() -> None:
    """Let all streams take any text: what they cannot encode is written in another way."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # it was closed by whoever started us
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for good
    codecs.register_error("chartloop", _stand_in)
    streams = {"chartloop": (sys.stdout, sys.stderr), "replace": (sys.stdin,)}
    for errors, named in streams.items():
        for stream in named:
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


def coloured(stream: TextIO) -> bool:
    """Whether the stream takes colours. Source: no-color.org."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def style(text: str, colour: str = "", *, bold: bool = False, stream: TextIO | None = None) -> str:
    """The text in a colour, where the stream (default: stdout) takes colours."""
    if not text or not (colour or bold) or not coloured(stream or sys.stdout):
        return text
    if colour == "bold":
        return click.style(text, bold=True)
    if colour == "dim":
        return click.style(text, dim=True)
    return click.style(text, fg=colour or None, bold=bold or None)


def plain(text: str) -> str:
    """The text without anything that a terminal would obey. Newlines and tabs stay."""
    from chartloop.view.flowchart import printable

    return "\t".join(printable(part) for part in text.split("\t"))


def width() -> int:
    """Columns for tables: the terminal's, at most `WIDEST`."""
    return max(40, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def fitted(text: str, stream: TextIO) -> list[str]:
    """The text in lines that fit the terminal, if the stream is one; words stay whole."""
    lines = text.split("\n")
    if not is_terminal(stream):
        return lines
    columns = max(40, shutil.get_terminal_size().columns)
    return [part for line in lines for part in _broken(line, columns)]


def _broken(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    indent = " " * (min(columns // 2, len(line) - len(line.lstrip())) + 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)


def result(text: str = "", stream: TextIO | None = None) -> None:
    """A line of the result, on stdout. A reader that has gone raises `BrokenPipeError`."""
    (stream or sys.stdout).write(text + "\n")


def prose(text: str) -> None:
    """Sentences of the result, on stdout: cleaned, and in lines that fit the terminal."""
    for line in fitted(plain(text), sys.stdout):
        result(line)


def say(text: str = "", colour: str = "") -> None:
    """A line for the person at the terminal, on stderr. That nobody reads it stops nothing."""
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
