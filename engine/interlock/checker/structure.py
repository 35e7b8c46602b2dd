"""What can be reached, what ends, and what forks and epilogues may hold."""

from __future__ import annotations

from typing import Any

import networkx as nx

from interlock.checker.subject import Subject, branch_states
from interlock.language.spec import RETURN, StateSpec


def check_structure(subject: Subject) -> None:
    """Reachability, dead ends, forks, epilogues, returns, ends by reason."""
    if subject.whole:
        _unreachable(subject)
        _no_end(subject)
    _dead_ends(subject)
    for state in subject.spec.states.values():
        if state.all:
            _fork(subject, state)
    _epilogues(subject)
    _returns(subject)
    _by_reason(subject)


def _unreachable(subject: Subject) -> None:
    reached = subject.reachable(subject.entries())
    for name, state in subject.spec.states.items():
        if name not in reached:
            subject.say_of(
                "IL304",
                state,
                f"state `{name}` is never reached",
                hint="lead an edge to it, or remove it",
            )


def _dead_ends(subject: Subject) -> None:
    for name, state in subject.spec.states.items():
        if state.job != "end" and not any(t.source == name for t in subject.moves):
            subject.say_of(
                "IL305",
                state,
                f"state `{name}` has no way on",
                hint="add `next`, or make it an end with `end: completed`",
            )


def _no_end(subject: Subject) -> None:
    ends = {n for n, s in subject.spec.states.items() if s.job == "end"}
    leading: set[str] = set(ends)
    for end in ends:
        leading |= nx.ancestors(subject.ways, end)
    leading |= {
        t.source for t in subject.rules
    }  # a rule without a target ends at the engine's own end
    out_by_rule = {t.source for t in subject.rules if t.dest not in subject.spec.states}
    for name in list(out_by_rule):
        leading |= {name, *nx.ancestors(subject.ways, name)}
    for name in subject.reachable(subject.entries()) - leading:
        state = subject.spec.states[name]
        subject.say_of(
            "IL319", state, f"from `{name}` no end can be reached", hint="lead a path to an end"
        )


# forks --------------------------------------------------------------------------------------


def _fork(subject: Subject, fork: StateSpec) -> None:
    join = subject.chart.joins.get(fork.name)
    if join is None:
        subject.say(
            "IL310",
            f"states.{fork.name}.all",
            f"the branches of `{fork.name}` have no state in common that none can go round",
            fork.place,
            hint="let every branch that does not stop lead to one state",
        )
    for name in sorted(branch_states(subject.chart, fork)):
        state = subject.spec.states[name]
        what = (
            "an action"
            if state.action
            else "a wait"
            if state.job == "wait"
            else "`set`"
            if state.set
            else ""
        )
        if not what and any(e.set for e in state.edges):
            what = "an edge with `set`"
        if not what and state.all:
            what = "another `all`"
        if what:
            subject.say_of(
                "IL311",
                state,
                f"`{name}` stands in a branch of `{fork.name}` and has {what}",
                hint="branches only decide: move it behind the state where they meet",
            )


# epilogues ----------------------------------------------------------------------------------


def _openers(subject: Subject) -> set[str]:
    spec = subject.spec
    found = {n for n, s in spec.states.items() if s.stop}
    found |= {e.target for e in spec.edges() if e.stop and e.target != RETURN}
    found |= {r.to for r in spec.rules if r.stop and r.to}
    return found | ({spec.on_stop} if spec.on_stop else set())


def _epilogues(subject: Subject) -> None:
    own: Any = subject.own
    states = subject.spec.states
    inside = {n for o in _openers(subject) for n in (o, *nx.descendants(own, o))}
    part: Any = own.subgraph(inside)
    for component in nx.strongly_connected_components(part):
        names = sorted(component)
        if len(names) > 1 or part.has_edge(names[0], names[0]):
            state = states[names[0]]
            if state.retry is not None and len(names) == 1:
                continue  # a retry is counted
            subject.say_of(
                "IL312",
                state,
                f"after a stop the run can go round in a circle: {' → '.join(names)}",
                hint="lead every path behind a stop straight to an end",
            )


def _returns(subject: Subject) -> None:
    main = subject.chart.main
    detours = {r.to for r in subject.spec.rules if r.kind == "detour"}
    behind = {n for d in detours for n in (d, *nx.descendants(subject.own, d))}
    for edge in subject.spec.edges():
        if edge.target != RETURN:
            continue
        state = subject.spec.states[edge.source]
        if edge.source in main or edge.source not in behind:
            why = (
                "is entered other than by a detour"
                if edge.source in main
                else "is entered by no detour"
            )
            subject.say(
                "IL313",
                f"states.{state.name}",
                f"`{state.name}` says `return` and {why}",
                edge.place,
                hint="use `return` only behind a rule with `to` and no `stop`",
            )


def _by_reason(subject: Subject) -> None:
    """Ends that take the reason's status need a signal on every way there."""
    spec = subject.spec
    silent: Any = subject.own.copy()
    for name, state in spec.states.items():
        if state.stop:
            silent.remove_node(name)
    for edge in spec.edges():
        if edge.stop and silent.has_edge(edge.source, edge.target):
            silent.remove_edge(edge.source, edge.target)
    starts = {spec.start} | {r.to for r in spec.rules if r.kind == "detour"}
    reached = {n for s in starts if s in silent for n in (s, *nx.descendants(silent, s))}
    for name in sorted(reached):
        state = spec.states[name]
        if state.end == "by_reason" and not state.stop:
            subject.say_of(
                "IL314",
                state,
                f"`{name}` can be reached with no reason to stop",
                hint="raise one on the way with `stop:`, or write `end: completed`",
            )
