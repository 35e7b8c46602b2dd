"""A world: what comes from outside, with which probability.

What a model replies, whether a tool fails, how long things take, what people answer, what Python
guards say. It never says which edge is taken: the machine's own guards decide that.

Everything is said by state or by action; what neither says is assumed
(`analysis.simulation.assumptions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from chartloop.analysis.simulation.distributions import Amount

Choice = tuple[tuple[Any, float], ...]
"""Values with their shares, which sum to 1."""
NOBODY = "nobody"
"""Among `answers`: no one answers, and the wait expires, or lasts for ever."""


def choice(weights: Mapping[Any, float]) -> Choice:
    """The shares of weights."""
    total = sum(weights.values())
    return tuple((value, weight / total) for value, weight in weights.items() if weight > 0)


@dataclass(frozen=True)
class Happens:
    """What one state, or every state that does an action, comes to. None: it is not said."""

    fails: Mapping[str, float] | None = None
    """How often the action fails, by category."""
    tool_calls: Amount | None = None
    """How many calls a reply asks for."""
    tools: Choice | None = None
    """Of which tool; the calls of one reply are of one."""
    repeats: float | None = None
    """Share of the replies with calls that ask for the same calls once more."""
    texts: Choice | None = None
    """What a reply says."""
    results: Mapping[str, Choice] | None = None
    """Fields of the result by their path; of a reply with `output`, fields of its data."""
    prompt_tokens: Amount | None = None
    """Tokens that a call sends; at least the conversation, where it `grows`."""
    completion_tokens: Amount | None = None
    grows: bool | None = None
    """Whether a call sends the conversation, as it has become by then."""
    usd: float | None = None
    """What a call costs on average, where no price says it."""
    call_fails: float | None = None
    """Share of the single tool calls that fail, and tell the model so."""
    adds: Amount | None = None
    """Tokens that one tool's result adds to the conversation."""
    calls: Amount | None = None
    """Model calls of a child machine."""
    reasons: Choice | None = None
    """Why a child machine stops."""
    duration: Amount | None = None
    """Seconds."""
    answers: Choice | None = None
    """The event that someone sends to a wait, or `nobody`."""
    delay: Amount | None = None
    """Seconds until they do."""
    data: Mapping[str, Choice] | None = None
    """Fields of the answer."""

    def over(self, other: Happens) -> Happens:
        """This, and what the other says of what this leaves open."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(other, **{name: value for name, value in own.items() if value is not None})

    @property
    def set_fields(self) -> frozenset[str]:
        """The names of the fields that have a value."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) is not None)


SAYS_NOTHING = Happens()


@dataclass(frozen=True)
class World:
    """What comes from outside a machine. `World()` says nothing: all is assumed."""

    states: Mapping[str, Happens] = field(default_factory=dict[str, Happens])
    actions: Mapping[str, Happens] = field(default_factory=dict[str, Happens])
    guards: Mapping[str, float] = field(default_factory=dict[str, float])
    """How often a registered Python guard says yes."""
    prices: tuple[float, float] | None = None
    """USD for a token that is sent, and for one that is written; else those of the file."""
    task: str = "a task"
    """What each run is asked to do."""
    about: str = ""
    samples: Mapping[str, int] = field(default_factory=dict[str, int])
    """Of a learnt world: from how many finished actions or waits each state was learnt."""
    runs: int = 0
    """From how many runs it was learnt."""
