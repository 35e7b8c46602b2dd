"""Which loops one run can go through.

Two loops behind the two sides of a decision are never both gone round: a bound that adds them
up would hold, and say too much. So each chain of loops that can follow one another is looked at by
itself.

Imported by:  checker.bound.prove
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import networkx as nx

from chartloop.checker.bound.budgets import Step

MOST_CHAINS = 12
"""With more of them the whole graph is looked at as one."""

_NX: Any = nx


def chains(steps: Sequence[Step], size: int) -> list[list[bool]]:
    """For each chain of loops whether a place may be on it. One chain: all places are."""
    graph = _NX.DiGraph()
    graph.add_nodes_from(range(size))
    graph.add_edges_from({(s.route.source, s.route.dest) for s in steps})
    parts = _NX.condensation(graph)
    looping = [p for p in parts if len(parts.nodes[p]["members"]) > 1
               or any(graph.has_edge(n, n) for n in parts.nodes[p]["members"])]  # fmt: skip
    if len(looping) < 2:
        return []
    reach = {p: {q for q in _NX.descendants(parts, p) if q in set(looping)} for p in looping}
    found = _maximal(looping, reach)
    if len(found) < 2 or len(found) > MOST_CHAINS:
        return []
    out: list[list[bool]] = []
    for chain in found:
        inside = [True] * size
        for part in set(looping) - set(chain):
            for place in parts.nodes[part]["members"]:
                inside[place] = False
        out.append(inside)
    return out


def _maximal(parts: list[int], reach: dict[int, set[int]]) -> list[tuple[int, ...]]:
    """The chains that nothing can be added to, as far as there are not too many."""
    covers = {
        p: [q for q in reach[p] if not any(q in reach[r] for r in reach[p] if r != q)]
        for p in parts
    }
    first = [p for p in parts if not any(p in reach[q] for q in parts)]
    out: list[tuple[int, ...]] = []
    pending: list[tuple[int, ...]] = [(p,) for p in first]
    while pending and len(out) <= MOST_CHAINS:
        chain = pending.pop()
        if covers[chain[-1]]:
            pending += [(*chain, q) for q in covers[chain[-1]]]
        else:
            out.append(chain)
    return out
