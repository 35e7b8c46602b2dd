"""Ports: what a run needs from the world, in as few words as possible.

One real component per file is in `adapters/`; fakes that honour the same port are public
in `chartloop.testing`. A port's methods are coroutines; `suspends` says whether they may give
the event loop away. A run whose ports and actions never do is driven by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from chartloop.core.facts import EMPTY, RunFacts, ToolCall
from chartloop.core.outcome import Message, ToolResult
from chartloop.core.values import Value
from chartloop.language.server_tools import ServerSpec


class Clock(Protocol):
    """Time. Seconds since the epoch; a clock may jump, the facts never do."""

    @property
    def suspends(self) -> bool:
        """Whether `sleep` really waits. A simulated clock moves on instead."""
        ...

    def now(self) -> float:
        """The reading, in seconds since 1970-01-01 UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait this many seconds. Zero or less returns at once."""
        ...

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        """Inside it, waiting past the reading `at` raises `TimeoutError`."""
        ...


class Cancel(Protocol):
    """A request from outside that the run stop. Polled before each action."""

    def is_requested(self, run: RunFacts) -> bool:
        """Whether this run should stop before its next action. Cheap: it is asked every time."""
        ...


class ModelRequest(Value, frozen=True, gc=False):
    """One model call, complete."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] = ()
    """Tool schemas as `ToolSpec.for_model` gives them."""
    settings: Mapping[str, Any] = {}
    """The file's `model` mapping with the state's overrides: name, temperature, timeout ..."""
    tool_choice: str | Mapping[str, Any] | None = None
    output: Mapping[str, Any] | None = None
    """JSON Schema that the reply's text must satisfy."""
    key: str = ""
    """Idempotency key of this call."""
    number: int = 0
    """How many model calls of this run were recorded before this one, failed ones too."""


class ModelReply(Value, frozen=True, gc=False):
    """The reply. Usage that the provider did not send is None."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cost: float | None = None
    """USD; None when no price is known."""
    model: str = ""
    reasoning: Mapping[str, Any] = EMPTY
    """Thinking blocks and the like, as the provider sent them: see `core.reasoning`."""
    cached_tokens: int | None = None
    """Of the prompt tokens, those that the provider read from its cache."""
    cache_write_tokens: int | None = None
    """Of the prompt tokens, those that it wrote into its cache."""
    reasoning_tokens: int | None = None
    """Of the completion tokens, those of the reasoning."""
    warnings: tuple[str, ...] = ()
    """Oddities of the call, for operators."""


OnText = Callable[[str], None]
"""Called with each piece of text as it arrives. See `Pieces` for what else may be told."""


class Pieces:
    """The `OnText` that a run gives to its model: called with text, asked for the rest by name.

    A model that knows of reasoning and of tool calls as they arrive tells them by `reasoning` and
    `call`; one that does not calls it with text alone.
    """

    __slots__ = ("_text", "call", "reasoning")

    def __init__(
        self, text: OnText, reasoning: OnText, call: Callable[[int, str, str, str], None]
    ) -> None:
        self._text = text
        self.reasoning = reasoning
        """Called with each piece of the model's reasoning that a person may read."""
        self.call = call
        """Called with the number of a tool call within the reply, from 0, its id and name as far as
        they are known, and the next piece of its arguments."""

    def __call__(self, text: str) -> None:
        self._text(text)


class Model(Protocol):
    """Something that answers a conversation. Failures are raised as `ModelError`.

    One that knows what it charges may have `prices(settings)`: USD for a token that is sent and for
    one that is written, or None. It is asked where neither the file nor the reply says a cost.
    """

    @property
    def suspends(self) -> bool:
        """Whether `complete` may give the event loop away."""
        ...

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Raise `SetupError` now for what would fail later: no key, no such provider."""
        ...

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The model's window in tokens, when it is known."""
        ...

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """Answer. With `on_text` the reply is streamed."""
        ...


class SandboxResult(NamedTuple):
    """The result of a piece of code."""

    ok: bool
    value: Any = None
    """JSON data of the last expression, or its text form when it is not JSON."""
    stdout: str = ""
    stderr: str = ""
    error: str = ""
    """The error with its line, or the limit that was hit."""
    session: bytes | None = None
    """A checkpoint of the session's variables; None when they are gone or unchanged."""
    session_lost: bool = False
    """The variables of earlier turns are gone."""
    timed_out: bool = False
    """The `timeout` that was asked for has ended it."""


class Sandbox(Protocol):
    """Runs code that a model wrote. A tier that cannot start says so when it is made."""

    @property
    def suspends(self) -> bool:
        """Whether `run` may give the event loop away."""
        ...

    async def run(
        self, code: str, *, session: bytes | None, timeout: float | None
    ) -> SandboxResult:
        """Run `code` after the session's earlier code. `timeout` in seconds of wall clock."""
        ...


class SampleRequest(Value, frozen=True, gc=False):
    """A request of a server to the run's model: messages, and no tools."""

    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()


class SamplingRefused(Exception):
    """A server gets no model call; the text says why."""


class ToolClient(Protocol):
    """The run as a server sees it that carries out one call."""

    key: str
    """The call's: the same when it is made again."""
    action: str
    """The key of the action that makes it."""
    tool: str
    """The tool's name, as the file has it."""
    answers: Mapping[str, Any]
    """The recorded answers to questions of this action, by the id of the form."""
    warnings: list[str]
    """Oddities of the call, for operators."""

    @property
    def asks_nobody(self) -> bool:
        """Whether no one can answer a question of this run."""
        ...

    async def sample(self, server: ServerSpec, request: SampleRequest) -> Mapping[str, Any]:
        """The model's reply: `text`, `model`, `finish_reason`. `SamplingRefused` says why not."""
        ...


class ToolServers(Protocol):
    """The servers that carry out tools which are not functions of this process."""

    def prepare(self) -> None:
        """Raise `SetupError` now for what would fail later: no package, no variable."""
        ...

    async def ready(self) -> None:
        """Connect what is not connected. Cheap where all is. A `RunError` where one cannot be."""
        ...

    async def call(
        self,
        server: ServerSpec,
        tool: str,
        arguments: Mapping[str, Any],
        client: ToolClient | None = None,
    ) -> ToolResult:
        """Carry out one call; what goes wrong in it is in the result.

        `client` is asked what the server asks; without one all of that is refused. Raises
        `InputRequired` where the call stays in flight until someone answers: it continues when it
        is made again with the same key.
        """
        ...

    def let_go(self, run_id: str, action: str) -> None:
        """Let the calls go that other actions of a run than this one left in flight."""
        ...

    def in_flight(self, key: str) -> bool:
        """Whether a call of this key, or one below it, stays in flight here."""
        ...

    def asks(self, run_id: str) -> bool:
        """Whether calls of a run or of its children stay in flight here, and wait for an answer."""
        ...

    async def close(self) -> None:
        """The run rests: let go of them until it is driven on."""
        ...


class Notifier(Protocol):
    """Sends notices: to a log, a webhook, a terminal.

    One that never gives the event loop away may say so: `suspends = False`.
    """

    async def notify(self, text: str, data: Mapping[str, Any]) -> None:
        """Say it. An exception fails the action that wanted it said."""
        ...


class Tokenizer(Protocol):
    """Counts the tokens of messages for one model."""

    def count(self, messages: Sequence[Message]) -> int:
        """How many tokens the messages take in a request."""
        ...
