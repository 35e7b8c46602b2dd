"""The context of an action: the facts it may read and the ports it may use.

An action changes nothing here: it returns its effects in an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from chartloop.core.facts import Facts, Task, ToolCall
from chartloop.core.outcome import Message, Outcome
from chartloop.core.position import Position
from chartloop.core.specs import ToolSpec
from chartloop.core.transcript import Conversation
from chartloop.language.spec import MachineSpec, StateSpec
from chartloop.machine.build import Chart
from chartloop.run.events import Event
from chartloop.run.journal import RunRow
from chartloop.run.ports import (
    Clock,
    Model,
    Notifier,
    Pieces,
    Sandbox,
    Tokenizer,
    ToolClient,
    ToolServers,
)
from chartloop.run.tally import Tally
from chartloop.run.tracing import Tracer

NoteType = Literal["intent", "result", "in_doubt"]
Questions = Literal["rest", "stay", "decline"]
"""The reaction to a question of an MCP server, whose call ends with the process. `rest`: the run
rests as at a wait, since its driver answers. `stay`: the driver waits for the answer or the
deadline, since the answer comes from elsewhere. `decline`: no one can answer."""


@dataclass(slots=True)
class Ports:
    """The components that a run uses; None for one that its machine does not need."""

    clock: Clock
    model: Model | None = None
    sandbox: Sandbox | None = None
    notifier: Notifier | None = None
    tokenizer: Tokenizer | None = None
    tracer: Tracer | None = None
    servers: ToolServers | None = None
    questions: Questions = "rest"
    """See `Questions`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The caller's model settings, which override the file's `model`."""
    folder: Path | None = None
    """The machine file's folder, to which paths are relative."""
    first_tasks: Callable[[MachineSpec], Sequence[Task]] = lambda _: ()
    """Returns the tasks with which a run of a machine starts, from its task file if it has one."""

    def with_model(self, model: Model | None) -> Ports:
        """A copy with another model."""
        return replace(self, model=model)

    def window(self, machine: MachineSpec) -> int | None:
        """The context window of a machine's model in tokens; None if unknown."""
        settings: Mapping[str, Any] = {**machine.model, **self.settings}
        return self.model.context_window(settings) if self.model is not None else None


PARENT, CALLER, LATE = "parent", "caller", "time_limit"
"""The source of a signal that a parent raises in its child, and the reason when its time is up."""


class StopRequest(NamedTuple):
    """A request that a run stop: its reason, message and source."""

    reason: str
    message: str
    source: str


TOO_LATE = StopRequest(LATE, "the action of its parent had to be done by now", PARENT)
"""The stop request to a child at its parent's deadline."""


class Host(Protocol):
    """The part of a run that its actions may use. A `Session` is one."""

    deadline: float | None
    """When a child must be done, on the run's clock; None for a run that is not a child."""
    listener: Callable[[Event], None] | None
    """Receives events as they happen; None without a listener."""

    async def note(
        self, type: NoteType, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Record a note about a paid call; the `last` one is written with the record after it."""
        ...

    def settle(self) -> Awaitable[None]:
        """Write everything that is held to the journal."""
        ...

    def tell(self, state: str, text: str) -> None:
        """Pass a piece of text to the listener, if there is one."""
        ...

    def tell_reasoning(self, state: str, text: str) -> None:
        """Pass a piece of the model's reasoning to the listener."""
        ...

    def tell_call(self, state: str, number: int, call: ToolCall) -> None:
        """Pass a piece of a tool call to the listener."""
        ...

    @property
    def tally(self) -> Tally:
        """The run's totals so far: path, signals, errors, moments."""
        ...

    @property
    def chart(self) -> Chart:
        """The compiled machine."""
        ...

    async def find_any_stop_request(self) -> StopRequest | None:
        """The request that the run stop, from any source; None if there is none."""
        ...

    async def find_children(self) -> list[RunRow]:
        """The children that the current action has started, ended ones too."""
        ...

    def child(self, machine: str, run_id: str) -> Any:
        """A run of a child machine, not yet started: a `Session` for `run.children`."""
        ...

    def ask_to_save(self) -> None:
        """Have a snapshot follow the next record."""
        ...


@dataclass(slots=True)
class Context:
    """One call of an action."""

    machine: MachineSpec
    state: StateSpec
    position: Position
    facts: Facts
    ports: Ports
    host: Host
    now: float
    """The clock when the action started, in seconds since the epoch."""
    key: str
    """Idempotency key: the same when the action is called again after a crash or a pause."""
    deadline: float | None
    """When it must be done, on the run's clock; None without a limit."""
    recorded: Mapping[str, Any]
    """Results that an earlier, interrupted attempt recorded, by the key of the call."""
    failed_calls: int = 0
    """Model calls of this run that were recorded as failed."""
    so_far: Callable[[], Outcome] | None = None
    """Set by an action of several parts: returns its outcome so far, if its deadline ends it."""
    client: ToolClient | None = None
    """Set for a tool of an MCP server: answers the server's requests to the run."""
    left: bool = False
    """The deadline ended the action and the run continued: whatever it still does is lost."""

    @property
    def run_id(self) -> str:
        """The run's id."""
        return self.facts.run.id

    @property
    def step(self) -> int:
        """The number of the step that this action will be, from 1."""
        return self.facts.run.steps + 1

    @property
    def messages(self) -> Conversation:
        """The conversation so far."""
        return self.position.messages

    @property
    def prompt(self) -> tuple[Message, ...] | None:
        """The messages that the next model call sends instead of the conversation, if any."""
        return self.position.prompt

    @property
    def queue(self) -> tuple[Task, ...]:
        """The queued tasks."""
        return self.position.queue

    @property
    def kept(self) -> Mapping[str, Any]:
        """Data that actions stored for later, by name: see `Outcome.kept`."""
        return self.position.kept

    @property
    def blocked_until(self) -> float | None:
        """Set when the action is called again after it returned `Blocked`."""
        return self.position.waited

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that this state may use, in file order."""
        return tuple(self.host.chart.tools_at(self.state.name).values())

    @property
    def tool_schemas(self) -> tuple[Mapping[str, Any], ...]:
        """The same tools in the form of chat APIs. Shared between calls: do not modify."""
        return self.host.chart.offered_at(self.state.name)

    @property
    def streaming(self) -> bool:
        """Whether a listener receives the model's text as it arrives."""
        return self.host.listener is not None

    def tell(self, text: str) -> None:
        """Stream a piece of text to the listener, without storing it."""
        if not self.left:
            self.host.tell(self.state.name, text)

    @property
    def pieces(self) -> Pieces:
        """The callbacks by which a model streams its reply."""
        return Pieces(self.tell, self._tell_reasoning, self._tell_call)

    def _tell_reasoning(self, text: str) -> None:
        if not self.left:
            self.host.tell_reasoning(self.state.name, text)

    def _tell_call(self, number: int, id: str, name: str, arguments: str) -> None:
        if not self.left:
            self.host.tell_call(self.state.name, number, ToolCall(id, name, arguments))

    def save(self) -> None:
        """Have a snapshot follow the record of this action."""
        if not self.left:
            self.host.ask_to_save()

    async def intent(self, key: str, data: Mapping[str, Any]) -> None:
        """Record that a paid call is about to be made. In the journal when this returns."""
        self._refuse_late()
        await self.host.note("intent", key, data)

    async def result(self, key: str, data: Mapping[str, Any], *, last: bool = False) -> None:
        """Record the result of a paid call before the action as a whole is done.

        `last`: no other call is under way or follows, so that the record is written with it.
        """
        self._refuse_late()
        await self.host.note("result", key, data, last=last)

    async def settle(self) -> None:
        """Write everything that is held to the journal, before an effect that is not paid."""
        await self.host.settle()

    def _refuse_late(self) -> None:
        if self.left:
            raise TimeoutError("this action was ended at its deadline: its run has continued")
