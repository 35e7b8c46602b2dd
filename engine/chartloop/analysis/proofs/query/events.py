"""The events on a route: actions, answers, tools, edges and rules, states, reasons.

A reason happens when it is raised by anything: a rule (with `stop` or `signal`), a state or an edge
with `stop`, an action, a tool, the engine, a caller. A run ends for the highest reason that was
raised, so it never ends for one that did not happen. A rule happens when it raises its signal, even
if that does not stop the run: a rule with `signal`, or one whose stop is deferred.

Some things are certain to happen on a route; others only may.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

from chartloop.core.position import DECISIONS
from chartloop.language.spec import HIGHEST, StateSpec
from chartloop.machine.abstract.counters import all_sets
from chartloop.machine.abstract.failures import sets_may_fail
from chartloop.machine.abstract.graph import Routes
from chartloop.machine.abstract.position import FROM_OUTSIDE, UNDRAWN, Place, Route
from chartloop.machine.abstract.signals import carried_out, raised_after, signalled_behind
from chartloop.machine.abstract.thresholds import ANY
from chartloop.machine.in_doubt import decides
from chartloop.machine.transition_table import END_ERROR


class Happening(NamedTuple):
    """One event on a route. `sure`: it happens whenever the route is taken."""

    sort: str
    name: str
    sure: bool = True
    beside: bool = False
    """Whether it is raised alongside the reason for which the run stops: a reason, or its rule."""


Called = Callable[[StateSpec], Iterable[str]]
"""Return the tools that the action of a state may execute."""


class Happenings:
    """The events on the routes of one graph. `never`: rules that are known never to hold."""

    def __init__(self, routes: Routes, never: Collection[str] = ()) -> None:
        self.routes = routes
        self.spec = routes.spec
        self._never = frozenset(never)
        self._rules = {rule.id: rule for rule in self.spec.rules}
        self._known: dict[int, tuple[frozenset[str], tuple[Happening, ...]]] = {}
        self._signalling = [r for r in self.spec.rules if r.signal and r.id not in never]

    def on(self, route: Route, called: Called | None = None) -> Iterator[Happening]:
        """Yield the events on a route, in order. `called` narrows the tools that may execute."""
        source, dest = self.routes.places[route.source], self.routes.places[route.dest]
        if route.state:
            yield from self._action_events(route, called or partial(carried_out, self.spec))
        if not route.source and dest.state != route.entry:
            yield Happening("state", route.entry)  # entered before any rule is evaluated
        yield from self._signals(route, source, dest)
        yield from self._deferred_reasons(route, source)
        if source.stops is not None:
            yield from self._stop_reasons(route, source)
        if route.kind not in UNDRAWN:
            yield Happening("edge", route.origin)
        yield from self._holding(route.source)[1]
        yield from self._edge_reasons(route, source, dest)
        # a walk through branches that is back at its fork does not enter it again
        at_fork = dest.branch is not None and dest.state == dest.branch.fork
        if dest.state in self.spec.states and not at_fork:
            yield Happening("state", dest.state)
            yield from self._entry_reasons(route, source, dest.state)

    def _action_events(self, route: Route, called: Called) -> Iterator[Happening]:
        """The answer, action and tools of a route."""
        state = self.spec.states[route.state]
        kind, _, event = route.outcome.partition(":")
        if kind == "answer":
            yield Happening("event", event)
        if state.action is None or route.outcome == "resumed":
            return
        yield Happening("action", state.action.name)
        if decides(self.spec, state) is not None:
            yield from (Happening("event", answer, sure=False) for answer in DECISIONS)
        if state.calls == "named":
            yield Happening("tool", state.named_tool, sure=route.outcome == "ok")
        else:
            for tool in sorted(called(state)):
                yield Happening("tool", tool, sure=False)

    # signals that do not stop -------------------------------------------------------------------

    def _signals(self, route: Route, source: Place, dest: Place) -> Iterator[Happening]:
        """The rules that may signal before a route is taken."""
        if source.stopping or route.kind in FROM_OUTSIDE:
            return
        evaluated = bool(route.state) or not source.state
        here = route.state or route.entry
        into = "" if dest.stops is not None or route.kind == "rule" else dest.state
        for rule in self._signalling:
            near = not into or into in rule.before
            at = evaluated and (not rule.at or here in rule.at)
            may = self.routes.world.verdict(rule.when, ANY) is not False
            if may and (near if rule.before else at):
                yield Happening("reason", rule.signal, sure=False)
                yield Happening("edge", rule.id, sure=False)

    def _deferred_reasons(self, route: Route, source: Place) -> Iterator[Happening]:
        """The reasons raised without stopping the run: deferred, or after a stop."""
        if not route.state:
            return
        state = self.spec.states[route.state]
        if source.stopping:
            yield from _may(signalled_behind(self.spec, state))
        elif source.continued or "run.continuations" in route.after:
            yield from _may(raised_after(self.spec, state))
            for rule in self.spec.rules:
                if rule.stop and rule.id not in self._never:
                    yield Happening("reason", rule.stop, sure=False)
                    yield Happening("edge", rule.id, sure=False)

    # stops --------------------------------------------------------------------------------------

    def _stop_reasons(self, route: Route, source: Place) -> Iterator[Happening]:
        """The reasons for which a run stops here, and those that may be raised alongside."""
        taken, to = self._rules.get(route.origin), self.routes.places[route.dest].state
        own = [r for r in source.raised if self.routes.chart.route(r) == to]
        if taken is not None:
            yield Happening("reason", taken.stop)
        elif route.kind == "raised":
            yield from _may(own)
        if source in self.routes.outside.values():
            return  # a caller gives one reason
        reasons, _ = self._holding(route.source)
        beside = reasons.union(source.raised)
        for reason in sorted(beside.difference(own if taken is None else [taken.stop])):
            yield Happening("reason", reason, sure=False, beside=True)

    def _holding(self, place: int) -> tuple[frozenset[str], tuple[Happening, ...]]:
        """The rules that may hold where a run stops: their reasons, and that they happened.

        Each has raised its reason, whichever of them stops the run.
        """
        if place not in self._known:
            rules = [
                self._rules[id] for id in self.routes.places[place].stops or () if id in self._rules
            ]
            raised = (Happening("edge", rule.id, sure=False, beside=True) for rule in rules)
            self._known[place] = frozenset(rule.stop for rule in rules), tuple(raised)
        return self._known[place]

    # edges and states ---------------------------------------------------------------------------

    def _edge_reasons(self, route: Route, source: Place, dest: Place) -> Iterator[Happening]:
        """The reasons of an edge; after a detour, also those of the interrupted edge."""
        chart = self.routes.chart
        edge = chart.by_origin.get(route.origin)
        if edge is not None and edge.stop:
            yield Happening("reason", edge.stop)
        if route.kind == "return":
            for point, to in chart.interruptible.items():
                cut = chart.by_origin.get(point.name) if point.kind == "edge" else None
                if to == dest.state and cut is not None:
                    yield Happening("edge", point.name, sure=False)
                    yield from _may([cut.stop] if cut.stop else [])
        if source.branch is not None and edge is not None:
            yield from _may(self._stop_of(edge.dest))
        if dest.state == END_ERROR and source.stops is None:
            yield from _may(["guard_error", "error"])
        elif self._fallible_sets:
            yield from _may(["guard_error"])

    def _stop_of(self, name: str | None) -> list[str]:
        state = self.spec.states.get(name or "")
        return [state.stop] if state is not None and state.stop not in ("", HIGHEST) else []

    def _entry_reasons(self, route: Route, source: Place, name: str) -> Iterator[Happening]:
        """The reason of a state, or that of an end reached without one."""
        for stop in self._stop_of(name):
            yield Happening("reason", stop)
            return
        word = self.routes.chart.ends.get(name)
        if word is None or (source.stopping and not self._may_lack_reason):
            return
        edge = self.routes.chart.by_origin.get(route.origin)
        given = edge is not None and bool(edge.stop)
        reason = word if word in ("completed", "error") else "unknown"
        if not given:
            yield Happening("reason", reason, sure=not (source.stopping or self._pending))

    @cached_property
    def _fallible_sets(self) -> bool:
        return sets_may_fail(all_sets(self.spec))

    @cached_property
    def _may_defer(self) -> bool:
        """Whether a continuation may defer a stop."""
        acting = (state.action for state in self.spec.states.values())
        return any(action is not None and action.traits.continues for action in acting)

    @cached_property
    def _may_lack_reason(self) -> bool:
        """Whether a stop may have no reason: none is given, or it was deferred."""
        return self._may_defer or any(s.stop == HIGHEST for s in self.spec.states.values())

    @cached_property
    def _pending(self) -> bool:
        """Whether a signal that has not stopped the run may be pending."""
        return bool(self._signalling) or self._may_defer or self._fallible_sets


def _may(reasons: Iterable[str]) -> Iterator[Happening]:
    for reason in reasons:
        yield Happening("reason", reason, sure=False)
