"""Script files: scripted replies, and events from outside by step.

    replies: [{text: Hello.}, {error: {category: TRANSIENT, message: busy}}]
    events: [{after: 4, send: fix, data: {note: use 3}}]

A plain list holds the replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pydantic import ValidationError

from chartloop import catalog
from chartloop.adapters.model.scripted import Scripted
from chartloop.core.codes import finding
from chartloop.core.errors import Finding, ScriptError, SpecError, nearest
from chartloop.language.yaml.reading import Document, read
from chartloop.scenarios.file import EventShape, OutsideEvent, event_of, kinds_of

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.run.ports import Clock

_EVENT = (
    "write {after: STEP} with one of `send: EVENT`, `cancel: REASON`, `pause: true`, "
    "`resume: true`, `enqueue: [TASK]`"
)


@dataclass
class Script:
    """A script file, read."""

    file: str
    replies: list[Any] = field(default_factory=list[Any])
    events: list[OutsideEvent] = field(default_factory=list[OutsideEvent])
    """The events that have not happened yet."""

    def model(self, clock: Clock) -> Scripted:
        """Make the scripted model. Raises `ScriptError` if a reply is invalid."""
        try:
            return Scripted(self.replies, clock=clock)
        except ScriptError as error:
            raise ScriptError(f"{self.file}: {error.message}", hint=error.hint) from None

    def check_used(self, run: Run) -> None:
        """Raise `ScriptError` if a run that ended naturally or in an error left replies unused."""
        left = len(self.replies) - run.facts.usage.llm_calls - run.session.tally.failed_calls
        if run.result.kind in ("natural", "error") and left > 0:
            were = "reply was" if left == 1 else "replies were"
            raise ScriptError(
                f"{self.file}: {left} {were} never asked for",
                hint="remove the rest, or see why the run ended earlier: `chartloop why last`",
            )


def read_script(path: str) -> Script:
    """Read a script file. Raises `SpecError` with all its mistakes and their places."""
    document = read(catalog.read_text(Path(path)), path)
    problems = list(document.findings)
    data: Any = document.data
    made = Script(path)
    if isinstance(data, list):
        made.replies = cast("list[Any]", data)
    elif isinstance(data, dict):
        given = cast("dict[str, Any]", data)
        known = ("replies", "events")
        problems += [
            finding(
                "CL201", f"a script has no `{n}`", document.key((n,)), hint=nearest(n, known), at=n
            )
            for n in given
            if n not in known
        ]
        made.replies = given.get("replies") or []
        made.events = _events(document, given.get("events") or [], problems)
    elif not problems:
        problems.append(finding("CL203", "a script is a mapping with `replies`", document.at(())))
    if problems:
        raise SpecError(problems)
    return made


def _events(document: Document, given: Any, problems: list[Finding]) -> list[OutsideEvent]:
    out: list[OutsideEvent] = []
    items = cast("list[Any]", given) if isinstance(given, list) else [given]
    for number, item in enumerate(items):
        try:
            event = EventShape.model_validate(item)
        except ValidationError:
            event = None
        if event is None or len(kinds_of(event)) != 1:
            place = document.at(("events", number))
            problems.append(finding("CL203", "an event cannot be read", place, hint=_EVENT))
        else:
            out.append(event_of(number, event))
    return out
