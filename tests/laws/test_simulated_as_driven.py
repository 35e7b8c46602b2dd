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
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from chartloop import load, tool
from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.errors import Category, ModelError, ToolError
from chartloop.core.outcome import Blocked, Outcome
from chartloop.core.plain import plain
from chartloop.core.position import Position
from chartloop.core.records import Input, Record
from chartloop.core.specs import ActionSpec
from chartloop.language.load import load as read
from chartloop.language.spec import StateSpec
from chartloop.machine.build import Chart
from chartloop.machine.evolve import evolve
from chartloop.run.context import Context
from chartloop.run.events import Event, Started
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.studies.simulation.assumptions import family_of
from chartloop.studies.simulation.play import Player, Simulated, opaque_guards, summary
from chartloop.studies.simulation.simulate import make_plan, world_for
from chartloop.studies.simulation.world import NOBODY, World
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

    def finish_input(self, position: Position, made: Outcome | Blocked, duration: float) -> Input:
        self.done.append((made, duration))
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
                # what is left of it if its deadline cuts it off: a child that was late
                ctx.so_far = partial(drawn.outcomes.so_far, ctx.position)
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
    data.pop("said", None)
    if data["kind"] == "start":
        del data["data"]
    return data


def the_same(machine: Machine, world: World, seed: int, number: int) -> Simulated:
    drawn, heard = Noting(machine, world, seed), list[Record]()
    played = drawn.play(seed, number, heard)
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
    return pytest.approx(value, abs=1e-5) if isinstance(value, float) else value


@st.composite
def timed_machines(draw: st.DrawFn) -> Any:
    """A machine whose actions have deadlines and retries; many end exactly at their deadline."""
    data = draw(costly_machines())
    data["limits"]["time"] = draw(st.sampled_from(["40s", "6s", "3s"]))
    for state in data["states"].values():
        if state.get("do") not in ("infer", "call_tools", "call_tool", "run_machine"):
            continue
        if draw(st.booleans()):
            state["within"] = draw(st.sampled_from(["2s", "3s", "40s", "limits.time"]))
            if draw(st.booleans()):
                state["expired"] = draw(st.sampled_from(["done", "stopped", "s0"]))
        if draw(st.integers(0, 2)) == 0:
            base = draw(st.sampled_from(["0s", "1s", "3s"]))
            state["retry"] = {"times": draw(st.integers(1, 2)), "base": base}
    return data


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(timed_machines(), shares(), st.integers(0, 1_000))
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
        work["retry"] = {"times": 1, "base": draw(st.sampled_from(["1s", "5s"]))}
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
    amounts = {
        "prompt_tokens": 10,
        "completion_tokens": 1,
        "duration": ["1s", "4500ms", "5s", "6s"],
    }
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


# the engine itself ----------------------------------------------------------------------------


class Outside:
    """Model and tools that do what was drawn for the action which the run is doing."""

    suspends = False

    def __init__(self, drawn: Noting, clock: ManualClock) -> None:
        self.done = drawn.done
        self.clock = clock
        self.begun = -1
        self.failing = 0

    def hear(self, event: Event) -> None:
        """Count the actions of the run; those of a child are part of their parent's."""
        if isinstance(event, Started):
            self.begun += 1
            made, _ = self.done[self.begun]
            self.failing = 0 if isinstance(made, Blocked) else _failed_calls(made)

    def prepare(self, settings: Mapping[str, Any]) -> None:
        """Nothing can fail later."""

    def context_window(self, settings: Mapping[str, Any]) -> int | None:
        """Large enough."""
        return 10_000

    async def complete(self, request: ModelRequest, on_text: OnText | None = None) -> ModelReply:
        """The reply that was drawn, or its failure."""
        made, duration = self.done[self.begun]
        assert isinstance(made, Outcome)
        await self.clock.sleep(duration)
        if made.error is not None:
            raise ModelError("it failed", category=Category(made.error.category))
        if made.reply is None:  # of a child
            return ModelReply("x", (), "stop", 10, 1)
        spent, reply = made.spent, made.reply
        return ModelReply(
            reply.text, reply.tool_calls, reply.finish_reason,
            spent.prompt_tokens, spent.completion_tokens,
        )  # fmt: skip

    def call(self) -> str:
        """One call of a tool: the first ones fail, as many as were drawn."""
        self.failing -= 1
        if self.failing >= 0:
            raise ToolError("it broke")
        return "ok"


BROKE = "error: a tool failed"
"""What a simulated call says that was made and failed; a refused one says why."""


def _failed_calls(made: Outcome) -> int:
    calls = isinstance(made.result, list)
    result = cast("list[dict[str, Any]]", made.result if calls else [])
    return sum(call.get("content") == BROKE for call in result)


NOW: list[Outside] = []
"""Whose turn it is to be called by tools."""


@tool(blocking=False)
def poke(n: Any = 0) -> str:
    """Does what was drawn."""
    return NOW[0].call()


@tool(blocking=False)
def prod(n: Any = 0) -> str:
    """Does what was drawn."""
    return NOW[0].call()


_CHILD = {"do": "run_machine", "with": {"machine": "child", "task": "x"}}


_GUARDS = (
    "last.ok", "len(last.tool_calls) > 0", "errors.total >= 2", "run.working >= limits.time",
    "run.visits.s0 >= 2",
)  # fmt: skip
_STOPS = (
    "errors.total >= 3", "run.working >= limits.time", "usage.tool_calls >= 3",
    "usage.llm_calls >= 4", "errors.consecutive >= 2", "run.elapsed >= limits.time",
)  # fmt: skip


@st.composite
def whole_states(draw: st.DrawFn, kind: str, names: list[str], onward: str) -> Any:
    """A state that asks, calls tools or runs a child."""
    state: dict[str, Any] = {**_CHILD} if kind == "child" else {"do": kind}
    if kind == "call_tools":
        fields = {"at_most": draw(st.sampled_from([1, 2])), "on_error": "fail"}
        given = {f: v for f, v in fields.items() if draw(st.integers(0, 2)) == 0}
        state |= {"with": given} if given else {}
    if kind != "child" and draw(st.integers(0, 3)) == 0:
        state["allow"] = draw(st.sampled_from([["poke"], ["prod"], []]))
    if kind in ("infer", "child"):
        if draw(st.booleans()):
            state["within"] = draw(st.sampled_from(["1s", "2s", "3s", "5s"]))
            if draw(st.integers(0, 2)) == 0:
                state["expired"] = draw(st.sampled_from([*names, "late"]))
        if draw(st.booleans()):
            base = draw(st.sampled_from(["0s", "1s", "3s"]))
            on = draw(st.sampled_from([["TRANSIENT"], ["TRANSIENT", "RECOVERABLE"]]))
            state["retry"] = {"times": draw(st.integers(1, 2)), "base": base, "on": on}
    if draw(st.integers(0, 3)):
        state["failed"] = draw(st.sampled_from(["next", "next", *names, "broken"]))
    state["next"] = onward
    if draw(st.booleans()):
        to = draw(st.sampled_from([*names, "done"]))
        state["next"] = [{"when": draw(st.sampled_from(_GUARDS)), "to": to}, onward]
    return state


@st.composite
def whole_machines(draw: st.DrawFn) -> Any:
    """A machine of replies, calls, approvals, children and retries, all under deadlines."""
    names = [f"s{n}" for n in range(draw(st.integers(2, 5)))]
    body: dict[str, Any] = {"topic": {"do": "receive", "next": "s0"}}
    for name, onward in zip(names, [*names[1:], "done"], strict=True):
        kinds = ["infer", "call_tools", "call_tools", "call_tool", "child"]
        kind = draw(st.sampled_from(kinds)) if body.keys() > {"topic"} else "infer"
        body[name] = draw(whole_states(kind, names, onward))
    body["unused"] = {**_CHILD, "save": {"vars.seen": "result.text"}, "next": "done"}
    ends = {"done": "completed", "late": "time_limit", "broken": "no_progress"}
    stops = draw(st.lists(st.sampled_from(_STOPS), unique=True, max_size=2))
    out: dict[str, Any] = {
        "chartloop": 1, "machine": "whole", "vars": {"seen": ""},
        "model": {"name": "scripted", "context_window": 10_000}, "tools": ["poke", "prod"],
        "machines": {"child": {"model": {"name": "scripted"}, "states": {
            "a": {"do": "receive", "next": "b"}, "b": {"do": "infer", "next": "z"},
            "z": {"stop": "completed"},
        }}},
        "limits": {"steps": 14, "time": draw(st.sampled_from(["2s", "5s", "20s"]))},
        "rules": [
            {"when": "run.steps >= limits.steps", "stop": "steps_limit"},
            *({"when": when, "stop": "custom"} for when in stops),
        ],
        "states": body | {name: {"stop": reason} for name, reason in ends.items()},
    }  # fmt: skip
    if draw(st.booleans()):
        more: dict[str, Any] = {"within": "2s"} if draw(st.booleans()) else {}
        if draw(st.integers(0, 3)) == 0:
            more["when"] = "errors.total >= 1"
        tools = draw(st.sampled_from([["poke"], ["poke", "prod"]]))
        out["approve"] = {"tools": tools, **more}
    return out


@st.composite
def whole_worlds(draw: st.DrawFn) -> dict[str, Any]:
    fails = draw(st.sampled_from([{}, {"TRANSIENT": 0.5}, {"TRANSIENT": 0.2, "RECOVERABLE": 0.2}]))
    duration = draw(st.sampled_from([["1s", "2s"], ["1s", "3s", "5s"], "0s"]))
    amounts = {"prompt_tokens": 10, "completion_tokens": 1, "duration": duration}
    calls = {"call_fails": draw(st.sampled_from([0, 0.5])), "adds": 0, "duration": "0s"}
    return {
        "infer": {
            "fails": fails, "tool_calls": {"counts": {"0": 0.2, "1": 1, "2": 1, "3": 0.5}},
            "tools": {"poke": 1, "prod": 1}, "repeats": draw(st.sampled_from([0, 0.3])), "grows": False, **amounts,
        },
        "call_tools": calls, "call_tool": calls,
        "run_machine": {"fails": fails, "calls": 1, "reasons": {"completed": 1}, **amounts},
        "wait": {"answers": {"accept": 2, "deny": 1, "nobody": 0.5}, "delay": draw(st.sampled_from(["1s", ["1s", "2s"]]))},
    }  # fmt: skip


def really(machine: Machine, drawn: Noting) -> Run:
    """The run of the engine itself: its own actions, with what was drawn outside of it."""
    answers, clock = iter(drawn.answers), ManualClock(1.0)
    outside = Outside(drawn, clock)
    NOW[:] = [outside]
    run = machine.start(TASK, run_id="simulated", model=outside, clock=clock)
    run.session.listener = outside.hear
    while not run.ended:
        position = run.session.position
        if position.status == "paused" and position.state in machine.chart.waiting:
            event, data, delay = next(answers)
            due = position.wake_at
            if due is not None and (event == NOBODY or clock.now() + delay >= due):
                clock.set(max(clock.now(), due))
            elif event == NOBODY:
                break
            else:
                clock.advance(delay)
                run.send(event, data)
        if run.advance() is None:
            break
    return run


def _counted(position: Position) -> Any:
    """The counters that guards read, without sizes that only texts decide."""
    facts = plain(position.facts)
    for name in ("context_tokens", "context_ratio", "prunable"):
        del facts["usage"][name]
    facts["errors"]["last"] = facts["errors"]["last"] and {
        n: v for n, v in facts["errors"]["last"].items() if n in ("category", "state")
    }
    return {n: facts[n] for n in ("run", "usage", "errors", "queue", "signals")}


@pytest.mark.slow("tries hundreds of examples for seconds")
@slowly
@given(whole_machines(), whole_worlds(), st.integers(0, 1_000))
def test_simulation_and_engine_agree(data: Any, said: dict[str, Any], seed: int) -> None:
    loaded = read(json.dumps(data), "generated.yaml", with_own(specs_of(poke, prod)))
    assert loaded.spec is not None, [f.render() for f in loaded.findings]
    machine = Machine(Chart(loaded.spec, lifecycle()))
    states = dict.fromkeys(machine.chart.waiting, said["wait"])
    named = {s.action.name for s in machine.spec.states.values() if s.action is not None}
    actions = {name: what for name, what in said.items() if name in named}
    world = world_for(machine, {"world": 1, "task": TASK, "actions": actions, "states": states})
    for number in range(5):
        drawn, heard = Noting(machine, world, seed), list[Record]()
        drawn.play(seed, number, heard)
        run = really(machine, drawn)
        for live, simulated in zip(run.records, heard, strict=True):
            assert _near(_passed(live)) == _passed(simulated)
        last = passed_by(machine.chart, heard)[-1]
        assert _near(_counted(run.session.position)) == _counted(last)


def _passed(record: Record) -> Any:
    made = record.outcome
    came = (
        None
        if made is None
        else (made.ok, made.timed_out, len(made.dropped), len(made.tool_errors))
    )
    return {"kind": record.kind, "state": record.state, "next": record.next, "taken": list(record.taken),
            "at": record.input.at, "came": came}  # fmt: skip
