"""The context of an action: the facts it may read and the ports it may use.

An action changes nothing here: it returns its effects in an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from chartloop.core.facts import Facts, Task
from chartloop.core.outcome import Blocked, Message, Outcome
from chartloop.core.position import Position
from chartloop.core.specs import ToolSpec
from chartloop.core.transcript import Conversation
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.rules import time_allowed
from chartloop.run.components import Ports
from chartloop.run.events import Delta, ReasoningDelta, ToolCallDelta
from chartloop.run.journal_records import Intent
from chartloop.run.ports import Pieces, ToolClient
from chartloop.run.session import Session


class Context(Struct):
    """One call of an action."""

    machine: MachineSpec
    state: StateSpec
    position: Position
    facts: Facts
    ports: Ports
    host: Session
    """The run."""
    now: float
    """The clock when the action started, in seconds since the epoch."""
    key: str
    """Idempotency key of the action or, for a tool, of its call: the same when it is done again.

    After a crash, a pause, a failure or a decision, and in a fork that keeps the recorded reply."""
    recorded: Mapping[str, Any]
    """Results of paid calls that are recorded, of earlier interrupted attempts too, by key."""
    messages: Conversation
    """The conversation so far."""
    prompt: tuple[Message, ...] | None
    """The messages that the next model call sends instead of the conversation, if any."""
    kept: Mapping[str, Any]
    """Data that actions stored for later, by name: see `Outcome.kept`."""
    tools: tuple[ToolSpec, ...]
    """The tools that this state may use, in file order."""
    tool_schemas: tuple[Mapping[str, Any], ...]
    """The same tools in the form of chat APIs. Shared between calls: do not modify."""
    streaming: bool
    """Whether a listener receives the model's text as it arrives."""
    failed_calls: int = 0
    """Model calls of this run that were recorded as failed."""
    waited: float = 0.0
    """Seconds since the first call of an action that waits and is called again."""
    so_far: Callable[[], Outcome] | None = None
    """Set by an action of several parts: returns its outcome so far, if its deadline ends it."""
    at_end: Callable[[], Awaitable[Blocked | None]] | None = None
    """Set by an action of several calls: if its deadline cuts one, keeps the results of the others
    and returns the wait for whoever decides on it."""
    client: ToolClient | None = None
    """Set for a tool of an MCP server: answers the server's requests to the run."""
    gone: list[bool] = []
    """Not empty: the deadline ended the action and the run continued, so that whatever it still
    does is lost. Shared with the contexts of its tools."""
    due: float | UnsetType | None = UNSET
    """The deadline, once it was read."""

    @property
    def deadline(self) -> float | None:
        """When the action must be done, on the run's clock; None without a limit."""
        if self.due is UNSET:
            above = self.host.deadline
            left = time_allowed(
                self.host.chart, self.state, self.position, waited=self.waited,
                above=None if above is None else max(above - self.now, 0.0),
            )  # fmt: skip
            self.due = None if left is None else self.now + left
        return self.due

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.facts.run.id

    @property
    def step(self) -> int:
        """The number of the step that this action will be, from 1."""
        return self.facts.run.steps + 1

    @property
    def queue(self) -> tuple[Task, ...]:
        """The queued tasks."""
        return self.position.queue

    @property
    def blocked_until(self) -> float | None:
        """Set when the action is called again after it returned `Blocked`."""
        return self.position.waited

    def tell(self, text: str) -> None:
        """Stream a piece of text to the listener, without storing it."""
        if not self.gone:
            self.host.tell(Delta(self.step, self.state.name, text))

    @property
    def pieces(self) -> Pieces:
        """The callbacks by which a model streams its reply."""
        return Pieces(self.tell, self._tell_reasoning, self._tell_call)

    def _tell_reasoning(self, text: str) -> None:
        if not self.gone:
            self.host.tell(ReasoningDelta(self.step, self.state.name, text), "reasoning")

    def _tell_call(self, number: int, id: str, name: str, arguments: str) -> None:
        if not self.gone:
            piece = ToolCallDelta(self.step, self.state.name, number, id, name, arguments)
            self.host.tell(piece, number)

    def save(self) -> None:
        """Have a snapshot follow the record of this action."""
        if not self.gone:
            self.host.ask_to_save()

    async def intent(self, key: str, data: Mapping[str, Any] | Intent) -> None:
        """Record that a paid call is about to be made. In the journal when this returns."""
        if self.gone:
            raise TimeoutError(LEFT)
        await self.host.note("intent", key, data, self.ports.clock.now())

    async def result(self, key: str, data: Mapping[str, Any]) -> None:
        """Record the result of a paid call before the action as a whole is done."""
        if self.gone:
            raise TimeoutError(LEFT)
        await self.host.note("result", key, data, self.ports.clock.now())

    def last_result(self, key: str, data: Mapping[str, Any]) -> None:
        """Have the result of a paid call recorded with the action: no other is made or follows."""
        if self.gone:
            raise TimeoutError(LEFT)
        self.host.hold_result(key, data, self.ports.clock.now())

    async def settle(self) -> None:
        """Write everything that is held to the journal, before an effect that is not paid."""
        await self.host.settle()


LEFT = "this action was ended at its deadline: its run has continued"
