"""Actions without effects, executed by the code that a real run calls.

Belongs here: the stand-ins that such actions see. Never: a port that reaches outside.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from chartloop.core.errors import Category
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.language.expression import GUARD_ERRORS, GuardFailed, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.run.components import Ports
from chartloop.run.context import Context
from chartloop.run.job import fields_of, job_of
from chartloop.run.journal import MemoryJournal
from chartloop.run.session import Session


class PositionClock:
    """A clock that stands at the time of the position; nothing waits for it."""

    suspends = False

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        """The time, in seconds."""
        return self.at

    def follow(self, now: float, within: float = math.inf) -> float:
        """Do nothing: the simulator sets the time."""
        return 0.0

    async def sleep(self, seconds: float) -> None:
        """Return at once: the simulator moves time."""

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        """A context without a deadline: the simulator cuts actions off."""
        return nullcontext()


class PureAction:
    """The action of one state, executed without a run."""

    def __init__(self, chart: Chart, state: StateSpec) -> None:
        self.chart = chart
        self.state = state
        self._clock = PositionClock()
        ports = Ports(clock=self._clock)
        self._host = Session(chart, MemoryJournal(), "", ports)
        self._job = job_of(chart, state.name, ports)

    def call_arguments(self, position: Position) -> tuple[Context, dict[str, Any]]:
        """The arguments of the action's call: its context and the fields of `with`."""
        facts, job = position.facts, self._job
        self._clock.at = facts.marks.now
        context = Context(
            self.chart.spec, self.state, position, facts, self._host.ports, self._host,
            facts.marks.now, f"{facts.run.id}/{self.state.name}/{facts.run.steps}", {},
            position.messages, position.prompt, position.kept, job.tools, job.tool_schemas,
            streaming=False, due=None,
        )  # fmt: skip
        return context, fields_of(job, self.chart.spec, facts, no_oracle)

    def do(self, position: Position) -> Outcome | Blocked:
        """The outcome of the action; as in a run, it fails if a field cannot be evaluated."""
        action = self.state.action
        assert action is not None
        assert action.run is not None
        try:
            context, fields = self.call_arguments(position)
        except (GuardFailed, ValueError, *GUARD_ERRORS) as error:
            message = f"`with` of {self.state.name}: {error}"
            return Outcome.failure(Category.CRITICAL, message, kind="with")
        if action.targets is None:
            return action.run(context, **fields)
        return action.run(context, fields)
