"""A simulated run and the real driver with the same outcomes are the same run.

The simulator draws outcomes and asks `evolve`; the real driver does actions, cuts them off at their
deadlines, waits out back-offs and hears answers on a clock that somebody else moves. Given what
was drawn, it has to write the same records, come through the same positions and stop for the same
reason with the same counters: whatever the simulator leaves out to be fast changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop import load
from chartloop.analysis.simulation.assumptions import family_of
from chartloop.analysis.simulation.play import Player, Simulated, opaque_guards, summary
from chartloop.analysis.simulation.simulate import make_plan, world_for
from chartloop.analysis.simulation.world import NOBODY, World
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.errors import Category, ModelError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.core.specs import ActionSpec
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.machine.rules import time_allowed
from chartloop.run.context import Context
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing.clock import ManualClock
from tests.exploring import built
from tests.laws.test_simulation_laws import shares, world_of
from tests.strategies import costly_machines

slowly = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
LONGEST = 60
TASK = "a task"


class Noting(Player):
    """Plays as any other, and notes what it draws before anything is decided."""

    def __init__(self, machine: Machine, world: World, seed: int) -> None:
        plan = make_plan(machine, world, seed, limits={}, vars={}, tasks=None)
        super().__init__(machine.chart, world, plan.start, longest=LONGEST)
        self.room = 0  # what was decided before would not be drawn again
        self.done: list[tuple[Outcome | Blocked, float]] = []
        self.answers: list[tuple[str, Mapping[str, Any], float]] = []
        self.tied = False
        """An action took exactly as long as it may: whether it is cut off is anybody's choice."""

    def finish_input(self, position: Position, made: Outcome | Blocked, duration: float) -> Input:
        self.done.append((made, duration))
        state = self.chart.spec.states[position.state]
        allowed = time_allowed(self.chart, state, position)
        if allowed is not None and abs(duration - allowed) < 1e-6:
            self.tied = True
        return super().finish_input(position, made, duration)

    def answer_input(
        self, position: Position, event: str, data: Mapping[str, Any], delay: float
    ) -> Input | None:
        self.answers.append((event, data, delay))
        return super().answer_input(position, event, data, delay)


def driven(machine: Machine, world: World, drawn: Noting, count: int) -> tuple[Run, list[Position]]:
    """The real driver, with what was drawn in the place of models, tools and people."""
    done, answers = iter(drawn.done), iter(drawn.answers)

    def scripted(state: StateSpec, action: ActionSpec) -> ActionSpec:
        pure = family_of(state) == "pure"  # it takes no time that a deadline could cut

        async def act(ctx: Context, *args: Any, **fields: Any) -> Outcome | Blocked:
            made, duration = next(done)
            if not pure:
                await clock.sleep(duration)
                return made
            clock.advance(duration)
            assert action.run is not None
            return action.run(ctx, *args, **fields)  # it has no effects: it is done as it is

        return replace(action, run=act, suspends=True, own_deadline=False)

    states = {
        name: s if s.action is None else replace(s, action=scripted(s, s.action))
        for name, s in machine.spec.states.items()
    }
    clock = ManualClock(1.0)
    acted = Machine(Chart(replace(machine.spec, states=states), lifecycle()))
    run = acted.start(world.task, run_id="simulated", clock=clock, script=[])
    passed: list[Position] = []
    while len(passed) < count and not run.ended:
        position = run.session.position
        if position.status == "paused" and position.state in acted.chart.waiting:
            event, data, delay = next(answers)
            due = position.wake_at
            if due is not None and (event == NOBODY or clock.now() + delay >= due):
                clock.set(max(clock.now(), due))
            elif event == NOBODY:
                break
            else:
                clock.advance(delay)
                run.send(event, data)
        assert run.advance() is not None
        passed.append(run.session.position)
    return run, passed


def passed_by(chart: Chart, records: list[Record]) -> list[Position]:
    """The positions that a simulated run came through."""
    position, out = chart.position("simulated"), list[Position]()
    for record in records:
        position, _ = evolve(chart, position, record.input)
        out.append(position)
    return out


def told(record: Record) -> Any:
    """A record as plain data."""
    data = plain(record.to_dict())
    data.get("outcome", {}).pop("result", None)  # on the record it is plain data, in both
    data.get("outcome", {}).pop("said", None)
    if data["kind"] == "start":
        del data["data"]
    return data


def the_same(machine: Machine, world: World, seed: int, number: int) -> Simulated:
    drawn, heard = Noting(machine, world, seed), list[Record]()
    played = drawn.play(seed, number, heard)
    if drawn.tied:
        return played
    run, passed = driven(machine, world, drawn, len(heard))
    assert [_near(told(r)) for r in run.records] == [told(r) for r in heard]
    for live, simulated in zip(passed, passed_by(machine.chart, heard), strict=True):
        assert (live.state, live.status, live.attempt) == (
            simulated.state, simulated.status, simulated.attempt,
        )  # fmt: skip
        assert _near(plain(live.signals.to_list())) == plain(simulated.signals.to_list())
        assert _near(plain(live.facts)) == plain(simulated.facts)
    asked = sum(r.outcome.unanswered for r in run.records if r.outcome is not None)
    found = summary(number, run.session.position, asked, ())
    assert _near(found._asdict()) == played._asdict()
    return played


def _near(value: Any) -> Any:
    """Plain data that equals itself, and what adding in another order or a hair makes of it."""
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        return {name: _near(inner) for name, inner in parts.items()}
    if isinstance(value, list):
        return [_near(inner) for inner in cast("list[Any]", value)]
    return pytest.approx(value, abs=1e-6) if isinstance(value, float) else value


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_a_simulated_run_is_the_run_that_the_driver_makes_of_the_same_outcomes(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    machine = built(json.dumps(data))
    assume(not opaque_guards(machine.chart))  # drawn by chance there, asked here
    world = world_for(machine, world_of(machine, said))
    for number in range(5):
        the_same(machine, world, seed, number)


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("name", ["agent", "moderator", "stop_signals", "geist_phase"])
def test_shipped_machines_are_driven_as_they_are_simulated(name: str) -> None:
    machine = load(name)
    ways = {the_same(machine, World(), 3, number).state for number in range(25)}
    assert len(ways) >= 1


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(costly_machines(), shares(), st.integers(0, 1_000))
def test_what_is_remembered_of_other_runs_changes_none(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    machine = built(json.dumps(data))
    world = world_for(machine, world_of(machine, said))
    plan = replace(make_plan(machine, world, seed, limits={}, vars={}, tasks=None), longest=LONGEST)
    fast, plain_one = plan.player(), Noting(machine, world, seed)
    for number in range(20):
        assert fast.play(seed, number) == plain_one.play(seed, number)


# what a reply says ----------------------------------------------------------------------------


@st.composite
def parsing_machines(draw: st.DrawFn) -> Any:
    """A machine that parses what its first reply says, and decides by it."""
    data = draw(costly_machines())
    data["vars"]["w"] = ""
    data["states"]["s0"] |= {"do": "infer", "next": "read"}
    data["states"]["s0"].pop("with", None)
    data["states"]["read"] = {
        "do": "parse", "with": {"vars.w": {"tag": "W"}}, "failed": draw(st.sampled_from(["next", "stopped"])),
        "next": [{"when": "vars.w == 'good'", "to": "done"}, "s0"],
    }  # fmt: skip
    return data


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(parsing_machines(), shares(), st.integers(0, 1_000))
def test_a_reply_that_is_parsed_is_the_same_in_both(
    data: Any, said: dict[str, Any], seed: int
) -> None:
    machine = built(json.dumps(data))
    assume(not opaque_guards(machine.chart))
    said["infer"]["texts"] = {"<W>good</W>": 1, "<W>bad</W>": 3, "neither": 1}
    world = world_for(machine, world_of(machine, said))
    for number in range(5):
        the_same(machine, world, seed, number)


# tasks ----------------------------------------------------------------------------------------


class Working:
    """A model that takes as long as was drawn, and then replies or fails as was drawn."""

    suspends = False

    def __init__(self, drawn: Noting, clock: ManualClock) -> None:
        self.done = iter(drawn.done)
        self.clock = clock

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Large enough."""
        return 10_000

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """What the next attempt at a task came to."""
        made, duration = next(self.done)
        assert isinstance(made, Outcome)
        await self.clock.sleep(duration)
        if made.error is not None:
            raise ModelError("it failed", category=Category(made.error.category))
        return ModelReply("x", (), "stop", 10, 1)


@st.composite
def working_machines(draw: st.DrawFn) -> Any:
    """A machine that works on tasks under a deadline, some attempts each."""
    work: dict[str, Any] = {
        "do": "work", "with": {"attempts": draw(st.integers(1, 3))}, "failed": "next",
        "next": [{"when": "queue.size > 0 or queue.current is not None", "to": "w"}, "done"],
    }  # fmt: skip
    if draw(st.booleans()):
        work["within"] = "5s"
        if draw(st.booleans()):
            work["expired"] = draw(st.sampled_from(["w", "late"]))
    if draw(st.integers(0, 2)) == 0:
        work["retry"] = {"times": 1, "base": "1s"}
    return {
        "chartloop": 1, "machine": "working", "model": {"name": "scripted"},
        "tasks": draw(st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=3)),
        "limits": {"steps": 12, "failed": draw(st.integers(1, 3))},
        "rules": [
            {"when": "run.steps >= limits.steps", "stop": "steps_limit"},
            {"when": "queue.failed >= limits.failed", "stop": "error_rate"},
        ],
        "states": {"w": work, "late": {"stop": "time_limit"}, "done": {"stop": "completed"}},
    }  # fmt: skip


@slowly
@given(working_machines(), st.sampled_from([0.0, 0.3]), st.integers(0, 1_000))
def test_work_is_played_as_the_driver_does_it(data: Any, fails: float, seed: int) -> None:
    machine = built(json.dumps(data))
    amounts = {"prompt_tokens": 10, "completion_tokens": 1, "duration": ["1s", "6s"]}
    happens = {"fails": {"TRANSIENT": fails, "RECOVERABLE": fails / 3}, **amounts}
    world = world_for(machine, {"world": 1, "task": TASK, "states": {"w": happens}})
    for number in range(4):
        drawn, heard = Noting(machine, world, seed), list[Record]()
        drawn.play(seed, number, heard)
        clock = ManualClock(1.0)
        queue = [t["text"] if isinstance(t, dict) else t for t in machine.spec.tasks or ()]
        run = machine.start(TASK, model=Working(drawn, clock), clock=clock, tasks=queue)
        run.run()
        for live, simulated in zip(run.records, heard, strict=True):
            assert (live.state, live.next, live.taken) == (
                simulated.state, simulated.next, simulated.taken,
            )  # fmt: skip
            assert _came_to(live) == _came_to(simulated)


def _came_to(record: Record) -> Any:
    """What an attempt came to, without the words."""
    made = record.outcome
    if made is None:
        return None
    queue = None if made.queue is None else [(t.id, t.attempts) for t in made.queue]
    return (
        made.ok,
        made.timed_out,
        made.unanswered,
        queue,
        plain(made.changes),
        made.spent.llm_calls,
    )
