"""The typed events that a stream yields while a run is driven.

`Started` and the pieces of a reply (`Delta`, `ReasoningDelta`, `ToolCallDelta`) are never stored;
`Recorded` follows each record once it is in the journal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.machine.decision import Decision


class Started(NamedTuple):
    """An action has been started."""

    step: int
    """The number of the step to come, from 1."""
    state: str
    action: str
    at: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "started", **self._asdict()}


class Delta(NamedTuple):
    """A piece of text, as it arrives."""

    step: int
    state: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "delta", **self._asdict()}


class ReasoningDelta(NamedTuple):
    """A piece of the model's reasoning before it replies, as far as its provider shows it."""

    step: int
    state: str
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "reasoning", **self._asdict()}


class ToolCallDelta(NamedTuple):
    """A piece of a tool call that the model is writing. The call may still be refused."""

    step: int
    state: str
    number: int
    """The number of the call within the reply, from 0."""
    id: str
    name: str
    arguments: str
    """The next piece of the JSON text."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "tool_call", **self._asdict()}


class Recorded(NamedTuple):
    """A record is in the journal."""

    record: Record
    decision: Decision
    position: Position

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {
            "event": "recorded", "seq": self.record.seq, **self.record.to_dict(),
            "path": list(self.decision.path), "steps": self.position.facts.run.steps,
        }  # fmt: skip


class Rewound(NamedTuple):
    """`Run.back` took records back: the run continues as a fork, with a new id.

    Only listeners receive it; a stream ends before records can be taken back.
    """

    run: str
    """The new id."""
    position: Position

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "rewound", "run": self.run, "steps": self.position.facts.run.steps}


class FromChild(NamedTuple):
    """An event in the run of a child machine."""

    run: str
    """The child's run id."""
    event: Event

    def to_dict(self) -> dict[str, Any]:
        """Plain data, one line of `--format jsonl`."""
        return {"event": "child", "run": self.run, "of": self.event.to_dict()}


Event = Started | Delta | ReasoningDelta | ToolCallDelta | Recorded | Rewound | FromChild
