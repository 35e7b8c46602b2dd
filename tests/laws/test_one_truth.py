"""What decides and what is drawn are the same live `transitions`: for machines that nobody wrote.

Two laws. Once a chart is built, every change through the interface of `transitions` is refused and
changes nothing. While it is being built, a transition that is taken away is gone from the picture
and from what runs: there is no second table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.api import lifecycle
from chartloop.core.errors import ClosedChartError
from chartloop.language.spec import Rule
from chartloop.machine.build import Chart
from chartloop.machine.graph import graph
from chartloop.machine.regions import Failed, GuardCondition, Region
from tests.laws.test_machine_laws import drive, spec_of
from tests.strategies import happenings, machines, ticks

ALWAYS = Failed("always")


class At(NamedTuple):
    """One transition of a live machine, as the library sees it: untyped, and open to all."""

    region: Any
    event: str
    taken: Any

    @property
    def conditions(self) -> Any:
        """The library's list."""
        return self.taken.conditions


CHANGES: dict[str, Callable[[At], object]] = {
    "remove a transition": lambda at: at.region.remove_transition(
        at.event, at.taken.source, at.taken.dest
    ),
    "remove an event": lambda at: at.region.remove_transition(at.event),
    "delete an event": lambda at: at.region.events.pop(at.event),
    "add a transition": lambda at: at.region.add_transition(
        at.event, at.taken.source, at.taken.source
    ),
    "add transitions": lambda at: at.region.add_transitions(
        [[at.event, at.taken.source, at.taken.source]]
    ),
    "add ordered transitions": lambda at: at.region.add_ordered_transitions(),
    "add a state": lambda at: at.region.add_states("another"),
    "add one state": lambda at: at.region.add_state("another"),
    "delete a state": lambda at: at.region.states.pop(at.taken.source),
    "add a model": lambda at: at.region.add_model(object()),
    "remove a model": lambda at: at.region.remove_model(object()),
    "set the events": lambda at: setattr(at.region, "events", {}),
    "set the start": lambda at: setattr(at.region, "initial", at.taken.source),
    "add to an event": lambda at: at.region.events[at.event].add_transition(at.taken),
    "set an event's transitions": lambda at: setattr(at.region.events[at.event], "transitions", {}),
    "delete a state's transitions": lambda at: at.region.events[at.event].transitions.pop(
        at.taken.source
    ),
    "remove from the list": lambda at: (
        at.region.events[at.event].transitions[at.taken.source].remove(at.taken)
    ),
    "set the guards": lambda at: setattr(at.taken, "conditions", []),
    "add a guard": lambda at: at.conditions.append(GuardCondition(ALWAYS)),
    "set the target": lambda at: setattr(at.taken, "dest", "elsewhere"),
    "set the source": lambda at: setattr(at.taken, "source", "elsewhere"),
    "set an effect": lambda at: setattr(at.taken, "set", ()),
    "set a stop": lambda at: setattr(at.taken, "stop", "completed"),
    "set a rule": lambda at: setattr(at.taken, "rule", None),
    "delete the guards": lambda at: delattr(at.taken, "conditions"),
    "a callback of a transition": lambda at: at.taken.add_callback("before", print),
    "a callback of an event": lambda at: at.region.events[at.event].add_callback("after", print),
    "a callback of a state": lambda at: at.region.get_state(at.taken.source).add_callback(
        "enter", print
    ),
    "a callback by name": lambda at: getattr(at.region, f"before_{at.event}")(print),
    "a callback of all": lambda at: at.region.before_state_change.append(print),
    "set a callback of all": lambda at: setattr(at.region, "after_state_change", print),
    "final": lambda at: setattr(at.region.get_state(at.taken.source), "final", True),
}
"""Every way in which `transitions` lets a machine be changed, at one of its transitions."""

REFUSED = (ClosedChartError, AttributeError, TypeError)
"""Tuples and read-only views refuse by themselves."""


def shape(chart: Chart) -> Any:
    """All that the library knows of the live machines, and all that is drawn."""
    live = [
        (region.attribute, event, t.source, t.dest, t.origin, t.guards, t.set, t.stop)
        for region in (chart.step, chart.status)
        for event in region.triggers for t in region.transitions(event)
    ]  # fmt: skip
    drawn = graph(chart, engine=True)
    return live, list(drawn.edges(keys=True, data=True)), drawn.graph["rules"], list(drawn.nodes)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(data=machines(), pick=st.integers(0, 10_000))
def test_a_closed_chart_refuses_every_change(data: Any, pick: int) -> None:
    chart = Chart(spec_of(data), lifecycle())
    before = shape(chart)
    for region in (chart.step, chart.status):
        trigger = list(region.triggers)[pick % len(region.triggers)]
        found = list(region.transitions(trigger))
        for name, change in CHANGES.items():
            try:
                change(At(region, trigger, found[pick % len(found)]))
            except REFUSED:
                continue
            pytest.fail(f"{name}: nothing refused it")
    assert shape(chart) == before


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), st.integers(0, 10_000))
def test_every_guard_and_condition_stays_as_it_is(data: Any, pick: int) -> None:
    chart = Chart(spec_of(data), lifecycle())
    guarded = [t for t in chart.step.transitions() if t.conditions]
    if not guarded:
        return
    condition = guarded[pick % len(guarded)].conditions[0]
    for part, name in (
        (condition, "func"), (condition, "target"), (condition, "holds"), (condition, "guard"),
        (condition.guard, "expression"), (condition.guard, "fn"), (condition.guard, "number"),
    ):  # fmt: skip
        if hasattr(part, name):
            with pytest.raises(ClosedChartError):
                setattr(part, name, None)


class Gone(NamedTuple):
    """The transition that was taken away."""

    event: str
    source: str
    dest: str
    rule: str
    """The id of its rule; empty for an edge."""


class Shorter(Region):
    """A region from which one transition is taken, by the library's own call, before it closes."""

    pick: int = 0
    gone: Gone = Gone("", "", "", "")

    def close(self) -> None:
        if self.attribute == "state":
            offered = [
                (e, t) for e in self.triggers for t in self.transitions(e) if t.kind != "raised"
            ]
            rules = [(e, t) for e, t in offered if t.rule is not None and not t.rule.before]
            among = rules if rules and self.pick % 3 else offered
            event, t = among[self.pick % len(among)]
            rule = t.rule.id if t.rule is not None else ""
            type(self).gone = Gone(event, t.source, t.dest or "", rule)
            cast(Any, self).remove_transition(event, t.source, [t.dest])
        super().close()


class ShorterChart(Chart):
    """A chart of such a region."""

    region = Shorter


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), st.integers(0, 10_000), happenings, st.lists(ticks, max_size=6))
def test_what_is_taken_away_is_neither_drawn_nor_run(
    data: Any, pick: int, what: list[Any], moves: list[float]
) -> None:
    spec = spec_of(data)
    Shorter.pick = pick
    chart = ShorterChart(spec, lifecycle())
    gone = Shorter.gone
    live = {t.origin for t in chart.step.transitions("check") if t.rule is not None}
    assert {rule["id"] for rule in graph(chart).graph["rules"]} == live
    left = sorted((t.source, t.dest, t.origin) for t in chart.step.transitions() if t.is_edge)
    drawn = graph(chart).edges(keys=True)
    assert sorted((a, b, k.partition("→")[0]) for a, b, k in drawn) == left
    lost = {t.origin for t in Chart(spec, lifecycle()).step.transitions()}
    lost -= {t.origin for t in chart.step.transitions()}
    for before, _, _, decision in drive(chart, what, moves):
        seen = {*decision.taken, *(s.source for s in decision.signals)}
        assert not lost & seen, "what is not drawn was taken, or has spoken"
        if gone.rule and not spec_rule(chart, gone.rule).before and before.state == gone.source:
            assert gone.rule not in seen, "a rule was asked where the machine does not have it"


def spec_rule(chart: Chart, id: str) -> Rule:
    return next(rule for rule in chart.spec.rules if rule.id == id)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), st.integers(0, 10_000))
def test_rules_are_those_of_the_live_check(data: Any, pick: int) -> None:
    chart = Chart(spec_of(data), lifecycle())
    for state in chart.spec.states:
        event = chart.event("check")
        here = [t.rule.id for t in (event.at(state) if event else ()) if t.rule is not None]
        covering = chart.rules_at(state)
        asked = [chart.rules[n].rule for n in covering.numbers] if covering is not None else []
        assert {r.id for r in asked} == {i for i in here if not _before(chart, i)}


def _before(chart: Chart, id: str) -> bool:
    return any(live.rule.before for live in chart.rules.values() if live.rule.id == id)
