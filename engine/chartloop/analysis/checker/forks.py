"""Forks: the states in their branches, and where they meet.

Source: docs/language.md, section 2, `all`.
"""

from __future__ import annotations

from collections.abc import Iterable

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.core.digraph import reachable
from chartloop.language.spec import RETURN, StateSpec


def check_forks(context: CheckContext) -> None:
    """Find branches that do more than decide, and branches that never meet."""
    states = context.spec.states
    for fork in (state for state in states.values() if state.all):
        inner = context.in_order(branch_states(context, fork))
        meet = context.chart.joins.get(fork.name) is not None
        suspects = [n for n in inner if not states[n].rests or meet]
        if not meet:
            suspects += _obstacles(context, fork, [n for n in inner if states[n].rests])
        faults = [(n, what) for n in suspects if (what := _more_than_deciding(states[n]))]
        for name, what in faults:
            message = f"`{name}` is in a branch of `{fork.name}` and has {what}"
            hint = "branches only decide: move it after the state where they meet"
            context.say_of("CL311", states[name], message, hint=hint)
        if not meet and not faults and context.whole([fork.name, *inner]):
            message = f"the branches of `{fork.name}` never meet in one state"
            hint = "let every branch that does not stop lead to one state"
            context.say("CL310", ("states", fork.name, "all"), message, hint=hint, key=True)


def branch_states(context: CheckContext, fork: StateSpec) -> set[str]:
    """Return the states in the branches of a fork, up to where they meet, stop or rest."""
    join = context.chart.joins.get(fork.name)
    states = context.spec.states
    over = {n for n, s in states.items() if n == join or s.stop or s.job == "end"} | {RETURN}

    def onward(name: str) -> Iterable[str]:
        rests = name in over or states[name].rests
        return () if rests else (edge.target for edge in states[name].edges)

    return set(reachable(fork.all, onward)) - over


def _obstacles(context: CheckContext, fork: StateSpec, resting: list[str]) -> list[str]:
    """The resting states without which the branches would meet.

    These are the ones that the fork names itself, else those that lead straight to another.
    """
    named = [n for n in resting if n in fork.all]
    if named:
        return named
    return [
        n
        for n in resting
        if any(e.target in resting and e.target != n for e in context.spec.states[n].edges)
    ]


def _more_than_deciding(state: StateSpec) -> str:
    """Name the part of a state that a branch may not have; empty if the state only decides."""
    if state.action is not None:
        return "an action"
    if state.job == "wait":
        return "a wait"
    if state.all:
        return "another `all`"
    if state.set:
        return "`set`"
    if any(e.set for e in state.edges):
        return "an edge with `set`"
    return "an edge with `stop`" if any(e.stop for e in state.edges) else ""
