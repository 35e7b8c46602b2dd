"""Configuration of the SDK from the variables ``OTEL_*``, for the command line.

Exporters are found by the entry points that `opentelemetry-instrument` uses, so that every
installed one can be selected: ``OTEL_TRACES_EXPORTER=console``.

Belongs here: making providers. Never: the exported data (`otel`).
Source: OpenTelemetry specification, "Environment Variable Specification".
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import Any

from chartloop.core.errors import SetupError
from chartloop.extras import install

INSTALL = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def configure() -> None:
    """Set up the export of spans and metrics, unless an SDK is already configured.

    ``OTEL_TRACES_EXPORTER`` and ``OTEL_METRICS_EXPORTER`` name the exporters, by default ``otlp``,
    which posts to ``OTEL_EXPORTER_OTLP_ENDPOINT``; ``none`` disables the signal. The SDK reads the
    other variables itself. Raises `SetupError` if the API, the SDK or an exporter is missing.
    """
    try:
        from opentelemetry import metrics, trace  # noqa: PLC0415  an extra
    except ModuleNotFoundError as error:
        raise SetupError("telemetry needs the extra `otel`", hint=install("otel")) from error
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return  # configured by the program or by `opentelemetry-instrument`
    try:
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415  the user's
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415
            PeriodicExportingMetricReader,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise SetupError("no OpenTelemetry SDK is installed", hint=INSTALL) from error
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    resource = Resource.create({} if named else {"service.name": "chartloop"})
    spans, figures = _exporter("traces"), _exporter("metrics")
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    if spans is not None:
        tracers.add_span_processor(BatchSpanProcessor(spans))
    trace.set_tracer_provider(tracers)
    readers = [] if figures is None else [PeriodicExportingMetricReader(figures)]
    metrics.set_meter_provider(MeterProvider(readers, resource=resource, shutdown_on_exit=False))


def _exporter(signal: str) -> Any:
    """The exporter of a signal; None for ``none``."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    name = os.environ.get(variable, "").strip() or "otlp"
    if name == "none":
        return None
    known = {point.name: point for point in entry_points(group=f"opentelemetry_{signal}_exporter")}
    point = known.get(_protocol(signal) if name == "otlp" else name)
    if point is None:
        listed = ", ".join(sorted(known)) or "none"
        raise SetupError(
            f"no OpenTelemetry exporter `{name}` of {signal} is installed (installed: {listed})",
            hint=f"{INSTALL}, or name another one as {variable}",
        )
    try:
        return point.load()()
    except Exception as error:  # an exporter may raise anything
        raise SetupError(
            f"the OpenTelemetry exporter `{name}` cannot be made: {error}",
            hint="see its variables OTEL_*",
        ) from error


def _protocol(signal: str) -> str:
    """The entry point of the OTLP exporter for the protocol in the environment."""
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or os.environ.get(
        "OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"
    )
    entry_point = _PROTOCOLS.get(protocol.strip())
    if entry_point is None:
        known = ", ".join(_PROTOCOLS)
        raise SetupError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL cannot be `{protocol}`", hint=f"one of {known}"
        )
    return entry_point
