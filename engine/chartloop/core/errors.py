"""Errors and findings: the tree of classes, and how each is worded.

    ChartloopError
    ├── SpecError            fix the file: carries every finding at once
    ├── ModelError           a model call failed; its category decides what the machine does
    └── RunError             fix the call
        ├── StatusError      the run is not in a status that allows this
        ├── ClosedChartError a machine that is built was to be changed
        ├── AnswerError      a wait does not take this event, or its data
        ├── LimitError       a limit or variable cannot take this value
        ├── TaskError        what was given is not a task of the queue
        ├── ArgumentsError   a tool of `chartloop mcp` does not take these arguments
        ├── UnknownRunError  no run of that id, prefix or agent
        ├── CursorError      a place in a list that no page gave
        │   └── CursorGoneError  a place in the events that this journal does not have
        ├── MachineChangedError  the file is not the one the run was started with
        ├── RulesChangedError  the run was decided by rules that this version does not have
        ├── ScriptError      a script has too few replies, or some left over
        ├── SetupError       something the run needs is missing: an extra, a key, a tool
        │   ├── PluginError  a plugin is not installed, cannot be imported, or clashes
        │   └── MissingPluginError  a run was started with a plugin that is not given now
        ├── ServerUnavailableError  an MCP server cannot be started or reached
        ├── ToolsChangedError  an MCP server offers something else than the lock holds
        └── JournalError
            ├── Driven       another process drives this run: it was not started here
            ├── Fenced       another process took this run over from here
            ├── JournalLocked
            ├── JournalCorrupt
            └── JournalTooNew

Belongs here: error classes, findings and places. Never: printing, logging.
Every message says what is wrong; `hint` says what to do about it.
"""

from __future__ import annotations

import enum
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, NamedTuple, Self

from chartloop.core.html_table import Cell, bundle, line, table
from chartloop.core.text_table import Line
from chartloop.core.units import say_count

__all__ = [
    "AnswerError",
    "ArgumentsError",
    "Category",
    "ChartloopError",
    "ClosedChartError",
    "CursorError",
    "CursorGoneError",
    "Driven",
    "Fenced",
    "Finding",
    "Findings",
    "JournalCorrupt",
    "JournalError",
    "JournalLocked",
    "JournalTooNew",
    "LimitError",
    "MachineChangedError",
    "MissingPluginError",
    "ModelError",
    "Note",
    "Place",
    "PluginError",
    "RulesChangedError",
    "RunError",
    "ScriptError",
    "ServerUnavailableError",
    "SetupError",
    "Severity",
    "SpecError",
    "StatusError",
    "TaskError",
    "ToolsChangedError",
    "UnknownRunError",
    "count_findings",
    "finding_lines",
    "nearest",
]


class Severity(enum.StrEnum):
    """How bad a finding is. A file with an error does not load; a warning is only shown."""

    ERROR = "error"
    WARNING = "warning"


class Category(enum.StrEnum):
    """How to react to a failure. Source: 003 "Error Categories"."""

    TRANSIENT = "TRANSIENT"
    """The same call may work later: rate limit, timeout, broken connection."""
    RECOVERABLE = "RECOVERABLE"
    """Someone must change something first: a person, another prompt, a smaller context."""
    CRITICAL = "CRITICAL"
    """Nothing the run can do helps: a wrong key, an exhausted quota, a bug."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file. Lines and columns count from 1, in characters."""

    file: str = ""
    line: int = 0
    """0 when nothing is known."""
    column: int = 0
    width: int = 1
    """Characters under the caret."""
    text: str = ""
    """The whole source line, without its end."""

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def inside(self, offset: int, width: int) -> Place:
        """The part of this place that starts `offset` characters in, on the same line."""
        return Place(self.file, self.line, self.column + offset, max(1, width), self.text)


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem of a machine, with its place and how to fix it.

    `code` is stable (`CL103`) and has a section in ``docs/reference/errors.md``.
    """

    code: str
    severity: Severity
    message: str
    place: Place = NOWHERE
    hint: str = ""
    """The cure, when there is one: ``did you mean `usage.total_tokens`?``"""
    at: str = ""
    """Where in the machine, in its own words: ``states.monitor.next.0``; what `ignore` names."""
    related: tuple[str, Place] | None = field(default=None)
    """A second place: where the first of two duplicates stands."""

    @property
    def is_error(self) -> bool:
        """Whether a file with this finding must not run."""
        return self.severity is Severity.ERROR

    def render(self) -> str:
        """The finding with its source line and a caret under the fault, as compilers do."""
        return "\n".join(self._render_lines(None))

    def lines(self, width: int | None = None) -> list[Line]:
        """The same, the first line in the colour of its severity.

        Of a source line that is wider than `width`, only what stands around the caret.
        """
        first, *rest = "\n".join(self._render_lines(width)).split("\n")
        head = Line(first, "red bold" if self.is_error else "yellow bold")
        return [head, *map(Line, rest)]

    def _render_lines(self, width: int | None) -> list[str]:
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.place.line:
            gutter = len(str(max(self.place.line, self.related[1].line if self.related else 0)))
            lines.append(f"{' ' * gutter}--> {self.place}")
            if self.related and self.related[1].line and self.related[1].line != self.place.line:
                lines += _excerpt(self.related[1], gutter, "-", self.related[0], width)
            lines += _excerpt(self.place, gutter, "^", "", width)
            if self.hint:
                lines.append(f"{' ' * gutter} = help: {self.hint}")
        else:
            if self.place.file:
                lines.append(f" --> {self.place.file}")
            if self.hint:
                lines.append(f" = help: {self.hint}")
        return lines

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape of one finding."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "message": self.message,
            "hint": self.hint or None,
        }

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook view: a table of one row."""
        return bundle(_findings_table((self,)), self.render())


class Note(NamedTuple):
    """One thing that is right, and good to know before a run."""

    kind: Literal["failures", "waits", "parameters"]
    """Where failed actions go; waits without a deadline; variables that only a caller changes."""
    text: str
    names: tuple[str, ...] = ()
    """The states or variables that it is about."""

    def to_dict(self) -> dict[str, Any]:
        """The public JSON shape of one note."""
        return {"kind": self.kind, "text": self.text, "names": list(self.names)}


class Findings(tuple[Finding, ...]):  # noqa: SLOT001  a tuple can have none that hold anything
    """The findings of a check, sorted by place: a tuple that a notebook shows as a table.

    Equal to any tuple of the same findings, whatever the notes are.
    """

    notes: tuple[Note, ...]
    """Notes that are not findings but good to know; empty for a file that does not load."""

    def __new__(cls, found: Iterable[Finding] = (), notes: Iterable[Note] = ()) -> Self:
        """The findings, and the notes next to them."""
        made = super().__new__(cls, found)
        made.notes = tuple(notes)
        return made

    def __str__(self) -> str:
        return "\n\n".join(finding.render() for finding in self) or "no findings"

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The notebook view: a row for each finding."""
        return bundle(_findings_table(self) if self else line("no findings", "good"), str(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The terminal view, for IPython."""
        printer.text(str(self))


def finding_lines(
    findings: Iterable[Finding], *, file: str = "", width: int | None = None
) -> list[Line]:
    """The findings as compilers show them, and a last line that counts them; none for none."""
    found = tuple(findings)
    if not found:
        return []
    file = file or next((f.place.file for f in found if f.place.file), "")
    shown = (line for finding in found for line in (*finding.lines(width), Line("")))
    return [*shown, Line(count_findings(found) + (f" in {file}" if file else ""))]


def count_findings(findings: Iterable[Finding]) -> str:
    """How many there are: ``2 errors, 1 warning``."""
    kinds = Counter("error" if finding.is_error else "warning" for finding in findings)
    named = [(kinds[word], word) for word in ("error", "warning") if kinds[word]]
    return ", ".join(say_count(number, word) for number, word in named) or "nothing found"


def _findings_table(findings: Iterable[Finding]) -> str:
    return table(
        (
            (Cell(f.code, "bad" if f.is_error else "warn"), Cell(str(f.place), "code"),
             f"{f.message}\n{f.hint}".strip(), Cell(f.place.text.strip(), "code"))
            for f in findings
        ),
        head=("code", "at", "what is wrong", "line"),
    )  # fmt: skip


_WIDEST = 160
"""Characters of a source line that are shown; longer ones are cut round the caret."""


def _excerpt(place: Place, gutter: int, mark: str, note: str, width: int | None) -> list[str]:
    text = place.text.replace("\t", " ")
    start = place.column - 1
    if len(text) > _WIDEST:
        cut = max(0, start - 40)
        text = ("…" if cut else "") + text[cut : cut + _WIDEST - 1] + "…"
        start = start - cut + (1 if cut else 0)
    marks = mark * max(1, min(place.width, max(1, len(text) - start)))
    carets = f"{' ' * gutter} | {' ' * start}{marks}{' ' + note if note else ''}"
    source, bar = f"{place.line:>{gutter}} | {text}", gutter + 3
    if width is None or max(len(source), len(carets)) <= width:
        return [source, carets]
    skip = max(0, min(start - 2, len(carets) - width + 8))
    part = f"…{text[skip + 1 :]}" if skip else text
    room = width - bar
    if len(part) > room:
        part = f"{part[: room - 1]}…"
    return [source[:bar] + part, carets[:bar] + carets[bar + skip :][:room]]


def nearest(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A hint that names the closest known word, or the known words when none is close."""
    names = sorted(set(known))
    if close := get_close_matches(name, names, n=1):
        return f"did you mean `{close[0]}`?"
    if otherwise:
        return otherwise
    if not names:
        return ""
    shown = ", ".join(f"`{n}`" for n in names[:8])
    return f"known: {shown}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


_PACKAGE = __file__.rpartition("core")[0]


def _is_ours(frame: traceback.FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE) or "IPython" in frame.filename


class ChartloopError(Exception):
    """Anything that chartloop itself says is wrong. `hint` is the cure, when there is one."""

    code: ClassVar[str] = ""
    """Its row in `core.codes`; empty where there is none."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.message = message
        self.hint = hint
        super().__init__(message + (f"\n  help: {hint}" if hint else ""))

    def _render_traceback_(self) -> list[str]:
        """The IPython view, without a traceback through our files: the error and its place."""
        frames = traceback.extract_tb(self.__traceback__)
        own = [f"  {one.filename}, line {one.lineno}" for one in frames if not _is_ours(one)]
        return [f"{type(self).__name__}: {self}", *own[-1:]]


class SpecError(ChartloopError):
    """The file is wrong. `findings` holds everything that was found, sorted by place."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n\n".join(f.render() for f in self.findings))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Finding, ...]]]:
        return (SpecError, (self.findings,))


class ModelError(ChartloopError):
    """A model call failed.

    `category` decides what the machine does; `kind` says which of the known failures it was
    (``rate_limit``, ``context_overflow`` ...); `retry_after` is in seconds when the provider
    said so; `partial` is the text that had arrived.
    """

    code = "CL610"

    def __init__(
        self,
        message: str,
        *,
        category: Category,
        kind: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        partial: str = "",
    ) -> None:
        self.category = category
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.partial = partial
        super().__init__(message)


class ToolError(ChartloopError):
    """Raised inside a tool or an action: it failed, and this is what may be done about it.

    Of a tool any other exception is `RECOVERABLE`; a timeout or a broken connection is `TRANSIENT`.
    """

    def __init__(self, message: str, *, category: Category | str = Category.RECOVERABLE) -> None:
        self.category = Category(category)
        super().__init__(message)


class RunError(ChartloopError):
    """The call is wrong: the machine or the run cannot do what was asked of it."""


class StatusError(RunError):
    """The run is not in a status that allows this, or is not at a state that does."""

    code = "CL601"


class ClosedChartError(RunError):
    """A machine that is built was to be changed: what is drawn would no longer be what runs."""

    code = "CL621"


class AnswerError(RunError):
    """The wait does not take this event, or not with this data."""

    code = "CL602"


class WaitError(AnswerError):
    """The answer is for a wait that is over, for another one, or the run waits for nothing.

    `wait` is the id that the answer named, empty if it named none; `question` what the run asks
    now, a `Question` or None.
    """

    code = "CL615"

    def __init__(
        self, message: str, *, hint: str = "", wait: str = "", question: Any = None
    ) -> None:
        self.wait = wait
        self.question = question
        super().__init__(message, hint=hint)


class AnsweredError(WaitError):
    """Someone has answered this wait already, `at` that time, in seconds since the epoch."""

    code = "CL616"

    def __init__(
        self, message: str, *, hint: str = "", wait: str = "", question: Any = None,
        at: float = 0.0,
    ) -> None:  # fmt: skip
        self.at = at
        super().__init__(message, hint=hint, wait=wait, question=question)


class AheadError(AnswerError):
    """No answer can be given ahead for this `state`: it does not wait, asks now, or has one."""

    code = "CL617"

    def __init__(self, message: str, *, hint: str = "", state: str = "") -> None:
        self.state = state
        super().__init__(message, hint=hint)


class LimitError(RunError):
    """A limit, variable or definition cannot take this value."""

    code = "CL603"


class TaskError(RunError):
    """The task is invalid. `number` is its place in the list, from 0."""

    code = "CL611"

    def __init__(self, message: str, *, hint: str = "", number: int = 0) -> None:
        self.number = number
        super().__init__(message, hint=hint)


class ArgumentsError(RunError):
    """A call of a tool of `chartloop mcp` does not fit the schema of that tool."""

    code = "CL640"


class UnknownRunError(RunError):
    """No run has this id or prefix, or several have."""

    code = "CL604"


class CursorError(RunError):
    """A cursor is not one that a page of the journal gave."""

    code = "CL618"


class CursorGoneError(CursorError):
    """A cursor of events is of another journal, or beyond the newest event of this one.

    `oldest` is the cursor before the first event that there is, `newest` that of the last one.
    """

    code = "CL619"

    def __init__(self, message: str, *, hint: str = "", oldest: str = "", newest: str = "") -> None:
        self.oldest, self.newest = oldest, newest
        super().__init__(message, hint=hint)


class MachineChangedError(RunError):
    """The machine's file is not the one that this run was started with.

    `verdict` says what the change means for the run, as `Machine.upgrade` gives it; None where
    no one can tell.
    """

    code = "CL605"

    def __init__(self, message: str, *, hint: str = "", verdict: Any = None) -> None:
        self.verdict = verdict
        super().__init__(message, hint=hint)


class RulesChangedError(RunError):
    """The run was decided by rules of another version, which this one does not have.

    `rules` is their number, None where none was recorded, `engine` the version that wrote the run.
    `replay` is what this version makes of its records: `replay.differences` says which of them it
    decides differently.
    """

    code = "CL614"

    def __init__(
        self, message: str, *, hint: str = "", rules: int | None = None, engine: str = "",
        replay: Any = None,
    ) -> None:  # fmt: skip
        self.rules, self.engine, self.replay = rules, engine, replay
        super().__init__(message, hint=hint)


class ScriptError(RunError):
    """A script has too few replies, or replies that were never asked for."""

    code = "CL606"


class SetupError(RunError):
    """Something that the run needs is not there: an extra, an API key, a program, a tool."""

    code = "CL607"


class PluginError(SetupError):
    """A plugin cannot be used: it is not installed, fails, is incomplete, or clashes."""

    code = "CL641"


class MissingPluginError(SetupError):
    """A run was started with plugins that are not given now; `plugins` has their names."""

    code = "CL642"

    def __init__(self, message: str, *, plugins: Sequence[str] = (), hint: str = "") -> None:
        self.plugins = tuple(plugins)
        super().__init__(message, hint=hint)


class ServerUnavailableError(RunError):
    """An MCP server could not be started or reached, or gave no listing that can be read.

    The run rests where it was: drive it on, or resume it, when the server works.
    """

    code = "CL630"


class ToolsChangedError(RunError):
    """An MCP server offers a tool in another form than the lock holds, or no longer.

    Its description steers the model: nothing of it was used. The run rests where it was.
    """

    code = "CL631"

    def __init__(self, server: str, differences: tuple[str, ...]) -> None:
        self.server = server
        self.differences = differences
        """The differences, as lines: ``~ calc.add description: "Add." → "Add, and ..."``."""
        listed = "".join(f"\n  {line}" for line in differences)
        super().__init__(
            f"the tools of MCP server `{server}` are not those of the lock:{listed}",
            hint="look at each line; where it is right, run `chartloop tools lock` again",
        )


class JournalError(RunError):
    """The journal could not be read or written. Nothing in it was changed."""

    code = "CL608"


class Driven(JournalError):
    """Another process drives this run. Nothing was done here.

    `since` and `until` are seconds since the epoch, on the journal's clock: when it took the run,
    and when its lease ends unless it is renewed. `face` is what it drives with (``chartloop run``,
    ``python``), `host` and `pid` are its process.
    """

    code = "CL613"

    def __init__(
        self, message: str, *, hint: str = "", run_id: str = "", host: str = "", pid: int = 0,
        face: str = "", since: float = 0.0, until: float = 0.0,
    ) -> None:  # fmt: skip
        self.run_id, self.host, self.pid, self.face = run_id, host, pid, face
        self.since, self.until = since, until
        super().__init__(message, hint=hint)


class Fenced(JournalError):
    """Another process has taken over this run; this one must stop driving it."""

    code = "CL609"


class JournalLocked(JournalError):
    """Another process holds the journal's file for longer than the wait allows."""


class JournalCorrupt(JournalError):
    """The journal's file is damaged or is not a journal. It was left as it is."""


class JournalTooNew(JournalError):
    """The journal, or an event of a run in it, was written by a newer version of chartloop."""

    code = "CL622"


def refuse_unknown(what: str, word: object, known: Iterable[str]) -> None:
    """`RunError` for a word of an argument that is not one of those that it takes."""
    words = tuple(known)
    if word not in words:
        raise RunError(f"there is no {what} `{word}`", hint=nearest(str(word), words))
