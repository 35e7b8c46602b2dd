"""The metrics of runs: histograms and counters.

Belongs here: the measurements and their labels. Never: spans (`run_spans`), names (`names`).
"""

from __future__ import annotations

from typing import Any

from chartloop.adapters.tracer.names import DURATIONS, TOKEN_COUNTS, Metric, Name
from chartloop.core.outcome import Spent
from chartloop.core.position import Position
from chartloop.run.progress import how_of
from chartloop.run.tracing import TracedRun


class Instruments:
    """The instruments of a meter of OpenTelemetry."""

    def __init__(self, meter: Any) -> None:
        self.durations = meter.create_histogram(
            Metric.DURATION, unit="s", description="Duration of model calls.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )  # fmt: skip
        self.tool_durations = meter.create_histogram(
            Metric.TOOL_DURATION, unit="s", description="Duration of tool calls.",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )  # fmt: skip
        self.tokens = meter.create_histogram(
            Metric.TOKENS, unit="{token}", description="Tokens of model calls.",
            explicit_bucket_boundaries_advisory=TOKEN_COUNTS,
        )  # fmt: skip
        self.cost = meter.create_counter(Metric.COST, unit="USD", description="Known cost.")
        self.runs = meter.create_counter(Metric.RUNS, unit="{run}", description="Runs that ended.")
        self._waits = meter.create_up_down_counter(
            Metric.WAITING, unit="{run}", description="Runs that this process left waiting."
        )
        self._waiting: dict[str, dict[str, Any]] = {}

    def count_tokens(self, spent: Spent, labels: dict[str, Any]) -> None:
        """Record tokens and cost of a model call. The conventions forbid estimated tokens."""
        if not spent.estimated:
            self.tokens.record(spent.prompt_tokens, {**labels, Name.TOKEN_TYPE: "input"})
            self.tokens.record(spent.completion_tokens, {**labels, Name.TOKEN_TYPE: "output"})
        if spent.cost:
            self.cost.add(spent.cost, labels)

    def take_up(self, run_id: str) -> None:
        """Record that a run continues."""
        if (labels := self._waiting.pop(run_id, None)) is not None:
            self._waits.add(-1, labels)

    def rest(self, run: TracedRun, position: Position, reason: str) -> None:
        """Record that a run has ended or waits."""
        labels: dict[str, Any] = {Name.MACHINE: run.chart.spec.name}
        if position.ended:
            kind = {Name.STOP_REASON: reason, Name.STOP_KIND: how_of(position)}
            self.runs.add(1, {**labels, **kind, Name.DEPTH: position.facts.run.depth})
        elif position.status == "paused" and not position.facts.run.depth:
            self._waiting[run.id] = labels
            self._waits.add(1, labels)
