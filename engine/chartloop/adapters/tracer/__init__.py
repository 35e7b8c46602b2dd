"""The OpenTelemetry tracer: runs as spans and metrics."""
