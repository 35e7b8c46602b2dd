"""Errors and findings: the class tree, and how each is rendered.

    ChartloopError
    ├── SpecError            fix the file: carries every finding at once
    ├── ModelError           a model call failed; its category decides what the machine does
    └── RunError             fix the call
        ├── StatusError      the run is not in a status that allows this
        ├── ClosedChartError code tried to change a machine that is built
        ├── AnswerError      a wait does not take this event, or its data
        ├── LimitError       a limit or variable cannot take this value
        ├── TaskError        a value is not a valid task
        ├── ArgumentsError   a tool of `chartloop mcp` does not take these arguments
        ├── UnknownRunError  no run has that id, prefix or agent
        ├── CursorError      a cursor that did not come from a page
        │   └── CursorGoneError  a cursor of events that this journal does not have
        ├── MachineChangedError  the file is not the one the run was started with
        ├── RulesChangedError  the run was decided by rules that this version does not have
        ├── ScriptError      a script has too few or too many replies
        ├── SetupError       something the run needs is missing: an extra, a key, a tool
        │   ├── PluginError  a plugin is not installed, cannot be imported, or clashes
        │   └── MissingPluginError  a run was started with a plugin that is missing now
        ├── ServerUnavailableError  an MCP server cannot be started or reached
        ├── ToolsChangedError  the tools of an MCP server differ from the lock
        └── JournalError
            ├── Driven       another process drives this run
            ├── Fenced       another process took this run over
            ├── JournalLocked
            ├── JournalCorrupt
            ├── JournalTooNew
            ├── JournalTooOld
            └── JournalUnavailable

Belongs here: error classes, findings and places. Never: printing, logging.
Every message says what is wrong; `hint` says what to do about it.
"""

from __future__ import annotations

import enum
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self, get_args

from chartloop.core.reports import Part, Shown, Table
from chartloop.core.text_table import Cell, Line, Row, text_of
from chartloop.core.units import say_count
from chartloop.core.visible import cut

if TYPE_CHECKING:
    from chartloop.core.outcome import Spent


class Severity(enum.StrEnum):
    """The severity of a finding. A file with an error does not load; a warning is only shown."""

    ERROR = "error"
    WARNING = "warning"


class Category(enum.StrEnum):
    """The category of a failure: what may help. Source: 003 "Error Categories"."""

    TRANSIENT = "TRANSIENT"
    """The same call may work later: rate limit, timeout, broken connection."""
    RECOVERABLE = "RECOVERABLE"
    """Something must change first: another prompt, a smaller context, a person's help."""
    CRITICAL = "CRITICAL"
    """The run cannot recover: a wrong key, an exhausted quota, a bug."""


RetryOn = Literal["TRANSIENT", "RECOVERABLE", "CRITICAL", "EMPTY"]
"""What `retry` may name: a category, or `EMPTY`, an empty reply of the model. A reply without text
and tool calls is a failure (`TRANSIENT`, kind ``empty``) only where `retry` names it."""
RETRY_ON: tuple[str, ...] = get_args(RetryOn)
EMPTY_KINDS = frozenset({"empty", "empty_stream"})
"""The kinds of failure that `EMPTY` stands for: the second is a stream without any content."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file. Lines and columns count from 1, in characters."""

    file: str = ""
    line: int = 0
    """0 if unknown."""
    column: int = 0
    width: int = 1
    """The number of characters to mark with carets."""
    text: str = ""
    """The whole source line, without its line break."""

    def __str__(self) -> str:
        if not self.line:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def inside(self, offset: int, width: int) -> Place:
        """The part of this place that starts `offset` characters in, on the same line."""
        return Place(self.file, self.line, self.column + offset, max(1, width), self.text)


NOWHERE = Place()


@dataclass(frozen=True, slots=True)
class Finding(Shown):
    """A problem of a machine, with its place and its cure.

    `code` is stable (`CL103`) and has a section in ``docs/reference/errors.md``.
    """

    code: str
    severity: Severity
    message: str
    place: Place = NOWHERE
    hint: str = ""
    """The cure, if there is one: ``did you mean `usage.total_tokens`?``"""
    at: str = ""
    """The path within the machine: ``states.monitor.next.0``; `ignore` uses it."""
    related: tuple[str, Place] | None = field(default=None)
    """A second place with its note, such as the first of two duplicates."""

    @property
    def is_error(self) -> bool:
        """Whether a file with this finding must not run."""
        return self.severity is Severity.ERROR

    def render(self) -> str:
        """The finding with its source line and a caret under the fault, as compilers print it."""
        return text_of(self.lines())

    def lines(self, width: int | None = None) -> list[Line]:
        """The lines of `render`, the first in the colour of its severity.

        A source line wider than `width` is cut to the part around the caret.
        """
        lines = [f"{self.severity}[{self.code}]: {self.message}"]
        if self.place.line:
            gutter = len(str(max(self.place.line, self.related[1].line if self.related else 0)))
            lines.append(f"{' ' * gutter}--> {self.place}")
            if self.related and self.related[1].line and self.related[1].line != self.place.line:
                lines += _excerpt(self.related[1], gutter, "-", self.related[0], width)
            lines += _excerpt(self.place, gutter, "^", "", width)
        else:
            gutter = 0
            if self.place.file:
                lines.append(f" --> {self.place.file}")
        if self.hint:
            lines.append(f"{' ' * gutter} = help: {self.hint}")
        first, *rest = "\n".join(lines).split("\n")
        head = Line(first, "red bold" if self.is_error else "yellow bold")
        return [head, *map(Line, rest)]

    def to_dict(self) -> dict[str, Any]:
        """The finding as plain data: its public JSON format."""
        return {
            "code": self.code,
            "severity": str(self.severity),
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "message": self.message,
            "hint": self.hint or None,
        }

    def parts(self) -> Iterator[Part]:
        """A table of one row."""
        return Findings((self,)).parts()

    plain_text = render


class Note(NamedTuple):
    """A fact about a machine that is not a problem, but good to know before a run."""

    kind: Literal["failures", "deadlines", "waits", "parameters"]
    """Where failed actions lead; deadlines that the file does not give; waits without a deadline;
    variables that only a caller changes."""
    text: str
    names: tuple[str, ...] = ()
    """The states or variables that the note is about."""

    def to_dict(self) -> dict[str, Any]:
        """The note as plain data: its public JSON format."""
        return {"kind": self.kind, "text": self.text, "names": list(self.names)}


class Findings(Shown, tuple[Finding, ...]):  # noqa: SLOT001  a tuple subclass cannot have filled slots
    """The findings of a check, sorted by place: a tuple that a notebook shows as a table.

    Equality ignores the notes.
    """

    notes: tuple[Note, ...]
    """Facts about the machine besides the findings; empty for a file that does not load."""

    def __new__(cls, findings: Iterable[Finding] = (), notes: Iterable[Note] = ()) -> Self:
        """Make a tuple of findings with notes."""
        self = super().__new__(cls, findings)
        self.notes = tuple(notes)
        return self

    def __str__(self) -> str:
        return "\n\n".join(finding.render() for finding in self) or "no findings"

    def parts(self) -> Iterator[Part]:
        """A table with a row for each finding."""
        rows = [
            Row((
                Cell(f.code, "red" if f.is_error else "yellow"), Cell(str(f.place), "code"),
                f"{f.message}\n{f.hint}".strip(), Cell(f.place.text.strip(), "code"),
            ))
            for f in self
        ]  # fmt: skip
        yield Table(rows, ("code", "at", "what is wrong", "line"))
        if not rows:
            yield Line("no findings", "green")

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))


def finding_lines(
    findings: Iterable[Finding], *, file: str = "", width: int | None = None
) -> list[Line]:
    """The findings as compilers print them, then a line with their number; empty without any."""
    findings = tuple(findings)
    if not findings:
        return []
    file = file or next((f.place.file for f in findings if f.place.file), "")
    body = (line for finding in findings for line in (*finding.lines(width), Line("")))
    return [*body, Line(count_findings(findings) + (f" in {file}" if file else ""))]


def count_findings(findings: Iterable[Finding]) -> str:
    """Count the findings in words: ``2 errors, 1 warning``."""
    kinds = Counter("error" if finding.is_error else "warning" for finding in findings)
    counts = [say_count(kinds[word], word) for word in ("error", "warning") if kinds[word]]
    return ", ".join(counts) or "nothing found"


_WIDEST = 160
"""The longest source line that is shown whole; longer ones are cut around the caret."""


def _excerpt(place: Place, gutter: int, mark: str, note: str, width: int | None) -> list[str]:
    text = place.text.replace("\t", " ")
    start = place.column - 1
    if len(text) > _WIDEST:
        before = max(0, start - 40)
        text = ("…" if before else "") + text[before : before + _WIDEST - 1] + "…"
        start = start - before + (1 if before else 0)
    marks = mark * max(1, min(place.width, max(1, len(text) - start)))
    carets = f"{' ' * gutter} | {' ' * start}{marks}{' ' + note if note else ''}"
    source, bar = f"{place.line:>{gutter}} | {text}", gutter + 3
    if width is None or max(len(source), len(carets)) <= width:
        return [source, carets]
    skip = max(0, min(start - 2, len(carets) - width + 8))
    room, part = width - bar, f"…{text[skip + 1 :]}" if skip else text
    return [source[:bar] + cut(part, room), carets[:bar] + carets[bar + skip :][:room]]


def nearest(name: str, known: Iterable[str], *, otherwise: str = "") -> str:
    """A hint with the closest known word, else `otherwise`, else a list of the known words."""
    names = sorted(set(known))
    if close := get_close_matches(name, names, n=1):
        return f"did you mean `{close[0]}`?"
    if otherwise:
        return otherwise
    if not names:
        return ""
    listed = ", ".join(f"`{n}`" for n in names[:8])
    return f"known: {listed}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")


_PACKAGE = __file__.rpartition("core")[0]


class ChartloopError(Exception):
    """The base class of chartloop's errors. `hint` is the cure, if there is one."""

    code: ClassVar[str] = ""
    """The code of its row in `core.codes`; empty if it has none."""
    passes: ClassVar[bool] = False
    """Whether the same may succeed later: the cause lies outside of the file, the call and the run,
    or another process has the run now."""

    def __init__(self, message: str, *, hint: str = "", **values: Any) -> None:
        """`values` are those of the attributes that the class declares."""
        self.message = message
        self.hint = hint
        for name, value in values.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no attribute `{name}`")
            setattr(self, name, value)
        super().__init__(message + (f"\n  help: {hint}" if hint else ""))

    def _render_traceback_(self) -> list[str]:
        """The IPython view: the error and the caller's line, without our own frames."""
        frames = traceback.extract_tb(self.__traceback__)
        own = [
            f"  {one.filename}, line {one.lineno}"
            for one in frames
            if not (one.filename.startswith(_PACKAGE) or "IPython" in one.filename)
        ]
        return [f"{type(self).__name__}: {self}", *own[-1:]]


class SpecError(ChartloopError):
    """The file is wrong. `findings` holds all problems, sorted by place."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n\n".join(f.render() for f in self.findings))

    def __reduce__(self) -> tuple[type[SpecError], tuple[tuple[Finding, ...]]]:
        return (SpecError, (self.findings,))


class ModelError(ChartloopError):
    """A model call failed.

    `category` decides how the machine reacts; `kind` is the kind of failure, if it is a known one
    (``rate_limit``, ``context_overflow`` ...); `retry_after` is the wait in seconds that the
    provider asks for, or None; `partial` is the text that had arrived; `spent` is what a call used
    that was answered all the same, with a refusal.
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
        spent: Spent | None = None,
    ) -> None:
        self.category = category
        self.kind = kind
        self.status = status
        self.retry_after = retry_after
        self.partial = partial
        self.spent = spent
        super().__init__(message)


class ToolError(ChartloopError):
    """A failure with its category, raised inside a tool or an action.

    Any other exception of a tool counts as `RECOVERABLE`; a timeout or a broken connection counts
    as `TRANSIENT`.
    """

    def __init__(self, message: str, *, category: Category | str = Category.RECOVERABLE) -> None:
        self.category = Category(category)
        super().__init__(message)


class OutcomeUnknown(ToolError):
    """A tool or an action can't say whether its call was carried out: it is never repeated unasked.

    `TimeoutError` and `ConnectionError` say the same. Any other exception says that it failed.
    """


class RunError(ChartloopError):
    """The call is wrong: the machine or the run cannot do it."""


class StatusError(RunError):
    """The status or state of the run does not allow this."""

    code = "CL601"


class MovedError(StatusError):
    """The run continues as another one, under a changed file: this one does nothing more.

    `successor` is the id of the run that continues it.
    """

    code = "CL623"

    run_id: str = ""
    successor: str = ""


class FollowedError(StatusError):
    """Another run follows this one already: another attempt, or the next message.

    `successor` is the id of the run that follows it.
    """

    code = "CL624"

    successor: str = ""


class ClosedChartError(RunError):
    """Code tried to change a machine that is built: its picture would no longer be what runs."""

    code = "CL621"


class AnswerError(RunError):
    """The wait does not take this event, or not with this data.

    `place` is that of what is wrong, a JSON pointer into the answer.
    """

    code = "CL602"

    place: str = ""


class WaitError(AnswerError):
    """The answer names a past or different wait, or the run does not wait.

    `wait` is the id that the answer names, or empty; `question` is the run's current `Question`,
    or None.
    """

    code = "CL615"

    wait: str = ""
    question: Any = None


class AnsweredError(WaitError):
    """The wait was answered before, `at` that time in seconds since the epoch."""

    code = "CL616"

    at: float = 0.0


class AheadError(AnswerError):
    """An answer ahead is not possible for this `state`.

    The state does not wait, is waiting now, or has an answer ahead already.
    """

    code = "CL617"

    state: str = ""


class LimitError(RunError):
    """A limit, variable or definition cannot take this value."""

    code = "CL603"


class TaskError(RunError):
    """The task is invalid. `number` is its index in the list, from 0."""

    code = "CL611"

    number: int = 0


class ArgumentsError(RunError):
    """The arguments of a call to `chartloop mcp` do not fit the tool's schema."""

    code = "CL640"


class UnknownRunError(RunError):
    """No run, or more than one, matches the id or prefix."""

    code = "CL604"


class CursorError(RunError):
    """The cursor did not come from a page of the journal."""

    code = "CL618"


class CursorGoneError(CursorError):
    """The cursor of events belongs to another journal, or is beyond this one's newest event.

    `oldest` is the cursor before the first event, `newest` the cursor of the last one.
    """

    code = "CL619"

    oldest: str = ""
    newest: str = ""


class MachineChangedError(RunError):
    """The machine's file is not the one that the run was started with.

    `verdict` is the effect of the change on the run, as from `Machine.upgrade`; None if unknown.
    """

    code = "CL605"

    verdict: Any = None


class RulesChangedError(RunError):
    """The run was recorded by a version with other decision rules.

    `rules` is their number, None if it was not recorded; `engine` is the version that wrote the
    run. `replay` is the run replayed by this version: `replay.differences` lists the records
    that it decides differently.
    """

    code = "CL614"

    rules: int | None = None
    engine: str = ""
    replay: Any = None


class ScriptError(RunError):
    """A script has too few replies, or replies that were never used."""

    code = "CL606"


class SetupError(RunError):
    """Something that the run needs is missing: an extra, an API key, a program, a tool."""

    code = "CL607"


class PluginError(SetupError):
    """A plugin cannot be used: it is not installed, fails, is incomplete, or has a name clash."""

    code = "CL641"


class MissingPluginError(SetupError):
    """A run was started with plugins that are missing now; `plugins` holds their names."""

    code = "CL642"

    plugins: tuple[str, ...] = ()


class ServerUnavailableError(RunError):
    """An MCP server could not be started or reached, or its list of tools is unreadable.

    The run stays where it is: continue or resume it when the server works.
    """

    code = "CL630"


class ToolsChangedError(RunError):
    """A tool of an MCP server differs from the lock, or is no longer offered.

    Descriptions steer the model, so nothing of the tool was used. The run stays where it is.
    """

    code = "CL631"

    def __init__(self, server: str, differences: tuple[str, ...]) -> None:
        self.server = server
        self.differences = differences
        """The differences, one a line: ``~ calc.add description: "Add." → "Add, and ..."``."""
        listed = "".join(f"\n  {line}" for line in differences)
        super().__init__(
            f"the tools of MCP server `{server}` are not those of the lock:{listed}",
            hint="look at each line; where it is right, run `chartloop tools lock` again",
        )


class JournalError(RunError):
    """The journal could not be read or written. Nothing in it was changed."""

    code = "CL608"
    passes = True


class Driven(JournalError):
    """Another process drives this run. Nothing was done here.

    `since` and `until` are seconds since the epoch by the journal's clock: when that process took
    the lease, and when the lease ends unless it is renewed. `face` is the program that drives
    (``chartloop run``, ``python``); `host` and `pid` identify its process.
    """

    code = "CL613"

    run_id: str = ""
    host: str = ""
    pid: int = 0
    face: str = ""
    since: float = 0.0
    until: float = 0.0


class Fenced(JournalError):
    """Another process has taken over this run, and this one must stop driving it."""

    code = "CL609"


class JournalLocked(JournalError):
    """Another process has locked the journal's file for too long."""


class JournalUnavailable(JournalError):
    """The journal cannot be opened, so nothing was started.

    What is there is something else, damaged, locked, too old or a standby; or it is down, or
    refuses this user.
    """


class JournalCorrupt(JournalError):
    """The journal's file is damaged or not a journal. It was not changed."""

    passes = False


class JournalTooNew(JournalError):
    """The journal, or an event of a run in it, was written by a newer version of chartloop."""

    code = "CL622"
    passes = False


class JournalTooOld(JournalError):
    """The journal's file was written before the first release. It was not changed."""

    passes = False


def refuse_unknown(what: str, word: object, known: Iterable[str]) -> None:
    """Raise `RunError` if an argument is not one of its known words."""
    words = tuple(known)
    if word not in words:
        raise RunError(f"there is no {what} `{word}`", hint=nearest(str(word), words))
