"""A world: the probabilities of what comes from outside a machine.

The replies of models, failures of tools, durations, answers of people, results of Python guards.
It never says which edge is taken: the machine's own guards decide that.

A world describes states or actions; whatever it leaves open is assumed
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
"""The event in `answers` that stands for no answer: the wait expires, or never ends."""


def choice(weights: Mapping[Any, float]) -> Choice:
    """Normalize weights to shares; values of weight 0 are left out."""
    total = sum(weights.values())
    return tuple((value, weight / total) for value, weight in weights.items() if weight > 0)


@dataclass(frozen=True)
class Behaviour:
    """The behaviour of one state, or of every state with an action. None: left open."""

    fails: Mapping[str, float] | None = None
    """The share of failed actions, by category."""
    tool_calls: Amount | None = None
    """The number of tool calls in a reply."""
    tools: Choice | None = None
    """The tool of a reply's calls; all calls of one reply are of the same tool."""
    repeats: float | None = None
    """The share of the replies with calls that repeat the previous calls."""
    texts: Choice | None = None
    """The text of a reply."""
    results: Mapping[str, Choice] | None = None
    """Fields of the result by their path; for a reply with `output`, fields of its data."""
    prompt_tokens: Amount | None = None
    """Tokens that a call sends; at least the conversation if it `grows`."""
    completion_tokens: Amount | None = None
    grows: bool | None = None
    """Whether a call sends the whole conversation."""
    usd: float | None = None
    """The average cost of a call, if there are no prices."""
    call_fails: float | None = None
    """The share of single tool calls that fail; the model is told so."""
    adds: Amount | None = None
    """Tokens that one tool's result adds to the conversation."""
    calls: Amount | None = None
    """Model calls of a child machine."""
    reasons: Choice | None = None
    """Why a child machine stops."""
    duration: Amount | None = None
    """Seconds."""
    answers: Choice | None = None
    """The event that answers a wait, or `nobody`."""
    delay: Amount | None = None
    """Seconds until the answer."""
    data: Mapping[str, Choice] | None = None
    """Fields of the answer's data."""

    def over(self, other: Behaviour) -> Behaviour:
        """This behaviour, completed by the other where this leaves a field open."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(other, **{name: value for name, value in own.items() if value is not None})

    @property
    def set_fields(self) -> frozenset[str]:
        """The names of the fields that have a value."""
        return frozenset(f.name for f in fields(self) if getattr(self, f.name) is not None)


UNSPECIFIED = Behaviour()


@dataclass(frozen=True)
class World:
    """The probabilities of what comes from outside a machine. In `World()` all is assumed."""

    states: Mapping[str, Behaviour] = field(default_factory=dict[str, Behaviour])
    actions: Mapping[str, Behaviour] = field(default_factory=dict[str, Behaviour])
    guards: Mapping[str, float] = field(default_factory=dict[str, float])
    """How often each registered Python guard holds."""
    fleet: Mapping[str, Amount] = field(default_factory=dict[str, Amount])
    """What limits across runs leave, by fact; drawn once a run. None without an amount."""
    prices: tuple[float, float] | None = None
    """USD for a token sent and for a token written; None: the prices of the machine file."""
    task: str = "a task"
    """The task of each run."""
    about: str = ""
    samples: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of actions or waits from which each state of a learnt world was learnt."""
    runs: int = 0
    """The number of runs from which the world was learnt; 0 if it was not."""
