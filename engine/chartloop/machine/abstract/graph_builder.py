"""The graph of places while it is being made: places are numbered as they are come to.

What leads on from a place is asked in `machine.abstract.graph`; nothing here knows a machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from chartloop.language.intervals.interval import INF
from chartloop.machine.abstract.position import Place, Route, TooLarge

MOST_ROUTES = 150_000
"""A machine with more ways than this is not looked at: the answer is `unknown`."""
Done = tuple[str, str]
"""A state, and what came of its action or wait."""
NOTHING: Done = ("", "")


class Growing:
    """Places and routes. `first`: what counters start with; `most`: how many routes it may have."""

    def __init__(self, first: Mapping[str, float], most: int = MOST_ROUTES) -> None:
        self.first = first
        self.most = most
        self.places: list[Place] = []
        self.routes: list[Route] = []
        self.pending: deque[Place] = deque()
        """Places of which it has not been asked yet what leads on."""
        self._numbers: dict[Place, int] = {}

    def number(self, place: Place) -> int:
        """The number of a place, which waits for its turn where it is new."""
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
        """One more route, unless its gates have been passed already. `TooLarge` at the end."""
        gates = gates or {}
        if self.never(gates) or any(gates.get(c, INF) <= at for c, at in source.reached):
            return
        if len(self.routes) >= self.most:
            raise TooLarge(f"it has more than {self.most:,} paths")
        self.routes.append(
            Route(
                self.number(source), self.number(dest), origin, kind, *done, gates,
                after or {}, wait,
            )
        )  # fmt: skip

    def never(self, gates: Mapping[str, float]) -> bool:
        """Whether a counter has reached its gate from the start. A cost may never be known."""
        return any(at <= self.first.get(n, 0) for n, at in gates.items() if n != "usage.cost")
