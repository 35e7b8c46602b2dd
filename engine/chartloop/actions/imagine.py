"""What an action is imagined with: its state, and what a world says of it.

In a simulation nothing outside is called. A world says what came from outside: a reply, how many
calls failed, how a child or a task ended. From this `imagine`, which stands beside `run`, makes the
outcome that `run` would have. An action without it is done as it is, if it is pure and stays
inside; of any other the world says the result.

Belongs here: what several actions need to be imagined. Never: a weight or a draw, which belong to
`studies.simulation`, or a port that reaches outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from chartloop.core.errors import Category
from chartloop.core.facts import Failure
from chartloop.core.outcome import NOTHING_SPENT, Blocked, Outcome, Spent
from chartloop.core.position import Position
from chartloop.core.types import Type
from chartloop.language.expression import GUARD_ERRORS, GuardFailed, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.run.components import Ports
from chartloop.run.context import Context
from chartloop.run.job import fields_of, job_of
from chartloop.run.journal import MemoryJournal
from chartloop.run.session import Session

NOT_OFFERED = "error: the tool was not offered"


class Drawn(NamedTuple):
    """What a world says of one action, apart from amounts; of each only what its traits ask for."""

    result: Any = None
    """Of a reply the data, of a child the output."""
    fails: str = ""
    """The category of the failure of a task; empty if it was done."""
    late: bool = False
    """Whether its deadline cuts it off."""
    text: str = ""
    """The text of a reply."""
    calls: int = 0
    """The tool calls of a reply, the model calls of a child, or the calls that failed."""
    tool: str = ""
    """The tool of a reply's calls."""
    again: bool = False
    """Whether a reply repeats the previous calls."""
    reason: str = ""
    """Why a child stopped."""


Imagine = Callable[["Scene", Drawn, Position, float, float], Outcome]
"""Makes an outcome from the tokens sent and written, or from those that each call added."""


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


class ChildUse(NamedTuple):
    """The model calls of a child machine, and the tokens that each of them sends and gets."""

    calls: int
    sent: int
    written: int


class Scene:
    """A state whose action is imagined, in a machine and a world."""

    def __init__(
        self, chart: Chart, state: StateSpec, prices: tuple[float, float] | None = None,
        usd: float | None = None, *, grows: bool = False, is_read: bool = True,
    ) -> None:  # fmt: skip
        """`usd` is the average cost of a model call, if it is known otherwise than by prices."""
        spec = chart.spec
        self.chart, self.spec, self.state = chart, spec, state
        self.prices, self.usd = prices, usd
        self.grows = grows
        """Whether a call sends the whole conversation."""
        self.is_read = is_read
        """Whether the machine reads results of actions."""
        self.longest = int(spec.model.get("max_tokens") or 0)
        """The most tokens of a reply; 0 if there is no limit."""
        self.tools = chart.tools_at(state.name).keys()
        self.hidden = spec.registry.tools.keys() - self.tools
        """The tools that the state does not offer."""
        self.memory = frozenset(n for n, t in spec.registry.tools.items() if t.memory)
        self.child = ChildUse(0, 0, 0)
        """What each call of a child machine uses."""
        self._clock = PositionClock()
        ports = Ports(clock=self._clock)
        self._host = Session(chart, MemoryJournal(), "", ports)
        self._job = job_of(chart, state.name, ports)

    def call_arguments(self, position: Position) -> tuple[Context, dict[str, Any]]:
        """The arguments of the action's call: its context and the fields of `with`."""
        facts, job = position.facts, self._job
        self._clock.at = facts.marks.now
        context = Context(
            self.spec, self.state, position, facts, self._host.ports, self._host,
            facts.marks.now, f"{facts.run.id}/{self.state.name}/{facts.run.steps}", {},
            position.messages, position.prompt, position.kept, job.tools, job.tool_schemas,
            streaming=False, due=None,
        )  # fmt: skip
        return context, fields_of(job, self.spec, facts, no_oracle)

    def do(self, position: Position, a: float = 0.0, b: float = 0.0) -> Outcome | Blocked:
        """The outcome where the world says nothing: imagined by the action, or else of doing it.

        As in a run, it fails if a field cannot be evaluated.
        """
        action = self.state.action
        assert action is not None
        assert action.run is not None
        try:
            if action.imagine is not None:
                return action.imagine(self, Drawn(), position, a, b)
            context, fields = self.call_arguments(position)
        except (GuardFailed, ValueError, *GUARD_ERRORS) as error:
            message = f"`with` of {self.state.name}: {error}"
            return Outcome.failure(Category.CRITICAL, message, kind="with")
        if action.targets is None:
            return action.run(context, **fields)
        return action.run(context, fields)

    def spent(self, sent: float, written: float) -> Spent:
        """The usage of one model call: at least a token is sent, at most `longest` are written."""
        sent, written = max(int(sent), 1), int(min(written, self.longest or written))
        return Spent(1, sent, written, self.cost(sent, written))

    def spent_by_children(self, children: int) -> Spent:
        """The usage of so many child machines that a reply called."""
        calls, sent, written = (children * self.child.calls, *self.child[1:])
        if not calls:
            return NOTHING_SPENT
        cost = self.cost(sent, written)
        return Spent(calls, calls * sent, calls * written, None if cost is None else calls * cost)

    def cost(self, sent: int, written: int) -> float | None:
        """The cost of a model call; None if no price is known."""
        if self.usd is not None:
            return self.usd
        return None if self.prices is None else sent * self.prices[0] + written * self.prices[1]


def failure_named(name: str, message: str, kind: str = "") -> Failure:
    """The failure that a world names by its category, or `EMPTY`, an empty reply."""
    if name == "EMPTY":
        return Failure("TRANSIENT", message, "", "empty")
    return Failure(name, message, "", kind)


def plain_value(type: Type) -> Any:
    """The neutral value of a type: False, 0, an empty text or collection, None."""
    match type.kind:
        case "bool":
            return False
        case "int":
            return 0
        case "float" | "duration" | "fraction":
            return 0.0
        case "str":
            return ""
        case "enum":
            return type.values[0]
        case "list":
            return ()
        case "map":
            return {}
        case "struct":
            return {name: plain_value(inner) for name, inner in type.fields}
        case _:
            return None
