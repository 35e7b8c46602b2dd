"""The port `Tracer`: spans around actions, model calls and tool calls.

A listener is called before and after an action. A tracer also wraps it, so that the requests of an
HTTP client inside a tool belong to the span of that tool call. Without a tracer nothing is traced.

Belongs here: the port, and the data that a run passes to it. Never: OpenTelemetry
(`adapters.tracer`).
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
"""Key in the data of a `start`: the run's first trace context, as in W3C Trace Context."""

OnReply = Callable[[Reply, Spent], None]
"""Called with the result of a model call."""
OnResult = Callable[[ToolResult], None]
"""Called with the result of a tool call."""


class TracedRun(NamedTuple):
    """A run that is about to be driven and traced."""

    id: str
    chart: Chart
    position: Position
    parent: str = ""
    """The id of its parent, or of the run that it follows or was forked from."""
    origin: Mapping[str, str] | None = None
    """Its first trace context; None for a new run."""
    redactor: Redactor | None = None
    """Hides secrets as the run's journal does; None if the journal keeps them."""


class RunTracer(Protocol):
    """Traces one run until it rests. Must not raise."""

    @property
    def carrier(self) -> Mapping[str, str]:
        """The trace context for the run's `start`, as in W3C Trace Context. May be empty."""
        ...

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        """A context around one action of the position's state."""
        ...

    def record(self, before: Position, record: Record, position: Position) -> None:
        """Called with each record and the positions before and after it."""
        ...

    def rest(self, position: Position) -> None:
        """Called last: the run has ended, waits, or is no longer driven."""
        ...


class Tracer(Protocol):
    """Traces runs. Must neither raise nor block, since the run waits for it."""

    def run(self, run: TracedRun) -> RunTracer:
        """Begin tracing a run."""
        ...

    def model_call(self, request: ModelRequest) -> AbstractContextManager[OnReply]:
        """A context around one model call, inside an action."""
        ...

    def tool_call(self, call: ToolCall, spec: ToolSpec | None) -> AbstractContextManager[OnResult]:
        """A context around one tool call, inside an action. `spec` is None for an unknown tool."""
        ...

    def flush(self, within: float) -> bool:
        """Export what is buffered, in at most `within` seconds. False if that was too short."""
        ...


def _ignore_result(result: ToolResult) -> None:
    """Called without a tracer."""


_NO_TOOL_CALL: AbstractContextManager[OnResult] = nullcontext(_ignore_result)


def around_tool(
    tracer: Tracer | None, call: ToolCall, spec: ToolSpec | None
) -> AbstractContextManager[OnResult]:
    """A context around a tool call; does nothing without a tracer."""
    return _NO_TOOL_CALL if tracer is None else tracer.tool_call(call, spec)
