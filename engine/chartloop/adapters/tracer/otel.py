"""Runs as spans and metrics of OpenTelemetry: the door to its API.

    invoke_agent calculator                 a run, from when it is taken up until it rests
    ├─ infer think                          an action: its record's event `chartloop.transition`
    │  └─ chat openai/gpt-4o-mini           a model call, with what the HTTP client adds below it
    └─ call_tools use_tools
       └─ execute_tool add                  a tool call

Only the API is used: the program configures the SDK, or `opentelemetry-instrument` does. Whatever
goes wrong here is logged once and leaves the run alone. An ended span is handed over on another
thread (`span_queue`), so that a processor which exports at once does not hold the run either.

Belongs here: which span begins and ends when, and what it holds. Never: its keys (`names`).
"""

from __future__ import annotations

import atexit
import json
import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from time import perf_counter, time_ns
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from chartloop.adapters.tracer.content import data_of, input_messages, output_messages
from chartloop.adapters.tracer.instruments import Instruments
from chartloop.adapters.tracer.names import (
    TRANSITION,
    Name,
    Operation,
    provider_of,
)
from chartloop.adapters.tracer.span_queue import SpanQueue
from chartloop.core.errors import ChartloopError, ModelError, SetupError
from chartloop.core.facts import EMPTY, ToolCall
from chartloop.core.outcome import Outcome, Reply, Spent, ToolResult
from chartloop.core.position import Position
from chartloop.core.records import Record, to_json
from chartloop.core.specs import ToolSpec
from chartloop.core.version import __version__
from chartloop.extras import install
from chartloop.machine.budget_use import budgets
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Row, explain
from chartloop.run.ports import ModelRequest
from chartloop.run.progress import how_of
from chartloop.run.redact import Redactor
from chartloop.run.tracing import OnReply, OnResult, RunTracer, TracedRun

if TYPE_CHECKING:
    from opentelemetry.context import Context as OtelContext
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

Attributes: TypeAlias = "dict[str, Any]"
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The variable by which programs of this kind are told to export content."""
AT_EXIT = 5.0
"""Seconds that a process which ends waits for its last spans."""
_SCOPE = "chartloop"
_log = logging.getLogger(__name__)


class _Api(NamedTuple):
    """The modules of the API, imported when the first `OpenTelemetry` is made."""

    context: Any
    trace: Any
    metrics: Any
    propagator: Any


def _api() -> _Api:
    try:
        from opentelemetry import context, metrics, trace  # noqa: PLC0415  an extra
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )
    except ModuleNotFoundError as error:
        raise SetupError("telemetry needs the extra `otel`", hint=install("otel")) from error
    return _Api(context, trace, metrics, TraceContextTextMapPropagator())


class _Guard:
    """What goes wrong inside it is logged, once: it is not the run's."""

    def __init__(self) -> None:
        self._faults = 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:  # fmt: skip
        if not isinstance(error, Exception):
            return False
        self._faults += 1
        if self._faults == 1:
            _log.warning("telemetry failed; the run goes on without it", exc_info=error)
        return True


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
        self.api = _api()
        self.content = _asked_for_content() if content is None else content
        self.redactor = Redactor()
        self._given = tracer_provider, meter_provider
        self.tracer = self.api.trace.get_tracer(_SCOPE, __version__, tracer_provider)
        self.meters = Instruments(
            meter_provider.get_meter(_SCOPE, __version__)
            if meter_provider is not None
            else self.api.metrics.get_meter(_SCOPE, __version__)
        )
        self.ended = SpanQueue()
        self.key = self.api.context.create_key("chartloop-run")
        self.guard = _Guard()
        self._given_up = False
        """An exporter hangs, or cannot be reached: it is not waited for again."""
        _at_exit().add(self)

    def run(self, run: TracedRun) -> RunTracer:
        """Follow a run. Source: the port `Tracer`."""
        with self.guard:
            return _Run(self, run)
        return _NotFollowed()

    def model_call(self, request: ModelRequest) -> AbstractContextManager[OnReply]:
        """A span `chat MODEL`. Source: the port `Tracer`."""
        return _ModelCall(self, request)

    def tool_call(self, call: ToolCall, spec: ToolSpec | None) -> AbstractContextManager[OnResult]:
        """A span `execute_tool NAME`. Source: the port `Tracer`."""
        return _Tool(self, call, spec)

    def flush(self, within: float = AT_EXIT) -> bool:
        """Hand everything over to the exporters; whether that took less than `within` seconds.

        A process that ends does so, too. An exporter that hangs is left behind.
        """
        self._given_up = not self.ended.finish(self._force_flush, within)
        return not self._given_up

    def _force_flush(self) -> None:
        spans, figures = self._given
        for provider in (
            spans or self.api.trace.get_tracer_provider(),
            figures or self.api.metrics.get_meter_provider(),
        ):
            if (flush := getattr(provider, "force_flush", None)) is not None:
                flush()

    def finish(self) -> None:
        """The process ends: flush, unless that was seen to be of no use."""
        if not self._given_up:
            self.flush()

    def end(self, span: Span) -> None:
        """End a span now, and hand it over soon."""
        at = time_ns()
        self.ended.put(lambda: span.end(end_time=at))

    def clean(self, attributes: Attributes, redactor: Redactor) -> Attributes:
        """The attributes that have a value, without secrets."""
        return {
            str(name): _clean(value, redactor)
            for name, value in attributes.items()
            if value is not None and value not in ("", (), [])
        }

    def said(self, data: Any, redactor: Redactor) -> str | None:
        """Content as an attribute has it, without secrets; None where it is not exported."""
        if not self.content:
            return None
        if isinstance(data, str):  # of a tool it is often JSON, where names say what is secret
            return json.loads(redactor.json(to_json([data]), EMPTY))[0]
        return redactor.json(to_json(data), EMPTY)


@cache
def _at_exit() -> WeakSet[OpenTelemetry]:
    """Those that are flushed when the process ends."""
    all_of_them = WeakSet[OpenTelemetry]()

    def finish() -> None:
        for one in [*all_of_them]:
            one.finish()

    atexit.register(finish)
    return all_of_them


def _asked_for_content() -> bool:
    return os.environ.get(CONTENT, "").strip().lower() in (
        "true",
        "1",
        "span_only",
        "span_and_event",
    )


def _clean(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(str(value))
    if isinstance(value, (list, tuple)):
        return [_clean(part, redactor) for part in cast("list[Any]", value)]
    return value


# a run ------------------------------------------------------------------------------------------


class _NotFollowed:
    """In place of a run's tracer where that could not be made."""

    carrier: Mapping[str, str] = EMPTY

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        return nullcontext()

    def record(self, before: Position, record: Record, position: Position) -> None:
        pass

    def rest(self, position: Position) -> None:
        pass


class _Run:
    """One run, from when it is taken up until it rests."""

    def __init__(self, telemetry: OpenTelemetry, run: TracedRun) -> None:
        self.telemetry = telemetry
        self.run = run
        self.redactor = run.redactor or telemetry.redactor
        self._action: Span | None = None
        api, spec = telemetry.api, run.chart.spec
        resumed = run.origin is not None
        family = bool(spec.machines)
        name = Operation.WORKFLOW if family else Operation.AGENT
        self.shared: Attributes = {
            Name.RUN: run.id, Name.CONVERSATION: run.position.facts.run.session or run.id,
        }  # fmt: skip
        attributes: Attributes = {
            Name.OPERATION: name.value,
            Name.WORKFLOW_NAME if family else Name.AGENT_NAME: spec.name,
            **self.shared, Name.MACHINE: spec.name, Name.PARENT: run.parent, Name.RESUMED: resumed,
        }  # fmt: skip
        origin = api.trace.get_current_span(
            api.propagator.extract(dict(run.origin or {}), api.context.Context())
        ).get_span_context()
        self._span: Span = telemetry.tracer.start_span(
            f"{name.value} {spec.name}",
            attributes=telemetry.clean(attributes, self.redactor),
            links=[api.trace.Link(origin)] if origin.is_valid else [],
        )
        self.carrier: Mapping[str, str] = {}
        api.propagator.inject(self.carrier, api.trace.set_span_in_context(self._span))
        telemetry.meters.take_up(run.id)

    def inside(self, span: Span) -> OtelContext:
        """The current context, with a span of this run and the run itself."""
        api = self.telemetry.api
        return api.context.set_value(self.telemetry.key, self, api.trace.set_span_in_context(span))

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        """A span `ACTION STATE`, current inside it. It ends with the record."""
        return _Action(self, position, action)

    def begin_action(self, position: Position, action: str) -> Span:
        """The span of the action at hand."""
        self.close_action("abandoned")
        attributes: Attributes = {
            **self.shared, Name.STATE: position.state, Name.ACTION: action,
            Name.STEP: position.facts.run.steps + 1,
        }  # fmt: skip
        span: Span = self.telemetry.tracer.start_span(
            f"{action} {position.state}", context=self.inside(self._span),
            attributes=self.telemetry.clean(attributes, self.redactor),
        )  # fmt: skip
        self._action = span
        return span

    def close_action(self, error: str = "") -> None:
        """End the span of an action, without a record if `error` says why."""
        span, self._action = self._action, None
        if span is None:
            return
        if error:
            _fail(self.telemetry, span, error)
        self.telemetry.end(span)

    def record(self, before: Position, record: Record, position: Position) -> None:
        """The event `chartloop.transition`, on the action's span where an action led to it."""
        with self.telemetry.guard:
            self._record(before, record, position)

    def _record(self, before: Position, record: Record, position: Position) -> None:
        if record.kind == "start":  # before it the run has no session
            session = position.facts.run.session
            self.shared[Name.CONVERSATION] = session or self.run.id
        span = self._action or self._span
        if span.is_recording():
            found = self._transition(before, record)
            span.add_event(TRANSITION, self.telemetry.clean(found, self.redactor))
        if span is not self._span:
            if record.outcome is not None:
                self._say_failure(span, record.outcome)
            self.close_action()

    def _transition(self, before: Position, record: Record) -> Attributes:
        """Where a record led, and what decided it: decided again, with its reasons."""
        chart = self.run.chart
        _, decision = evolve(chart, before, record.input, trace=True)
        rows = explain(chart, decision).rows
        taken = [row for row in rows if row.taken]
        left = [(row.text, left) for row in rows if row.kind == "rule" and (left := _left(row))]
        return {
            Name.RECORD: record.seq, Name.KIND: record.kind, Name.FROM: record.state,
            Name.TO: record.next, Name.STATUS: record.status, Name.PATH: decision.path,
            Name.TAKEN: decision.taken, Name.GUARDS: [row.text for row in taken],
            Name.STOP_REASON: decision.winner,
            Name.RULES: [text for text, _ in left], Name.LEFT: [margin for _, margin in left],
        }  # fmt: skip

    def _say_failure(self, span: Span, outcome: Outcome) -> None:
        failure = outcome.error
        if failure is None:
            return
        message = self.telemetry.said(failure.message, self.redactor)
        _fail(self.telemetry, span, failure.kind or failure.category, message)

    def rest(self, position: Position) -> None:
        """End the span, with where the run is."""
        with self.telemetry.guard:
            self.close_action("abandoned")
            self._rest(position)
        self.telemetry.end(self._span)

    def _rest(self, position: Position) -> None:
        facts, chart = position.facts, self.run.chart
        found: Attributes = {
            Name.AGENT_ID: facts.run.agent, Name.DEPTH: facts.run.depth,
            Name.CONVERSATION: facts.run.session or self.run.id,
            Name.STATUS: position.status, Name.STATE: position.state, Name.STEPS: facts.run.steps,
            Name.TOKENS: facts.usage.total_tokens, Name.COST: facts.usage.cost,
            **{f"{Name.BUDGET}.{b.fact}": b.said for b in budgets(chart, facts)},
        }  # fmt: skip
        top = position.signals.highest if position.ended else None
        if top is not None:
            kind = how_of(position)
            found |= {
                Name.STOP_REASON: str(top.reason), Name.STOP_KIND: kind,
                Name.STOP_RULE: top.source,
                Name.STOP_MESSAGE: self.telemetry.said(top.message, self.redactor),
            }  # fmt: skip
            if kind == "error":
                _fail(self.telemetry, self._span, str(top.reason))
        self._span.set_attributes(self.telemetry.clean(found, self.redactor))
        self.telemetry.meters.rest(self.run, position, str(top.reason) if top is not None else "")


def _left(row: Row) -> str:
    """What is left until a rule holds, where it is a budget's."""
    return next((atom.margin for atom in row.atoms if atom.margin), "")


def _fail(telemetry: OpenTelemetry, span: Span, error: str, message: str | None = None) -> None:
    """The status ERROR. Its text is content where an exception or a tool may have written it."""
    trace = telemetry.api.trace
    span.set_attribute(str(Name.ERROR), str(error))
    span.set_status(trace.Status(trace.StatusCode.ERROR, message or str(error)))


# what happens inside an action ------------------------------------------------------------------


class _Around:
    """Something that happens, as the current span. A fault of ours is logged, and it happens."""

    def __init__(self, telemetry: OpenTelemetry) -> None:
        self.telemetry = telemetry
        self.span: Span | None = None
        self._token: Any = None
        self._began = 0.0

    def begin(self) -> Span:
        """The span."""
        raise NotImplementedError

    def close(self, error: BaseException | None) -> None:
        """Say on the span how it went, and end it."""
        raise NotImplementedError

    def open(self) -> None:
        """Begin the span and make it the current one."""
        with self.telemetry.guard:
            self.span = self.begin()
            run = self.running
            inside = (
                run.inside(self.span) if run is not None
                else self.telemetry.api.trace.set_span_in_context(self.span)
            )  # fmt: skip
            self._token = self.telemetry.api.context.attach(inside)
        self._began = perf_counter()

    @property
    def running(self) -> _Run | None:
        """The run in whose action this happens."""
        return self.telemetry.api.context.get_value(self.telemetry.key)

    @property
    def redactor(self) -> Redactor:
        """The redactor of its run."""
        run = self.running
        return self.telemetry.redactor if run is None else run.redactor

    @property
    def took(self) -> float:
        """Seconds since it began."""
        return perf_counter() - self._began

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._token is not None:
            with self.telemetry.guard:
                self.telemetry.api.context.detach(self._token)
        if self.span is not None:
            with self.telemetry.guard:
                self.close(error)


class _Action(_Around):
    """An action. Its span ends with the record that it leads to, which says how it went."""

    def __init__(self, run: _Run, position: Position, action: str) -> None:
        super().__init__(run.telemetry)
        self._run, self._position, self._action = run, position, action

    @property
    def running(self) -> _Run:
        return self._run

    def begin(self) -> Span:
        return self._run.begin_action(self._position, self._action)

    def __enter__(self) -> None:
        self.open()

    def close(self, error: BaseException | None) -> None:
        if error is not None:
            self._run.close_action(type(error).__name__)


class _ModelCall(_Around, AbstractContextManager[OnReply]):
    """A model call."""

    def __init__(self, telemetry: OpenTelemetry, request: ModelRequest) -> None:
        super().__init__(telemetry)
        self._request = request
        model = str(request.settings.get("name") or "")
        self._labels: Attributes = {
            Name.OPERATION: Operation.CHAT.value, Name.PROVIDER: provider_of(model),
            Name.REQUEST_MODEL: model,
        }  # fmt: skip
        self._answer: tuple[Reply, Spent] | None = None

    def begin(self) -> Span:
        request, settings, run = self._request, self._request.settings, self.running
        attributes: Attributes = {
            **self._labels, **({} if run is None else run.shared),
            Name.REQUEST_TEMPERATURE: _number(settings.get("temperature")),
            Name.REQUEST_TOP_P: _number(settings.get("top_p")),
            Name.REQUEST_MAX_TOKENS: _number(settings.get("max_tokens")),
            Name.REQUEST_SEED: _number(settings.get("seed")),
            Name.OUTPUT_TYPE: "json" if request.output is not None else None,
        }  # fmt: skip
        if self.telemetry.content:
            sent = input_messages(request.messages)
            attributes[Name.INPUT_MESSAGES] = self.telemetry.said(sent, self.redactor)
        return self.telemetry.tracer.start_span(
            f"{Operation.CHAT.value} {self._labels[Name.REQUEST_MODEL]}".strip(),
            kind=self.telemetry.api.trace.SpanKind.CLIENT,
            attributes=self.telemetry.clean(attributes, self.redactor),
        )

    def __enter__(self) -> OnReply:
        self.open()
        return self._answered

    def _answered(self, reply: Reply, spent: Spent) -> None:
        self._answer = reply, spent

    def close(self, error: BaseException | None) -> None:
        assert self.span is not None
        labels = self.telemetry.clean(self._labels, self.redactor)
        if self._answer is not None:
            reply, spent = self._answer
            labels |= self.telemetry.clean({Name.RESPONSE_MODEL: reply.model}, self.redactor)
            self.span.set_attributes(
                self.telemetry.clean(self._outcome(reply, spent), self.redactor)
            )
            self.telemetry.meters.count_tokens(spent, labels)
        if error is not None:
            labels[Name.ERROR] = _kind_of(error)
            said = error.message if isinstance(error, ChartloopError) else str(error)
            message = self.telemetry.said(said, self.redactor)
            _fail(self.telemetry, self.span, _kind_of(error), message)
        self.telemetry.meters.durations.record(self.took, labels)
        self.telemetry.end(self.span)

    def _outcome(self, reply: Reply, spent: Spent) -> Attributes:
        counted: Attributes = {}
        if not spent.estimated:
            counted = {
                Name.INPUT_TOKENS: spent.prompt_tokens, Name.OUTPUT_TOKENS: spent.completion_tokens,
                Name.CACHE_READ_TOKENS: getattr(spent, "cached_tokens", 0) or None,
                Name.CACHE_WRITE_TOKENS: getattr(spent, "cache_write_tokens", 0) or None,
                Name.REASONING_TOKENS: getattr(spent, "reasoning_tokens", 0) or None,
            }  # fmt: skip
        said = output_messages(reply) if self.telemetry.content else None
        return {
            **counted, Name.RESPONSE_MODEL: reply.model, Name.COST: spent.cost,
            Name.FINISH_REASONS: [reply.finish_reason],
            Name.OUTPUT_MESSAGES: self.telemetry.said(said, self.redactor),
        }  # fmt: skip


class _Tool(_Around, AbstractContextManager[OnResult]):
    """A tool call, refused ones too: they have no result of a tool."""

    def __init__(self, telemetry: OpenTelemetry, call: ToolCall, spec: ToolSpec | None) -> None:
        super().__init__(telemetry)
        self._call, self._spec = call, spec
        self._result: ToolResult | None = None

    def begin(self) -> Span:
        call, run = self._call, self.running
        about = self._spec.description if self._spec is not None else ""
        attributes: Attributes = {
            Name.OPERATION: Operation.TOOL.value, **({} if run is None else run.shared),
            Name.TOOL_NAME: call.name, Name.TOOL_CALL_ID: call.id, Name.TOOL_TYPE: "function",
            Name.TOOL_ABOUT: about,
        }  # fmt: skip
        if self.telemetry.content:
            given = data_of(call.arguments)
            attributes[Name.TOOL_ARGUMENTS] = self.telemetry.said(given, self.redactor)
        return self.telemetry.tracer.start_span(
            f"{Operation.TOOL.value} {self.redactor.text(call.name)}",
            attributes=self.telemetry.clean(attributes, self.redactor),
        )

    def __enter__(self) -> OnResult:
        self.open()
        return self._came

    def _came(self, result: ToolResult) -> None:
        self._result = result

    def close(self, error: BaseException | None) -> None:
        assert self.span is not None
        result = self._result
        labels: Attributes = {Name.TOOL_NAME: self._call.name}
        failed = _kind_of(error) if error is not None else ""
        if result is not None:
            text = self.telemetry.said(result.text, self.redactor)
            if text is not None:
                self.span.set_attribute(str(Name.TOOL_RESULT), text)
            if not result.ok:
                failed = result.category
                _fail(self.telemetry, self.span, failed, text)
        elif failed:
            _fail(self.telemetry, self.span, failed)
        if self._spec is not None:  # names that a model invents would be a series each
            labels |= {Name.ERROR: failed} if failed else {}
            self.telemetry.meters.tool_durations.record(self.took, labels)
        self.telemetry.end(self.span)


def _kind_of(error: BaseException) -> str:
    """What went wrong, in one of few words."""
    return (isinstance(error, ModelError) and error.kind) or type(error).__name__


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
