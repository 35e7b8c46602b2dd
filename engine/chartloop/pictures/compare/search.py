"""A bounded search for an alignment of two charts within a cost limit.

Belongs here: backtracking node by node, with pruning. Never: the first, quick alignment (`align`),
the cost of a difference (`cost`). The number of tries is bounded.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from chartloop.pictures.compare.cost import (
    GONE,
    RENAMED,
    Graph,
    Kinds,
    cost_of,
    edge_changes,
    image,
    neighbours,
    node_changes,
    twins,
)

_TRIES = 8_000


class Search:
    """Searches for an alignment within an allowed cost, one node at a time."""

    def __init__(self, a: Graph, b: Graph, kinds: Kinds) -> None:
        self.a, self.b, self.kinds = a, b, kinds
        # The nodes breadth first, starting with those of rare labels.
        often = Counter(node.label for node in a.nodes)
        starts = sorted(range(len(a.nodes)), key=lambda n: often[a.nodes[n].label])
        order: dict[int, None] = {}
        for start in starts:
            waiting = deque([start])
            while waiting:
                if (node := waiting.popleft()) not in order:
                    order[node] = None
                    waiting += (end for pair in a.pairs_at[node] for end in pair)
        self.order = list(order)
        self.twins = twins(b)
        self.degrees = _degrees(a), _degrees(b)
        self.found: dict[int, int | None] = {}
        self.back: dict[int, int] = {}
        self.allowed = 0
        self.strain = (0, 0)
        self.tries = _TRIES

    def within(self, allowed: int) -> list[int | None] | None:
        """An alignment of at most this cost; None if none is found within the allowed tries."""
        exact = allowed == 0
        if not self.order or (exact and Counter(self.kinds[0]) != Counter(self.kinds[1])):
            return None
        self.found, self.back, self.allowed, self.strain = {}, {}, allowed, (0, 0)
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
        self.strain = self._strain(u, v, 1)
        self.found[u] = v
        if v is not None:
            self.back[v] = u

    def _forget(self, u: int) -> None:
        if u in self.found:
            v = self.found.pop(u)
            self.strain = self._strain(u, v, -1)
            if v is not None:
                del self.back[v]

    def _strain(self, u: int, v: int | None, sign: int) -> tuple[int, int]:
        """The summed differences of in- and out-degrees between matched nodes."""
        ours, theirs = self.degrees[0][u], (0, 0) if v is None else self.degrees[1][v]
        more = (abs(ours[0] - theirs[0]), abs(ours[1] - theirs[1]))
        return self.strain[0] + sign * more[0], self.strain[1] + sign * more[1]

    def _ways(self, left: int, *, exact: bool) -> Iterator[tuple[int, int | None]]:
        """The candidates for the next node with their costs, cheapest first."""
        u = self.order[len(self.found)]
        node = self.a.nodes[u]
        too_many = len(self.b.nodes) - len(self.back) - (len(self.order) - len(self.found))
        ways: dict[int, tuple[int, int]] = {}
        for v in self._likes(u, left, exact=exact):
            if v in self.back or self.twins[v] in ways:
                continue
            if left < RENAMED and node.label != self.b.nodes[v].label:
                continue
            if max(self._strain(u, v, 1)) > self.allowed:
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
        """The nodes that may match `u`, judged by its edges.

        If more edges lead to matched nodes than may differ, a match shares a neighbour with `u`.
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
        """The cost of the edges to nodes already matched, if `u` is matched with `v`."""
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


def _degrees(graph: Graph) -> list[tuple[int, int]]:
    """The in-degree and out-degree of each node."""
    into, out = Counter[int](), Counter[int]()
    for (source, target), said in graph.edges.items():
        out[source] += len(said)
        into[target] += len(said)
    return [(into[node], out[node]) for node in range(len(graph.nodes))]
