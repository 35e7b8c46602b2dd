"""Directed graphs, as far as the checker asks them something.

networkx has all of this too, and takes longer to import than anything else that a run needs before
its first step: every machine is checked, few are drawn (`machine.graph`).

Belongs here: nodes, edges and what follows from them. Never: what a node stands for.
Source: R. Tarjan, "Depth-first search and linear graph algorithms" (1972).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["Digraph", "Parts"]

N = TypeVar("N", str, int)


class Digraph(Generic[N]):
    """Nodes in the order in which they came, and at most one edge between two of them each way."""

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
        """Add an edge, and its nodes where they are missing."""
        for node in (source, dest):
            self._after.setdefault(node, {})
            self._before.setdefault(node, {})
        self._after[source][dest] = None
        self._before[dest][source] = None

    def has_edge(self, source: N, dest: N) -> bool:
        """Whether an edge leads from one to the other."""
        return dest in self._after.get(source, ())

    def successors(self, node: N) -> Collection[N]:
        """Where the edges of a node lead."""
        return self._after[node]

    def predecessors(self, node: N) -> Collection[N]:
        """From where edges lead to a node."""
        return self._before[node]

    def subgraph(self, nodes: Iterable[N]) -> Digraph[N]:
        """A graph of these nodes and the edges between them."""
        kept = set(nodes)
        return Digraph(
            (node for node in self if node in kept),
            (edge for edge in self.edges if kept.issuperset(edge)),
        )

    def without(self, edges: Iterable[tuple[N, N]]) -> Digraph[N]:
        """A graph that lacks these edges."""
        gone = set(edges)
        return Digraph(self, (edge for edge in self.edges if edge not in gone))

    def onward(self, node: N) -> set[N]:
        """A node and all that can be come to from it."""
        return _reach(self._after, node)

    def leading_to(self, node: N) -> set[N]:
        """A node and all from which it can be come to."""
        return _reach(self._before, node)

    def components(self) -> list[set[N]]:
        """The parts whose nodes lead to each other, each after all that it leads to."""
        search = _Tarjan(self._after)
        for node in self:
            search.from_node(node)
        return search.found

    def parts(self) -> Parts[N]:
        """The graph of its components."""
        return Parts(self)


class Parts(Generic[N]):
    """The components of a graph, by number, and the ways between them."""

    def __init__(self, graph: Digraph[N]) -> None:
        self.members = graph.components()
        part = {node: number for number, nodes in enumerate(self.members) for node in nodes}
        between = ((part[a], part[b]) for a, b in graph.edges if part[a] != part[b])
        self.graph: Digraph[int] = Digraph(range(len(self.members)), between)


def _reach(ways: dict[N, dict[N, None]], node: N) -> set[N]:
    seen, pending = {node}, [node]
    while pending:
        for after in ways[pending.pop()]:
            if after not in seen:
                seen.add(after)
                pending.append(after)
    return seen


class _Tarjan(Generic[N]):
    """Tarjan's search, with its own stack: a machine may be deeper than Python's."""

    def __init__(self, ways: dict[N, dict[N, None]]) -> None:
        self.found: list[set[N]] = []
        self._ways = ways
        self._number: dict[N, int] = {}
        self._low: dict[N, int] = {}
        self._open: dict[N, None] = {}
        """Nodes whose part is not known yet, in the order in which they were come to."""

    def from_node(self, start: N) -> None:
        """Find all parts that can be come to from here and are not found yet."""
        if start in self._number:
            return
        stack = [(start, self._enter(start))]
        while stack:
            node, ways = stack[-1]
            for after in ways:
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
        return iter(self._ways[node])

    def _leave(self, node: N) -> None:
        if self._low[node] < self._number[node]:
            return
        part: set[N] = set()
        while node not in part:
            part.add(self._open.popitem()[0])
        self.found.append(part)
