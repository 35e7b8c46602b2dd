"""Laws of decisions, over generated machines and whatever may happen to a run of one."""

from __future__ import annotations

import json
import pickle
import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transitions import Machine as StockMachine

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import lifecycle
from chartloop.core.errors import StatusError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.language.dump import canonical, dump
from chartloop.language.load import load
from chartloop.language.spec import MachineSpec
from chartloop.machine.build import Chart
from chartloop.machine.decision import Decision, record_of
from chartloop.machine.evolve import evolve
from chartloop.machine.graph import graph
from chartloop.machine.regions import Configuration, GuardedTransition, Holds, LeanEvent, Region
from chartloop.pictures.flowchart import one_line
from chartloop.pictures.from_graph import flowchart
from chartloop.run.refold import refold
from chartloop.run.replay import replay
from chartloop.run.tally import Tally
from tests.strategies import happenings, machines, ticks
from tests.support import actions

REGISTRY = with_own(specs_of(actions({})))


def spec_of(data: dict[str, Any]) -> MachineSpec:
    """The spec of generated data; JSON is YAML."""
    loaded = load(json.dumps(data), "generated.yaml", REGISTRY)
    assert loaded.ok, "\n\n".join(f.render() for f in loaded.findings)
    assert loaded.spec is not None
    return loaded.spec


Steps = list[tuple[Position, Input, Position, Decision]]


def drive(chart: Chart, what: list[Any], moves: list[float]) -> Steps:
    """Let things happen to a run of the machine, as a driver would."""
    position, at = chart.position("r"), 1000.0
    out: Steps = []
    for n, happening in enumerate(["start", *what]):
        if position.ended:
            break
        at += moves[n % len(moves)] if moves else 0.0
        if (given := _input(chart, position, happening, at)) is None:
            continue
        try:
            after, decision = evolve(chart, position, given)
        except StatusError:
            continue  # refused: nothing has changed
        out.append((position, given, after, decision))
        position = after
    return out


def _input(chart: Chart, position: Position, happening: Any, at: float) -> Input | None:
    match happening:
        case "start" | "pause" | "resume":
            return Input(happening, at=at, started=at)
        case "cancel":
            return Input("stop", "user_requested", at=at, started=at)
        case "edit":
            return Input("edit", at=at, started=at, data={"limits.tokens": 5, "vars.n": 2})
        case _ if position.state in chart.waiting:
            if isinstance(happening, Outcome) and happening.ok:
                return Input("answer", "yes", at=at, started=at, data={})
            can = any(chart.spec.states[position.state].edges_of("expired"))
            return Input("expired" if can else "answer", "" if can else "no", at=at, started=at)
        case Blocked():
            return Input("blocked", at=at, started=at, data={"on": "child"})
        case _ if position.status == "paused":
            return Input("resume", at=at, started=at)
        case _:
            return Input("step", outcome=happening, started=at, at=at)


runs = given(machines(), happenings, st.lists(ticks, max_size=6))


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_a_decision_is_always_the_same(data: Any, what: list[Any], moves: list[float]) -> None:
    chart = Chart(spec_of(data), lifecycle())
    other = Chart(spec_of(data), lifecycle())
    for before, given_, after, decision in drive(chart, what, moves):
        assert evolve(other, before, given_) == (after, decision)
        traced, explained = evolve(chart, before, given_, trace=True)
        assert traced == after
        assert explained.replace(looks=()) == decision


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_a_run_is_never_stuck(data: Any, what: list[Any], moves: list[float]) -> None:
    chart = Chart(spec_of(data), lifecycle())
    for _, _, after, _ in drive(chart, what, moves):
        assert after.state in chart.resting
        assert after.ended or after.state in chart.acting or after.state in chart.waiting
        assert after.ended == (after.state in chart.ends)


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_the_highest_priority_is_the_reason(data: Any, what: list[Any], moves: list[float]) -> None:
    chart = Chart(spec_of(data), lifecycle())
    for _, _, after, decision in drive(chart, what, moves):
        if after.ended:
            priorities = [s.reason.priority for s in after.signals]
            first = after.signals[priorities.index(min(priorities))]
            assert decision.winner == first.reason
            assert after.status in ("completed", "error")


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_replay_of_every_prefix_equals_the_live_run(
    data: Any, what: list[Any], moves: list[float]
) -> None:
    chart = Chart(spec_of(data), lifecycle())
    records: list[Record] = []
    for seq, (before, given_, after, decision) in enumerate(drive(chart, what, moves)):
        record = Record(
            seq, before.state, given_, decision.taken, decision.signals, decision.next,
            decision.status, after.wake_at, decision.warnings,
        )  # fmt: skip
        written = json.loads(record.to_json())
        records.append(Record.from_dict(seq, written, chart.spec.reasons))
        assert records[-1] == record
        found = replay(chart, records, "r")
        assert found.same, found.differences
        assert found.position == after


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_refold_gives_the_positions_that_the_live_run_had(
    data: Any, what: list[Any], moves: list[float]
) -> None:
    """From its beginning, and from each position on; `rest` is that of its tally."""
    chart = Chart(spec_of(data), lifecycle())
    live, tally = drive(chart, what, moves), Tally()
    made = [record_of(one[3], seq, one[2].wake_at) for seq, one in enumerate(live)]
    records = [Record.from_json(record.seq, record.to_json()) for record in made]
    traced = len(records) // 2
    steps = [*refold(chart, records, chart.position("r"), trace_from=traced)]
    for step, (before, _, after, decision) in zip(steps, live, strict=True):
        assert (step.before, step.after, step.error, step.difference) == (before, after, None, "")
        assert step.decision.replace(looks=()) == decision
        assert not step.decision.looks or step.record.seq >= traced
        tally.add(step.record, decision, after.facts)
        assert step.rest == tally.rest
        rest = refold(chart, records[step.record.seq :], before)
        assert [one.after for one in rest] == [one[2] for one in live[step.record.seq :]]


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_a_record_that_cannot_be_decided_ends_the_walk(
    data: Any, what: list[Any], moves: list[float]
) -> None:
    chart = Chart(spec_of(data), lifecycle())
    live = drive(chart, what, moves)
    records = [record_of(one[3], seq, one[2].wake_at) for seq, one in enumerate(live)]
    again = Record(len(records), live[-1][2].state, records[0].input)  # started a second time
    *steps, last = refold(
        chart, [*records, again, *records], chart.position("r"), catch=(StatusError,)
    )
    assert [step.after for step in steps] == [one[2] for one in live]
    assert isinstance(last.error, StatusError)
    assert (last.before, last.after, last.difference) == (live[-1][2], live[-1][2], str(last.error))
    with pytest.raises(StatusError):
        list(refold(chart, [again], live[-1][2]))


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_a_position_is_plain_data(data: Any, what: list[Any], moves: list[float]) -> None:
    chart = Chart(spec_of(data), lifecycle())
    for _, _, after, _ in drive(chart, what, moves)[-3:]:
        written = json.loads(json.dumps(after.to_dict(), default=dict))
        again = Position.from_dict(written, chart.spec.reasons)
        assert json.dumps(again.to_dict(), default=dict) == json.dumps(
            after.to_dict(), default=dict
        )
        assert pickle.loads(pickle.dumps(after)) == after  # noqa: S301  our own data


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_counters_never_fall(data: Any, what: list[Any], moves: list[float]) -> None:
    chart = Chart(spec_of(data), lifecycle())
    for before, given_, after, _ in drive(chart, what, moves):
        old, new = before.facts, after.facts
        assert new.run.steps == old.run.steps + (given_.kind == "step")
        assert new.run.elapsed >= old.run.elapsed
        assert new.run.idle >= old.run.idle
        assert new.usage.total_tokens >= old.usage.total_tokens
        assert new.errors.total >= old.errors.total
        assert all(new.run.visits[s] >= n for s, n in old.run.visits.items())
        entered = sum(new.run.visits.values()) - sum(old.run.visits.values())
        assert entered >= 0


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines())
def test_a_spec_survives_being_written(data: Any) -> None:
    spec = spec_of(data)
    again = load(canonical(spec), "canonical.yaml", REGISTRY)
    assert again.findings == ()
    assert again.spec == spec
    assert again.spec is not None
    assert dump(again.spec) == dump(spec)
    assert canonical(again.spec) == canonical(spec)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines())
def test_no_arrow_that_asks_is_silent(data: Any) -> None:
    chart = Chart(spec_of(data), lifecycle())
    drawn = {arrow.id: arrow for arrow in flowchart(graph(chart), rules="none").arrows}
    for t in chart.step.transitions():
        arrow = drawn.get(t.origin)
        if arrow is None:
            continue
        for guard in t.guards:
            if isinstance(guard, Holds):
                assert one_line(arrow.words)
                said = re.sub(r"(limits\.\w+) \([^)]*\)", r"\1", arrow.tip)
                assert " ".join(guard.expression.text.split()) in said
    assert [arrow for arrow in drawn.values() if arrow.number and not one_line(arrow.words)] == []


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines())
def test_what_is_drawn_is_what_can_run(data: Any) -> None:
    chart = Chart(spec_of(data), lifecycle())
    drawn = graph(chart)
    edges = sorted((a, b, k.partition("→")[0]) for a, b, k in drawn.edges(keys=True))
    live = sorted((t.source, t.dest or "", t.origin) for t in chart.step.transitions() if t.is_edge)
    assert edges == live
    assert set(drawn.nodes) == set(chart.step.nodes)
    rules = {r["id"] for r in drawn.graph["rules"]}
    assert rules == {r.id for r in chart.spec.rules}


class BothEvent(LeanEvent):
    """Decides by the lean path and by a stock machine, and insists that they agree."""

    compared = 0

    def choose(self, cursor: Configuration) -> GuardedTransition | None:
        try:
            lean: GuardedTransition | None = super().choose(cursor)
            raised = None
        except Exception as error:  # noqa: BLE001  whatever a guard raises, both must raise
            lean, raised = None, type(error)
        attribute = self._attribute
        before = getattr(cursor, attribute)
        stock = _stock_of(cast(Region, cast(Any, self).machine))
        if raised is not None:
            with pytest.raises(raised):
                stock.events[self.trigger_name].trigger(cursor)
            return super().choose(cursor)
        moved = stock.events[self.trigger_name].trigger(cursor)
        now = getattr(cursor, attribute)
        setattr(cursor, attribute, before)
        assert moved == (lean is not None)
        if lean is not None:
            assert now == (before if lean.dest is None else lean.dest)
        BothEvent.compared += 1
        return lean


class BothRegion(Region):
    """A region whose events decide both ways."""

    event_cls = BothEvent


class BothChart(Chart):
    """A chart made of both."""

    region = BothRegion


_STOCK: dict[int, tuple[Region, Any]] = {}


def _stock_of(region: Region) -> Any:
    """The stock machine of the same definition: no class of ours but the guards."""
    if id(region) not in _STOCK:
        machine: Any = StockMachine(
            model=None, states=list(region.nodes), initial=cast(Any, region).initial,
            auto_transitions=False, send_event=True, model_attribute=region.attribute,
            ignore_invalid_triggers=True,
        )  # fmt: skip
        for name in region.triggers:
            for t in region.transitions(name):
                guards = [_strictly(g) for g in t.guards]
                machine.add_transition(name, t.source, t.dest, conditions=guards)
        _STOCK[id(region)] = (region, machine)
    return _STOCK[id(region)][1]


def _strictly(guard: Any) -> Any:
    """A guard as stock takes it: it compares the value with True."""

    def holds(event_data: Any) -> bool:
        return bool(guard(event_data))

    return holds


@pytest.mark.slow("tries hundreds of examples for seconds")
@runs
def test_lean_decides_as_stock_does(data: Any, what: list[Any], moves: list[float]) -> None:
    spec = spec_of(data)
    both, lean = BothChart(spec, lifecycle()), Chart(spec, lifecycle())
    seen = BothEvent.compared
    found = drive(both, what, moves)
    assert [f[2:] for f in found] == [f[2:] for f in drive(lean, what, moves)]
    assert not found or BothEvent.compared > seen
    _STOCK.clear()
