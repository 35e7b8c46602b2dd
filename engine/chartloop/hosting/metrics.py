"""The counters of a server, in the text format of Prometheus.

Belongs here: counters and their text. Never: a run's id, a task, anything that a caller chose.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import TypeAlias

SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""The upper bounds of the histogram buckets for request times."""

Gauge: TypeAlias = tuple[str, str, str, float]
"""A name, the type, a help text and the value."""


class Metrics:
    """Counters of requests. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._count = 0

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request, under its route, never its path: a path holds ids."""
        with self._lock:
            self._requests[method, route, status] += 1
            self._seconds += seconds
            self._count += 1
            for bound in SECONDS:
                self._buckets[bound] += seconds <= bound

    def text(self, gauges: Iterable[Gauge]) -> str:
        """All counters and the given gauges."""
        with self._lock:
            lines = [*_head("chartloop_requests_total", "counter", "Requests that were answered.")]
            for (method, route, status), count in sorted(self._requests.items()):
                labels = f'method="{method}",route="{_label(route)}",status="{status}"'
                lines.append(f"chartloop_requests_total{{{labels}}} {count}")
            name = "chartloop_request_seconds"
            lines += _head(name, "histogram", "How long requests took.")
            for bound in SECONDS:
                lines.append(f'{name}_bucket{{le="{bound:g}"}} {self._buckets[bound]}')
            lines.append(f'{name}_bucket{{le="+Inf"}} {self._count}')
            lines += [f"{name}_sum {self._seconds:.6f}", f"{name}_count {self._count}"]
        return "\n".join(lines) + "\n" + gauge_lines(gauges)


def gauge_lines(gauges: Iterable[Gauge]) -> str:
    """The lines of gauges. A count is written out: `1e+06` would lose runs."""
    lines: list[str] = []
    for name, kind, about, value in gauges:
        lines += [*_head(name, kind, about), f"{name} {value:.15g}"]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
