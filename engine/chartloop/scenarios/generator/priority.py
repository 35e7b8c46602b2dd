"""The order in which open nodes are followed, once length alone does not suffice.

Several orders take turns, because none alone is good for every machine. One prefers novel nodes;
each of the others prefers nodes near to one missing target and, among equally near ones, those that
are novel at that distance.

Sources: Röger and Helmert, "The more, the merrier: combining heuristic estimators for satisficing
planning", 2010 (alternation); Lipovetzky and Geffner, "Best-first width search", 2017.

Belongs here: orders of nodes. Never: the successors of a node, bounds of the search.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.scenarios.generator.branch_distance import TargetGuards, Want, distance
from chartloop.scenarios.generator.equivalence import Key
from chartloop.scenarios.generator.moves import Node
from chartloop.scenarios.generator.search_targets import Target

_NEARER = 5
"""How many records one edge nearer to a missing target is worth."""
_FAR = 50
"""The distance, in edges, of a state from which no missing target can be reached."""
_AT_ONCE = 6
"""How many targets have orders of their own at the same time."""


class OpenNode(NamedTuple):
    """A node that can be followed."""

    node: Node
    key: Key
    new: int
    """Its novelty: see `equivalence.Novelty`."""


class _Order:
    """One order: a heap of nodes by their worth for one target, or for all of them."""

    def __init__(self, away: Mapping[str, int], ways: tuple[tuple[Want, ...], ...] = ()) -> None:
        self._away = away
        self._ways = ways
        self._heap: list[tuple[tuple[float, ...], int, OpenNode]] = []
        self._seen: dict[float, set[Hashable]] = {}
        """The elements of keys seen at each distance from the target."""

    def push(self, one: OpenNode, number: int) -> None:
        """Add a node; of nodes of equal worth, the one with the lower number comes first."""
        heapq.heappush(self._heap, (self._worth(one), number, one))

    def pop(self) -> OpenNode | None:
        """Remove and return the first node; None if there is none."""
        return heapq.heappop(self._heap)[2] if self._heap else None

    def _worth(self, one: OpenNode) -> tuple[float, ...]:
        """The sort key of a node; lower comes first."""
        node = one.node
        away = _NEARER * self._away.get(node.position.state, _FAR) + node.length
        if not self._ways:
            return (one.new, away, *node.cost)
        far = round(distance(self._ways, node.position.facts), 3)
        seen = self._seen.setdefault(far, set())
        elements = one.key.elements()
        known = elements <= seen
        seen |= elements
        return (far, known, one.new, away, *node.cost)


class Frontier:
    """The open nodes of a search with missing targets, in several orders."""

    def __init__(self, chart: Chart, missing: Sequence[Target], nodes: Iterable[OpenNode]) -> None:
        # The predecessors of each state.
        before: dict[str, set[str]] = {}
        whole: Any = graph(chart, engine=True)
        for source, dest in whole.edges():
            before.setdefault(str(dest), set()).add(str(source))
        self._graph = before
        self._chart = chart
        self._takes: dict[str, dict[str, None]] = {}
        for move in chart.step.transitions():
            self._takes.setdefault(move.origin, {})[move.source] = None
        self._guards = TargetGuards(chart)
        self._number = count()
        self._turn = count()
        self._open: dict[int, OpenNode] = {id(one.node): one for one in nodes}
        self._new = _Order({})
        self._orders: dict[Target, _Order] = {}
        self.aim(missing)

    def aim(self, missing: Sequence[Target]) -> None:
        """Set the missing targets."""
        self._new = self._order(missing, ())
        targets = [target for target in self._orders if target in missing]
        targets += [target for target in missing if target not in self._orders]
        known, self._orders = self._orders, {}
        for target in targets[:_AT_ONCE]:
            self._orders[target] = known.get(target) or self._order(
                [target], self._guards.of(target)
            )

    def _order(self, targets: Iterable[Target], ways: tuple[tuple[Want, ...], ...]) -> _Order:
        order = _Order(self._away(targets), ways)
        for one in self._open.values():
            order.push(one, next(self._number))
        return order

    def push(self, one: OpenNode) -> None:
        """Add a node."""
        self._open[id(one.node)] = one
        for order in (self._new, *self._orders.values()):
            order.push(one, next(self._number))

    def pop(self) -> OpenNode | None:
        """Remove and return the first node of the order whose turn it is; None if none is left."""
        orders = [order for own in self._orders.values() for order in (self._new, own)]
        for _ in range(max(1, len(orders))):
            order = orders[next(self._turn) % len(orders)] if orders else self._new
            while (one := order.pop()) is not None:
                if self._open.pop(id(one.node), None) is not None:
                    return one
        return None

    @property
    def ended(self) -> bool:
        """Whether no node is left."""
        return not self._open

    # distances --------------------------------------------------------------------------------

    def _away(self, targets: Iterable[Target]) -> dict[str, int]:
        """The distance in edges from each state to the nearest that can show one of the targets."""
        distances = {state: 0 for target in targets for state in self._sources(target)}
        layer, away = list(distances), 0
        while layer:
            away += 1
            before = dict.fromkeys(s for state in layer for s in self._graph.get(state, ()))
            layer = [source for source in before if source not in distances]
            distances.update(dict.fromkeys(layer, away))
        return distances

    def _sources(self, target: Target) -> Iterator[str]:
        """The states at which a target can be shown."""
        if target.kind == "reason":
            yield from (n for n, s in self._chart.spec.states.items() if s.stop == target.name)
        else:
            yield from self._takes.get(target.name, ())
