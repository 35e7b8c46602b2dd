"""The port `Tracer`: who follows runs from the inside, while their actions and calls happen.

A listener hears of an action before and after it. A tracer also stands around it: what an HTTP
client does inside a tool belongs to the span of that tool's call. Nothing is traced unless a
tracer was given: then an action, a model call and a tool call ask for it and find None.

Belongs here: the port, and what a run tells it. Never: OpenTelemetry (`adapters.tracer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Reply, Spent, ToolResult
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.specs import ToolSpec
from chartloop.machine.build import Chart
from chartloop.run.ports import ModelRequest
from chartloop.run.redact import Redactor

CARRIER = "trace"
"""In the data of a `start`: where the run was traced first, as W3C Trace Context writes it."""

OnReply = Callable[[Reply, Spent], None]
"""Called with what a model call gave."""
OnResult = Callable[[ToolResult], None]
"""Called with what a tool call gave."""


class TracedRun(NamedTuple):
    """A run that is taken up: what is known of it before anything happens."""

    id: str
    chart: Chart
    position: Position
    parent: str = ""
    """The id of the run that it is a child or fork of, or follows."""
    origin: Mapping[str, str] | None = None
    """Where it was traced first; None for a run at its very beginning."""
    redactor: Redactor | None = None
    """Hides secrets as the run's journal does; None where that keeps them."""


class RunTracer(Protocol):
    """Follows one run from when it is taken up until it rests. Must not raise."""

    @property
    def carrier(self) -> Mapping[str, str]:
        """Where the run is traced, for its `start`: W3C Trace Context. May be empty."""
        ...

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        """Around one action of the position's state."""
        ...

    def record(self, before: Position, record: Record, position: Position) -> None:
        """A record was made; it led from one position to another."""
        ...

    def rest(self, position: Position) -> None:
        """The run has ended, waits, or is left. Nothing more comes."""
        ...


class Tracer(Protocol):
    """Follows runs. Must neither raise nor wait for anything: a run waits for it."""

    def run(self, run: TracedRun) -> RunTracer:
        """Follow a run that is taken up."""
        ...

    def model_call(self, request: ModelRequest) -> AbstractContextManager[OnReply]:
        """Around one call of a model, inside an action."""
        ...

    def tool_call(self, call: ToolCall, spec: ToolSpec | None) -> AbstractContextManager[OnResult]:
        """Around one tool call, inside an action. `spec` is None where there is no such tool."""
        ...

    def flush(self, within: float) -> bool:
        """Give on what is held, in at most so many seconds. False where that did not suffice."""
        ...


def _ignore_reply(reply: Reply, spent: Spent) -> None:
    """No one follows the call."""


def _ignore_result(result: ToolResult) -> None:
    """No one follows the call."""


_NO_MODEL_CALL: AbstractContextManager[OnReply] = nullcontext(_ignore_reply)
_NO_TOOL_CALL: AbstractContextManager[OnResult] = nullcontext(_ignore_result)


def around_model(tracer: Tracer | None, request: ModelRequest) -> AbstractContextManager[OnReply]:
    """Around a model call, whether someone follows it or not."""
    return _NO_MODEL_CALL if tracer is None else tracer.model_call(request)


def around_tool(
    tracer: Tracer | None, call: ToolCall, spec: ToolSpec | None
) -> AbstractContextManager[OnResult]:
    """Around a tool call, whether someone follows it or not."""
    return _NO_TOOL_CALL if tracer is None else tracer.tool_call(call, spec)
