"""The totals of a run for its result: path, signals, warnings, errors, partial results.

A fold of records and decisions, updated with each record and stored in snapshots, so that making a
result costs the same however long the run is. Its profile has the time and tokens of each state
that acted.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

from msgspec import Struct, structs

from chartloop.core.codec import read, written
from chartloop.core.facts import Facts
from chartloop.core.reasons import REASONS, StopReason, StopSignal
from chartloop.core.records import Record
from chartloop.core.values import Value
from chartloop.machine.decision import Decision, moved


class StateProfile(Value, frozen=True, gc=False):
    """The totals of one state's action. Times in seconds."""

    attempts: int = 0
    """Finished actions, failed and retried ones included."""
    failed: int = 0
    """Of these, those that failed."""
    total: float = 0.0
    """Time inside the action, without the waits before a retry."""
    longest: float = 0.0
    """The time of the longest action."""
    tokens: int = 0
    """Prompt and completion tokens."""
    failed_calls: int = 0
    """Single tool calls that failed within actions that succeeded."""


NOTHING_DONE = StateProfile()


class Tally(Struct):
    """The totals of one run, over its first `records` records."""

    records: int = 0
    rest: int = 0
    """The number of the record that brought the run to its current place: the id of a wait."""
    path: list[str] = []
    taken: dict[str, int] = {}
    """How often each edge and rule was taken, by id."""
    elapsed: list[float] = []
    """For each finished action: seconds since the start."""
    acted: list[str] = []
    """Likewise its state."""
    tokens: list[int] = []
    """Likewise the tokens used so far."""
    costs: list[float | None] = []
    """Likewise the cost in USD; None where no price is known."""
    signals: list[StopSignal] = []
    warnings: list[str] = []
    errors: list[dict[str, Any]] = []
    partial: list[str] = []
    last_text: str = ""
    failed_calls: int = 0
    """Failed model calls. A script counts its replies with these included."""
    profile: dict[str, StateProfile] = {}
    """The totals of each state's actions, in the order in which they were first done."""

    def add(self, record: Record, decision: Decision, facts: Facts) -> None:
        """Add one record. `facts` are those after it."""
        if moved(decision):
            self.rest = self.records
        self.records += 1
        self.path += decision.path
        for id in decision.taken:
            self.taken[id] = self.taken.get(id, 0) + 1
        if decision.signals:
            self.signals += decision.signals
        if decision.warnings:
            self.warnings += decision.warnings
        state, step, outcome = record.state, record.input, record.input.outcome
        if outcome is None:
            return
        self.elapsed.append(facts.run.elapsed)
        self.acted.append(state)
        self.tokens.append(facts.usage.total_tokens)
        self.costs.append(facts.usage.cost)
        if outcome.reply is not None:
            self.last_text = outcome.reply.text
        if outcome.unanswered:
            self.failed_calls += outcome.unanswered
        if outcome.partial:
            self.partial += outcome.partial
        if outcome.warnings:
            self.warnings += outcome.warnings
        error = decision.unsaved if outcome.ok else outcome.error
        before, spent = self.profile.get(state, NOTHING_DONE), outcome.spent
        took = max(0.0, step.at - step.started)
        self.profile[state] = StateProfile(
            attempts=before.attempts + 1, failed=before.failed + (error is not None),
            total=before.total + took,
            longest=max(before.longest, took),
            tokens=before.tokens + spent.prompt_tokens + spent.completion_tokens,
            failed_calls=before.failed_calls + len(outcome.tool_errors),
        )  # fmt: skip
        if error is None and not outcome.tool_errors:
            return
        failures = [] if error is None else [(error.category, error.message)]
        failures += [("RECOVERABLE", message) for message in outcome.tool_errors]
        self.errors += [
            {"category": category, "message": message, "state": state, "step": facts.run.steps}
            for category, message in failures
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a snapshot: a copy, since the lists keep growing."""
        return written(self)

    def copy(self) -> Tally:
        """An independent copy."""
        return Tally(*map(copy, structs.astuple(self)))

    @classmethod
    def from_dict(
        cls, data: Mapping[str, Any], reasons: Mapping[str, StopReason] = REASONS
    ) -> Tally:
        """Read back what `to_dict` wrote."""
        return read(data, cls, reasons)
