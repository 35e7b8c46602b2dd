"""The share of each bound that a run has used, at given facts.

Belongs here: the shares of rules and decisions, in words and as bars. Never: printing, pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chartloop.core.facts import Facts
from chartloop.core.strict_json import WHOLE
from chartloop.machine.guard_text import say_value, type_at

if TYPE_CHECKING:  # the command line imports this before it loads a machine
    from chartloop.machine.build import Chart

CELLS = 10
"""The cells of a bar."""
AMBER, RED = 0.8, 1.0


class Budget(NamedTuple):
    """The share of a bound that is used."""

    fact: str
    share: float
    text: str
    """``12 of 50``"""
    bound: float | None = None
    """The 50, where it is a number."""

    @property
    def colour(self) -> str:
        """Green, amber from 80 % on, red once it is spent."""
        return "red" if self.share >= RED else "yellow" if self.share >= AMBER else "green"

    @property
    def bar(self) -> str:
        """A bar of ten cells, of which the last is full only once the bound is reached."""
        full = min(CELLS, int(max(0.0, self.share) * CELLS + 1e-9))
        return "█" * full + "░" * (CELLS - full)


def budgets(chart: Chart, facts: Facts) -> list[Budget]:
    """Return the bounds of a machine's rules and decisions, each once and in file order."""
    out: dict[tuple[str, str], Budget] = {}
    for guard in chart.spec.guards():
        bounds = {b.text: b for b in guard.bounds}
        for reading in guard.readings(facts) if bounds else ():
            bound = bounds.get(reading.text)
            if bound is None or reading.share is None or reading.right is None:
                continue
            type = type_at(chart.spec.roots, bound.fact)
            message = f"{say_value(reading.left, type)} of {say_value(reading.right, type)}"
            limit: float | None = None
            if isinstance(reading.right, (int, float)):
                # a run may have been given any number before callers had a bound
                limit = float(max(-WHOLE, min(WHOLE, reading.right)))
            budget = Budget(bound.fact, reading.share, message, limit)
            out.setdefault((bound.fact, bound.bound_text), budget)
    return list(out.values())
