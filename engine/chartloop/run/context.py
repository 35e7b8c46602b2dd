"""The context of an action: the facts it may read and the ports it may use.

An action changes nothing here. What it did is in the `Outcome` that it returns.
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
"""The reaction to a question of an MCP server, whose call ends with the process. `rest`: as at a
wait, since the driver answers. `stay`: the driver waits for the answer or the deadline, since the
answer comes from elsewhere. `decline`: no one can answer."""


@dataclass(slots=True)
class Ports:
    """The real components that a run uses. None: nothing of the machine needs it."""

    clock: Clock
    model: Model | None = None
    sandbox: Sandbox | None = None
    notifier: Notifier | None = None
    tokenizer: Tokenizer | None = None
    tracer: Tracer | None = None
    servers: ToolServers | None = None
    questions: Questions = "rest"
    """The reaction to a question of an MCP server: see `Questions`."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The caller's settings of the model, over the file's `model`."""
    folder: Path | None = None
    """The machine file's folder: relative paths are taken from it."""
    first_tasks: Callable[[MachineSpec], Sequence[Task]] = lambda _: ()
    """The tasks that a run of a machine starts with, from its file where it names one."""

    def with_model(self, model: Model | None) -> Ports:
        """The same with another model."""
        return replace(self, model=model)

    def window(self, machine: MachineSpec) -> int | None:
        """The context window of a machine's model, in tokens, when it is known."""
        settings: Mapping[str, Any] = {**machine.model, **self.settings}
        return self.model.context_window(settings) if self.model is not None else None


PARENT, LATE = "parent", "time_limit"
"""The source of a signal that a parent raises in its child, and what it stops it for in time."""


class StopRequest(NamedTuple):
    """A request that a run stop: the reason, what was said with it, and by whom."""

    reason: str
    message: str
    source: str


TOO_LATE = StopRequest(LATE, "the action of its parent had to be done by now", PARENT)
"""The stop request to a child when its parent's deadline has come."""


class Host(Protocol):
    """What an action may ask of the run that does it. A `Session` is one."""

    deadline: float | None
    """When a child has to be done, on the run's clock; None for a run that is not a child."""
    listener: Callable[[Event], None] | None
    """Who hears events as they happen, when someone does."""

    async def note(
        self, type: NoteType, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Write down something about a paid call; the `last` one with the record that follows."""
        ...

    def settle(self) -> Awaitable[None]:
        """See that all of the run is in the journal."""
        ...

    def tell(self, state: str, text: str) -> None:
        """Give a piece of text to whoever listens."""
        ...

    def tell_reasoning(self, state: str, text: str) -> None:
        """The same for a piece of the model's reasoning."""
        ...

    def tell_call(self, state: str, number: int, call: ToolCall) -> None:
        """The same for a piece of a tool call."""
        ...

    @property
    def tally(self) -> Tally:
        """What the run leaves behind so far: path, signals, errors, moments."""
        ...

    @property
    def chart(self) -> Chart:
        """The machine that runs."""
        ...

    async def find_any_stop_request(self) -> StopRequest | None:
        """Who wants that the run stop, in whichever way."""
        ...

    async def find_children(self) -> list[RunRow]:
        """The children that the current action has started, ended ones too."""
        ...

    def child(self, machine: str, run_id: str) -> Any:
        """A run of a child machine, not started: a `Session` for `run.children`."""
        ...

    def ask_to_save(self) -> None:
        """Follow the next record with a snapshot."""
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
    """The clock when the action was started, in seconds since the epoch."""
    key: str
    """Idempotency key: the same when the action is called again after a crash or a pause."""
    deadline: float | None
    """When it must be done, on the run's clock."""
    recorded: Mapping[str, Any]
    """Results of calls that an earlier, interrupted attempt had written, by key."""
    failed_calls: int = 0
    """Model calls of this run that were recorded as failed."""
    so_far: Callable[[], Outcome] | None = None
    """Set by an action of several parts: what it has come to when its deadline ends it."""
    client: ToolClient | None = None
    """Set for a tool of an MCP server: what the server may ask of the run."""
    left: bool = False
    """Its deadline has ended the action and the run continued: what it still does is lost."""

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
        """What the next model call sends in place of the conversation."""
        return self.position.prompt

    @property
    def queue(self) -> tuple[Task, ...]:
        """The tasks that wait."""
        return self.position.queue

    @property
    def kept(self) -> Mapping[str, Any]:
        """The data that actions kept for later, by name: see `Outcome.kept`."""
        return self.position.kept

    @property
    def blocked_until(self) -> float | None:
        """Set when the action is called again after it returned `Blocked`."""
        return self.position.waited

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools that this state may use, in the file's order."""
        return self.host.chart.tools_at(self.state.name)

    @property
    def tool_schemas(self) -> tuple[Mapping[str, Any], ...]:
        """The same tools as chat APIs take them. Shared: not to be written into."""
        return self.host.chart.offered_at(self.state.name)

    @property
    def streaming(self) -> bool:
        """Whether someone listens to the model's text as it arrives."""
        return self.host.listener is not None

    def tell(self, text: str) -> None:
        """Stream a piece of text to whoever listens. Nothing of it is stored."""
        if not self.left:
            self.host.tell(self.state.name, text)

    @property
    def pieces(self) -> Pieces:
        """Whom a model tells of its reply as it arrives."""
        return Pieces(self.tell, self._tell_reasoning, self._tell_call)

    def _tell_reasoning(self, text: str) -> None:
        if not self.left:
            self.host.tell_reasoning(self.state.name, text)

    def _tell_call(self, number: int, id: str, name: str, arguments: str) -> None:
        if not self.left:
            self.host.tell_call(self.state.name, number, ToolCall(id, name, arguments))

    def save(self) -> None:
        """Ask that a snapshot follow the record of this action."""
        if not self.left:
            self.host.ask_to_save()

    async def intent(self, key: str, data: Mapping[str, Any]) -> None:
        """Write down that a paid call is about to be made. In the journal when this returns."""
        self._refuse_late()
        await self.host.note("intent", key, data)

    async def result(self, key: str, data: Mapping[str, Any], *, last: bool = False) -> None:
        """Write down what a paid call gave, before the action as a whole is done.

        `last`: no other call is under way or follows, and it is written with the record.
        """
        self._refuse_late()
        await self.host.note("result", key, data, last=last)

    async def settle(self) -> None:
        """See that all of the run is in the journal: something that is not paid comes first."""
        await self.host.settle()

    def _refuse_late(self) -> None:
        if self.left:
            raise TimeoutError("this action was ended at its deadline: its run has continued")
