"""Loops: those that no action interrupts, and those that no budget cuts.

Whether a budget cuts a loop is the question that bounds ask, and it is asked there: a counter must
rise on every path round, and a guard must end the run, or the loop, once it has reached its limit.
Time bounds time, not actions.
"""

from __future__ import annotations

from chartloop.checker.check_context import CheckContext
from chartloop.checker.structure import passing_loops
from chartloop.machine.abstract.position import TooLarge
from chartloop.proofs.bound.bound import say_round
from chartloop.proofs.bound.linear_program import OutOfEffort
from chartloop.proofs.bound.prove import paid
from chartloop.proofs.bound.unbounded_loops import uncut_loops

LOOPS = "loops"
"""Stands among what is not settled where it could not be told in time whether budgets cut all."""


def check_loops(context: CheckContext) -> None:
    """Loops of passing states."""
    for circle in passing_loops(context):
        first = context.in_order(circle)[0]
        message = f"a loop that no action interrupts: {context.circle(circle)}"
        hint = "put an action or a wait into the loop"
        if context.whole(circle):
            context.say_of("CL308", context.spec.states[first], message, hint=hint)


def check_budgets(context: CheckContext) -> None:
    """Loops of paid actions that no budget cuts; of a file with mistakes its ways are not known."""
    if context.broken:
        return
    try:
        for loop in uncut_loops(context.chart, sorted(context.starts)):
            _uncut(context, loop)
    except (TooLarge, OutOfEffort):
        context.prover.unsettled[LOOPS] = None


def _uncut(context: CheckContext, loop: tuple[str, ...]) -> None:
    named = paid(context.spec)
    first = next(name for name in loop if name in named)
    message = f"`{first}` can repeat without end: no budget cuts the loop {say_round(loop)}"
    hint = "add a rule: `{when: run.steps >= limits.steps, stop: steps_limit}`"
    held = context.spec.approve.made if context.spec.approve is not None else ()
    over = (context.spec.made.get(("states", name)) for name in loop if name not in held)
    if (path := next((p for p in over if p is not None), None)) is not None:
        hint = f"write `most: 20` in `{path[1]}`: nothing says how long its list is; or {hint}"
    context.say_of("CL316", context.spec.states[first], message, hint=hint)
