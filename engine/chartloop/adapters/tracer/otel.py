"""Runs as spans and metrics of OpenTelemetry: the door to its API.

    invoke_agent calculator                 a run, from when it is taken up until it rests
    ├─ infer think                          an action: its record's event `chartloop.transition`
    │  └─ chat openai/gpt-4o-mini           a model call, with what the HTTP client adds below it
    └─ call_tools use_tools
       └─ execute_tool add                  a tool call

Only the API is used: the program configures the SDK, or `opentelemetry-instrument` does. Whatever
goes wrong here is logged once and leaves the run alone. An ended span is handed over on another
thread (`span_queue`), so that a processor which exports at once does not hold the run either.

Belongs here: importing OpenTelemetry. Never: which span begins and ends when (`run_spans`).
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
"""The variable by which programs of this kind are told to export content."""
AT_EXIT = 5.0
"""Seconds that a process which ends waits for its last spans."""
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
    """Follows runs as spans and metrics. Honours the port `Tracer`; one serves every run.

        machine.run("What is 2 + 3?", tracer=OpenTelemetry())

    Without providers those of the process are used, whenever they are set. `content` exports
    messages, arguments and results as well, without the secrets that a journal hides; by default
    as ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` says, else not.

    Raises:
        SetupError: the extra `otel` is not installed.
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
            content=_asked_for_content() if content is None else content,
        )
        self._given = tracer_provider, meter_provider
        self.given_up = False
        """An exporter hangs, or cannot be reached: it is not waited for again."""
        _at_exit().add(self)

    def run(self, run: TracedRun) -> RunTracer:
        """Follow a run. Source: the port `Tracer`."""
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
        """Hand everything over to the exporters; whether that took less than `within` seconds.

        A process that ends does so, too. An exporter that hangs is left behind.
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
    """Those that are flushed when the process ends."""
    all_of_them = WeakSet[OpenTelemetry]()

    def finish() -> None:
        for one in [*all_of_them]:
            if not one.given_up:
                one.flush()

    atexit.register(finish)
    return all_of_them


def _asked_for_content() -> bool:
    value = os.environ.get(CONTENT, "").strip().lower()
    return value in ("true", "1", "span_only", "span_and_event")
