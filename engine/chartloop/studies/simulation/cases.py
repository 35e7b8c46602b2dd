"""The possible outcomes of an action or a wait: weighted cases, drawn or enumerated.

Belongs here: weights and draws. Never: the outcomes themselves (`studies.simulation.outcomes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.studies.simulation.distributions import NOTHING, Amount, drawing

Make = Callable[[Position, float, float], Outcome | Blocked]
"""Makes an outcome from a position and two amounts: tokens sent and written, or tokens added."""


class Case(NamedTuple):
    """One possible outcome of an action."""

    weight: float
    make: Make
    duration: Amount
    first: Amount = NOTHING
    second: Amount = NOTHING


class Cases:
    """All possible outcomes of an action at one position; the weights sum to 1."""

    __slots__ = ("_drawing", "all", "fixed", "steps")

    def __init__(self, cases: list[Case]) -> None:
        total = sum(case.weight for case in cases)
        self.all = [case._replace(weight=case.weight / total) for case in cases if case.weight > 0]
        self.steps = [*accumulate(case.weight for case in self.all[:-1])]
        """The cumulative weights, without the last."""
        self._drawing = [
            (
                c.make, _sampler(c.first), _sampler(c.second), _sampler(c.duration),
                c.first.single_value or 0.0, c.second.single_value or 0.0,
                c.duration.single_value or 0.0,
            )
            for c in self.all
        ]  # fmt: skip
        self.fixed = [
            all(amount.single_value is not None for amount in (c.first, c.second, c.duration))
            for c in self.all
        ]
        """For each case, whether it has no drawn amounts."""

    def come(
        self, number: int, position: Position, chance: Random
    ) -> tuple[Outcome | Blocked, float]:
        """Draw the outcome of that case and its duration in seconds."""
        make, first, second, duration, a, b, seconds = self._drawing[number]
        if first is not None:
            a = first(chance)
        if second is not None:
            b = second(chance)
        return make(position, a, b), duration(chance) if duration is not None else seconds


def _sampler(amount: Amount) -> Callable[[Random], float] | None:
    """A function that draws one value; None if the amount is fixed."""
    return None if amount.single_value is not None else drawing(amount)


class Wait(NamedTuple):
    """The possible answers to a wait, and their delay in seconds."""

    answers: tuple[tuple[str, Mapping[str, Any], float], ...]
    """Event, its data and its probability; the event `nobody` stands for no answer."""
    delay: Amount
    steps: tuple[float, ...]
    """The cumulative probabilities, without the last."""
