"""The machine under check: its live transitions as a graph, and where findings go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx

from interlock.core.codes import finding
from interlock.core.errors import NOWHERE, Finding, Place
from interlock.language.spec import RETURN, StateSpec
from interlock.machine.build import Chart
from interlock.machine.regions import GuardedTransition

OUTSIDE = ("user_requested", "stop_requested", "error", "guard_error")
"""Reasons that can be raised at any moment without the file's doing."""


class Subject:
    """A chart, the graph of its ways, and the findings so far."""

    def __init__(self, chart: Chart, tainted: frozenset[str]) -> None:
        self.chart = chart
        self.spec = chart.spec
        self.tainted = tainted
        self.findings: list[Finding] = []
        self.moves = [t for t in chart.step.transitions() if t.is_edge]
        self.rules = [t for t in chart.step.transitions("check") if t.kind == "rule" and t.dest]
        self.own = self._graph(self.moves)
        """States and the file's own edges."""
        self.ways = self._graph([*self.moves, *self.rules])
        """The same with the rules' ways out."""
        self.once = self._graph(t for t in self.moves if t.kind != "retry")
        """The file's own edges without retries, which are counted."""

    def _graph(self, found: Iterable[GuardedTransition]) -> Any:
        graph: Any = nx.DiGraph()
        graph.add_nodes_from(self.spec.states)
        for t in found:
            if t.dest in self.spec.states:
                graph.add_edge(t.source, t.dest)
        return graph

    def say(
        self, code: str, at: str, message: str, place: Place = NOWHERE, *, hint: str = ""
    ) -> None:
        """Note a finding, unless the state was not read whole."""
        parts = at.split(".")
        if parts[0] == "states" and len(parts) > 1 and parts[1] in self.tainted:
            return
        self.findings.append(finding(code, message, place, hint=hint, at=at))

    def say_of(self, code: str, state: StateSpec, message: str, *, hint: str = "") -> None:
        """Note a finding about a state, at its name."""
        self.say(code, f"states.{state.name}", message, state.place, hint=hint)

    @property
    def whole(self) -> bool:
        """Whether every edge's target could be read, so that reachability means something."""
        return "*" not in self.tainted

    def entries(self) -> set[str]:
        """The states where a run can come to without an edge: start, rules' and stops' targets."""
        spec, chart = self.spec, self.chart
        found = {spec.start, *(t.dest for t in self.rules if t.dest in spec.states)}
        found |= {r for reason in OUTSIDE if (r := chart.route(reason)) in spec.states}
        if spec.on_error is not None:
            found.add(spec.on_error.target)
        return {s for s in found if s is not None}

    def reachable(self, starts: Iterable[str]) -> set[str]:
        """Everything that can be come to from these states."""
        seen: set[str] = set()
        for start in starts:
            if start not in seen:
                seen |= {start, *nx.descendants(self.ways, start)}
        return seen


def branch_states(chart: Chart, fork: StateSpec) -> set[str]:
    """The states in the branches of a fork, up to where they meet or stop."""
    join = chart.joins.get(fork.name)
    seen: set[str] = set()
    pending = list(fork.all)
    while pending:
        name = pending.pop()
        state = chart.spec.states[name]
        if name in seen or name == join or state.stop or state.job == "end":
            continue
        seen.add(name)
        if not state.rests:
            pending += [e.target for e in state.edges if e.target != RETURN]
    return seen
