"""The first records of a run, whose decisions another value of a limit cannot change.

At 5 steps, ``run.steps >= limits.steps`` is false whether the limit is 10 or 20. If a machine only
compares counters with a limit, a run is decided as recorded until one of them reaches the old or
the new value, whichever is lower. So one decision of the run as recorded serves many values, and
only the records after it are decided for each.

Belongs here: the number of these records. Never: decisions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import reduce
from math import inf
from typing import Any

from chartloop.analysis.checker.check_context import parts_of, reads_of
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import ORDER, Compare, Fact, Step, walk
from chartloop.language.label import Label
from chartloop.language.spec import MachineSpec


def counters_of(spec: MachineSpec, limit: str) -> tuple[Fact, ...] | None:
    """The counters that are compared with a limit; None if the machine reads it otherwise.

    That includes machines with children, which always get the rest of a limit.
    """
    if any(state.traits.runs != "none" for state in spec.states.values()):
        return None
    counters: dict[str, Fact] = {}
    for part, _ in parts_of(spec):
        if isinstance(part, Label) or reads_of(spec, part).isdisjoint((limit, "limits")):
            continue  # labels decide nothing
        mine = _compared_counters(part, limit) if isinstance(part, Expression) else None
        if mine is None:
            return None
        counters |= mine
    return tuple(counters.values())


def _compared_counters(guard: Expression, limit: str) -> dict[str, Fact] | None:
    nodes = list(walk(guard.root))
    counters = [
        node.first for node in nodes
        if isinstance(node, Compare) and len(node.links) == 1 and node.links[0].op in ORDER
        and _is(node.links[0].right, limit)
        and isinstance(node.first, Fact) and node.first.type.grows
    ]  # fmt: skip
    reads = sum(_is(node, limit) for node in nodes)
    return {fact.path: fact for fact in counters} if reads == len(counters) else None


def _is(node: object, path: str) -> bool:
    return isinstance(node, Fact) and node.path == path


class CounterHistory:
    """The values of a limit's counters after each record of one run."""

    def __init__(self, counters: Sequence[Fact], positions: Sequence[Position]) -> None:
        self._values = [[_value(p.facts, fact) for p in positions] for fact in counters]
        self._records = len(positions)

    def count_unaffected(self, was: Any, now: Any) -> int:
        """The number of first records in which all guards agree for both values of the limit."""
        if was == now or not self._values:
            return self._records
        lower = min(inf if was is None else was, inf if now is None else now)
        return min((bisect_left(values, lower) for values in self._values), default=self._records)


def _value(facts: Facts, fact: Fact) -> float:
    """A counter's value; -inf for an unknown one, such as a cost without prices."""
    value: Any = reduce(_down, fact.steps, facts)
    return -inf if value is None else value


def _down(above: Any, step: Step) -> Any:
    return above.get(step.name, 0) if step.keyed else getattr(above, step.name)
