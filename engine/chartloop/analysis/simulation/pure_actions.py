"""Actions that have no effects are done as they are, by the code that a real run calls.

Belongs here: what such a call is given in place of a run. Never: a port that reaches outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from chartloop.core.conversation import assistant
from chartloop.core.errors import Category
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.core.transcript import Conversation
from chartloop.language.expression import GUARD_ERRORS, GuardFailed, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.run.context import Context, Ports, StopRequest
from chartloop.run.events import Event
from chartloop.run.job import fields_of, job_of
from chartloop.run.journal import RunRow
from chartloop.run.tally import Tally


class Still:
    """A clock that shows the time of the position; nothing waits by it."""

    suspends = False

    def __init__(self) -> None:
        self.at = 0.0

    def now(self) -> float:
        """The reading."""
        return self.at

    async def sleep(self, seconds: float) -> None:
        """Nothing sleeps: the simulator moves time."""

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        """Nothing is cut off here."""
        return nullcontext()


class Nobody:
    """What is in the place of the run: no one listens, no one asks for anything."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.deadline: float | None = None
        self.listener: Callable[[Event], None] | None = None
        self.tally = Tally()

    async def note(
        self, type: str, key: str, data: Mapping[str, Any], *, last: bool = False
    ) -> None:
        """Nothing is written down."""

    async def settle(self) -> None:
        """Nothing is written down."""

    def tell(self, state: str, text: str) -> None:
        """No one listens."""

    def tell_reasoning(self, state: str, text: str) -> None:
        """No one listens."""

    def tell_call(self, state: str, number: int, call: ToolCall) -> None:
        """No one listens."""

    async def find_any_stop_request(self) -> StopRequest | None:
        """No one asks."""
        return None

    async def find_children(self) -> list[RunRow]:
        """There are none."""
        return []

    def child(self, machine: str, run_id: str) -> Any:
        """A child is simulated by what its world says, never run."""
        raise TypeError(f"a simulation runs no child `{machine}`")

    def ask_to_save(self) -> None:
        """Nothing is written down."""


class _At(NamedTuple):
    """What the fields of `with` are evaluated over."""

    chart: Chart
    position: Position

    def ask(self, name: str, args: tuple[Any, ...]) -> bool:
        """No one answers: a field that asks a Python guard cannot be evaluated."""
        return no_oracle(name, args)


class Doing:
    """The action of one state, done without a run."""

    def __init__(self, chart: Chart, state: StateSpec) -> None:
        self.chart = chart
        self.state = state
        self._clock = Still()
        self._ports = Ports(clock=self._clock)
        self._host = Nobody(chart)
        self._job = job_of(chart.spec, state, self._ports)

    def call_arguments(self, position: Position) -> tuple[Context, dict[str, Any]]:
        """What the action is called with: its context and the fields of `with`."""
        facts = position.facts
        if facts.last.tool_calls:  # messages have no texts here: these are the open calls
            message = assistant("", facts.last.tool_calls)
            position = position.replace(messages=Conversation([message]))
        self._clock.at = facts.marks.now
        context = Context(
            self.chart.spec, self.state, position, facts, self._ports, self._host,
            facts.marks.now, f"{facts.run.id}/{self.state.name}/{facts.run.steps}", None, {},
        )  # fmt: skip
        return context, fields_of(_At(self.chart, position), self._job)

    def do(self, position: Position) -> Outcome | Blocked:
        """What comes of it; as in a run, a field that cannot be evaluated is its failure."""
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
