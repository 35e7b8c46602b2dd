"""Which box of one chart is which box of another, when neither ids nor labels are identities.

Belongs here: the search for the alignment with the fewest differences. Never: what a difference
costs (`alike`), words. Two charts that are equal but for ids and order are found equal, up to a
bound on the work that only adversarial charts reach; past it the alignment is still one to one,
and may name more differences than there need be.

How: nodes whose kind stands once in each chart are matched, from the finest kind to the coarsest;
the others by what they share with nodes that are matched. Then a search that allows no difference,
one, two ... tries to do better.

Imports:      view.alike
Imported by:  view.compare
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import product
from typing import Any

from interlock.view.alike import (
    GONE,
    RENAMED,
    Graph,
    Kinds,
    Pair,
    cost_of,
    edge_changes,
    image,
    least_cost,
    neighbours,
    node_changes,
    refined,
    twins,
)

_MOST_PAIRS = 400
_MOST_LEFT = 40
_TRIES = 8_000
_CLOSE = 6
"""Charts that cannot be closer than this are taken as they were first matched."""


def align(a: Graph, b: Graph) -> list[int | None]:
    """For each node of `a` its like in `b`, or None. No node of `b` stands twice."""
    kinds = refined(a, b)
    found = _Matching(a, b, kinds).match()
    least = least_cost(a, b)
    cost = cost_of(a, b, found)
    search = _Search(a, b, kinds[-1])
    for allowed in range(least, min(cost, _CLOSE)):
        if better := search.within(allowed):
            return better
    return found


class _Matching:
    """Matches nodes one after the other, the surest first."""

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
        self._by_sharing()
        self._by_likeness()
        return self.found

    def _groups(
        self, of_a: Sequence[Any], of_b: Sequence[Any]
    ) -> list[tuple[list[int], list[int]]]:
        """The nodes that are not matched, by a property: those of `a` and those of `b`."""
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
        """Every pair of the two, or where that is too many, those that stand side by side."""
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
        """How many edges of the two lead to nodes that are matched, and say the same."""
        shared = 0
        for source, target in self.a.pairs_at[u]:
            ends = [v if end == u else self.found[end] for end in (source, target)]
            there = image(self.b, *ends)
            if there:
                said = self.a.edges[source, target]
                shared += min(len(said), len(there)) * 2 - edge_changes(said, there)
        return shared

    def _sharing(self, u: int, v: int) -> int:
        node, other = self.a.nodes[u], self.b.nodes[v]
        finest = sum(of_a[u] == of_b[v] for of_a, of_b in self.kinds)
        same = 8 * (node.label == other.label) + 2 * (node.shape == other.shape)
        return same + finest + 4 * self._shared_edges(u, v)

    def _by_sharing(self) -> None:
        while self.heap:
            score, u, v = heappop(self.heap)
            if self.found[u] is not None or v in self.back or score != -self._sharing(u, v):
                continue
            cost = node_changes(self.a.nodes[u], self.b.nodes[v])
            shared = self._shared_edges(u, v)
            if cost < 2 * GONE or (shared and cost <= 2 * GONE + shared):
                self._take(u, v)
                self._look_around(u)

    def _look_around(self, u: int) -> None:
        """Remember the neighbours of a matched node as likes of the neighbours of its like."""
        v = self.found[u]
        if v is None:
            return
        for ahead in (True, False):
            ours = [n for n in neighbours(self.a, u, ahead=ahead) if self.found[n] is None]
            theirs = [n for n in neighbours(self.b, v, ahead=ahead) if n not in self.back]
            for neighbour, like in self._pairs(ours, theirs):
                heappush(self.heap, (-self._sharing(neighbour, like), neighbour, like))

    def _by_likeness(self) -> None:
        """Match what is left by label alone: equal ones, else similar ones."""
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


class _Search:
    """Looks for an alignment that costs no more than is allowed, a node at a time."""

    def __init__(self, a: Graph, b: Graph, kinds: Kinds) -> None:
        self.a, self.b, self.kinds = a, b, kinds
        self.order = _outward(a)
        self.twins = twins(b)
        self.found: dict[int, int | None] = {}
        self.back: dict[int, int] = {}
        self.tries = _TRIES

    def within(self, allowed: int) -> list[int | None] | None:
        """An alignment of at most this cost; None when none is found before the tries are used."""
        exact = allowed == 0
        if not self.order or (exact and Counter(self.kinds[0]) != Counter(self.kinds[1])):
            return None
        self.found, self.back = {}, {}
        left = [allowed]
        ways = [self._ways(allowed, exact=exact)]
        while ways:
            u = self.order[len(ways) - 1]
            self._forget(u)
            way = next(ways[-1], None)
            if way is None:
                ways.pop()
                left.pop()
                continue
            cost, v = way
            self._set(u, v)
            if len(ways) < len(self.order):
                left.append(left[-1] - cost)
                ways.append(self._ways(left[-1], exact=exact))
                continue
            result = [self.found[node] for node in range(len(ways))]
            if cost_of(self.a, self.b, result) <= allowed:
                return result
        return None

    def _set(self, u: int, v: int | None) -> None:
        self.found[u] = v
        if v is not None:
            self.back[v] = u

    def _forget(self, u: int) -> None:
        v = self.found.pop(u, None)
        if v is not None:
            del self.back[v]

    def _ways(self, left: int, *, exact: bool) -> Iterator[tuple[int, int | None]]:
        """What the next node may be matched with, the cheapest first, and what each costs."""
        u = self.order[len(self.found)]
        node = self.a.nodes[u]
        too_many = len(self.b.nodes) - len(self.back) - (len(self.order) - len(self.found))
        ways: dict[int, tuple[int, int]] = {}
        for v in self._likes(u, left, exact=exact):
            if v in self.back or self.twins[v] in ways:
                continue
            if left < RENAMED and node.label != self.b.nodes[v].label:
                continue
            self.tries -= 1
            if self.tries < 0:
                return
            cost = node_changes(node, self.b.nodes[v]) + self._edge_cost(u, v)
            if cost + GONE * too_many <= left:
                ways[self.twins[v]] = cost, v
        yield from sorted(ways.values())
        if left >= GONE and (cost := GONE + self._edge_cost(u, None)) <= left:
            yield cost, None

    def _likes(self, u: int, left: int, *, exact: bool) -> Iterable[int]:
        """The nodes that `u` may be, as far as its edges tell.

        Where it has more of them than may differ, one leads to what its neighbour became.
        """
        near: dict[int, None] = {}
        telling = 0
        for ahead in (True, False):
            for neighbour in neighbours(self.a, u, ahead=ahead):
                if neighbour in self.found and telling <= left:
                    telling += 1
                    v = self.found[neighbour]
                    if v is not None:
                        near |= dict.fromkeys(neighbours(self.b, v, ahead=not ahead))
        likes = near if telling > left else range(len(self.b.nodes))
        if exact:
            return [v for v in likes if self.kinds[0][u] == self.kinds[1][v]]
        return likes

    def _edge_cost(self, u: int, v: int | None) -> int:
        """What the edges to nodes that are set already cost, when `u` is matched with `v`."""
        self._set(u, v)
        found, back = self.found, self.back
        cost = sum(
            edge_changes(self.a.edges[pair], image(self.b, found[pair[0]], found[pair[1]]))
            for pair in self.a.pairs_at[u]
            if pair[0] in found and pair[1] in found
        )
        if v is not None:
            cost += sum(
                len(self.b.edges[pair])
                for pair in self.b.pairs_at[v]
                if pair[0] in back
                and pair[1] in back
                and (back[pair[0]], back[pair[1]]) not in self.a.edges
            )
        self._forget(u)
        return cost


def _outward(graph: Graph) -> list[int]:
    """The nodes in an order in which most follow a neighbour, those of rare labels first."""
    often = Counter(node.label for node in graph.nodes)
    starts = sorted(range(len(graph.nodes)), key=lambda n: often[graph.nodes[n].label])
    order: dict[int, None] = {}
    for start in starts:
        waiting = deque([start])
        while waiting:
            if (node := waiting.popleft()) not in order:
                order[node] = None
                waiting += (end for pair in graph.pairs_at[node] for end in pair)
    return list(order)
