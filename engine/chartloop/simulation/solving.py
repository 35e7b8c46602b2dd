"""Expected visits of an absorbing Markov chain: the only door to numpy.

The chain is cut into its strongly connected parts. Most have one position, because counters only
grow: those are solved by arithmetic. Where positions come back to each other their equations are
solved together, by numpy.

Imported by: simulation.chain
Source: J. G. Kemeny, J. L. Snell, "Finite Markov Chains" (1960), theorem 3.2.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, cast

import networkx as nx

from chartloop.extras import install

Step = tuple[int, float]
"""Where to, an end where it is negative, and with which probability."""
LARGEST = 2_000
"""Positions that may come back to each other: so many equations are solved in a second."""
ROUNDING = 1e-6
"""How much less or more than 1 the probabilities of all ends may come to."""
FOR_EVER = "a run may come to positions that no way leaves, and stay there for ever"
ALMOST = "a run stays so long among some positions that rounding hides how it ends"


def expected_visits(
    steps: Sequence[Sequence[Step]], first: Mapping[int, float]
) -> tuple[list[float], dict[int, float]] | str:
    """How often each position is visited, and with which probability each end is reached.

    `first` is where a run begins. A text says why the chain cannot be solved.
    """
    visits = [0.0] * len(steps)
    ends = defaultdict[int, float](float)
    for number, p in first.items():
        _add(visits, ends, number, p)
    graph = cast(Any, nx.DiGraph())
    graph.add_nodes_from(range(len(steps)))
    graph.add_edges_from((a, b) for a, onward in enumerate(steps) for b, _ in onward if b >= 0)
    parts: list[set[int]] = [*nx.strongly_connected_components(graph)]
    for part in reversed(parts):  # networkx gives them in reverse topological order
        if all(to in part for number in part for to, _ in steps[number]):
            return FOR_EVER  # found by the edges: rounding hides it from the equations
        if len(part) > 1:
            if isinstance(solved := _together(steps, sorted(part), visits), str):
                return solved
            for number, times in solved.items():
                visits[number] = times
        else:
            (number,) = part
            stays = sum(p for to, p in steps[number] if to == number)
            if stays >= 1.0:
                return ALMOST
            visits[number] /= 1.0 - stays
        for number in part:
            for to, p in steps[number]:
                if to not in part:
                    _add(visits, ends, to, visits[number] * p)
    if abs(sum(ends.values()) - 1.0) > ROUNDING:
        return ALMOST
    return visits, dict(ends)


def _add(visits: list[float], ends: defaultdict[int, float], number: int, p: float) -> None:
    if number >= 0:
        visits[number] += p
    else:
        ends[number] += p


def _together(
    steps: Sequence[Sequence[Step]], part: list[int], arriving: Sequence[float]
) -> dict[int, float] | str:
    """Visits of positions that come back to each other: (I - Q)ᵀ visits = arriving."""
    if len(part) > LARGEST:
        return f"{len(part):,} positions come back to each other, more than {LARGEST:,}"
    try:
        import numpy as np  # noqa: PLC0415  an extra: most chains need none
    except ImportError:
        return (
            f"positions come back to each other, and numpy is not installed: {install('simulate')}"
        )
    place = {number: n for n, number in enumerate(part)}
    matrix: Any = np.eye(len(part))
    for number in part:
        for to, p in steps[number]:
            if to in place:
                matrix[place[to], place[number]] -= p
    try:
        given = np.array([arriving[n] for n in part])
        solved: Any = cast(Any, np.linalg).solve(matrix, given)
    except np.linalg.LinAlgError:
        return ALMOST
    return {number: float(solved[n]) for number, n in place.items()}
