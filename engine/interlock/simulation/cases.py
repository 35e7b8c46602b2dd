"""What may come of an action or a wait: cases with their weights, to be drawn or gone through.

Belongs here: weights and draws. Never: what an outcome is (`simulation.outcomes`).

Imported by: simulation.outcomes, simulation.play
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from random import Random
from typing import Any, NamedTuple

from interlock.core.outcome import Blocked, Outcome
from interlock.core.position import Position
from interlock.simulation.amounts import NOTHING, Amount, drawing

Make = Callable[[Position, float, float], Outcome | Blocked]
"""A position and two amounts to what comes: tokens sent and written, or tokens added."""


class Case(NamedTuple):
    """One thing that may come of an action."""

    weight: float
    make: Make
    duration: Amount
    first: Amount = NOTHING
    second: Amount = NOTHING


class Cases:
    """All that may come of an action at one position; the weights sum to 1."""

    __slots__ = ("_drawing", "_steps", "all", "fixed")

    def __init__(self, cases: list[Case]) -> None:
        total = sum(case.weight for case in cases)
        self.all = [case._replace(weight=case.weight / total) for case in cases if case.weight > 0]
        self._steps = [*accumulate(case.weight for case in self.all[:-1])]
        self._drawing = [
            (c.make, drawing(c.first), drawing(c.second), drawing(c.duration)) for c in self.all
        ]
        self.fixed = [
            all(amount.fixed is not None for amount in (c.first, c.second, c.duration))
            for c in self.all
        ]
        """Of each case: whether it comes to the same every time."""

    def pick(self, chance: Random) -> int:
        """The number of one of them."""
        return bisect_right(self._steps, chance.random())

    def come(
        self, number: int, position: Position, chance: Random
    ) -> tuple[Outcome | Blocked, float]:
        """What comes in that case, and how long it took."""
        make, first, second, duration = self._drawing[number]
        return make(position, first(chance), second(chance)), duration(chance)


class Wait(NamedTuple):
    """Who answers a wait, and when."""

    answers: tuple[tuple[str, Mapping[str, Any], float], ...]
    """The event, its data, the probability; `nobody` is an event of no name."""
    delay: Amount
    steps: tuple[float, ...]
    """The probabilities, summed up; without the last."""
