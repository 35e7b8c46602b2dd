"""Time in a what-if: deadlines and waits that other limits would have moved.

The deadline of an action is its `within` or the rest that a time rule leaves; that of a wait is its
`within`. Under other limits, an action may have been cut off, or a wait may have expired, at
another time.

Belongs here: comparing recorded times with deadlines. Never: decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chartloop.core.errors import Category
from chartloop.core.outcome import Outcome
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.core.units import say_duration
from chartloop.language.expression import Expression
from chartloop.machine.build import Chart
from chartloop.machine.rules import time_allowed
from chartloop.run.exceptions import A_HAIR, too_long

_CLOCK = ("run.elapsed", "run.working", "run.idle", "progress.stalled_for")


class ClockEffect(NamedTuple):
    """The effect of the clock on a record: none, another input, or an unknown one."""

    instead: Input | None = None
    because: str = ""
    note: str = ""
    """A difference that does not change the course of the run."""


_AS_IT_WAS = ClockEffect()


class Timing:
    """The deadlines of one question. `names` are the changed facts, `limits` the recorded ones."""

    def __init__(
        self, chart: Chart, old: Chart, names: frozenset[str], limits: Mapping[str, Any]
    ) -> None:
        self.chart, self.old, self.limits = chart, old, dict(limits)
        within = [s.within for s in chart.spec.states.values() if isinstance(s.within, Expression)]
        self.matters = old is not chart or reads_any([*chart.time_left, *within], names)
        self.before: Record | None = None
        """The record before the current one; None at the first."""

    def apply_edit(self, edit: Record) -> None:
        """Update the recorded limits by an edit of the run."""
        for fact, value in edit.input.data.items():
            root, _, name = fact.partition(".")
            if root == "limits":
                self.limits[name] = value

    def of(self, position: Position, record: Record) -> ClockEffect:
        """The effect on a record at a wait, or at an action that was cut off."""
        before = self.before
        if before is None:
            return _AS_IT_WAS
        if position.wake_at != before.wake_at and position.status == "paused":
            return self._time_wait(position, record)
        if record.kind != "step" or record.outcome is None or not record.outcome.timed_out:
            return _AS_IT_WAS
        due, was = self._deadline(position, record), self._was_due(position, record)
        if due == was:
            return _AS_IT_WAS
        return ClockEffect(
            because=f"`{record.state}` was cut off at its deadline, which is another now"
        )

    def _time_wait(self, position: Position, record: Record) -> ClockEffect:
        state, due = position.state, position.wake_at
        if state not in self.chart.waiting:
            return ClockEffect(because=f"the back-off at `{state}` would end at another time")
        if record.kind == "expired":
            if due is None or due > record.input.at:
                return ClockEffect(because=f"the wait at `{state}` would not have expired yet")
            if reads_any(self.chart.spec.guards(), frozenset(_CLOCK)):
                return ClockEffect(because=f"the wait at `{state}` would have expired earlier")
            sooner = say_duration(record.input.at - due)
            return ClockEffect(note=f"the wait at `{state}` would have expired {sooner} sooner")
        if due is None or record.input.at < due:
            return _AS_IT_WAS
        return ClockEffect(Input("expired", at=due))

    def cut_off_input(self, position: Position, record: Record) -> Input | None:
        """The input of an action that would have been cut off; None if it would not."""
        if not self.matters or record.outcome is None or record.outcome.timed_out:
            return None
        due, at = self._deadline(position, record), record.input.at
        was = self._was_due(position, record)
        if due is None or at <= due + A_HAIR or (was is not None and at > was + A_HAIR):
            return None  # in time, or an action that outlasts its deadline
        failure = too_long(record.state, due - record.input.started)
        outcome = Outcome.failure(
            Category.TRANSIENT, failure.message, kind=failure.kind, timed_out=True
        )
        return record.input.replace(outcome=outcome, at=max(due, record.input.started))

    def describe_cut(self, record: Record, cut: Input) -> str:
        """Why the outcome of an action is unknown: it would have been cut off."""
        took, left = record.input.at - record.input.started, cut.at - cut.started
        return (
            f"`{record.state}` took {say_duration(took)} and would have been cut off "
            f"after {say_duration(left)}"
        )

    def _deadline(self, position: Position, record: Record) -> float | None:
        return _due(self.chart, position, position.state, record.input.started)

    def _was_due(self, position: Position, record: Record) -> float | None:
        facts = position.facts
        recorded = position.replace(facts=facts.replace(limits={**facts.limits, **self.limits}))
        old_names = {new: old for old, new in self.chart.spec.renamed.items()}
        state = old_names.get(position.state, position.state)
        if state not in self.old.spec.states:
            state = position.state
        return _due(self.old, recorded, state, record.input.started)


def _due(chart: Chart, position: Position, name: str, started: float) -> float | None:
    """The deadline of a state's action that starts at `started`; None if it has none."""
    state = chart.spec.states.get(name)
    if state is None:
        return None
    waits = state.action is not None and state.action.may_wait and position.waited is not None
    waited = started - position.entered_at if waits else 0.0
    left = time_allowed(chart, state, position, waited=waited)
    return None if left is None else started + left


def reads_any(expressions: Iterable[Expression], names: frozenset[str]) -> bool:
    """Whether one of the expressions reads one of the facts."""
    return any(not names.isdisjoint(e.reads) for e in expressions)
