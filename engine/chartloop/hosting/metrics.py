"""The counters of a server, in the text format of Prometheus.

Belongs here: counters and their text. Never: a run's id, a task, anything that a caller chose.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from chartloop.hosting.asking import Lanes
from chartloop.run.tenants import ALL_TENANTS, Reach

SECONDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)
"""The upper bounds of the histogram buckets for request times."""

Gauge: TypeAlias = tuple[str, str, str, float]
"""A name, the type, a help text and the value."""


class Metrics:
    """Counters of requests. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.lanes = Lanes()
        self.turns: Turns | None = None
        """The callbacks of the web loop, once it runs; None for a loop that cannot tell them."""
        self._requests: Counter[tuple[Reach, str, str, int]] = Counter()
        self._times: defaultdict[Reach, Counter[float]] = defaultdict(Counter)
        """By the bounds of the buckets; ``0`` is the sum of the seconds."""

    def count(self, method: str, route: str, status: int, seconds: float, of: Reach) -> None:
        """Count one request, under its route, never its path: a path holds ids.

        `of` are the runs that its sender may see.
        """
        with self._lock:
            self._requests[of, method, route, status] += 1
            self._times[of].update({0: seconds, math.inf: 1})
            self._times[of].update(bound for bound in SECONDS if seconds <= bound)

    def text(self, gauges: Iterable[Gauge], of: Reach) -> str:
        """The counters of those who see the same runs as the reader, or fewer; and the gauges."""
        with self._lock:
            requests: Counter[tuple[str, str, int]] = Counter()
            for (sender, method, route, status), count in self._requests.items():
                if of in (sender, ALL_TENANTS):
                    requests[method, route, status] += count
            times = [one for sender, one in self._times.items() if of in (sender, ALL_TENANTS)]
            taken = sum(times, Counter[float]())
        lines = [*_head("chartloop_requests_total", "counter", "Requests that were answered.")]
        for (method, route, status), count in sorted(requests.items()):
            path = route.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            labels = f'method="{method}",route="{path}",status="{status}"'
            lines.append(f"chartloop_requests_total{{{labels}}} {count}")
        name = "chartloop_request_seconds"
        lines += _head(name, "histogram", "How long requests took.")
        for bound in (*SECONDS, math.inf):
            shown = "+Inf" if bound == math.inf else f"{bound:g}"
            lines.append(f'{name}_bucket{{le="{shown}"}} {taken[bound]}')
        lines += [f"{name}_sum {taken[0]:.6f}", f"{name}_count {taken[math.inf]}"]
        return "\n".join(lines) + "\n" + gauge_lines([*gauges, *self._own()])

    def _own(self) -> Iterator[Gauge]:
        about = "Rows of the journal that requests were given."
        yield "chartloop_rows_read_total", "counter", about, self.lanes.rows
        about = "Requests that looked through many rows."
        yield "chartloop_scans_total", "counter", about, self.lanes.scans
        if self.turns is not None:
            about = "The most processor time that one callback of the web loop has taken."
            yield "chartloop_longest_callback_seconds", "gauge", about, self.turns.longest


class Turns(deque[Any]):
    """The callbacks of an event loop that are due: notes which took the longest.

    It counts the processor time of the loop's thread from one to the next, so neither idle time nor
    that of other threads.
    """

    longest = 0.0
    """In seconds."""
    _began = 0.0

    @classmethod
    def of(cls, loop: Any) -> Turns | None:
        """Note those of this thread's loop. None if asyncio did not make the loop."""
        if not isinstance(ready := getattr(loop, "_ready", None), deque):
            return None
        loop._ready = turns = cls(cast("deque[Any]", ready))
        turns._began = time.thread_time()
        return turns

    def popleft(self) -> Any:
        """The next callback: the one before has ended."""
        now = time.thread_time()
        self.longest = max(self.longest, now - self._began)
        self._began = now
        return super().popleft()


def gauge_lines(gauges: Iterable[Gauge]) -> str:
    """The lines of gauges. A count is written out: `1e+06` would lose runs."""
    lines: list[str] = []
    for name, kind, about, value in gauges:
        lines += [*_head(name, kind, about), f"{name} {value:.15g}"]
    return "\n".join(lines) + "\n"


def _head(name: str, kind: str, about: str) -> tuple[str, str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"
