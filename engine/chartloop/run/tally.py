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
from chartloop.core.outcome import NOTHING_SPENT
from chartloop.core.reasons import REASONS, StopReason, StopSignal
from chartloop.core.records import Input, Record
from chartloop.core.values import Value
from chartloop.machine.decision import Decision


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


def with_action(before: StateProfile, step: Input, *, failed: bool) -> StateProfile:
    """The profile of a state with one more finished action."""
    took = max(0.0, step.at - step.started)
    spent = NOTHING_SPENT if step.outcome is None else step.outcome.spent
    return StateProfile(
        before.attempts + 1,
        before.failed + failed,
        before.total + took,
        max(before.longest, took),
        before.tokens + spent.prompt_tokens + spent.completion_tokens,
        before.failed_calls + (0 if step.outcome is None else len(step.outcome.tool_errors)),
    )


class Tally(Struct):
    """The totals of one run, over its first `records` records."""

    records: int = 0
    rest: int = 0
    """The number of the record that brought the run to its current place: the id of a wait."""
    path: list[str] = []
    taken: dict[str, int] = {}
    """How often each edge and rule was taken, by id."""
    moments: list[tuple[float, str, int]] = []
    """For each finished action: seconds since the start, its state, tokens used so far."""
    costs: list[float | None] = []
    """The cost in USD at each of the moments; None where no price is known."""
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
        if decision.path or record.input.kind == "blocked":
            self.rest = self.records
        self.records += 1
        self.path += decision.path
        for id in decision.taken:
            self.taken[id] = self.taken.get(id, 0) + 1
        if decision.signals:
            self.signals += decision.signals
        if decision.warnings:
            self.warnings += decision.warnings
        outcome = record.input.outcome
        if outcome is None:
            return
        step = facts.run.steps
        self.moments.append((facts.run.elapsed, record.state, facts.usage.total_tokens))
        self.costs.append(facts.usage.cost)
        if outcome.reply is not None:
            self.last_text = outcome.reply.text
        self.failed_calls += outcome.unanswered
        if outcome.partial:
            self.partial += outcome.partial
        if outcome.warnings:
            self.warnings += outcome.warnings
        error = decision.unsaved if outcome.ok else outcome.error
        profile = self.profile.get(record.state, NOTHING_DONE)
        self.profile[record.state] = with_action(profile, record.input, failed=error is not None)
        if error is not None:
            self._err(error.category, error.message, record.state, step)
        for message in outcome.tool_errors:
            self._err("RECOVERABLE", message, record.state, step)

    def _err(self, category: str, message: str, state: str, step: int) -> None:
        self.errors.append({"category": category, "message": message, "state": state, "step": step})

    def rest_after(self, record: Record, decision: Decision) -> int:
        """The value of `rest` after a record."""
        return self.records if decision.path or record.kind == "blocked" else self.rest

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
