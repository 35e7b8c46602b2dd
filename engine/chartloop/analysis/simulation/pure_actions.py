"""Actions without effects, executed by the code that a real run calls.

Belongs here: stand-ins for the run, its clock and its ports. Never: a port that reaches outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from chartloop.core.errors import Category
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.language.expression import GUARD_ERRORS, GuardFailed, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.run.context import Context, Ports, StopRequest
from chartloop.run.events import Event
from chartloop.run.job import fields_of, job_of
from chartloop.run.journal import RunRow
from chartloop.run.tally import Tally


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


class NullHost:
    """A host of actions without a run: it records nothing and has no listeners."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.deadline: float | None = None
        self.listener: Callable[[Event], None] | None = None
        self.tally = Tally()

    async def note(
        self, type: str, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Record nothing."""

    async def settle(self) -> None:
        """Record nothing."""

    def tell(self, state: str, text: str) -> None:
        """Do nothing: there is no listener."""

    def tell_reasoning(self, state: str, text: str) -> None:
        """Do nothing: there is no listener."""

    def tell_call(self, state: str, number: int, call: ToolCall) -> None:
        """Do nothing: there is no listener."""

    async def find_any_stop_request(self) -> StopRequest | None:
        """None: a simulated run gets no requests."""
        return None

    async def find_children(self) -> list[RunRow]:
        """No children."""
        return []

    def child(self, machine: str, run_id: str) -> Any:
        """Refuse: the world gives the results of children, which never run."""
        raise TypeError(f"a simulation does not run the child `{machine}`")

    def ask_to_save(self) -> None:
        """Record nothing."""


class _At(NamedTuple):
    """The values that the fields of `with` are evaluated with."""

    chart: Chart
    position: Position

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """Raise: a field that calls a Python guard cannot be evaluated."""
        return no_oracle(name, args)


class PureAction:
    """The action of one state, executed without a run."""

    def __init__(self, chart: Chart, state: StateSpec) -> None:
        self.chart = chart
        self.state = state
        self._clock = PositionClock()
        self._ports = Ports(clock=self._clock)
        self._host = NullHost(chart)
        self._job = job_of(chart.spec, state, self._ports)

    def call_arguments(self, position: Position) -> tuple[Context, dict[str, Any]]:
        """The arguments of the action's call: its context and the fields of `with`."""
        facts = position.facts
        self._clock.at = facts.marks.now
        context = Context(
            self.chart.spec, self.state, position, facts, self._ports, self._host,
            facts.marks.now, f"{facts.run.id}/{self.state.name}/{facts.run.steps}", None, {},
        )  # fmt: skip
        return context, fields_of(_At(self.chart, position), self._job)

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
