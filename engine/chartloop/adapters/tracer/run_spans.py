"""The spans of a run: of the run itself, its actions, model calls and tool calls.

Belongs here: the start, the end and the content of each span. Never: attribute names (`names`), the
redaction of exported data (`exports`).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from time import perf_counter
from types import TracebackType
from typing import Any

from chartloop.adapters.tracer.content import data_of, input_messages, output_messages
from chartloop.adapters.tracer.exports import Attributes, Exports, Span
from chartloop.adapters.tracer.names import TRANSITION, Name, Operation, provider_of
from chartloop.core.errors import ChartloopError, ModelError
from chartloop.core.facts import EMPTY, PARTS, ToolCall
from chartloop.core.outcome import Outcome, Reply, Spent, ToolResult
from chartloop.core.position import Position
from chartloop.core.records import Record
from chartloop.core.specs import ToolSpec
from chartloop.machine.budget_use import budgets
from chartloop.machine.evolve import evolve
from chartloop.machine.explain import Row, explain
from chartloop.run.ports import ModelRequest
from chartloop.run.progress import how_of
from chartloop.run.redact import Redactor
from chartloop.run.tracing import OnReply, OnResult, TracedRun


class NotFollowed:
    """A tracer that does nothing, for a run whose tracer could not be made."""

    carrier: Mapping[str, str] = EMPTY

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        return nullcontext()

    def record(self, before: Position, record: Record, position: Position) -> None:
        pass

    def rest(self, position: Position) -> None:
        pass


class RunSpans:
    """The spans of one run, from the start or resume of driving until it rests."""

    def __init__(self, exports: Exports, run: TracedRun) -> None:
        self.exports = exports
        self.run = run
        self.redactor = run.redactor or exports.redactor
        self._action: Span | None = None
        api, spec = exports.api, run.chart.spec
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
        self._span: Span = exports.tracer.start_span(
            f"{name.value} {spec.name}",
            attributes=exports.clean(attributes, self.redactor),
            links=[api.trace.Link(origin)] if origin.is_valid else [],
        )
        self.carrier: Mapping[str, str] = {}
        api.propagator.inject(self.carrier, api.trace.set_span_in_context(self._span))
        exports.instruments.take_up(run.id)

    def inside(self, span: Span) -> Any:
        """The current context with a span of this run and the run itself."""
        api = self.exports.api
        return api.context.set_value(self.exports.key, self, api.trace.set_span_in_context(span))

    def action(self, position: Position, action: str) -> AbstractContextManager[object]:
        """A block with the current span `ACTION STATE`, which ends with the action's record."""
        return _ActionSpan(self, position, action)

    def begin_action(self, position: Position, action: str) -> Span:
        """Start the span of an action."""
        self.close_action("abandoned")
        attributes: Attributes = {
            **self.shared, Name.STATE: position.state, Name.ACTION: action,
            Name.STEP: position.facts.run.steps + 1,
        }  # fmt: skip
        span: Span = self.exports.tracer.start_span(
            f"{action} {position.state}", context=self.inside(self._span),
            attributes=self.exports.clean(attributes, self.redactor),
        )  # fmt: skip
        self._action = span
        return span

    def close_action(self, error: str = "") -> None:
        """End the action's span, with an error if it ends without a record."""
        span, self._action = self._action, None
        if span is None:
            return
        if error:
            self.exports.fail(span, error)
        self.exports.end(span)

    def record(self, before: Position, record: Record, position: Position) -> None:
        """Add the event `chartloop.transition` to the action's span, else to the run's."""
        with self.exports.guard:
            self._record(before, record, position)

    def _record(self, before: Position, record: Record, position: Position) -> None:
        if record.kind == "start":  # the record sets the session
            session = position.facts.run.session
            self.shared[Name.CONVERSATION] = session or self.run.id
        span = self._action or self._span
        if span.is_recording():
            attributes = self._transition(before, record)
            span.add_event(TRANSITION, self.exports.clean(attributes, self.redactor))
        if span is not self._span:
            if record.outcome is not None:
                self._set_failure(span, record.outcome)
            self.close_action()

    def _transition(self, before: Position, record: Record) -> Attributes:
        """The attributes of a transition: the decision, made again to get its reasons."""
        chart = self.run.chart
        _, decision = evolve(chart, before, record.input, trace=True)
        rows = explain(chart, decision).rows
        taken = [row for row in rows if row.taken]
        rules = [(row.text, left) for row in rows if row.kind == "rule" and (left := _margin(row))]
        return {
            Name.RECORD: record.seq, Name.KIND: record.kind, Name.FROM: record.state,
            Name.TO: record.next, Name.STATUS: record.status, Name.PATH: decision.path,
            Name.TAKEN: decision.taken, Name.GUARDS: [row.text for row in taken],
            Name.STOP_REASON: decision.winner,
            Name.RULES: [text for text, _ in rules], Name.LEFT: [margin for _, margin in rules],
        }  # fmt: skip

    def _set_failure(self, span: Span, outcome: Outcome) -> None:
        failure = outcome.error
        if failure is None:
            return
        message = self.exports.content_text(failure.message, self.redactor)
        self.exports.fail(span, failure.kind or failure.category, message)

    def rest(self, position: Position) -> None:
        """End the run's span, with its status and usage."""
        with self.exports.guard:
            self.close_action("abandoned")
            self._rest(position)
        self.exports.end(self._span)

    def _rest(self, position: Position) -> None:
        facts, chart = position.facts, self.run.chart
        attributes: Attributes = {
            Name.AGENT_ID: facts.run.agent, Name.DEPTH: facts.run.depth,
            Name.CONVERSATION: facts.run.session or self.run.id,
            Name.STATUS: position.status, Name.STATE: position.state, Name.STEPS: facts.run.steps,
            Name.TOKENS: facts.usage.total_tokens, Name.COST: facts.usage.cost,
            **{f"{Name.BUDGET}.{b.fact}": b.text for b in budgets(chart, facts)},
        }  # fmt: skip
        top = position.signals.highest if position.ended else None
        if top is not None:
            kind = how_of(position)
            attributes |= {
                Name.STOP_REASON: str(top.reason), Name.STOP_KIND: kind,
                Name.STOP_RULE: top.source,
                Name.STOP_MESSAGE: self.exports.content_text(top.message, self.redactor),
            }  # fmt: skip
            if kind == "error":
                self.exports.fail(self._span, str(top.reason))
        self._span.set_attributes(self.exports.clean(attributes, self.redactor))
        self.exports.instruments.rest(
            self.run, position, str(top.reason) if top is not None else ""
        )


def _margin(row: Row) -> str:
    """The margin until a budget rule holds; empty for another rule."""
    return next((atom.margin for atom in row.atoms if atom.margin), "")


# spans inside a run ---------------------------------------------------------------------------


class _Around:
    """A block with a current span. A fault of tracing is logged and does not affect the block."""

    def __init__(self, exports: Exports) -> None:
        self.exports = exports
        self.span: Span | None = None
        self._token: Any = None
        self._began = 0.0

    def begin(self) -> Span:
        """Start the span."""
        raise NotImplementedError

    def close(self, error: BaseException | None) -> None:
        """Set the result on the span, and end it."""
        raise NotImplementedError

    def open(self) -> None:
        """Start the span and make it the current one."""
        with self.exports.guard:
            self.span = self.begin()
            run = self.running
            inside = (
                run.inside(self.span) if run is not None
                else self.exports.api.trace.set_span_in_context(self.span)
            )  # fmt: skip
            self._token = self.exports.api.context.attach(inside)
        self._began = perf_counter()

    @property
    def running(self) -> RunSpans | None:
        """The current run; None outside of one."""
        return self.exports.api.context.get_value(self.exports.key)

    @property
    def redactor(self) -> Redactor:
        """The redactor of the run, else the default one."""
        run = self.running
        return self.exports.redactor if run is None else run.redactor

    @property
    def took(self) -> float:
        """The seconds since the start."""
        return perf_counter() - self._began

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._token is not None:
            with self.exports.guard:
                self.exports.api.context.detach(self._token)
        if self.span is not None:
            with self.exports.guard:
                self.close(error)


class _ActionSpan(_Around):
    """The span of an action. It ends with the action's record, which has the result."""

    def __init__(self, run: RunSpans, position: Position, action: str) -> None:
        super().__init__(run.exports)
        self._run, self._position, self._action = run, position, action

    @property
    def running(self) -> RunSpans:
        return self._run

    def begin(self) -> Span:
        return self._run.begin_action(self._position, self._action)

    def __enter__(self) -> None:
        self.open()

    def close(self, error: BaseException | None) -> None:
        if error is not None:
            self._run.close_action(type(error).__name__)


class ModelCallSpan(_Around, AbstractContextManager[OnReply]):
    """The span of a model call."""

    def __init__(self, exports: Exports, request: ModelRequest) -> None:
        super().__init__(exports)
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
        if self.exports.content:
            sent = input_messages(request.messages)
            attributes[Name.INPUT_MESSAGES] = self.exports.content_text(sent, self.redactor)
        return self.exports.tracer.start_span(
            f"{Operation.CHAT.value} {self._labels[Name.REQUEST_MODEL]}".strip(),
            kind=self.exports.api.trace.SpanKind.CLIENT,
            attributes=self.exports.clean(attributes, self.redactor),
        )

    def __enter__(self) -> OnReply:
        self.open()
        return self._keep_answer

    def _keep_answer(self, reply: Reply, spent: Spent) -> None:
        self._answer = reply, spent

    def close(self, error: BaseException | None) -> None:
        assert self.span is not None
        labels = self.exports.clean(self._labels, self.redactor)
        if self._answer is not None:
            reply, spent = self._answer
            labels |= self.exports.clean({Name.RESPONSE_MODEL: reply.model}, self.redactor)
            self.span.set_attributes(self.exports.clean(self._outcome(reply, spent), self.redactor))
            self.exports.instruments.count_tokens(spent, labels)
        if error is not None:
            labels[Name.ERROR] = _kind_of(error)
            text = error.message if isinstance(error, ChartloopError) else str(error)
            message = self.exports.content_text(text, self.redactor)
            self.exports.fail(self.span, _kind_of(error), message)
        self.exports.instruments.durations.record(self.took, labels)
        self.exports.end(self.span)

    def _outcome(self, reply: Reply, spent: Spent) -> Attributes:
        counted: Attributes = {}
        if not spent.estimated:
            counted = {
                Name.INPUT_TOKENS: spent.prompt_tokens, Name.OUTPUT_TOKENS: spent.completion_tokens,
                **{part.span_name: getattr(spent, name) or None for name, part in PARTS.items()},
            }  # fmt: skip
        content = output_messages(reply) if self.exports.content else None
        return {
            **counted, Name.RESPONSE_MODEL: reply.model, Name.COST: spent.cost,
            Name.FINISH_REASONS: [reply.finish_reason],
            Name.OUTPUT_MESSAGES: self.exports.content_text(content, self.redactor),
        }  # fmt: skip


class ToolCallSpan(_Around, AbstractContextManager[OnResult]):
    """The span of a tool call. A refused call has no result."""

    def __init__(self, exports: Exports, call: ToolCall, spec: ToolSpec | None) -> None:
        super().__init__(exports)
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
        if self.exports.content:
            arguments = data_of(call.arguments)
            attributes[Name.TOOL_ARGUMENTS] = self.exports.content_text(arguments, self.redactor)
        return self.exports.tracer.start_span(
            f"{Operation.TOOL.value} {self.redactor.text(call.name)}",
            attributes=self.exports.clean(attributes, self.redactor),
        )

    def __enter__(self) -> OnResult:
        self.open()
        return self._keep_result

    def _keep_result(self, result: ToolResult) -> None:
        self._result = result

    def close(self, error: BaseException | None) -> None:
        assert self.span is not None
        result = self._result
        labels: Attributes = {Name.TOOL_NAME: self._call.name}
        failed = _kind_of(error) if error is not None else ""
        if result is not None:
            text = self.exports.content_text(result.text, self.redactor)
            if text is not None:
                self.span.set_attribute(str(Name.TOOL_RESULT), text)
            if not result.ok:
                failed = result.category
                self.exports.fail(self.span, failed, text)
        elif failed:
            self.exports.fail(self.span, failed)
        if self._spec is not None:  # each name that a model invents would add a time series
            labels |= {Name.ERROR: failed} if failed else {}
            self.exports.instruments.tool_durations.record(self.took, labels)
        self.exports.end(self.span)


def _kind_of(error: BaseException) -> str:
    """The kind of an error, from a small set of words."""
    return (isinstance(error, ModelError) and error.kind) or type(error).__name__


def _number(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
