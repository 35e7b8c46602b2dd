"""Loops: those that no action interrupts, and those that no budget cuts.

`proofs.bound` decides whether a budget cuts a loop: a counter must rise in every iteration, and a
guard must end the run or the loop once the counter has reached its limit. A time limit bounds time,
not actions.
"""

from __future__ import annotations

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.structure import passing_loops
from chartloop.analysis.proofs.bound.bound import say_round
from chartloop.analysis.proofs.bound.linear_program import OutOfEffort
from chartloop.analysis.proofs.bound.prove import paid
from chartloop.analysis.proofs.bound.unbounded_loops import uncut_loops
from chartloop.machine.abstract.position import TooLarge

LOOPS = "loops"
"""The entry in `Report.unsettled` if the search for loops that no budget cuts gave up."""


def check_loops(context: CheckContext) -> None:
    """Find loops of passing and deciding states."""
    for loop in passing_loops(context):
        first = context.in_order(loop)[0]
        message = f"a loop that no action interrupts: {context.describe_loop(loop)}"
        hint = "put an action or a wait into the loop"
        if context.whole(loop):
            context.say_of("CL308", context.spec.states[first], message, hint=hint)


def check_budgets(context: CheckContext) -> None:
    """Find loops of paid actions that no budget cuts."""
    if context.broken:  # its paths are not known
        return
    spec, costly = context.spec, paid(context.spec)
    gates = spec.approve.made if spec.approve is not None else ()
    try:
        for loop in uncut_loops(context.chart, sorted(context.starts)):
            first = next(name for name in loop if name in costly)
            message = f"`{first}` can repeat without end: no budget cuts the loop {say_round(loop)}"
            hint = "add a rule: `{when: run.steps >= limits.steps, stop: steps_limit}`"
            over = (spec.made.get(("states", name)) for name in loop if name not in gates)
            if (path := next((p for p in over if p is not None), None)) is not None:
                hint = (
                    f"write `most: 20` in `{path[1]}`: nothing says how long its list is; or {hint}"
                )
            context.say_of("CL316", spec.states[first], message, hint=hint)
    except (TooLarge, OutOfEffort):
        context.prover.unsettled[LOOPS] = None
