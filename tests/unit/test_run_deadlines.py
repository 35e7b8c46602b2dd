"""`within`, time rules and `expired`: what ends an action, and what the run then stops for."""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pytest

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of
from chartloop.adapters.clock import SystemClock
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.specs import ActionSpec, Effect
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.context import Context
from chartloop.run.ports import Clock
from chartloop.testing.clock import ManualClock
from tests.support import path
from tests.talks import outcomes, talk

END = "  z: {stop: completed}\n"


def begin(body: str, clock: Clock, long: float, *, suspends: bool = True) -> Run:
    """A run in which `takes` takes `long` seconds."""

    async def act(ctx: Context) -> float:
        await ctx.ports.clock.sleep(long)
        return long

    action = ActionSpec("takes", act, effect=Effect.PURE, suspends=suspends)
    loaded = load(f"chartloop: 1\nmachine: m\n{body}", "m.yaml", with_own(specs_of([action])))
    assert loaded.spec is not None, loaded.findings
    return Machine(Chart(loaded.spec, lifecycle())).start("task", clock=clock)


class Case(NamedTuple):
    """A machine, how long its action takes, and how the run ends after how long.

    Times are in tenths of a second: a real clock shows each case too.
    """

    id: str
    body: str
    long: float
    path: str
    reason: str
    after: float


RULE = "limits: {time: 200ms}\nrules:\n  - {when: run.%s >= limits.time, stop: time_limit}\n"
LATER = RULE.replace("200ms", "1s")
"""Late enough for a busy machine to have left the first state before."""
CASES = [
    Case("in time", "states:\n  a: {do: takes, within: 300ms, next: z}\n" + END, 0.1, "a z", "completed", 0.1),
    Case("too long", "states:\n  a: {do: takes, within: 200ms, next: z}\n" + END, 9, "a end-error", "error", 0.2),
    Case("the file handles it", "states:\n  a: {do: takes, within: 200ms, failed: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a b z", "completed", 0.2),
    Case("expired", "states:\n  a: {do: takes, within: 200ms, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a b z", "completed", 0.2),
    Case("expired is not for what is in time", "states:\n  a: {do: takes, within: 300ms, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 0.1, "a z", "completed", 0.1),
    Case("a limit", "limits: {t: 200ms}\nstates:\n  a: {do: takes, within: limits.t, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a b z", "completed", 0.2),
    Case("an expression", "limits: {t: 100ms}\nstates:\n  a: {do: takes, within: limits.t * 2, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a b z", "completed", 0.2),
    Case("retried", "states:\n  a: {do: takes, within: 100ms, retry: {times: 1, base: 0s}, next: z}\n" + END, 9, "a a end-error", "error", 0.2),
    Case("a time rule ends it", RULE % "elapsed" + "states:\n  a: {do: takes, next: z}\n" + END, 9, "a end-completed", "time_limit", 0.2),
    Case("a rule on working time", RULE % "working" + "states:\n  a: {do: takes, next: z}\n" + END, 9, "a end-completed", "time_limit", 0.2),
    Case("a time rule before within", RULE % "elapsed" + "states:\n  a: {do: takes, within: 400ms, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a end-completed", "time_limit", 0.2),
    Case("within before a time rule", LATER % "elapsed" + "states:\n  a: {do: takes, within: 100ms, expired: b, next: z}\n  b: {do: nothing, next: z}\n" + END, 9, "a b z", "completed", 0.1),
    Case("what a time rule leaves", LATER % "elapsed" + "states:\n  a: {do: takes, within: 150ms, failed: b, next: z}\n  b: {do: takes, next: z}\n" + END, 9, "a b end-completed", "time_limit", 1.0),
    Case("a limit that is off bounds nothing", "limits: {time: {type: duration, value: null}}\nrules:\n  - {when: run.elapsed >= limits.time, stop: time_limit}\nstates:\n  a: {do: takes, next: z}\n" + END, 0.2, "a z", "completed", 0.2),
    Case("no time rule in the epilogue", "on_stop: r\n" + RULE % "elapsed" + "states:\n  a: {do: takes, next: {to: r, stop: custom}}\n  r: {do: takes, next: e}\n  e: {end: by_reason}\n" + END, 0.15, "a r e", "custom", 0.3),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_on_a_simulated_clock(case: Case) -> None:
    clock = ManualClock(1000.0)
    run = begin(case.body, clock, case.long, suspends=False)
    assert not run.suspends
    result = run.run()
    assert (path(run), result.reason) == (case.path, case.reason)
    assert result.elapsed == pytest.approx(case.after)
    assert run.replay().same


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_on_a_real_clock(case: Case) -> None:
    run = begin(case.body, SystemClock(), case.long)
    result = run.run()
    assert (path(run), result.reason) == (case.path, case.reason)
    assert case.after - 0.001 <= result.elapsed < case.after + 3


class TestTheModel:
    """`infer` suspends only when its model does: a deadline holds for it all the same."""

    BODY = (
        "states:\n  a: {do: infer, within: 200ms, failed: b, next: z}\n  b: {do: nothing, next: z}\n"
        + END
    )

    @pytest.mark.parametrize("clock", [ManualClock(), SystemClock()], ids=["simulated", "real"])
    def test_a_slow_model_is_cut_off(self, clock: Clock) -> None:
        run = talk(self.BODY, [{"text": "late", "delay": 60}], clock=clock)
        assert run.run().reason == "completed"
        assert path(run) == "a b z"
        (outcome,) = outcomes(run, "a")
        assert (outcome.timed_out, outcome.unanswered) == (True, 1)
        assert run.facts.usage.llm_calls == 0


def test_a_timeout_of_the_actions_own_is_not_the_deadlines() -> None:
    async def act(ctx: Context) -> None:
        raise TimeoutError("no answer from the printer")

    action = ActionSpec("takes", act, effect=Effect.PURE)
    body = (
        "states:\n  a: {do: takes, within: 5s, expired: z, failed: b, next: z}\n  b: {do: nothing, next: z}\n"
        + END
    )
    loaded = load(f"chartloop: 1\nmachine: m\n{body}", "m.yaml", with_own(specs_of([action])))
    assert loaded.spec is not None
    run = Machine(Chart(loaded.spec, lifecycle())).start("task", clock=SystemClock())
    run.run()
    assert path(run) == "a b z"
    assert run.result.errors[0]["message"] == "TimeoutError: no answer from the printer"
    assert run.result.errors[0]["category"] == "TRANSIENT"


def test_a_deadline_holds_inside_a_running_loop() -> None:
    async def main() -> str:
        run = begin(CASES[3].body, SystemClock(), 9)
        await run.arun()
        return path(run)

    assert asyncio.run(main()) == "a b z"


class Hasty(SystemClock):
    """Its alarm goes off a moment before its reading says so, as that of a loop's own clock may."""

    def deadline(self, at: float) -> AbstractContextManager[Any]:
        return super().deadline(at - 0.02)


def test_an_alarm_that_goes_off_early_is_still_the_time_limits() -> None:
    run = begin(RULE % "elapsed" + "states:\n  a: {do: takes, next: z}\n" + END, Hasty(), 9)
    result = run.run()
    assert (result.reason, result.elapsed >= 0.2) == ("time_limit", True)
