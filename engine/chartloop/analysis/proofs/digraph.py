"""A small directed graph: reachability and strongly connected components.

networkx has both, but takes longer to import than everything else that a run needs before its first
step: every machine is checked, few are drawn (`machine.graph`).

Belongs here: nodes, edges and what follows from them. Never: the meaning of a node.
Source: R. Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Digraph", "Parts"]

N = TypeVar("N", str, int)


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

    def onward(self, node: N) -> set[N]:
        """The node and every node that it can reach."""
        return _reach(self._after, [node])

    def leading_to(self, nodes: Iterable[N]) -> set[N]:
        """These nodes and every node that can reach one of them."""
        return _reach(self._before, nodes)

    def components(self) -> list[set[N]]:
        """The strongly connected components, each after all components that it can reach."""
        search = _Tarjan(self._after)
        for node in self:
            search.from_node(node)
        return search.components

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


def _reach(edges: dict[N, dict[N, None]], nodes: Iterable[N]) -> set[N]:
    seen = set(nodes)
    pending = list(seen)
    while pending:
        for after in edges[pending.pop()]:
            if after not in seen:
                seen.add(after)
                pending.append(after)
    return seen


class _Tarjan(Generic[N]):
    """Tarjan's search with a stack of its own: a machine may be deeper than Python's."""

    def __init__(self, edges: dict[N, dict[N, None]]) -> None:
        self.components: list[set[N]] = []
        self._edges = edges
        self._number: dict[N, int] = {}
        self._low: dict[N, int] = {}
        self._open: dict[N, None] = {}
        """Nodes whose component is still open, in the order of their discovery."""

    def from_node(self, start: N) -> None:
        """Add all components that are reachable from here and new."""
        if start in self._number:
            return
        stack = [(start, self._enter(start))]
        while stack:
            node, edges = stack[-1]
            for after in edges:
                if after not in self._number:
                    stack.append((after, self._enter(after)))
                    break
                if after in self._open:
                    self._low[node] = min(self._low[node], self._number[after])
            else:
                stack.pop()
                if stack:
                    above = stack[-1][0]
                    self._low[above] = min(self._low[above], self._low[node])
                self._leave(node)

    def _enter(self, node: N) -> Iterator[N]:
        self._number[node] = self._low[node] = len(self._number)
        self._open[node] = None
        return iter(self._edges[node])

    def _leave(self, node: N) -> None:
        if self._low[node] < self._number[node]:
            return
        component: set[N] = set()
        while node not in component:
            component.add(self._open.popitem()[0])
        self.components.append(component)
