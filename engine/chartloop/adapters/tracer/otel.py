"""Runs as spans and metrics of OpenTelemetry.

    invoke_agent calculator                 a run, from its start or resume until it rests
    ├─ infer think                          an action, with the event `chartloop.transition`
    │  └─ chat openai/gpt-4o-mini           a model call, with the spans of the HTTP client below
    └─ call_tools use_tools
       └─ execute_tool add                  a tool call

Only the API is used: the program configures the SDK, or `opentelemetry-instrument` does. An error
here is logged once and does not affect the run. An ended span is exported on another thread
(`span_queue`), so that a processor which exports synchronously does not delay the run either.

Belongs here: the import of OpenTelemetry. Never: the start and end of spans (`run_spans`).
"""

from __future__ import annotations

import atexit
import os
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakSet

from chartloop.adapters.tracer.exports import Api, Exports
from chartloop.adapters.tracer.instruments import Instruments
from chartloop.adapters.tracer.run_spans import ModelCallSpan, NotFollowed, RunSpans, ToolCallSpan
from chartloop.core.errors import SetupError
from chartloop.core.facts import ToolCall
from chartloop.core.specs import ToolSpec
from chartloop.core.version import __version__
from chartloop.extras import install
from chartloop.run.ports import ModelRequest
from chartloop.run.tracing import OnReply, OnResult, RunTracer, TracedRun

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The standard environment variable that turns on the export of content."""
AT_EXIT = 5.0
"""The seconds that an ending process waits for its last spans."""
_SCOPE = "chartloop"


def _api() -> Api:
    try:
        from opentelemetry import context, metrics, trace  # noqa: PLC0415  an extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )
    except ModuleNotFoundError as error:
        raise SetupError("telemetry needs the extra `otel`", hint=install("otel")) from error
    return Api(context, trace, metrics, TraceContextTextMapPropagator())


class OpenTelemetry:
    """Exports runs as spans and metrics. Implements the port `Tracer`; one serves all runs.

        machine.run("What is 2 + 3?", tracer=OpenTelemetry())

    The default providers are those of the process, even if they are set later. `content` exports
    messages, arguments and results as well, redacted like a journal; the default is taken from
    ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``, else false.

    Raises:
        SetupError: if the extra `otel` is not installed.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        content: bool | None = None,
    ) -> None:
        api = _api()
        meter = (
            api.metrics.get_meter(_SCOPE, __version__)
            if meter_provider is None
            else meter_provider.get_meter(_SCOPE, __version__)
        )
        self._exports = Exports(
            api,
            api.trace.get_tracer(_SCOPE, __version__, tracer_provider),
            Instruments(meter),
            content=_content_enabled() if content is None else content,
        )
        self._given = tracer_provider, meter_provider
        self.given_up = False
        """Whether an exporter hung in `flush`, so that the exit does not wait for it again."""
        _at_exit().add(self)

    def run(self, run: TracedRun) -> RunTracer:
        """Make the tracer of a run. Source: the port `Tracer`."""
        with self._exports.guard:
            return RunSpans(self._exports, run)
        return NotFollowed()

    def model_call(self, request: ModelRequest) -> AbstractContextManager[OnReply]:
        """A span `chat MODEL`. Source: the port `Tracer`."""
        return ModelCallSpan(self._exports, request)

    def tool_call(self, call: ToolCall, spec: ToolSpec | None) -> AbstractContextManager[OnResult]:
        """A span `execute_tool NAME`. Source: the port `Tracer`."""
        return ToolCallSpan(self._exports, call, spec)

    def flush(self, within: float = AT_EXIT) -> bool:
        """Export everything; return whether it took less than `within` seconds.

        The end of the process does the same. An exporter that hangs is abandoned.
        """
        self.given_up = not self._exports.ended.finish(self._force_flush, within)
        return not self.given_up

    def _force_flush(self) -> None:
        api, (spans, figures) = self._exports.api, self._given
        for provider in (
            spans or api.trace.get_tracer_provider(),
            figures or api.metrics.get_meter_provider(),
        ):
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush()


@cache
def _at_exit() -> WeakSet[OpenTelemetry]:
    """The tracers that are flushed at the end of the process."""
    all_of_them = WeakSet[OpenTelemetry]()

    def finish() -> None:
        for one in [*all_of_them]:
            if not one.given_up:
                one.flush()

    atexit.register(finish)
    return all_of_them


def _content_enabled() -> bool:
    value = os.environ.get(CONTENT, "").strip().lower()
    return value in ("true", "1", "span_only", "span_and_event")
