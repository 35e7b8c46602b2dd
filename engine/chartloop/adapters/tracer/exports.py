"""What all spans share: the API, the tracer, the instruments, and what may be exported.

Belongs here: hiding secrets in what is exported, ending a span, a fault of ours. Never: which span
there is (`run_spans`), importing OpenTelemetry (`otel`).
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
from chartloop.core.facts import EMPTY
from chartloop.core.records import to_json
from chartloop.run.exceptions import is_own
from chartloop.run.redact import Redactor

Attributes: TypeAlias = dict[str, Any]
Span: TypeAlias = Any
"""A span of OpenTelemetry's API."""
_log = logging.getLogger(__name__)


class Api(NamedTuple):
    """The modules of OpenTelemetry's API that are used."""

    context: Any
    trace: Any
    metrics: Any
    propagator: Any


class Guard:
    """What goes wrong inside it is logged, once: it is not the run's."""

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
    """What a run needs to be exported."""

    def __init__(self, api: Api, tracer: Any, instruments: Instruments, *, content: bool) -> None:
        self.api = api
        self.tracer = tracer
        self.instruments = instruments
        self.content = content
        """Messages, arguments and results are exported too."""
        self.redactor = Redactor()
        """Hides secrets of a run whose journal keeps them."""
        self.ended = SpanQueue()
        self.guard = Guard()
        self.key: str = api.context.create_key("chartloop-run")
        """Under this key a context has the run in whose action something happens."""

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

    def content_text(self, data: Any, redactor: Redactor) -> str | None:
        """Content as an attribute has it, without secrets; None where it is not exported."""
        if not self.content:
            return None
        if isinstance(data, str):  # of a tool it is often JSON, where names say what is secret
            return json.loads(redactor.json(to_json([data]), EMPTY))[0]
        return redactor.json(to_json(data), EMPTY)

    def fail(self, span: Span, error: str, message: str | None = None) -> None:
        """The status ERROR. Its text is content: an exception or a tool may have written it."""
        trace = self.api.trace
        span.set_attribute(str(Name.ERROR), str(error))
        span.set_status(trace.Status(trace.StatusCode.ERROR, message or str(error)))


def _clean(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.text(str(value))
    if isinstance(value, (list, tuple)):
        return [_clean(part, redactor) for part in cast("list[Any]", value)]
    return value
