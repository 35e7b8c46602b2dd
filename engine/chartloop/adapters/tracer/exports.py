"""The shared parts of all spans: the API, the tracer, the instruments, and redaction.

Belongs here: the redaction of exported data, the end of a span, faults of the tracing. Never: the
spans themselves (`run_spans`), the import of OpenTelemetry (`otel`).
"""

from __future__ import annotations

import json
import logging
from time import time_ns
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias, cast

from chartloop.adapters.tracer.instruments import Instruments
from chartloop.adapters.tracer.names import Name
from chartloop.adapters.tracer.span_queue import SpanQueue
from chartloop.core.codec import to_json
from chartloop.core.facts import EMPTY
from chartloop.run.exceptions import is_own
from chartloop.run.redact import Redactor

Attributes: TypeAlias = dict[str, Any]
Span: TypeAlias = Any
"""A span of OpenTelemetry's API."""
_log = logging.getLogger(__name__)


class Api(NamedTuple):
    """The used modules of OpenTelemetry's API."""

    context: Any
    trace: Any
    metrics: Any
    propagator: Any


class Guard:
    """A block whose errors are logged once instead of raised, so that they do not stop the run."""

    def __init__(self) -> None:
        self._faults = 0

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:  # fmt: skip
        if error is None or not (isinstance(error, Exception) or is_own(error)):
            return False
        self._faults += 1
        if self._faults == 1:
            _log.warning("telemetry failed; the run goes on without it", exc_info=error)
        return True


class Exports:
    """The shared objects for the export of runs."""

    def __init__(self, api: Api, tracer: Any, instruments: Instruments, *, content: bool) -> None:
        self.api = api
        self.tracer = tracer
        self.instruments = instruments
        self.content = content
        """Whether messages, arguments and results are exported too."""
        self.redactor = Redactor()
        """The redactor for a run whose journal has none."""
        self.ended = SpanQueue()
        self.guard = Guard()
        self.key: str = api.context.create_key("chartloop-run")
        """The key of the context for the current run."""

    def end(self, span: Span) -> None:
        """End a span with the current time, and export it soon."""
        at = time_ns()
        self.ended.put(lambda: span.end(end_time=at))

    def clean(self, attributes: Attributes, redactor: Redactor) -> Attributes:
        """The non-empty attributes, redacted."""
        return {
            str(name): _clean(value, redactor)
            for name, value in attributes.items()
            if value is not None and value not in ("", (), [])
        }

    def content_text(self, data: Any, redactor: Redactor) -> str | None:
        """Content as the redacted text of an attribute; None if content is not exported."""
        if not self.content:
            return None
        if isinstance(data, str):  # a tool's text is often JSON, whose keys help to find secrets
            return json.loads(redactor.json(to_json([data]), EMPTY))[0]
        return redactor.json(to_json(data), EMPTY)

    def fail(self, span: Span, error: str, message: str | None = None) -> None:
        """Set the status ERROR. `message` must be content, which a tool may have written."""
        trace = self.api.trace
        span.set_attribute(str(Name.ERROR), str(error))
        span.set_status(trace.Status(trace.StatusCode.ERROR, message or str(error)))


def _clean(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(str(value))
    if isinstance(value, (list, tuple)):
        return [_clean(part, redactor) for part in cast("list[Any]", value)]
    return value
