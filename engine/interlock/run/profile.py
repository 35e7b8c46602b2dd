"""Where a run's time and tokens went: one line for each state that acted.

A fold of records, kept in the tally, so that a profile costs nothing to make however long the
run was.

Imported by: run.tally, run.result
Source: 004 "Step execution metrics and profiling".
"""

from __future__ import annotations

from typing import NamedTuple

from interlock.core.outcome import NOTHING_SPENT
from interlock.core.records import Input


class StateProfile(NamedTuple):
    """What the action of one state came to. Times in seconds."""

    attempts: int = 0
    """Finished actions, failed and retried ones too."""
    failed: int = 0
    total: float = 0.0
    """Time inside the action; waits before a retry are no part of it."""
    longest: float = 0.0
    tokens: int = 0
    """Prompt and completion tokens."""

    def adding(self, step: Input, *, failed: bool) -> StateProfile:
        """With one more finished action of the state."""
        took, spent = max(0.0, step.at - step.started), NOTHING_SPENT
        if step.outcome is not None:
            spent = step.outcome.spent
        return StateProfile(
            self.attempts + 1, self.failed + failed, self.total + took, max(self.longest, took),
            self.tokens + spent.prompt_tokens + spent.completion_tokens,
        )  # fmt: skip


NOTHING_DONE = StateProfile()
