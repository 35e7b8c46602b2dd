"""Builds a statechart from the live machine: the export is what runs, not what the file says.

Belongs here: which transitions are exported, in which order, and how guards are named. Never: a
format.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from chartloop.api import Machine, lifecycle
from chartloop.core.digraph import reachable
from chartloop.core.facts import Facts
from chartloop.interchange.statechart import (
    CHECK,
    Action,
    Deadline,
    Node,
    Predicate,
    Statechart,
    Transition,
)
from chartloop.language.dump import written_sets
from chartloop.language.expression import Expression, GuardFailed
from chartloop.machine.build import Chart
from chartloop.machine.graph import region_graph
from chartloop.machine.regions import GuardedTransition, Region, Returning


def statechart(machine: Machine, *, all: bool = False) -> Statechart:
    """The states and rules of a machine.

    `all` adds the engine's own part, as in pictures: its ends, and the exits for a cancel, a signal
    from a tool and an unhandled failure.
    """
    chart = machine.chart
    return _Reading(chart, chart.step, chart.position("").facts, all=all).statechart()


def status_chart(machine: Machine, beside: Statechart) -> Statechart:
    """The chart of a run's status, which runs beside the chart of its state.

    Its events start with `status.`; the names of its predicates differ from those of `beside`.
    """
    owner = Chart(lifecycle())
    reading = _Reading(owner, machine.chart.status, owner.position("").facts)
    reading.names.update(predicate.name for predicate in beside.predicates)
    chart = reading.statechart()
    nodes = (
        replace(n, transitions=tuple(replace(w, event=f"status.{w.event}") for w in n.transitions))
        for n in chart.nodes
    )
    return replace(chart, nodes=tuple(nodes))


class _Reading:
    """Reads one live region."""

    def __init__(self, chart: Chart, region: Region, facts: Facts, *, all: bool = False) -> None:
        self.chart = chart
        self.region = region
        self.facts = facts
        self.all = all
        self.graph = region_graph(chart, region, facts)
        # The states that evaluate rules: all but ends and states reached only by a stop.
        transitions = [t for t in region.transitions() if t.dest is not None]
        stopping = {name for name, entry in chart.entry.items() if entry.stop}
        going_on = [t for t in transitions if not _stops(t) and t.source not in stopping]
        before = _reachable({*chart.spec.entries}, going_on) - stopping
        stopped = {t.dest or "" for t in transitions if _stops(t)} | stopping
        after = _reachable(stopped, [t for t in transitions if t.is_edge])
        live = {n for n, node in region.nodes.items() if node.spec and node.spec.job != "end"}
        self.ruled = frozenset(live - (after - before))
        self.predicates: dict[tuple[str, str], Predicate] = {}
        self.names: set[str] = set()

    def statechart(self) -> Statechart:
        nodes = [self._node(name) for name in self.region.nodes]
        shared = _common_transitions([node.checks for node in nodes if node.ruled and node.rests])
        nodes = [replace(n, checks=()) if n.checks == shared else n for n in nodes]
        spec = self.chart.spec
        return Statechart(
            spec.name, spec.title, spec.about, spec.start,
            nodes=tuple(self._visible_nodes(nodes, shared)), checks=shared,
            predicates=tuple(self.predicates.values()), rules=tuple(self.graph.graph["rules"]),
        )  # fmt: skip

    def _visible_nodes(self, nodes: Sequence[Node], shared: Sequence[Transition]) -> Iterator[Node]:
        """The states of the file, and those ends of the engine that a transition leads to."""
        targets = {t.target for node in nodes for t in (*node.transitions, *node.checks)}
        targets |= {transition.target for transition in shared}
        for node in nodes:
            if self.all or node.name in targets or self.region.nodes[node.name].spec is not None:
                yield node

    # states ---------------------------------------------------------------------------------

    def _node(self, name: str) -> Node:
        spec, drawn = self.region.nodes[name].spec, self.graph.nodes[name]
        if spec is None:
            return Node(name, drawn["label"], "end", drawn["about"])
        transitions = [self._transition_of(t, trigger) for trigger, t in self._own(name)]
        checks = [self._transition_of(t, CHECK) for t in self._checks(name)]
        if not spec.rests:  # no `check` happens here: early rules become transitions of their own
            before = {rule.id for rule in self.chart.spec.rules if rule.before}
            early = [transition for transition in checks if transition.edge in before]
            transitions = [replace(t, event="") for t in (*early, *transitions)]
            checks = []
        return Node(
            name, drawn["label"], "act" if spec.action is not None else spec.job, drawn["about"],
            actions=tuple(self._entering(name)), transitions=tuple(transitions),
            checks=tuple(checks),
            deadline=self._deadline(name), ruled=name in self.ruled,
        )  # fmt: skip

    def _entering(self, name: str) -> Iterator[Action]:
        """The effects of entering a state, in the order of the engine."""
        spec = self.chart.spec.states[name]
        if spec.status:
            yield Action("chartloop.status", {"status": spec.status})
        if spec.set:
            yield Action("chartloop.set", written_sets(spec.set))
        if spec.stop:
            yield Action("chartloop.stop", {"reason": spec.stop})
        if spec.action is not None:
            yield Action(spec.action.name)

    def _deadline(self, name: str) -> Deadline | None:
        within = self.chart.spec.states[name].within
        if not isinstance(within, Expression):
            return None if within is None else Deadline(f"{within:g} s", within)
        try:
            return Deadline(within.text, within.value(self.facts))
        except GuardFailed:  # known only when the state is entered
            return Deadline(within.text, None)

    # transitions ----------------------------------------------------------------------------

    def _own(self, name: str) -> Iterator[tuple[str, GuardedTransition]]:
        for trigger, event in self.region.triggers.items():
            if trigger != CHECK:
                yield from ((trigger, t) for t in event.at(name))

    def _checks(self, name: str) -> Iterator[GuardedTransition]:
        """The rules that lead out of a state, in the order in which they are tried."""
        event = self.region.triggers.get(CHECK)
        if event is not None and name in self.ruled:
            for t in event.at(name):
                if t.dest is not None and (t.kind == "rule" or self.all):
                    yield t

    def _transition_of(self, t: GuardedTransition, trigger: str) -> Transition:
        assert t.dest is not None  # rules that lead nowhere are not exported as transitions
        edge = t.edge
        key = t.origin if t.kind != "return" else f"{t.origin}→{t.dest}"
        label = str(self.graph.edges[t.source, t.dest, key]["label"]) if t.is_edge else ""
        return Transition(
            trigger, t.dest, t.origin, t.kind, label, self._predicate(t),
            actions=tuple(_taking(t)),
            fields={n: str(type) for n, type in edge.data} if edge is not None else {},
        )  # fmt: skip

    # guards ---------------------------------------------------------------------------------

    def _predicate(self, t: GuardedTransition) -> str:
        """The name of a transition's guards together; empty if it has none.

        Guards with equal texts get different names: facts may change between their evaluations.
        """
        if not t.guards:
            return ""
        text = " and ".join(guard.__name__ for guard in t.guards)
        key = (t.origin, text)
        if key not in self.predicates:
            back = next((g.target for g in t.guards if isinstance(g, Returning)), "")
            # Add the target: `on_error` alone is a parameter of python-statemachine.
            to = back or (t.dest if "." not in t.origin else "")
            wanted = f"{t.origin} to {to}" if to else t.origin
            plain = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_")
            numbered = (f"{plain}_{number}" for number in itertools.count(2))
            candidates = itertools.chain((plain,), numbered)
            name = next(candidate for candidate in candidates if candidate not in self.names)
            self.names.add(name)
            self.predicates[key] = Predicate(
                name, text, t.origin, back,
                before=t.rule.before if t.rule is not None else (),
            )  # fmt: skip
        return self.predicates[key].name


def _common_transitions(lists: Sequence[tuple[Transition, ...]]) -> tuple[Transition, ...]:
    """The transitions that all lists contain, in order."""
    if not lists:
        return ()
    return tuple(t for t in lists[0] if all(t in each for each in lists))


def _taking(t: GuardedTransition) -> Iterator[Action]:
    if t.set:
        yield Action("chartloop.set", written_sets(t.set))
    reason = t.stop or (t.rule.stop if t.rule is not None else "")
    if reason:
        yield Action("chartloop.stop", {"reason": reason})


# where rules are evaluated ------------------------------------------------------------------


def _stops(t: GuardedTransition) -> bool:
    return bool(t.stop) or t.kind == "raised" or (t.rule is not None and t.rule.kind == "stop")


def _reachable(start: Iterable[str], transitions: Iterable[GuardedTransition]) -> set[str]:
    ahead: dict[str, list[str]] = {}
    for t in transitions:
        ahead.setdefault(t.source, []).append(t.dest or "")
    return set(reachable(start, lambda name: ahead.get(name, [])))
