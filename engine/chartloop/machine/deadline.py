"""How long an action may take: what its `within` and the nearest time rule leave. Pure.

Source: design "language", section 6 (deadlines)
"""

from __future__ import annotations

from chartloop.core.facts import Facts
from chartloop.core.position import Position
from chartloop.language.expression import GUARD_ERRORS, Expression, no_oracle
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart


def time_allowed(
    chart: Chart, state: StateSpec, position: Position, *, waited: float = 0.0,
    above: float | None = None,
) -> float | None:  # fmt: skip
    """Seconds from now: the smaller of `within` and what the nearest time rule leaves.

    `waited` is how long ago an action was started that waits and is called again: it counts.
    `above` is what a parent leaves its child. Once a stop has been decided rules are off, and only
    `within` counts. None: nothing bounds it.
    """
    facts, nearest = position.facts, None
    if not position.stopping:
        nearest = above
        for left_by_rule in chart.time_left:
            left = _seconds(left_by_rule, facts)
            # a limit that was reached while the action waited ends it, one from before does not
            if left is not None and left + waited > 0 and (nearest is None or left < nearest):
                nearest = max(left, 0.0)
    within = state.within
    if within is not None:
        own = _seconds(within, facts) if isinstance(within, Expression) else within
        if own is not None and (nearest is None or own - waited < nearest):
            nearest = max(own - waited, 0.0)
    return nearest


def _seconds(expression: Expression, facts: Facts) -> float | None:
    try:
        return expression.fn(facts, no_oracle)
    except GUARD_ERRORS:
        return None
