"""How an error is said, and the exit code that it gives.

    0 natural end   1 error, or a check that failed   2 the command line is wrong
    3 stopped by a limit   4 waits for a person   5 cancelled, or not answered in time
    6 another process drives the run   130 Ctrl-C, SIGTERM or SIGHUP

Source: design "language", section 11; core.codes (CL6xx)
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, TextIO

from chartloop.cli import console
from chartloop.core.errors import (
    AnswerError,
    ChartloopError,
    CursorError,
    Driven,
    Finding,
    LimitError,
    RunError,
    SetupError,
    SpecError,
    TaskError,
    UnknownRunError,
)
from chartloop.core.units import say_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chartloop.run.result import Result

OK, ERROR, USAGE, LIMIT, WAITING, HUMAN, DRIVEN, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130
PIPE = 141
"""What a shell shows for a program whose reader has gone (128 + SIGPIPE)."""

BY_KIND = {"natural": OK, "error": ERROR, "limit": LIMIT, "waiting": WAITING, "human": HUMAN}


_CARETS = re.compile(r"(\s*\| \s*)\^+")


class UntrustedError(RunError):
    """The file names a host or its own path, and no one said that it may."""

    code = "CL324"


class MisuseError(SetupError):
    """The command line names something that is not there."""


_EXITS: tuple[tuple[type[ChartloopError], int], ...] = (
    (UntrustedError, USAGE),
    (MisuseError, USAGE),
    (AnswerError, USAGE),
    (CursorError, USAGE),
    (LimitError, USAGE),
    (TaskError, USAGE),
    (UnknownRunError, USAGE),
    (Driven, DRIVEN),
)
"""The exit code of an error, where it is not 1."""


def _exit_of(error: ChartloopError) -> int:
    return next((code for kind, code in _EXITS if isinstance(error, kind)), ERROR)


def say_error(error: ChartloopError) -> int:
    """Say what is wrong on stderr, with its cure; gives the exit code."""
    if isinstance(error, SpecError):
        for line in report(error.findings, err=True):
            console.say(line)
        return ERROR
    word = console.style("error", "red", bold=True, stream=sys.stderr)
    said = [f"{word}{f'[{error.code}]' if error.code else ''}: {console.plain(error.message)}"]
    said += [f" = help: {console.plain(error.hint)}"] if error.hint else []
    for line in (part for text in said for part in console.wrap_to_terminal(text, sys.stderr)):
        console.say(line)
    return _exit_of(error)


def say_fault(error: Exception) -> int:
    """An error that is chartloop's own. Its traceback is shown to whoever asks for it."""
    if os.environ.get("CHARTLOOP_TRACEBACK"):
        raise error
    console.say(f"error: {type(error).__name__}: {console.plain(str(error))}")
    console.say(" = help: this is a fault in chartloop; CHARTLOOP_TRACEBACK=1 shows where")
    return ERROR


def report(findings: Iterable[Finding], *, err: bool = False, file: str = "") -> list[str]:
    """The findings as compilers show them, and a last line that counts them."""
    found = tuple(findings)
    stream = sys.stderr if err else sys.stdout
    lines: list[str] = []
    for finding in found:
        first, _, rest = console.plain(finding.render()).partition("\n")
        colour = "red" if finding.is_error else "yellow"
        rest = "\n".join(_in_view(rest.split("\n"), stream)) if rest else ""
        lines += [
            console.style(first, colour, bold=True, stream=stream),
            *([rest] if rest else []),
            "",
        ]
    file = file or next((f.place.file for f in found if f.place.file), "")
    return [*lines, count(found) + (f" in {console.plain(file)}" if file else "")] if found else []


def _in_view(lines: list[str], stream: TextIO) -> list[str]:
    """The lines as they fit a terminal: of a long source line, the part above its caret."""
    if not console.is_terminal(stream):
        return lines
    columns, shown = max(40, shutil.get_terminal_size().columns), list(lines)
    for n, (source, below) in enumerate(pairwise(lines)):
        carets = _CARETS.fullmatch(below)
        if carets is None or max(len(source), len(below)) <= columns:
            continue
        bar, first = below.index("|") + 2, len(carets[1])
        skip = max(0, min(first - bar - 2, len(below) - columns + 8))
        shown[n] = _truncate(source, bar, skip, columns)
        shown[n + 1] = below[:bar] + below[bar + skip :][: columns - bar]
    return shown


def _truncate(line: str, bar: int, skip: int, columns: int) -> str:
    text = f"…{line[bar + skip + 1 :]}" if skip else line[bar:]
    room = columns - bar
    return line[:bar] + (text if len(text) <= room else f"{text[: room - 1]}…")


def count(findings: Iterable[Finding]) -> str:
    """How many there are: ``2 errors, 1 warning``."""
    errors, warnings = 0, 0
    for finding in findings:
        errors, warnings = errors + finding.is_error, warnings + (not finding.is_error)
    parts = ((errors, "error"), (warnings, "warning"))
    return ", ".join(say_count(n, word) for n, word in parts if n) or "nothing found"


def exit_code(result: Result) -> int:
    """The exit code of a run, by its kind."""
    return BY_KIND[result.kind]
