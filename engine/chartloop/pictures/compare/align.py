"""Alignment: which box of one chart corresponds to which of another, by structure and labels.

Belongs here: the alignment with the fewest differences. Never: the cost of a difference (`cost`),
words. Two charts that are equal except for ids and order are found equal, up to a bound on the work
that only adversarial charts reach; beyond it the alignment is still one to one, but may have more
differences than necessary.

Algorithm: nodes whose kind occurs once in each chart are matched, from the finest kind to the
coarsest; the others by the edges that they share with matched nodes. Then a search that allows no
difference, one, two ... tries to do better. If both have as many nodes, matching them in order is
tried, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import product
from typing import Any

from chartloop.pictures.compare.cost import (
    GONE,
    Graph,
    Kinds,
    Pair,
    cost_of,
    edge_changes,
    image,
    least_cost,
    neighbours,
    node_changes,
    refine_kinds,
)
from chartloop.pictures.compare.search import Search

_MOST_PAIRS = 400
_MOST_LEFT = 40
_CLOSE = 6
"""The cost from which on the first match is not improved by a search."""


def align(a: Graph, b: Graph) -> list[int | None]:
    """The match in `b` of each node of `a`, or None. No node of `b` occurs twice."""
    kinds = refine_kinds(a, b)
    found = _Matching(a, b, kinds).match()
    cost = cost_of(a, b, found)
    if len(a.nodes) == len(b.nodes):  # perhaps the same chart, redrawn in the same order
        in_order: list[int | None] = list(range(len(b.nodes)))
        found, cost = min((found, cost), (in_order, cost_of(a, b, in_order)), key=lambda c: c[1])
    least = least_cost(a, b)
    search = Search(a, b, kinds[-1])
    for allowed in range(least, min(cost, _CLOSE)):
        if better := search.within(allowed):
            return better
    return found


class _Matching:
    """Matches nodes greedily, the surest pairs first."""

    def __init__(self, a: Graph, b: Graph, kinds: Sequence[Kinds]) -> None:
        self.a, self.b, self.kinds = a, b, kinds
        self.found: list[int | None] = [None] * len(a.nodes)
        self.back: dict[int, int] = {}
        self.heap: list[tuple[int, int, int]] = []

    def match(self) -> list[int | None]:
        for of_a, of_b in reversed(self.kinds):
            for ours, theirs in self._groups(of_a, of_b):
                if len(ours) == len(theirs) == 1:
                    self._take(ours[0], theirs[0])
        self.heap = [(-self._sharing(u, v), u, v) for u, v in self._with_one_label()]
        heapify(self.heap)
        for u in range(len(self.a.nodes)):
            self._look_around(u)
        while self.heap:
            score, u, v = heappop(self.heap)
            if self.found[u] is not None or v in self.back or score != -self._sharing(u, v):
                continue
            cost = node_changes(self.a.nodes[u], self.b.nodes[v])
            shared = self._shared_edges(u, v)
            if cost < 2 * GONE or (shared and cost <= 2 * GONE + shared):
                self._take(u, v)
                self._look_around(u)
        self._by_likeness()
        return self.found

    def _groups(
        self, of_a: Sequence[Any], of_b: Sequence[Any]
    ) -> list[tuple[list[int], list[int]]]:
        """The unmatched nodes of `a` and of `b`, grouped by a property."""
        groups: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for u, kind in enumerate(of_a):
            if self.found[u] is None:
                groups[kind][0].append(u)
        for v, kind in enumerate(of_b):
            if v not in self.back:
                groups[kind][1].append(v)
        return list(groups.values())

    def _with_one_label(self) -> Iterable[Pair]:
        labels = [node.label for node in self.a.nodes], [node.label for node in self.b.nodes]
        for ours, theirs in self._groups(*labels):
            yield from self._pairs(ours, theirs)

    def _pairs(self, ours: Sequence[int], theirs: Sequence[int]) -> Iterable[Pair]:
        """Every pair of the two; if there are too many, those at the same place when sorted."""
        if len(ours) * len(theirs) <= _MOST_PAIRS:
            return product(ours, theirs)
        of_a, of_b = self.kinds[-1]
        return zip(
            sorted(ours, key=lambda u: (self.a.nodes[u], of_a[u])),
            sorted(theirs, key=lambda v: (self.b.nodes[v], of_b[v])),
            strict=False,
        )

    def _take(self, u: int, v: int) -> None:
        self.found[u] = v
        self.back[v] = u

    def _shared_edges(self, u: int, v: int) -> int:
        """A score for edges of the two that lead to matched nodes, higher for equal labels."""
        shared = 0
        for source, target in self.a.pairs_at[u]:
            ends = [v if end == u else self.found[end] for end in (source, target)]
            there = image(self.b, *ends)
            if there:
                captions = self.a.edges[source, target]
                shared += min(len(captions), len(there)) * 2 - edge_changes(captions, there)
        return shared

    def _sharing(self, u: int, v: int) -> int:
        node, other = self.a.nodes[u], self.b.nodes[v]
        finest = sum(of_a[u] == of_b[v] for of_a, of_b in self.kinds)
        same = 8 * (node.label == other.label) + 2 * (node.shape == other.shape)
        return same + finest + 4 * self._shared_edges(u, v)

    def _look_around(self, u: int) -> None:
        """Queue pairs of the neighbours of a matched node and of its match."""
        v = self.found[u]
        if v is None:
            return
        for ahead in (True, False):
            ours = [n for n in neighbours(self.a, u, ahead=ahead) if self.found[n] is None]
            theirs = [n for n in neighbours(self.b, v, ahead=ahead) if n not in self.back]
            for neighbour, like in self._pairs(ours, theirs):
                heappush(self.heap, (-self._sharing(neighbour, like), neighbour, like))

    def _by_likeness(self) -> None:
        """Match the remaining nodes by node cost alone."""
        ours = [u for u, v in enumerate(self.found) if v is None][:_MOST_LEFT]
        theirs = [v for v in range(len(self.b.nodes)) if v not in self.back][:_MOST_LEFT]
        changes = sorted(
            (cost, u, v)
            for u, v in product(ours, theirs)
            if (cost := node_changes(self.a.nodes[u], self.b.nodes[v])) < 2 * GONE
        )
        for _, u, v in changes:
            if self.found[u] is None and v not in self.back:
                self._take(u, v)
