"""How far a run is certain to go as it did: what another value of a limit cannot have changed.

``run.steps >= limits.steps`` says the same of 5 steps whether the limit is 10 or 20. Where a
machine does nothing with a limit but hold counters against it, a run is decided as it was until
one of these comes to the old value or the new one, whichever is lower. So a run that was decided
once as it was answers for many values at once, and only the rest is decided for each.

Belongs here: how many records that are. Never: what is decided behind them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import reduce
from math import inf
from typing import Any

from chartloop.checker.unused import parts_of, reads_of
from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.language.expression import Expression
from chartloop.language.expression.tree import ORDER, Compare, Fact, Step, walk
from chartloop.language.label import Label
from chartloop.language.spec import MachineSpec


def counters_of(spec: MachineSpec, limit: str) -> tuple[Fact, ...] | None:
    """The counters that a limit is held against; None where anything else is done with it.

    A child machine is given what is left of a limit, whatever the file does with it.
    """
    if any(state.traits.runs != "none" for state in spec.states.values()):
        return None
    found: dict[str, Fact] = {}
    for part, _ in parts_of(spec):
        if isinstance(part, Label) or reads_of(spec, part).isdisjoint((limit, "limits")):
            continue  # labels are shown, nothing is decided by them
        mine = _held_against(part, limit) if isinstance(part, Expression) else None
        if mine is None:
            return None
        found |= mine
    return tuple(found.values())


def _held_against(guard: Expression, limit: str) -> dict[str, Fact] | None:
    nodes = list(walk(guard.root))
    found = [
        node.first for node in nodes
        if isinstance(node, Compare) and len(node.links) == 1 and node.links[0].op in ORDER
        and _is(node.links[0].right, limit)
        and isinstance(node.first, Fact) and node.first.type.grows
    ]  # fmt: skip
    reads = sum(_is(node, limit) for node in nodes)
    return {fact.path: fact for fact in found} if reads == len(found) else None


def _is(node: object, path: str) -> bool:
    return isinstance(node, Fact) and node.path == path


class Rising:
    """What the counters of a limit have come to after each record of one run."""

    def __init__(self, counters: Sequence[Fact], positions: Sequence[Position]) -> None:
        self._values = [[_value(p.facts, fact) for p in positions] for fact in counters]
        self._records = len(positions)

    def count_unaffected(self, was: Any, now: Any) -> int:
        """The records in which every guard says the same of both values of the limit."""
        if was == now or not self._values:
            return self._records
        lower = min(inf if was is None else was, inf if now is None else now)
        return min((bisect_left(values, lower) for values in self._values), default=self._records)


def _value(facts: Facts, fact: Fact) -> float:
    """A counter's value; one that is not known, a cost, has not come to anything."""
    value: Any = reduce(_down, fact.steps, facts)
    return -inf if value is None else value


def _down(above: Any, step: Step) -> Any:
    return above.get(step.name, 0) if step.keyed else getattr(above, step.name)


def with_limits(position: Position, limits: Mapping[str, Any]) -> Position:
    """The position, with these limits in place of its own."""
    facts = position.facts
    return position.replace(facts=facts.replace(limits={**facts.limits, **limits}))
