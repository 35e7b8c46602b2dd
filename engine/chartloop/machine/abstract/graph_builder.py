"""The graph of places under construction: places are numbered in the order of discovery.

Belongs here: places and routes. Never: the machine they stand for (`machine.abstract.graph`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from chartloop.language.intervals.interval import INF
from chartloop.machine.abstract.position import Place, Route, TooLarge

MOST_ROUTES = 150_000
"""The most routes of a graph; for a larger machine the answer is `unknown`."""
Done = tuple[str, str]
"""A state, and the outcome of its action or wait."""
NOTHING: Done = ("", "")


class GraphBuilder:
    """Places and routes. `first`: the initial values of counters; `most`: the most routes."""

    def __init__(self, first: Mapping[str, float], most: int = MOST_ROUTES) -> None:
        self.first = first
        self.most = most
        self.places: list[Place] = []
        self.routes: list[Route] = []
        self.pending: deque[Place] = deque()
        """The places whose routes have not been added yet."""
        self._numbers: dict[Place, int] = {}
        self.entry = ""
        """The state at which the run begins whose first routes are added; empty after them."""

    def number(self, place: Place) -> int:
        """The number of a place; a new place is added to `pending`."""
        number = self._numbers.get(place)
        if number is None:
            number = self._numbers[place] = len(self.places)
            self.places.append(place)
            self.pending.append(place)
        return number

    def add(
        self, source: Place, dest: Place, origin: str, kind: str, *, done: Done = NOTHING,
        gates: Mapping[str, float] | None = None,
        after: Mapping[str, float] | None = None, wait: tuple[float, float] = (0.0, 0.0),
    ) -> None:  # fmt: skip
        """Add a route, unless its gates are closed from the start. Raises `TooLarge`."""
        gates = gates or {}
        if self.never(gates) or any(gates.get(c, INF) <= at for c, at in source.reached):
            return
        if len(self.routes) >= self.most:
            raise TooLarge(f"it has more than {self.most:,} paths")
        self.routes.append(
            Route(
                self.number(source), self.number(dest), origin, kind, *done, gates,
                after or {}, wait, self.entry,
            )
        )  # fmt: skip

    def never(self, gates: Mapping[str, float]) -> bool:
        """Whether a counter starts at or above its gate. Costs are exempt: they may be unknown."""
        return any(at <= self.first.get(n, 0) for n, at in gates.items() if n != "usage.cost")
