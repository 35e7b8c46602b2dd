"""The report of an error on stderr, and its exit code.

    0 natural end   1 error, or a check that failed   2 nothing was started: see below
    3 stopped by a limit   4 waits for a person   5 cancelled, or not answered in time
    6 another process drives the run   7 a change loosens consent   130 Ctrl-C, SIGTERM or SIGHUP

2: the command line is wrong, or what it names: a file, a port, a key, an extra, the journal.

Source: core.codes (CL6xx)
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from chartloop.cli import console
from chartloop.cli.late import at_first_use
from chartloop.core.errors import (
    AnswerError,
    ChartloopError,
    CursorError,
    Driven,
    Finding,
    JournalTooNew,
    JournalTooOld,
    JournalUnavailable,
    LimitError,
    RunError,
    SetupError,
    SpecError,
    TaskError,
    UnknownRunError,
    finding_lines,
)
from chartloop.core.text_table import Line, Span

with at_first_use(__name__):
    from chartloop.cli import printing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chartloop.run.result import Result

OK, ERROR, USAGE, LIMIT, WAITING, HUMAN, DRIVEN, LOOSENED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 7, 130
PIPE = 141
"""The exit code of a program whose reader has gone (128 + SIGPIPE)."""

BY_KIND = {"natural": OK, "error": ERROR, "limit": LIMIT, "waiting": WAITING, "human": HUMAN}


class UntrustedError(RunError):
    """The file names hosts, keys or outside paths, and `--trust` was not given."""

    code = "CL324"


class MisuseError(SetupError):
    """The command line names something that does not exist."""


_EXITS: tuple[tuple[type[ChartloopError], int], ...] = (
    (UntrustedError, USAGE),
    (SetupError, USAGE),
    (AnswerError, USAGE),
    (CursorError, USAGE),
    (LimitError, USAGE),
    (TaskError, USAGE),
    (UnknownRunError, USAGE),
    (JournalTooOld, USAGE),
    (JournalTooNew, USAGE),
    (JournalUnavailable, USAGE),
    (Driven, DRIVEN),
)
"""Exit codes of errors, if not 1."""


def say_error(error: ChartloopError) -> int:
    """Print an error and its hint on stderr; return the exit code."""
    if isinstance(error, SpecError):
        say_findings(error.findings)
        return ERROR
    code = f"[{error.code}]" if error.code else ""
    lines = [Line.of(Span("error", "red bold"), f"{code}: {error.message}")]
    printing.say_lines([*lines, Line(f" = help: {error.hint}")] if error.hint else lines)
    return next((code for kind, code in _EXITS if isinstance(error, kind)), ERROR)


def say_findings(findings: Iterable[Finding], file: str = "") -> None:
    """Print findings on stderr with the lines of the file, and their number."""
    printing.say_lines(finding_lines(findings, file=file, width=console.columns(sys.stderr)))


def say_fault(error: Exception) -> int:
    """Report a fault in chartloop; return the exit code. `CHARTLOOP_TRACEBACK` shows where."""
    if os.environ.get("CHARTLOOP_TRACEBACK"):
        raise error
    console.say(f"error: {type(error).__name__}: {console.plain(str(error))}")
    console.say(" = help: this is a fault in chartloop; CHARTLOOP_TRACEBACK=1 shows where")
    return ERROR


def exit_code(result: Result) -> int:
    """The exit code of a run, by its kind."""
    return BY_KIND[result.kind]
