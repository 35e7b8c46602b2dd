"""Ports: the interfaces between a run and the outside world.

The real components are in `adapters/`, one per file; fakes of the same ports are public in
`chartloop.testing`. A port's methods are coroutines; `suspends` says whether they may yield to the
event loop. A run whose ports and actions never do is driven by hand (`run.sync`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from chartloop.core.errors import ModelError
from chartloop.core.facts import EMPTY, ReportedParts, RunFacts, ToolCall
from chartloop.core.outcome import Message, ToolResult
from chartloop.core.values import Value
from chartloop.language.server_tools import ServerSpec


class Clock(Protocol):
    """Time, in seconds since the epoch. A clock may jump; the time in the facts never goes back."""

    @property
    def suspends(self) -> bool:
        """Whether `sleep` really waits. A simulated clock advances instead."""
        ...

    def now(self) -> float:
        """The current time, in seconds since 1970-01-01 UTC."""
        ...

    def follow(self, now: float, within: float = math.inf) -> float:
        """Take over the time of the run's journal, if it is at most `within` seconds away.

        Returns by how much the clock moved. A simulated clock stays.
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds. Zero or less returns at once."""
        ...

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        """A context in which waiting past the time `at` raises `TimeoutError`."""
        ...


class Cancel(Protocol):
    """A request from outside that the run stop. Polled before each action."""

    def is_requested(self, run: RunFacts) -> bool:
        """Whether this run should stop before its next action. Must be cheap: polled every step."""
        ...


class ModelRequest(Value, frozen=True, gc=False):
    """One model call, complete."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    """Tool schemas as `ToolSpec.for_model` returns them."""
    settings: Mapping[str, Any] = {}
    """The file's `model` mapping with the state's overrides: name, temperature, timeout ..."""
    tool_choice: str | Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    """JSON Schema that the reply's text must satisfy."""
    key: str = ""
    """Idempotency key of this call."""
    number: int = 0
    """The number of model calls recorded in this run before this one, failed ones included."""


class ModelReply(ReportedParts, frozen=True, gc=False):
    """The reply of a model. Usage that the provider did not send is None."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    """USD; None if no price is known."""
    model: str = ""
    reasoning: Mapping[str, Any] = EMPTY
    """Thinking blocks and the like, as the provider sent them: see `core.reasoning`."""
    warnings: tuple[str, ...] = ()
    """Oddities of the call, for operators."""
    refusal: str = ""
    """The words with which the model refused to answer. The call fails; it was paid for."""
    error: ModelError | None = None
    """Why the reply cannot be used. The call fails; it was paid for."""


OnText = Callable[[str], None]
"""Called with each piece of text as it arrives. `Pieces` takes reasoning and tool calls too."""


class Pieces:
    """The `OnText` that a run passes to its model.

    A model that streams reasoning and tool calls passes them to `reasoning` and `call`; any other
    calls it with text alone.
    """

    __slots__ = ("_text", "call", "reasoning")

    def __init__(
        self, text: OnText, reasoning: OnText, call: Callable[[int, str, str, str], None]
    ) -> None:
        self._text = text
        self.reasoning = reasoning
        """Called with each piece of the model's reasoning that a person may read."""
        self.call = call
        """Called with the number of a tool call within the reply, from 0, its id and name so far
        as known, and the next piece of its arguments."""

    def __call__(self, text: str) -> None:
        self._text(text)


class Model(Protocol):
    """A model: replies to a conversation. Failures are raised as `ModelError`.

    It may have `prices(settings)`, which returns USD per prompt token and per completion token, or
    None. It is used if neither the file nor the reply gives a cost.
    """

    @property
    def suspends(self) -> bool:
        """Whether `complete` may yield to the event loop."""
        ...

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` now for what would fail later: no key, no such provider."""
        ...

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The model's context window in tokens; None if unknown."""
        ...

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Return the reply. With `on_text` it is streamed too."""
        ...


class SandboxResult(NamedTuple):
    """The result of a piece of code."""

    ok: bool
    value: Any = None
    """The value of the last expression: JSON data, or its text form if it is not JSON."""
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """The error with its line, or the limit that was hit."""
    session: bytes | None = None
    """A checkpoint of the session's variables; None if they are lost or unchanged."""
    session_lost: bool = False
    """The variables of earlier turns are lost."""
    timed_out: bool = False
    """The requested `timeout` ended it."""


class Sandbox(Protocol):
    """Runs code that a model wrote. A tier that cannot start raises when it is constructed."""

    @property
    def suspends(self) -> bool:
        """Whether `run` may yield to the event loop."""
        ...

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Run `code` after the session's earlier code. `timeout` in seconds of wall clock."""
        ...


class SampleRequest(Value, frozen=True, gc=False):
    """A request by a server to the run's model: messages, without tools."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class SamplingRefused(Exception):
    """The refusal of a server's model call; the text says why."""


class ToolClient(Protocol):
    """The run, as seen by the server that carries out one of its calls."""

    key: str
    """The call's key: the same when the call is repeated."""
    action: str
    """The key of the action that makes the call."""
    tool: str
    """The tool's name in the file."""
    answers: Mapping[str, Any]
    """The recorded answers to questions of this action, by the id of the form."""
    warnings: list[str]
    """Oddities of the call, for operators."""

    @property
    def asks_nobody(self) -> bool:
        """Whether this run has no one who could answer a question."""
        ...

    async def sample(self, server: ServerSpec, request: SampleRequest) -> Mapping[str, Any]:
        """The model's reply: `text`, `model`, `finish_reason`. May raise `SamplingRefused`."""
        ...


class ToolServers(Protocol):
    """The servers of the tools that are not functions of this process."""

    def prepare(self) -> None:
        """Raise `SetupError` now for what would fail later: no package, no variable."""
        ...

    async def ready(self) -> None:
        """Connect the servers; cheap if all are connected. `RunError` if one cannot be reached."""
        ...

    async def call(
        self,
        server: ServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        client: ToolClient | None = None,
    ) -> ToolResult:
        """Carry out one call; its errors are in the result.

        `client` answers the server's requests; without one they are refused. Raises
        `InputRequired` if the call stays in flight until someone answers: it continues when it
        is repeated with the same key.
        """
        ...

    def let_go(self, run_id: str, action: str) -> None:
        """Abandon the calls that other actions of the run left in flight."""
        ...

    def in_flight(self, key: str) -> bool:
        """Whether a call with this key, or one below it, is in flight here."""
        ...

    def asks(self, run_id: str) -> bool:
        """Whether calls of a run or of its children are in flight here and wait for an answer."""
        ...

    async def close(self) -> None:
        """Disconnect while the run rests."""
        ...


class Notifier(Protocol):
    """Sends notices: to a log, a webhook, a terminal.

    One that never yields to the event loop may set `suspends = False`.
    """

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Send a notice. An exception fails the action that sends it."""
        ...


class Tokenizer(Protocol):
    """Counts the tokens of messages for one model."""

    def count(self, messages: Sequence[Message]) -> int:
        """The number of tokens that the messages take in a request."""
        ...
