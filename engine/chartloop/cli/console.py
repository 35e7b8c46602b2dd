"""Printing: results to stdout, everything else to stderr.

Texts come from models, files and journals, and may hold escape sequences. So while a command runs
both streams are wrapped in a `Door`, which lets none through, whoever writes. Only our own colours
pass: `style` marks a text with private characters that the door replaces by escape sequences.

Belongs here: streams, colours, JSON, and cleaning for terminals.
"""

from __future__ import annotations

import codecs
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

from chartloop.cli.late import at_first_use
from chartloop.core.plain import plain as as_data

with at_first_use(__name__):
    from chartloop.ui.view_model import table

WIDEST = 100
"""The most columns of a table."""

_SIGNS = {
    "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "·": "-", "•": "*", "…": "...",
    "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"', "«": "<<", "»": ">>",
    "█": "#", "░": ".", "▌": ">", "▶": ">", "✓": "+", "✗": "x", "│": "|", "─": "-",
    "×": "x", "−": "-", "▼": "v", "◀": "<", "■": "#", "●": "*", "╱": "/", "╲": "\\",
    "╌": "-", "╎": "|", "━": "=", "┃": "|", "═": "=", "║": "|",
    **dict.fromkeys("▏▎▍▌", ""), **dict.fromkeys("▋▊▉", "#"),
    **dict.fromkeys("┌┐└┘╭╮╰╯├┤┬┴┼┏┓┗┛┠┯╔╗╚╝╟", "+"),
}  # fmt: skip
"""Replacements for characters that the stream cannot encode."""


_OBEYED = re.compile(r"[\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters that JSON does not escape: 0x9b, for one, starts an escape sequence."""
_NOT_ASCII = re.compile(r"[^\x00-\x7e]")


_STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
"""Control characters, except newlines and tabs."""
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")

_INKS = {
    "bold": "\x1b[1m", "dim": "\x1b[2m", "red": "\x1b[31m", "green": "\x1b[32m",
    "yellow": "\x1b[33m", "magenta": "\x1b[35m", "cyan": "\x1b[36m", "": "\x1b[0m",
}  # fmt: skip
_FIRST = 0x100000 + int.from_bytes(os.urandom(2)) % 0xFF00
"""The first private-use character for colours. Random per process, so no text can guess it."""
_SIGN_OF = {name: chr(_FIRST + number) for number, name in enumerate(_INKS)}
_INK_OF = {sign: _INKS[name] for name, sign in _SIGN_OF.items()}
_INKED = re.compile(f"[{_SIGN_OF['bold']}-{_SIGN_OF['']}]")


class Door:
    """A text stream that cleans what is written to it.

    Control characters become U+FFFD and foreign colours are dropped. Everything else is delegated
    to the wrapped stream.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write the text, cleaned."""
        self.stream.write(_INKED.sub(_ink, clean(text)))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write the lines, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _ink(sign: re.Match[str]) -> str:
    return _INK_OF[sign[0]]


def clean(text: str) -> str:
    """The text without colours and, if it has control characters, without those; see `plain`."""
    return plain(_COLOUR.sub("", text)) if _STEERS.search(text) else text


def open_doors() -> None:
    """Wrap stdout and stderr in a `Door`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if not isinstance(stream, Door):
            setattr(sys, name, Door(stream))


def close_doors() -> None:
    """Unwrap stdout and stderr, for a caller that runs more code in this process."""
    for name in ("stdout", "stderr"):
        setattr(sys, name, behind(getattr(sys, name)))


def behind(stream: TextIO) -> TextIO:
    """The wrapped stream, for code that moves the cursor and cleans its own text."""
    return stream.stream if isinstance(stream, Door) else stream


def repaint(text: str, *, up: int = 0) -> None:
    """Replace the current line of stderr, or the one `up` lines above, by a text."""
    stream = behind(sys.stderr)
    where = f"\x1b[{up}A" if up else "\r"
    stream.write(f"{where}\x1b[2K{clean(text)}")
    stream.flush()


def fit_streams() -> None:
    """Make all streams accept any text: characters they cannot encode are replaced."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent process
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  for good
    codecs.register_error("chartloop", _stand_in)
    streams = {"chartloop": (sys.stdout, sys.stderr), "replace": (sys.stdin,)}
    for errors, named in streams.items():
        for stream in map(behind, named):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors=errors)


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(_SIGNS.get(sign, "?") for sign in text), error.end


def speaks_unicode(stream: TextIO) -> bool:
    """Whether the encoding of the stream has the characters of tables and bars."""
    try:
        "█→✓".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_terminal(stream: TextIO) -> bool:
    """Whether the stream is a terminal that can move its cursor."""
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
    """The text with control characters replaced. Newlines and tabs stay."""
    return table.plain_text(text)


def width() -> int:
    """Columns for tables: the terminal's, at most `WIDEST`."""
    return max(40, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))


def columns(stream: TextIO) -> int | None:
    """The columns of the terminal; None if the stream is not a terminal."""
    return max(40, shutil.get_terminal_size().columns) if is_terminal(stream) else None


def wrap_to_terminal(text: str, stream: TextIO) -> list[str]:
    """Split a text into lines that fit the terminal, if the stream is one. Words stay whole."""
    lines = text.split("\n")
    wide = columns(stream)
    return lines if wide is None else [part for line in lines for part in _broken(line, wide)]


def _broken(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    indent = " " * (min(columns // 2, len(line) - len(line.lstrip())) + 2)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)


def result(text: str = "", stream: TextIO | None = None) -> None:
    """Write a line of the result to stdout. Raises `BrokenPipeError` if its reader has gone."""
    (stream or sys.stdout).write(text + "\n")


def say(text: str = "", colour: str = "") -> None:
    """Write a line for the user to stderr. A failure to write is ignored."""
    try:
        sys.stderr.write(style(text, colour, stream=sys.stderr) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, RuntimeError):  # closed, or in the middle of another line
        return


def as_json(data: Any, *, indent: int | None = 2) -> str:
    """Encode data as JSON without control characters; in ASCII if stdout has nothing else."""
    text = json.dumps(as_data(data), ensure_ascii=False, indent=indent, default=str)
    escaped = _OBEYED if speaks_unicode(sys.stdout) else _NOT_ASCII
    return escaped.sub(lambda found: json.dumps(found[0])[1:-1], text)
