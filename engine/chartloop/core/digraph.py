"""What can be reached, and a small directed graph with its strongly connected components.

networkx has both, and takes longer to import than everything else that `chartloop check` does
(0.6 s of 1.0 s where it was measured). So only pictures and exports use it (`machine.graph`).

Belongs here: nodes, edges and what follows from them. Never: the meaning of a node.
Source: R. Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Digraph", "Parts", "reachable"]

N = TypeVar("N", str, int)


def reachable(starts: Iterable[N], onward: Callable[[N], Iterable[N]]) -> Iterator[N]:
    """Yield the nodes that can be reached from some, which are among them, each once.

    What a node leads to is asked after it was yielded.
    """
    seen = dict.fromkeys(starts)  # not a set: the order is the same in every run
    pending = [*seen]
    while pending:
        yield (node := pending.pop())
        for after in onward(node):
            if after not in seen:
                seen[after] = None
                pending.append(after)


class Digraph(Generic[N]):
    """Nodes in insertion order, with at most one edge from any node to any other."""

    def __init__(self, nodes: Iterable[N] = (), edges: Iterable[tuple[N, N]] = ()) -> None:
        self._after: dict[N, dict[N, None]] = {node: {} for node in nodes}
        self._before: dict[N, dict[N, None]] = {node: {} for node in self._after}
        for source, dest in edges:
            self.add_edge(source, dest)

    def __iter__(self) -> Iterator[N]:
        return iter(self._after)

    def __contains__(self, node: object) -> bool:
        return node in self._after

    @property
    def edges(self) -> list[tuple[N, N]]:
        """Source and destination of each edge."""
        return [(source, dest) for source, dests in self._after.items() for dest in dests]

    def add_edge(self, source: N, dest: N) -> None:
        """Add an edge, and its nodes if they are missing."""
        for node in (source, dest):
            self._after.setdefault(node, {})
            self._before.setdefault(node, {})
        self._after[source][dest] = None
        self._before[dest][source] = None

    def has_edge(self, source: N, dest: N) -> bool:
        """Whether an edge leads from `source` to `dest`."""
        return dest in self._after.get(source, ())

    def successors(self, node: N) -> Collection[N]:
        """The nodes that a node's edges lead to."""
        return self._after[node]

    def predecessors(self, node: N) -> Collection[N]:
        """The nodes with an edge to this one."""
        return self._before[node]

    def subgraph(self, nodes: Iterable[N]) -> Digraph[N]:
        """Return the graph of these nodes and the edges between them."""
        kept = set(nodes)
        return Digraph(
            (node for node in self if node in kept),
            (edge for edge in self.edges if kept.issuperset(edge)),
        )

    def without(self, edges: Iterable[tuple[N, N]]) -> Digraph[N]:
        """Return a copy that lacks these edges."""
        removed = set(edges)
        return Digraph(self, (edge for edge in self.edges if edge not in removed))

    def onward(self, *nodes: N) -> set[N]:
        """These nodes and every node that one of them can reach."""
        return set(reachable(nodes, self._after.__getitem__))

    def behind(self, *nodes: N) -> set[N]:
        """Every node that can be reached by an edge of one of these."""
        return self.onward(*(after for node in nodes for after in self._after[node]))

    def leading_to(self, *nodes: N) -> set[N]:
        """These nodes and every node that can reach one of them."""
        return set(reachable(nodes, self._before.__getitem__))

    def components(self) -> list[set[N]]:
        """The strongly connected components, each after all components that it can reach.

        Tarjan's search with a stack of its own: a machine may be deeper than Python's.
        """
        found: list[set[N]] = []
        number: dict[N, int] = {}
        low: dict[N, int] = {}
        unfinished: dict[N, None] = {}  # nodes without a component, in the order of discovery

        def enter(node: N) -> tuple[N, Iterator[N]]:
            number[node] = low[node] = len(number)
            unfinished[node] = None
            return node, iter(self._after[node])

        for start in self:
            stack = [] if start in number else [enter(start)]
            while stack:
                node, edges = stack[-1]
                for after in edges:
                    if after not in number:
                        stack.append(enter(after))
                        break
                    if after in unfinished:
                        low[node] = min(low[node], number[after])
                else:
                    stack.pop()
                    if stack:
                        above = stack[-1][0]
                        low[above] = min(low[above], low[node])
                    if low[node] == number[node]:
                        component: set[N] = set()
                        while node not in component:
                            component.add(unfinished.popitem()[0])
                        found.append(component)
        return found

    def loops(self) -> list[list[N]]:
        """The components that hold a loop, in the same order, each sorted."""
        return [
            sorted(part)
            for part in self.components()
            if len(part) > 1 or any(self.has_edge(node, node) for node in part)
        ]

    def parts(self) -> Parts[N]:
        """The graph of the components: the condensation."""
        return Parts(self)


class Parts(Generic[N]):
    """The components of a graph, by number, and the edges between them."""

    def __init__(self, graph: Digraph[N]) -> None:
        self.members = graph.components()
        part = {node: number for number, nodes in enumerate(self.members) for node in nodes}
        between = ((part[a], part[b]) for a, b in graph.edges if part[a] != part[b])
        self.graph: Digraph[int] = Digraph(range(len(self.members)), between)
