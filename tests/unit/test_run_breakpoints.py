"""Breakpoints: where `run` and the streams stop although the run could go on."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.api import Machine, Run, load
from chartloop.core.errors import RunError
from chartloop.run.events import Recorded

LOOP = """
chartloop: 1
machine: looper
limits: {rounds: 4, steps: 50}
vars: {n: 0, note: ""}
start: begin
states:
  begin: {do: nothing, next: odd}
  odd: {ask: "Odd?", when: vars.n % 2 == 1, then: count, else: rest}
  rest: {do: nothing, next: count}
  count:
    do: nothing
    set: {vars.n: vars.n + 1}
    next: [{when: vars.n >= limits.rounds, to: report}, {to: odd}]
  report: {do: nothing, next: done}
  done: {stop: completed}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
"""


@pytest.fixture(scope="module")
def machine() -> Machine:
    return load(LOOP)


class Stop(NamedTuple):
    """A place to stop at, and where the run then is: state, `vars.n`, finished actions."""

    at: str
    state: str
    n: int
    steps: int


STOPS = [
    Stop("begin", "begin", 0, 0),
    Stop("count", "count", 1, 2),
    Stop("odd", "rest", 0, 1),
    Stop("report", "report", 4, 7),
    Stop("count.next.0", "report", 4, 7),
    Stop("odd.then", "count", 2, 3),
    Stop("vars.n >= 2", "count", 2, 3),
    Stop("run.steps == 2", "count", 1, 2),
    Stop("run.visits.rest > 1", "rest", 2, 4),
    Stop("vars.n >= 1 and run.elapsed >= duration('0s')", "count", 1, 2),
]


@pytest.mark.parametrize("stop", STOPS, ids=lambda stop: stop.at)
class TestWhere:
    def test_until(self, machine: Machine, stop: Stop) -> None:
        run = machine.start()
        result = run.run(until=stop.at)
        assert where(run) == stop[1:]
        assert run.breakpoints.hit == stop.at
        assert (result.reason, result.status) == (None, "running")

    def test_as_a_breakpoint(self, machine: Machine, stop: Stop) -> None:
        run = machine.start()
        run.breakpoints.add(stop.at)
        run.run()
        assert where(run) == stop[1:]
        assert run.breakpoints.hit == stop.at

    def test_async(self, machine: Machine, stop: Stop) -> None:
        run = machine.start()
        asyncio.run(run.arun(until=stop.at))
        assert where(run) == stop[1:]

    def test_in_streams(self, machine: Machine, stop: Stop) -> None:
        async def drained(run: Run) -> None:
            async for _ in run.astream():
                pass

        one, other = machine.start(), machine.start()
        for run in (one, other):
            run.breakpoints.add(stop.at)
        records = [e.record for e in one.stream() if isinstance(e, Recorded)]
        asyncio.run(drained(other))
        assert where(one) == where(other) == stop[1:]
        assert records == one.records


def where(run: Run) -> tuple[str, int, int]:
    return run.state, run.facts.vars["n"], run.facts.run.steps


def test_a_run_goes_on_from_where_it_stopped(machine: Machine) -> None:
    run = machine.start()
    run.breakpoints.add("count")
    seen: list[int] = []
    while not run.run().reason:
        seen.append(run.facts.vars["n"])
    assert seen == [1, 2, 3, 4]
    assert run.breakpoints.hit == ""
    assert run.result.reason == "completed"


def test_a_guard_that_holds_already_is_reached_at_once_by_until_only(machine: Machine) -> None:
    run = machine.start()
    run.run(until="vars.n >= 1")
    steps = run.facts.run.steps
    run.run(until="vars.n >= 1")
    assert run.facts.run.steps == steps
    run.breakpoints.add("vars.n >= 1")
    assert run.run().reason == "completed"


def test_until_is_for_one_call(machine: Machine) -> None:
    run = machine.start()
    run.run(until="rest")
    assert list(run.breakpoints) == []
    assert run.run().reason == "completed"


def test_one_that_is_never_reached_lets_the_run_end(machine: Machine) -> None:
    run = machine.start()
    assert run.run(until="vars.n > 1000").reason == "completed"
    assert run.breakpoints.hit == ""


def test_a_run_rests_where_its_driver_is_to_end(machine: Machine) -> None:
    """Between two actions, as if nobody had driven it on; then it goes on from there."""
    whole = [record.kind for record in _finished(machine).records]
    for stop_at in range(1, len(whole)):
        run = machine.start("x")
        asyncio.run(run.arun(rest=lambda run=run, at=stop_at: len(run.records) >= at))
        assert len(run.records) == stop_at
        assert asyncio.run(run.arun()).success
        assert [record.kind for record in run.records] == whole


def _finished(machine: Machine) -> Run:
    run = machine.start("x")
    run.run()
    return run


def test_breakpoints_follow_a_run_that_goes_back(machine: Machine) -> None:
    run = machine.start()
    run.breakpoints.add("rest")
    run.run()
    run.run()
    here = where(run)
    run.back(2)
    run.run()
    assert (run.breakpoints.hit, where(run)) == ("rest", here)


def test_a_guard_about_what_is_not_there_does_not_hold(machine: Machine) -> None:
    run = machine.start()
    assert run.run(until='last.error.category == "CRITICAL"').reason == "completed"


def test_leaving_a_stream_ends_the_run_whatever_breakpoints_it_has(machine: Machine) -> None:
    run = machine.start()
    run.breakpoints.add("vars.n >= 1")
    stream = run.stream()
    next(stream)
    stream.close()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    assert run.result.reason == "user_requested"


class Wrong(NamedTuple):
    text: str
    says: str
    hint: str


WRONG = [
    Wrong("cont", "no state `cont`", "`count`"),
    Wrong("vars.m > 1", "vars.m", "vars.n"),
    Wrong("vars.n", "`vars.n`", ""),
    Wrong("vars.n >", "vars.n >", ""),
    Wrong("", "", ""),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.text)
def test_what_is_no_breakpoint_is_refused_before_anything_is_run(
    machine: Machine, wrong: Wrong
) -> None:
    run = machine.start()
    for refused in (lambda: run.run(until=wrong.text), lambda: run.breakpoints.add(wrong.text)):
        with pytest.raises(RunError) as caught:
            refused()
        assert wrong.says in caught.value.message
        assert wrong.hint in caught.value.hint
    assert (run.status, len(run.breakpoints)) == ("idle", 0)


def test_they_can_be_listed_and_taken_away(machine: Machine) -> None:
    points = machine.start().breakpoints
    points.add("rest")
    points.add("vars.n > 2")
    assert [(p.text, p.kind) for p in points] == [("rest", "state"), ("vars.n > 2", "guard")]
    assert "rest" in points
    assert repr(points) == "<Breakpoints 'rest', 'vars.n > 2'>"
    points.remove("rest")
    with pytest.raises(RunError, match="no breakpoint `rest`"):
        points.remove("rest")
    points.clear()
    assert repr(points) == "<Breakpoints none>"


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(st.lists(st.sampled_from([s.at for s in STOPS]), max_size=4))
def test_breakpoints_change_nothing_about_a_run(points: list[str]) -> None:
    machine = load(LOOP)
    plain, stopped = machine.start(run_id="r"), machine.start(run_id="r")
    for text in points:
        stopped.breakpoints.add(text)
    plain.run()
    for _ in range(100):
        if stopped.run().reason:
            break
    told = [[(r.state, r.next, r.taken) for r in run.records] for run in (plain, stopped)]
    assert told[0] == told[1]
