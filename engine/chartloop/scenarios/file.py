"""The format of scenario files: text to a `Scenario`, or every error in it at once.

    machine: ../adder.yaml            # beside this file, or the name of a shipped machine
    task: Add 2 and 3.
    replies: [...]                    # one for each model call, in order
    events: [...]                     # from outside, each with the step that it follows
    tools: {add: [5, {error: no}]}    # the results of tools, call by call, instead of their code
    limits: {steps: 10}
    tasks: [mend it, {text: test it}] # in place of the machine's
    vars: {approach: sums}
    fleet: {usd_left: [5, 0.4]}       # what limits across runs leave, record by record
    memory: {persona: Terse.}         # also `agent`, `session`, `messages`, `settings` of the model
    clock: simulated
    requests: [...]                   # the model requests for which the replies were recorded
    expect: {reason, kind, path, facts, output}

Belongs here: keys, kinds of values, places. Never: a machine, a run. `scenario_check` checks facts,
states and limits against the machine.

Source:       docs/language.md, section 8
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from chartloop.adapters.model.scripted import parse_replies
from chartloop.core.codes import finding
from chartloop.core.errors import Finding, Place, SpecError
from chartloop.core.facts import EMPTY
from chartloop.core.units import read_duration
from chartloop.language.file.keys import LOST, Flag, IsNumber, Json, Part, Text
from chartloop.language.file.shape import read_part
from chartloop.language.yaml.reading import Document, read
from chartloop.language.yaml.reading import Path as At
from chartloop.scenarios.model_requests import Request
from chartloop.scenarios.model_requests import read as requests_in

EventKind = Literal["send", "cancel", "pause", "resume", "enqueue", "set"]
EVENT_KINDS: tuple[EventKind, ...] = ("send", "cancel", "pause", "resume", "enqueue", "set")


Count = Annotated[int, IsNumber(least=0, whole=True)]


class EventShape(Part):
    """An event from outside, with exactly one key of `EVENT_KINDS`."""

    after: Count
    at: Text | None = None
    delay: Json = None
    send: Text | None = None
    data: dict[str, Json] | None = None
    cancel: Text | None = None
    pause: Flag | None = None
    resume: Flag | None = None
    enqueue: list[Json] | None = None
    set: dict[str, Json] | None = None


class RequestShape(Part):
    """A recorded model request: see `scenarios.model_requests`."""

    keeps: Count | None = None
    messages: list[dict[str, Json]] | None = None
    tools: list[Text] | None = None


class ExpectShape(Part):
    """The expected end of the run. Keys that are left out are not checked."""

    reason: Text | None = None
    kind: Literal["natural", "human", "limit", "error", "waiting"] | None = None
    path: list[Text] | None = None
    facts: dict[str, Json] | None = None
    output: Json = None


class ScenarioShape(Part, noun="a scenario"):
    """A scenario file."""

    machine: Text
    task: Text = ""
    replies: list[Json] | None = None
    events: list[EventShape] | None = None
    tools: dict[str, list[Json]] | None = None
    tasks: list[Json] | None = None
    clock: Literal["simulated"] = "simulated"
    limits: dict[str, Json] | None = None
    vars: dict[str, Json] | None = None
    fleet: dict[str, Json] | None = None
    memory: dict[str, Text] | None = None
    messages: list[Json] | None = None
    agent: Text | None = None
    session: Text | None = None
    submitter: Text | None = None
    settings: dict[str, Json] | None = None
    requests: list[RequestShape] | None = None
    expect: ExpectShape


STARTS = ("memory", "messages", "agent", "session", "submitter", "settings")
"""Further arguments of `Machine.start` that a scenario may give."""


class OutsideEvent(NamedTuple):
    """An answer, a cancel, a pause, a resume, new tasks or an edit, and when it comes."""

    number: int
    """Its index in the list."""
    after: int
    """The number of finished steps that it follows: 0 is before the first action."""
    kind: EventKind
    word: str = ""
    """The event of an answer, or the reason of a cancel."""
    data: Mapping[str, Any] = EMPTY
    tasks: tuple[Any, ...] = ()
    """The tasks that are added to the queue."""
    at: str = ""
    """The state that the run must be in; empty: any state."""
    delay: float = 0.0
    """Seconds on the simulated clock before it comes."""

    def __str__(self) -> str:
        return f"{self.kind} {self.word}".strip()


@dataclass(frozen=True)
class Scenario:
    """A scenario as its file gives it. It is checked against its machine when it runs."""

    name: str
    machine: str
    """The path or name of the machine, as the file writes it."""
    document: Document = field(repr=False, compare=False)
    folder: Path | None = None
    """The folder that relative paths start from."""
    task: str = ""
    replies: tuple[Any, ...] = ()
    events: tuple[OutsideEvent, ...] = ()
    tools: Mapping[str, tuple[Any, ...]] = field(default_factory=dict[str, tuple[Any, ...]])
    tasks: tuple[Any, ...] | None = None
    """The tasks in place of the machine's; None keeps those."""
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])
    vars: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fleet: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The facts of `fleet`: a value, or a list of one for each record, of which the last stays."""
    start: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keys of `STARTS` that the file has, as `Machine.start` takes them."""
    requests: tuple[Request, ...] = ()
    """The recorded model requests; empty: requests are not compared."""
    expect: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The keys that the file has: a missing `reason` is not checked, `reason: null` is."""

    @property
    def own_reason(self) -> str:
        """A reason that only the caller knows: the run is cancelled for it and expected to be."""
        wanted = self.expect.get("reason")
        cancels = (e.word for e in self.events if e.kind == "cancel")
        return next((word for word in cancels if word == wanted), "")

    def place(self, *path: str | int) -> Place:
        """The place of a part of the file; without a line if it was given in Python."""
        return self.document.at(path)

    def at(self, *path: str | int) -> str:
        """The place in brackets, to follow a text; or empty."""
        place = str(self.place(*path))
        return f"  ({place})" if place else ""


def read_scenario(text: str, *, file: str, name: str, folder: Path | None) -> Scenario:
    """Read a scenario from text. Raises `SpecError` with every finding."""
    return scenario_of(read(text, file), name=name, folder=folder)


def scenario_of(document: Document, *, name: str, folder: Path | None) -> Scenario:
    """Read a scenario from a document. Raises `SpecError` with every finding."""
    cure = "it starts with `machine: NAME` and ends with `expect:`"
    shape, findings = read_part(document, ScenarioShape, cure=cure)
    findings += _of_replies(document)
    for number, event in enumerate(shape.events or ()):
        findings += faults_of_event(document, number, event)
    if "expect" in shape and not vars(shape.expect):
        hint = "one of `reason`, `kind`, `path`, `facts`, `output`"
        at = document.key(("expect",))
        findings.append(finding("CL202", "`expect` expects nothing", at, hint=hint))
    if findings:
        raise SpecError(sorted(findings, key=lambda f: (f.place.line, f.place.column, f.code)))
    expected = vars(shape.expect)
    return Scenario(
        name, shape.machine, document, folder, shape.task,
        tuple(shape.replies or ()), tuple(event_of(n, e) for n, e in enumerate(shape.events or ())),
        {n: tuple(r) for n, r in (shape.tools or {}).items()},
        None if shape.tasks is None else tuple(shape.tasks), shape.limits or {}, shape.vars or {},
        shape.fleet or {},
        {n: value for n in STARTS if (value := getattr(shape, n)) is not None},
        requests_in([r.plain(written=True) for r in shape.requests or ()]),
        {n: expected[n] for n in ExpectShape.table() if n in expected},
    )  # fmt: skip


_REPLY = re.compile(r"(replies(?:\.\w+)*): (.*)", re.DOTALL)


def _of_replies(document: Document) -> Iterator[Finding]:
    """The faults of the replies, with their places."""
    data: object = document.data
    replies = cast(dict[str, Any], data).get("replies") if isinstance(data, dict) else None
    for problem in parse_replies(replies)[1] if isinstance(replies, list) else ():
        match = _REPLY.match(problem)
        assert match is not None, problem  # every problem of a script starts with its place
        path: At = tuple(int(p) if p.isdecimal() else p for p in match[1].split("."))
        yield finding("CL606", match[2], document.at(path), at=match[1])


def faults_of_event(document: Document, number: int, event: EventShape) -> Iterator[Finding]:
    """The faults of an event whose fields were read: keys that do not go together."""
    if event is LOST:
        return
    path: At = ("events", number)
    kinds = kinds_of(event)
    if len(kinds) != 1:
        message = f"an event has one of {', '.join(f'`{k}`' for k in EVENT_KINDS)}"
        hint = "`{after: 4, send: fix, data: {...}}`, `{after: 2, cancel: user_requested}`"
        yield finding("CL207", message, document.at(path), hint=hint, at=f"events.{number}")
    elif getattr(event, kinds[0]) is False:
        at = f"events.{number}.{kinds[0]}"
        yield finding("CL208", f"`{at}` is `true`", document.at((*path, kinds[0])), at=at)
    elif event.data is not None and event.send is None:
        message = f"`data` goes with `send`, not with `{kinds[0]}`"
        yield finding("CL207", message, document.key((*path, "data")), at=f"events.{number}.data")
    if event.delay is not None and read_duration(event.delay) is None:
        message, at = "`delay` is a duration, such as `30s`", (*path, "delay")
        yield finding("CL203", message, document.at(at), at=f"events.{number}.delay")


def kinds_of(event: EventShape) -> list[EventKind]:
    """The kinds of an event; a valid one has exactly one."""
    return [k for k in EVENT_KINDS if getattr(event, k) is not None]


def event_of(number: int, event: EventShape) -> OutsideEvent:
    """Convert a valid event of a file."""
    word, tasks = event.send or event.cancel or "", tuple(event.enqueue or ())
    data = event.data or event.set or EMPTY
    kind, delay = kinds_of(event)[0], read_duration(event.delay) or 0.0
    return OutsideEvent(number, event.after, kind, word, data, tasks, event.at or "", delay)
