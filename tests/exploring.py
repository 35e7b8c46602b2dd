"""Real runs under an adversary: what a model, a tool, a guard or a person may do at worst.

A run is the engine's own, with its actions, its journal and its clock. Only what comes from
outside is chosen here: what a reply is, whether a call fails, what a tool does, what a guard says,
which answer a wait gets. A list of numbers makes the choices, so that a run can be made again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from chartloop import AgentStop, guard, tool
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.errors import Category, ModelError, ToolError
from chartloop.core.facts import ToolCall
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.events import Recorded
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock

LONGEST = 60
"""Records after which a run is left where nothing bounds its actions."""


class Choices:
    """Numbers, one after the other; what is asked for beyond them is decided by `otherwise`."""

    def __init__(self, given: Sequence[int], otherwise: int = 0) -> None:
        self.given = list(given)
        self.otherwise = otherwise
        self.made = 0

    def of(self, options: int) -> int:
        """One of so many."""
        number = self.given[self.made] if self.made < len(self.given) else self.otherwise
        self.made += 1
        return number % options


class Adversary:
    """A model that says whatever is chosen."""

    suspends = False

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.asked = 0

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """The file's."""
        return settings.get("context_window")

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """A short reply, a long one, tool calls, or one of the three kinds of failure, with a wait that is asked for."""
        self.asked += 1
        names = [str(tool["function"]["name"]) for tool in request.tools]
        children = [name for name in names if name != "poke"]

        def call(id: str) -> ToolCall:
            if children and (which := self.choices.of(len(children) + 1)):
                return ToolCall(id, children[which - 1], '{"task": "x"}')
            return ToolCall(id, "poke", "{}")

        match self.choices.of(9):
            case 0:
                return ModelReply("hi", (call("a"),), "tool_calls", 3, 2)
            case 1:
                return ModelReply("hi", (), "stop", 1, 0)
            case 2:
                return ModelReply("hi", (call("a"), call("b")), "tool_calls", 1, 0)
            case 3:
                return ModelReply("hi", (), "stop", 5, 0)
            case 4:
                return ModelReply("hi", (ToolCall("c", "none", "{}"),), "tool_calls", 0, 1)
            case 5:
                return ModelReply("hi", (), "stop", 3, 2)
            case n:
                kinds = (Category.TRANSIENT, Category.RECOVERABLE, Category.CRITICAL)
                asked = (None, 5.0, 300.0, 1e9)[self.choices.of(4)]
                raise ModelError("no", category=kinds[n - 6], retry_after=asked)


class Spent(NamedTuple):
    """What a run used."""

    actions: float
    requests: float
    tool_calls: float
    tokens: float
    usd: float
    waiting: float


CHOICES: list[Choices] = [Choices(())]
"""Whose turn it is to choose for tools and guards; see `playing`."""


@tool
async def poke() -> str:
    """Does whatever is chosen."""
    match CHOICES[0].of(6):
        case 4:
            raise ToolError("it broke")
        case 5:
            raise AgentStop("enough")
        case _:
            return "ok"


@guard
def whim(number: int) -> bool:
    """Says whatever is chosen."""
    del number
    return bool(CHOICES[0].of(2))


OWN = (poke, whim)
REGISTRY = with_own(specs_of(*OWN))


def built(text: str) -> Machine:
    """A machine, not through the checker: bounds must hold for what it warns of, too."""
    loaded = load(text, "generated.yaml", REGISTRY)
    assert loaded.ok, "\n\n".join(f.render() for f in loaded.findings)
    assert loaded.spec is not None
    return Machine(Chart(loaded.spec, lifecycle()))


async def playing(
    machine: Machine, choices: Choices, longest: int = LONGEST, *,
    heard: list[Recorded] | None = None, enqueues: bool = False, **given: Any,
) -> tuple[Run, Spent]:  # fmt: skip
    """One run to its end, or to its `longest` record. `heard` gets its records and decisions.

    `enqueues`: a task may be added whenever the run waits.
    """
    CHOICES[0] = choices
    model, clock = Adversary(choices), ManualClock()
    run = machine.start("task", model=model, clock=clock, **given)
    if heard is not None:
        run.session.listener = lambda e: heard.append(e) if isinstance(e, Recorded) else None
    for _ in range(longest):
        if run.ended:
            break
        wait = machine.chart.events_at(run.state) if run.state in machine.chart.waiting else ()
        if wait and run.status == "paused":
            if enqueues and choices.of(3) == 2:
                await run.aenqueue(["more"])
                await run.aadvance()
            expires = machine.spec.states[run.state].within is not None
            which = choices.of(len(wait) + expires)
            if which < len(wait):
                clock.advance(choices.of(2) * 29.0 if expires else 0.0)
                await run.asend(wait[which])
        await run.aadvance()
    facts = run.facts
    return run, Spent(
        facts.run.steps, model.asked, facts.usage.tool_calls, facts.usage.total_tokens,
        facts.usage.cost or 0.0, facts.run.idle,
    )  # fmt: skip


def adversaries(seed: int, random_ones: int) -> Iterator[Choices]:
    """Stubborn ones, that always choose the same or alternate, and random ones."""
    for number in range(9):
        yield Choices((), number)
    for first in range(9):
        for then in (0, 6):
            yield Choices([first, then] * 60, first)
    chance = random.Random(seed)  # noqa: S311  no secret
    for _ in range(random_ones):
        pool = chance.sample(range(9), chance.randint(2, 5))
        yield Choices([chance.choice(pool) for _ in range(120)], chance.choice(pool))
