"""What an action is given: the facts it may read and the ports it may use.

An action changes nothing here. What it did is in the `Outcome` that it returns.

Imported by: run.loop, actions, and every application that registers actions or tools
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.core.facts import Facts, Task
from interlock.core.outcome import Message
from interlock.core.position import Conversation
from interlock.core.specs import ToolSpec
from interlock.language.spec import MachineSpec, StateSpec
from interlock.run.ports import Clock, Model, Notifier, Sandbox, Tokenizer

Tell = Callable[[str], None]
NoteIntent = Callable[[str, Mapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class Ports:
    """The real components that a run uses. None: nothing of the machine needs it."""

    clock: Clock
    model: Model | None = None
    sandbox: Sandbox | None = None
    notifier: Notifier | None = None
    tokenizer: Tokenizer | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the caller said about the model, over the file's `model`."""
    folder: Path | None = None
    """The machine file's folder: relative paths are taken from it."""


@dataclass(slots=True)
class Context:
    """One call of an action."""

    run_id: str
    machine: MachineSpec
    state: StateSpec
    facts: Facts
    messages: Conversation
    ports: Ports
    step: int
    """The number of the step that this action will be, from 1."""
    now: float
    """The clock when the action was started, in seconds since the epoch."""
    key: str
    """Idempotency key: the same when the action is called again after a crash."""
    deadline: float | None = None
    """When it must be done, on the run's clock."""
    prompt: tuple[Message, ...] | None = None
    queue: tuple[Task, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What actions of this name kept: see `Outcome.kept`."""
    blocked_until: float | None = None
    """Set when the action is called again after it returned `Blocked`."""
    recorded: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Results of calls that an earlier, interrupted attempt had written, by key."""
    tell: Tell = lambda text: None
    """Streams a piece of text to whoever listens. Nothing of it is stored."""
    note_intent: NoteIntent | None = None
    note_result: NoteIntent | None = None
    streaming: bool = False
    """Somebody listens to the model's text as it arrives."""
    failed_calls: int = 0
    """Model calls of this run that were recorded as failed."""
    save: Callable[[], None] = lambda: None
    """Asks that the record of this action be written through, with a snapshot."""

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that this state may use, in the file's order."""
        names = self.machine.tools if self.state.allow is None else self.state.allow
        registered = self.machine.registry.tools
        return tuple(registered[n] for n in names if n in registered)

    async def intent(self, key: str, data: Mapping[str, Any]) -> None:
        """Write down that a paid call is about to be made. On the disk when this returns."""
        if self.note_intent is not None:
            await self.note_intent(key, data)

    async def result(self, key: str, data: Mapping[str, Any]) -> None:
        """Write down what a paid call gave, before the action as a whole is done."""
        if self.note_result is not None:
            await self.note_result(key, data)
