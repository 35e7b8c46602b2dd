"""The checker's graphs answer as networkx does."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.digraph import Digraph

NODES = st.integers(0, 9)
EDGES = st.lists(st.tuples(NODES, NODES), max_size=40)
_NX: Any = nx


def theirs(nodes: list[int], edges: list[tuple[int, int]]) -> Any:
    graph = _NX.DiGraph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    return graph


@given(nodes=st.lists(NODES, max_size=10), edges=EDGES, kept=st.sets(NODES))
def test_graphs_answer_as_those_of_networkx(
    nodes: list[int], edges: list[tuple[int, int]], kept: set[int]
) -> None:
    wanted, whole = theirs(nodes, edges), Digraph(nodes, edges)
    pairs = [(wanted, whole)]
    pairs.append((wanted.subgraph(kept).copy(), whole.subgraph(kept)))
    less = wanted.copy()
    less.remove_edges_from(edges[::2])
    pairs.append((less, whole.without(edges[::2])))
    for known, graph in pairs:
        assert set(graph) == set(known)
        assert set(graph.edges) == set(known.edges)
        for node in graph:
            assert set(graph.successors(node)) == set(known.successors(node))
            assert set(graph.predecessors(node)) == set(known.predecessors(node))
            assert graph.onward(node) == {node} | _NX.descendants(known, node)
            assert graph.leading_to(node) == {node} | _NX.ancestors(known, node)
        assert {frozenset(part) for part in graph.components()} == {
            frozenset(part) for part in _NX.strongly_connected_components(known)
        }


@given(nodes=st.lists(NODES, max_size=10), edges=EDGES)
def test_a_part_comes_after_all_that_it_leads_to(
    nodes: list[int], edges: list[tuple[int, int]]
) -> None:
    graph = Digraph(nodes, edges)
    parts = graph.parts()
    assert set(parts.graph) == set(range(len(parts.members)))
    part = {node: number for number, nodes in enumerate(parts.members) for node in nodes}
    between = {(part[a], part[b]) for a, b in graph.edges if part[a] != part[b]}
    assert set(parts.graph.edges) == between
    assert all(dest < source for source, dest in between)


@pytest.mark.slow("takes seconds")
def test_a_deep_graph_needs_no_deep_stack() -> None:
    long = Digraph(range(50_000), [(n, n + 1) for n in range(49_999)])
    assert len(long.components()) == 50_000
    long.add_edge(49_999, 0)
    assert long.components() == [set(range(50_000))]
