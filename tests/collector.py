"""What receives spans and metrics in the tests: OTLP over HTTP on 127.0.0.1, kept in files.

Each request's body is a file in the collector's folder, as it came over the wire; the readers here
decode it with the protocol's own package. Belongs here: receiving and reading. Never: what a run
should have sent.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple, Self

from chartloop import OpenTelemetry

Tree = tuple[str, tuple[Any, ...]]
"""A span's name, and the trees of its children in the order in which they began."""


class ReadSpan(NamedTuple):
    """A span, as a collector has it."""

    name: str
    id: str
    parent: str
    trace: str
    began: int
    ended: int
    kind: int
    status: int
    """2: an error."""
    message: str
    attributes: Mapping[str, Any]
    events: Sequence[tuple[str, Mapping[str, Any]]]
    links: Sequence[tuple[str, str]]
    """Trace and span."""


class Spans:
    """Telemetry whose spans are kept in memory, where a test makes many."""

    def __init__(self) -> None:
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: PLC0415
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: PLC0415

        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.telemetry: OpenTelemetry = OpenTelemetry(provider)

    def all(self) -> list[ReadSpan]:
        """Those that have ended."""
        assert self.telemetry.flush(60)
        return from_sdk(self._exporter.get_finished_spans())


class Collector:
    """An OTLP receiver for as long as a `with` block lasts."""

    def __init__(self, folder: Path, *, hang: threading.Event | None = None) -> None:
        self.folder = folder
        self.hang = hang
        """A request is answered when this is set."""
        self.asked = threading.Event()
        folder.mkdir(exist_ok=True)

    def __enter__(self) -> Self:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.keep(self.path.rpartition("/")[2], body)
                collector.asked.set()
                if collector.hang is not None:
                    collector.hang.wait(60)
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.hang is not None:
            self.hang.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """What goes into ``OTEL_EXPORTER_OTLP_ENDPOINT``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def keep(self, signal: str, body: bytes) -> None:
        """Write a request's body into a file of its own."""
        number = len([*self.folder.glob("*.pb")])
        (self.folder / f"{number:04}.{signal}.pb").write_bytes(body)

    @property
    def bytes(self) -> bytes:
        """All that was sent."""
        return b"".join(path.read_bytes() for path in sorted(self.folder.glob("*.pb")))

    def spans(self) -> list[ReadSpan]:
        """All spans, in the order in which they began."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (  # noqa: PLC0415
            ExportTraceServiceRequest,
        )

        found: list[ReadSpan] = []
        for path in sorted(self.folder.glob("*.traces.pb")):
            request = ExportTraceServiceRequest.FromString(path.read_bytes())
            for resource in request.resource_spans:
                for scope in resource.scope_spans:
                    found += map(_read, scope.spans)
        return sorted(found, key=lambda span: span.began)

    def figures(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """The newest points of each metric: attributes, and the sum of what was counted."""
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (  # noqa: PLC0415
            ExportMetricsServiceRequest,
        )

        newest: dict[str, list[tuple[dict[str, Any], float]]] = {}
        for path in sorted(self.folder.glob("*.metrics.pb")):
            request: Any = ExportMetricsServiceRequest.FromString(path.read_bytes())
            for resource in request.resource_metrics:
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        newest[metric.name] = [*_points(metric)]
        return newest


def tree(spans: Sequence[ReadSpan], of: ReadSpan) -> Tree:
    """A span with all below it."""
    below = [tree(spans, span) for span in spans if span.parent == of.id]
    return (of.name, tuple(below))


def roots(spans: Sequence[ReadSpan]) -> list[ReadSpan]:
    """The spans without a parent."""
    return [span for span in spans if not span.parent]


def from_sdk(spans: Sequence[Any]) -> list[ReadSpan]:
    """The same of spans that an SDK's exporter in memory has."""
    found = [
        ReadSpan(
            span.name, f"{span.context.span_id:016x}",
            "" if span.parent is None else f"{span.parent.span_id:016x}",
            f"{span.context.trace_id:032x}", span.start_time, span.end_time, span.kind.value,
            span.status.status_code.value, span.status.description or "", dict(span.attributes),
            [(event.name, dict(event.attributes)) for event in span.events],
            [(f"{link.context.trace_id:032x}", f"{link.context.span_id:016x}")
             for link in span.links],
        )
        for span in spans
    ]  # fmt: skip
    return sorted(found, key=lambda span: span.began)


def _read(span: Any) -> ReadSpan:
    return ReadSpan(
        span.name, span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex(),
        span.start_time_unix_nano, span.end_time_unix_nano, span.kind, span.status.code,
        span.status.message, _attributes(span.attributes),
        [(event.name, _attributes(event.attributes)) for event in span.events],
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
    )  # fmt: skip


def _attributes(found: Any) -> dict[str, Any]:
    return {one.key: _value(one.value) for one in found}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None


def _points(metric: Any) -> Iterator[tuple[dict[str, Any], float]]:
    kind = metric.WhichOneof("data")
    for point in getattr(metric, kind).data_points:
        if kind == "histogram":
            yield _attributes(point.attributes), point.sum
        else:
            yield _attributes(point.attributes), getattr(point, point.WhichOneof("value"))
