"""Which of the open nodes is followed next, once their length alone does not do.

There are several orders at once, and they take turns: in one the nodes come first in which
something holds that never held there before, and in each of the others those that are near to one
target that is missing. None of them alone is good for every machine. Of nodes that are as near to a
target those come first in which something holds that never held in one so near.

Sources: Röger and Helmert, "The more, the merrier: combining heuristic estimators for satisficing
planning", 2010 (alternation); Lipovetzky and Geffner, "Best-first width search", 2017.

Belongs here: orders of nodes. Never: what happens at a node, bounds of the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.scenarios.generator.branch_distance import Nearness, Want, distance
from chartloop.scenarios.generator.equivalence import Key
from chartloop.scenarios.generator.moves import Node
from chartloop.scenarios.generator.search_targets import Target

_NEARER = 5
"""How many records it is worth to be one arrow nearer to what is missing."""
_FAR = 50
"""How far a state is from what is missing, when no arrow leads there."""
_AT_ONCE = 6
"""Targets that have their own order at the same time."""


class Open(NamedTuple):
    """A node that can be followed."""

    node: Node
    key: Key
    new: int
    """How new it is: `alike.Novelty`."""


class _Order:
    """One order: a heap, by what a node is worth to a target; of no target, to all of them."""

    def __init__(self, away: Mapping[str, int], ways: tuple[tuple[Want, ...], ...] = ()) -> None:
        self._away = away
        self._ways = ways
        self._heap: list[tuple[tuple[float, ...], int, Open]] = []
        self._seen: dict[float, set[Hashable]] = {}
        """What held in nodes that are so far from the target."""

    def push(self, one: Open, number: int) -> None:
        """A node more; of two that are worth the same the one with the lower number comes first."""
        heapq.heappush(self._heap, (self._worth(one), number, one))

    def pop(self) -> Open | None:
        """The first of them."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def _worth(self, one: Open) -> tuple[float, ...]:
        """The less, the earlier."""
        node = one.node
        away = _NEARER * self._away.get(node.position.state, _FAR) + node.length
        if not self._ways:
            return (one.new, away, *node.cost)
        far = round(distance(self._ways, node.position.facts), 3)
        seen = self._seen.setdefault(far, set())
        held = one.key.elements()
        known = held <= seen
        seen |= held
        return (far, known, one.new, away, *node.cost)


class Aiming:
    """The open nodes of a search that has targets left."""

    def __init__(self, chart: Chart, missing: Sequence[Target], nodes: Iterable[Open]) -> None:
        self._graph = _before(chart)
        self._chart = chart
        self._takes: dict[str, dict[str, None]] = {}
        for move in chart.step.transitions():
            self._takes.setdefault(move.origin, {})[move.source] = None
        self._nearness = Nearness(chart)
        self._number = count()
        self._turn = count()
        self._open: dict[int, Open] = {id(one.node): one for one in nodes}
        self._new = _Order({})
        self._orders: dict[Target, _Order] = {}
        self.aim(missing)

    def aim(self, missing: Sequence[Target]) -> None:
        """From here on these are missing."""
        self._new = self._order(missing, ())
        aimed = [target for target in self._orders if target in missing]
        aimed += [target for target in missing if target not in self._orders]
        known, self._orders = self._orders, {}
        for target in aimed[:_AT_ONCE]:
            self._orders[target] = known.get(target) or self._order(
                [target], self._nearness.of(target)
            )

    def _order(self, targets: Iterable[Target], ways: tuple[tuple[Want, ...], ...]) -> _Order:
        made = _Order(self._away(targets), ways)
        for one in self._open.values():
            made.push(one, next(self._number))
        return made

    def push(self, one: Open) -> None:
        """A node more."""
        self._open[id(one.node)] = one
        for order in (self._new, *self._orders.values()):
            order.push(one, next(self._number))

    def pop(self) -> Open | None:
        """The node that comes first in the order whose turn it is; None when none is left."""
        orders = [order for aimed in self._orders.values() for order in (self._new, aimed)]
        for _ in range(max(1, len(orders))):
            order = orders[next(self._turn) % len(orders)] if orders else self._new
            while (one := order.pop()) is not None:
                if self._open.pop(id(one.node), None) is not None:
                    return one
        return None

    @property
    def ended(self) -> bool:
        """Whether nothing is left to follow."""
        return not self._open

    # how far ----------------------------------------------------------------------------------

    def _away(self, targets: Iterable[Target]) -> dict[str, int]:
        """How many arrows each state is away from the nearest that can show one of these."""
        found = {state: 0 for target in targets for state in self._sources(target)}
        layer, away = list(found), 0
        while layer:
            away += 1
            behind = dict.fromkeys(s for state in layer for s in self._graph.get(state, ()))
            layer = [source for source in behind if source not in found]
            found.update(dict.fromkeys(layer, away))
        return found

    def _sources(self, target: Target) -> Iterator[str]:
        """The states at which a target can be shown."""
        if target.kind == "reason":
            yield from (n for n, s in self._chart.spec.states.items() if s.stop == target.name)
        else:
            yield from self._takes.get(target.name, ())


def _before(chart: Chart) -> dict[str, set[str]]:
    """For each state those from which an arrow leads to it."""
    before: dict[str, set[str]] = {}
    drawn: Any = graph(chart, engine=True)
    for source, dest in drawn.edges():
        before.setdefault(str(dest), set()).add(str(source))
    return before
