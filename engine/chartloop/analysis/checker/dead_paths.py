"""Edges and rules that no run takes, whatever its inputs.

`checker.unsatisfiable` reports each mistake once, to the author of a file. This module examines
every edge and rule, also after the first mistake, and gives a reason for each.

Belongs here: single guards and groups of them. Never: paths through the whole machine
(`proofs.query`).
"""

from __future__ import annotations

from collections.abc import Iterator

from chartloop.analysis.checker.check_context import CheckContext
from chartloop.analysis.checker.knowledge import Knowledge, Known, groups, guard_of
from chartloop.analysis.proofs.guards.domains import World
from chartloop.analysis.proofs.guards.prover import Claim, Prover
from chartloop.language.file.unreadable import Unread
from chartloop.language.spec import Edge, MachineSpec, StateSpec
from chartloop.machine.build import Chart

_RUNNING = "running"


def untaken(chart: Chart) -> dict[str, str]:
    """Return the ids of edges and rules that are never taken, each with the reason in words."""
    context = CheckContext(chart, Unread())
    words = {**context.prover.world.words, "run.paused_from": paused_from(chart.spec)}
    prover = Prover(World(words))
    knowledge = Knowledge(context)
    reasons: dict[str, str] = {}
    for state in chart.spec.states.values():
        for group in groups(state):
            known = knowledge.at(state.name) if group[0].role != "failed" else ()
            reasons.update(_of_group(prover, state, group, known))
    for rule in chart.spec.rules:
        if prover.ask([Claim(rule.when.root)]).possible is False:
            reasons[rule.id] = f"`{rule.when.text}` never holds"
    return reasons


def paused_from(spec: MachineSpec) -> frozenset[str]:
    """Return the possible values of `run.paused_from`: the statuses that states set."""
    statuses = {state.status for state in spec.states.values() if state.status}
    return frozenset({"", _RUNNING, *statuses})


def _of_group(
    prover: Prover, state: StateSpec, edges: list[Edge], known: Known
) -> Iterator[tuple[str, str]]:
    """Yield the edges of a group that are never taken. A group is tried in order."""
    before: list[Claim] = []
    for number, edge in enumerate(edges):
        guard = guard_of(state, edge)
        own = [] if guard is None else [Claim(guard)]
        if own and prover.ask(own).possible is False:
            yield edge.id, f"`{own[0].node.text}` never holds"
        elif own and prover.ask([*known, *own]).possible is False:
            yield edge.id, f"`{own[0].node.text}` never holds there, after what was decided before"
        elif before and prover.ask([*known, *before, *own]).possible is False:
            yield edge.id, "one before it is always taken"
        if guard is None:
            later = edges[number + 1 :]
            yield from ((edge.id, "one before it has no guard") for edge in later)
            return
        before.append(Claim(guard, False))
