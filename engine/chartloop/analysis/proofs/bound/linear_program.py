"""The maximum gain of a walk through a graph, where sums over its steps are bounded.

A walk is a path and cycles. Columns (paths, cycles) are generated as they are needed: each
iteration adds the one that gains most at the current dual prices of the budgets, until none gains.
Then no walk can do better: the prices are a proof, which can be checked by multiplying out.
All numbers are exact.

Belongs here: numbers on arcs. Never: machines, guards, what the numbers mean.

Source:       Dantzig and Wolfe, "Decomposition Principle for Linear Programs", 1960.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

Number = int | Fraction
ZERO, ONE = Fraction(0), Fraction(1)
MOST_COLUMNS = 2_000


class Arc(NamedTuple):
    """One step: source, destination, gain, and the amount that it takes of each budget."""

    source: int
    dest: int
    gain: Number
    takes: tuple[Number, ...]
    label: int
    """The caller's number for it."""


class Column(NamedTuple):
    """A path or a cycle."""

    arcs: tuple[int, ...]
    cycle: bool
    gain: Number
    takes: tuple[Number, ...]


class Solved(NamedTuple):
    """The solution. `value` is None if the program is unbounded; `used` then holds the cycle."""

    value: Fraction | None
    used: tuple[tuple[Column, Fraction], ...]
    prices: tuple[Fraction, ...]


class OutOfEffort(Exception):
    """The program took more steps than allowed."""


class Effort:
    """The number of steps left: the same on every computer, unlike time."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Count steps. Raises `OutOfEffort` once none are left."""
        self.left -= steps
        if self.left < 0:
            raise OutOfEffort("the proof takes more steps than it may")


def most(
    arcs: Sequence[Arc], size: int, starts: Sequence[int], budgets: Sequence[Number],
    effort: Effort,
) -> Solved:  # fmt: skip
    """Maximise the gain of a walk from one of `starts` within the budgets."""
    rows = len(budgets) + 1  # the first row says that there is one path
    limits = [ONE, *(Fraction(b) for b in budgets)]
    inverse = [[ONE if i == j else ZERO for j in range(rows)] for i in range(rows)]
    basis: list[Column | int] = list(range(rows))  # a number is the slack of its row
    amounts = list(limits)
    search = _Search(arcs, size, starts, effort)
    for _ in range(MOST_COLUMNS):
        gains = [Fraction(b.gain) if isinstance(b, Column) else ZERO for b in basis]
        prices = [
            sum((g * inverse[i][j] for i, g in enumerate(gains) if g), ZERO) for j in range(rows)
        ]
        entering: Column | int | None = next((j for j, p in enumerate(prices) if p < 0), None)
        if entering is None:
            entering = search.best(prices)
        if entering is None:
            value = sum((p * b for p, b in zip(prices, limits, strict=True)), ZERO)
            used = tuple(
                (b, a) for b, a in zip(basis, amounts, strict=True) if isinstance(b, Column) and a
            )
            return Solved(value, used, tuple(prices[1:]))
        vector = _vector(entering, rows)
        direction = [sum((r[j] * v for j, v in enumerate(vector) if v), ZERO) for r in inverse]
        leaving = _leaving(direction, amounts, inverse)
        if leaving is None:
            ray = ((entering, ONE),) if isinstance(entering, Column) else ()
            ray += tuple(
                (b, -d)
                for b, d in zip(basis, direction, strict=True)
                if isinstance(b, Column) and d < 0
            )
            return Solved(None, ray, tuple(prices[1:]))
        _pivot(inverse, amounts, direction, leaving)
        basis[leaving] = entering
        effort.spend(rows * rows)
    raise OutOfEffort(f"it takes more than {MOST_COLUMNS:,} paths and cycles")


def _vector(entering: Column | int, rows: int) -> list[Fraction]:
    if isinstance(entering, int):
        return [ONE if i == entering else ZERO for i in range(rows)]
    return [ZERO if entering.cycle else ONE, *(Fraction(t) for t in entering.takes)]


def _leaving(
    direction: list[Fraction], amounts: list[Fraction], inverse: list[list[Fraction]]
) -> int | None:
    """The row whose amount is used up first; of several the lexicographically least.

    The lexicographic rule prevents cycling where an amount is 0.
    """
    best: int | None = None
    key: list[Fraction] = []
    for i, d in enumerate(direction):
        if d > 0:
            here = [amounts[i] / d, *(x / d for x in inverse[i])]
            if best is None or here < key:
                best, key = i, here
    return best


def _pivot(
    inverse: list[list[Fraction]], amounts: list[Fraction], direction: list[Fraction], row: int
) -> None:
    pivot = direction[row]
    inverse[row] = [x / pivot for x in inverse[row]]
    amounts[row] /= pivot
    for i, d in enumerate(direction):
        if i != row and d:
            inverse[i] = [x - d * y for x, y in zip(inverse[i], inverse[row], strict=True)]
            amounts[i] -= d * amounts[row]


class _Search:
    """A search for the path or cycle that gains most at given prices."""

    def __init__(
        self, arcs: Sequence[Arc], size: int, starts: Sequence[int], effort: Effort
    ) -> None:
        self.arcs, self.size, self.starts, self.effort = arcs, size, starts, effort
        self.out: list[list[int]] = [[] for _ in range(size)]
        for n, arc in enumerate(arcs):
            self.out[arc.source].append(n)

    def best(self, prices: Sequence[Fraction]) -> Column | None:
        """Return a cycle that gains, else the best path if that beats its price, else None."""
        scale = math.lcm(*(p.denominator for p in prices))
        whole = [int(p * scale) for p in prices]
        weights = self._weights(whole, scale)
        longest = self._longest(weights)
        if isinstance(longest, list):
            return self._column(longest, cycle=True)
        gained, into = longest
        end = max(range(self.size), key=lambda n: gained[n] or 0)
        if (gained[end] or 0) <= whole[0] * self._fine:
            return None
        path: list[int] = []
        at = end
        while into[at] >= 0:
            path.append(into[at])
            at = self.arcs[into[at]].source
        return self._column(path[::-1], cycle=False)

    def _weights(self, prices: list[int], scale: int) -> list[int]:
        """The net gain of each arc at these prices, in whole numbers."""
        fine = self._fine
        weights: list[int] = []
        used = [(j, p) for j, p in enumerate(prices[1:]) if p]
        for arc in self.arcs:
            weight = arc.gain * scale
            for j, price in used:
                if arc.takes[j]:
                    weight -= arc.takes[j] * price
            weights.append(int(weight * fine))
        return weights

    @property
    def _fine(self) -> int:
        if not hasattr(self, "_known_fine"):
            denominators = {a.gain.denominator for a in self.arcs}
            denominators |= {t.denominator for a in self.arcs for t in a.takes}
            self._known_fine = math.lcm(*denominators) if denominators else 1
        return self._known_fine

    def _column(self, arcs: list[int], *, cycle: bool) -> Column:
        members = [self.arcs[n] for n in arcs]
        takes = tuple(sum(parts) for parts in zip(*(a.takes for a in members), strict=True))
        if not members or not members[0].takes:
            takes = ()
        return Column(tuple(arcs), cycle, sum(a.gain for a in members), takes)

    def _longest(self, weights: list[int]) -> list[int] | tuple[list[int | None], list[int]]:
        """The longest paths from the starts; or the arcs of a cycle that gains."""
        gained: list[int | None] = [None] * self.size
        into = [-1] * self.size
        queue: deque[int] = deque()
        waiting = [False] * self.size
        changed = 0
        for start in self.starts:
            gained[start] = 0
            queue.append(start)
            waiting[start] = True
        while queue:
            here = queue.popleft()
            waiting[here] = False
            base = gained[here] or 0
            self.effort.spend(len(self.out[here]) + 1)
            for n in self.out[here]:
                to = self.arcs[n].dest
                new = base + weights[n]
                old = gained[to]
                if old is None or new > old:
                    gained[to], into[to] = new, n
                    changed += 1
                    if changed % self.size == 0 and (cycle := self._cycle(into)):
                        return cycle
                    if not waiting[to]:
                        waiting[to] = True
                        queue.append(to)
        return gained, into

    def _cycle(self, into: list[int]) -> list[int] | None:
        """A cycle among the last arcs of the longest paths, if there is one: it gains."""
        colour = [0] * self.size
        for first in range(self.size):
            at, trail = first, list[int]()
            while colour[at] == 0 and into[at] >= 0:
                colour[at] = 1
                trail.append(at)
                at = self.arcs[into[at]].source
            if colour[at] == 1 and into[at] >= 0 and at in trail:
                cycle: list[int] = []
                place = at
                while True:
                    cycle.append(into[place])
                    place = self.arcs[into[place]].source
                    if place == at:
                        return cycle[::-1]
            for place in trail:
                colour[place] = 2
        return None
