"""The loops that no budget cuts: the search of the bound, restricted to paid actions.

A loop is cut if an inequality of `budgets` bounds its number of iterations. The others are found
one by one: the paid actions of each are excluded, until the rest is bounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from chartloop.analysis.proofs.bound.costs import STEPS, Assume
from chartloop.analysis.proofs.bound.linear_program import Effort
from chartloop.analysis.proofs.bound.problem import Proof
from chartloop.analysis.proofs.bound.prove import loop_of, paid
from chartloop.machine.abstract.counters import Counting
from chartloop.machine.abstract.thresholds import World
from chartloop.machine.build import Chart

MOST_LOOPS = 8
"""The most loops that are reported at once."""
EFFORT = 1_000_000
"""The most steps of the search: every load makes it, so fewer than for a bound."""
MOST_ROUTES = 30_000


def uncut_loops(chart: Chart, starts: Iterable[str] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the states, in order, of each loop through a paid action that no budget cuts.

    `starts` are states at which a parent starts the machine besides its own start. The limits are
    those of the file. Raises `TooLarge` or `OutOfEffort` if the search takes too long.
    """
    if not paid(chart.spec) or _steps_are_bounded(chart):
        return
    seen = set[frozenset[str]]()
    for start in dict.fromkeys(("", *starts)):
        proof = Proof(chart, {}, {}, Assume(), Effort(EFFORT), start=start, most=MOST_ROUTES)
        for loop in _loops(proof):
            if frozenset(loop) not in seen:
                seen.add(frozenset(loop))
                yield loop


def _steps_are_bounded(chart: Chart) -> bool:
    """Whether a rule ends every run after a number of actions, which cuts every loop."""
    spec = chart.spec
    if any(s.traits.continues for s in spec.states.values()):
        return False
    counting = Counting(spec)
    limits = {name: limit.value for name, limit in spec.limits.items()}
    world = World(limits, counting.counters & {STEPS}, counting.fixed)
    general = (r for r in spec.rules if r.kind == "stop" and not r.at and not r.before)
    return any(STEPS in world.turns(rule.when).true for rule in general)


def _loops(proof: Proof) -> Iterator[tuple[str, ...]]:
    left = set(paid(proof.chart.spec))
    budgets = proof.plain(STEPS)
    for _ in range(MOST_LOOPS):
        gain = [s.gains(STEPS) if s.route.state in left else 0 for s in budgets.steps]
        solved, steps = budgets.most(gain)
        if solved.value is not None:
            return
        loop = loop_of(proof, solved, [budgets.steps[n] for n in steps], left)
        yield loop
        left -= set(loop)
