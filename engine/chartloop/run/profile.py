"""Where a run's time and tokens went: one line for each state that acted.

A fold of records, kept in the tally, so that a profile costs nothing to make however long the
run was.

Source: 004 "Step execution metrics and profiling".
"""

from __future__ import annotations

from chartloop.core.outcome import NOTHING_SPENT
from chartloop.core.records import Input
from chartloop.core.values import Value


class StateProfile(Value, frozen=True, gc=False):
    """The totals of one state's action. Times in seconds."""

    attempts: int = 0
    """Finished actions, failed and retried ones too."""
    failed: int = 0
    """Of these, those that failed."""
    total: float = 0.0
    """Time inside the action; waits before a retry are not part of it."""
    longest: float = 0.0
    """The longest of them."""
    tokens: int = 0
    """Prompt and completion tokens."""
    failed_calls: int = 0
    """Single calls of tools that failed in actions that did not."""


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
