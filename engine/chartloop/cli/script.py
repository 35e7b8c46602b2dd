"""Script files: scripted replies, and events from outside by step.

    replies: [{text: Hello.}, {error: {category: TRANSIENT, message: busy}}]
    events: [{after: 4, send: fix, data: {note: use 3}}]

A plain list holds the replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from chartloop import catalog
from chartloop.adapters.model.scripted import Scripted
from chartloop.core.errors import ScriptError, SpecError
from chartloop.language.file.keys import Json, Part
from chartloop.language.file.shape import read_part
from chartloop.language.yaml.reading import read
from chartloop.scenarios.file import EventShape, OutsideEvent, event_of, faults_of_event

if TYPE_CHECKING:
    from chartloop.api import Run
    from chartloop.run.ports import Clock


class ScriptShape(Part, noun="a script"):
    """The keys of a script file."""

    replies: Json = None
    events: list[EventShape] | None = None


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
    made, data = Script(path), cast("object", document.data)
    if isinstance(data, list):
        made.replies, findings = cast("list[Any]", data), [*document.findings]
    else:
        cure = "write `replies: [...]`, or a list of replies"
        shape, findings = read_part(document, ScriptShape, cure=cure)
        made.replies = shape.replies or []
        for number, event in enumerate(shape.events or ()):
            faults = [*faults_of_event(document, number, event)]
            if event and not faults:
                made.events.append(event_of(number, event))
            findings += faults
    if findings:
        raise SpecError(findings)
    return made
