"""The likeness of two charts as plain graphs: the cost of differences, and kinds of nodes.

Belongs here: the graph that is compared, the cost of an alignment, and node kinds refined by those
of neighbours. Never: the search for the best alignment (`align`), words.

Source: colour refinement after Weisfeiler and Leman
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

Pair = tuple[int, int]
Labels = tuple[str, ...]
Kinds = tuple[list[int], list[int]]
"""The kind of each node of both graphs; equal numbers are equal kinds."""

GONE = 2
"""The cost of a node that only one graph has. An edge costs 1."""
RENAMED = 2
"""The least cost of another label. A dissimilar one costs more, so that it pays only if the two
nodes share an edge."""
_RENAMED_WHOLLY = 5

_ROUNDS = 12


class Node(NamedTuple):
    """The properties by which nodes are compared."""

    label: str
    shape: str
    fill: str


class Graph(NamedTuple):
    """A graph of numbered nodes."""

    nodes: Sequence[Node]
    edges: Mapping[Pair, Labels]
    """The labels of the parallel edges between two nodes, sorted."""
    pairs_at: Sequence[Sequence[Pair]]
    """The keys of `edges` that contain each node."""

    @classmethod
    def of(cls, nodes: Sequence[Node], edges: Iterable[tuple[int, int, str]]) -> Graph:
        """The graph of these nodes and edges."""
        labels: dict[Pair, list[str]] = defaultdict(list)
        for source, target, label in edges:
            labels[source, target].append(label)
        pairs_at: list[list[Pair]] = [[] for _ in nodes]
        for pair in labels:
            for end in set(pair):
                pairs_at[end].append(pair)
        return cls(nodes, {pair: tuple(sorted(said)) for pair, said in labels.items()}, pairs_at)


@lru_cache(10_000)
def _renaming(a: str, b: str) -> int:
    if a == b:
        return 0
    likeness = SequenceMatcher(None, a[:200], b[:200]).ratio()
    return RENAMED if likeness >= 0.6 else _RENAMED_WHOLLY


def node_changes(a: Node, b: Node) -> int:
    """The cost of changing one node into the other."""
    return _renaming(a.label, b.label) + (a.shape != b.shape) + (a.fill != b.fill)


def edge_changes(a: Labels, b: Labels) -> int:
    """The number of edges added, removed or renamed."""
    if a == b:
        return 0
    ours, theirs = _unlike(a, b)
    return max(ours.total(), theirs.total())


def least_cost(a: Graph, b: Graph) -> int:
    """A lower bound on the cost of any alignment."""
    ours, theirs = _unlike(
        (label for said in a.edges.values() for label in said),
        (label for said in b.edges.values() for label in said),
    )
    edges = max(ours.total(), theirs.total())
    ours, theirs = _unlike((node.label for node in a.nodes), (node.label for node in b.nodes))
    gone, new = ours.total(), theirs.total()
    if gone * new <= 100 and all(_renaming(*pair) > RENAMED for pair in product(ours, theirs)):
        return edges + GONE * (gone + new)
    return edges + RENAMED * max(gone, new)


def _unlike(a: Iterable[str], b: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    ours, theirs = Counter(a), Counter(b)
    return ours - theirs, theirs - ours


def cost_of(a: Graph, b: Graph, found: Sequence[int | None]) -> int:
    """The cost of all differences under an alignment: the match in `b` of each node of `a`."""
    cost = sum(
        GONE if v is None else node_changes(node, b.nodes[v])
        for node, v in zip(a.nodes, found, strict=True)
    )
    back = {v: u for u, v in enumerate(found) if v is not None}
    cost += GONE * (len(b.nodes) - len(back))
    for (u, w), said in a.edges.items():
        cost += edge_changes(said, image(b, found[u], found[w]))
    return cost + sum(
        len(said)
        for (v, x), said in b.edges.items()
        if v not in back or x not in back or (back[v], back[x]) not in a.edges
    )


def image(b: Graph, v: int | None, x: int | None) -> Labels:
    """The labels of the edges from one node to the other; empty if either is None."""
    return () if v is None or x is None else b.edges.get((v, x), ())


def refine_kinds(a: Graph, b: Graph) -> list[Kinds]:
    """The kind of each node of `a` and of `b`, round by round; equal numbers are equal kinds."""
    numbers: dict[Any, int] = {}

    def number(kind: Any) -> int:
        return numbers.setdefault(kind, len(numbers))

    rounds = [([number(n) for n in a.nodes], [number(n) for n in b.nodes])]
    while len(rounds) < _ROUNDS:
        before = rounds[-1]
        after = tuple(
            [
                number((kinds[node], tuple(sorted(_around(graph, kinds, node)))))
                for node in range(len(graph.nodes))
            ]
            for graph, kinds in zip((a, b), before, strict=True)
        )
        if len({*after[0], *after[1]}) == len({*before[0], *before[1]}):
            break
        rounds.append((after[0], after[1]))
    return rounds


def _around(graph: Graph, kinds: Sequence[int], node: int) -> Iterable[tuple[int, int, Labels]]:
    for source, target in graph.pairs_at[node]:
        captions = graph.edges[source, target]
        if source == target:
            yield (0, 0, captions)
        else:
            ahead = source == node
            yield (1 if ahead else 2, kinds[target if ahead else source], captions)


def neighbours(graph: Graph, node: int, *, ahead: bool) -> list[int]:
    """The targets of a node's edges, or their sources."""
    here, there = (0, 1) if ahead else (1, 0)
    return [pair[there] for pair in graph.pairs_at[node] if pair[here] == node]


def twins(graph: Graph) -> list[int]:
    """A number for each node, equal for nodes that are interchangeable."""
    numbers: dict[Any, int] = {}
    found: list[int] = []
    for node, said in enumerate(graph.nodes):
        around = frozenset(
            (tuple(-1 if end == node else end for end in pair), graph.edges[pair])
            for pair in graph.pairs_at[node]
        )
        found.append(numbers.setdefault((said, around), len(numbers)))
    return found
