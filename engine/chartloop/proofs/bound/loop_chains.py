"""Which loops one run can go through.

Two loops behind the two sides of a decision are never both gone round: a bound that adds them
up would hold, and say too much. So each chain of loops that can follow one another is looked at by
itself.

"""

from __future__ import annotations

from collections.abc import Sequence

from chartloop.proofs.bound.budgets import Step
from chartloop.proofs.digraph import Digraph

MOST_CHAINS = 12
"""With more of them the whole graph is looked at as one."""


def chains(steps: Sequence[Step], size: int) -> list[list[bool]]:
    """For each chain of loops whether a place may be on it. One chain: all places are."""
    graph = Digraph(range(size), {(s.route.source, s.route.dest) for s in steps})
    parts = graph.parts()
    looping = [p for p, nodes in enumerate(parts.members)
               if len(nodes) > 1 or any(graph.has_edge(n, n) for n in nodes)]  # fmt: skip
    if len(looping) < 2:
        return []
    reach = {p: (parts.graph.onward(p) - {p}) & set(looping) for p in looping}
    found = _maximal(looping, reach)
    if len(found) < 2 or len(found) > MOST_CHAINS:
        return []
    out: list[list[bool]] = []
    for chain in found:
        inside = [True] * size
        for part in set(looping) - set(chain):
            for place in parts.members[part]:
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
