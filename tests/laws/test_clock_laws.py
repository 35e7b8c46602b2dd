"""Clocks that jump, backwards too: no reading of a run shrinks, and a replay decides the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop import load
from chartloop.core.facts import RunFacts
from chartloop.testing import ManualClock

MACHINE = load("""
chartloop: 1
machine: m
model: {name: scripted}
limits: {steps: 12, time: 1h}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: run.working >= limits.time, stop: time_limit}
states:
  think: {do: infer, within: 30s, retry: {times: 1, base: 1s}, next: wait}
  wait: {on: {go: think}, within: 5m, expired: rest}
  rest: {do: back_off, with: {base: 5s}, next: think}
""")
JUMPS = st.sampled_from([0.0, 0.001, 1.0, -1.0, 30.0, 300.0, -1e6, 1e5, -1e9, 1e12])


class JumpingClock(ManualClock):
    """A clock that has been set anew whenever somebody looks at it."""

    def __init__(self, jumps: Sequence[float]) -> None:
        super().__init__(1e9)
        self._jumps = iter(jumps)

    def now(self) -> float:
        self.advance(next(self._jumps, 1.0))
        return super().now()


def readings(facts: RunFacts) -> tuple[float, ...]:
    return (facts.elapsed, facts.working, facts.idle, facts.steps)


def moments(clock: ManualClock, answers: Iterator[bool]) -> Iterator[RunFacts]:
    """The facts of a run after each step, and whether its replay is the same in the end."""
    run = MACHINE.start("Go.", script=["Hm."] * 20, clock=clock)
    for answer in answers:
        if run.ended:
            break
        if run.status == "paused" and run.state == "wait" and answer:
            run.send("go")
        run.run()
        yield run.facts.run
    assert run.replay().same


@settings(deadline=None)
@given(st.lists(JUMPS, max_size=80), st.lists(st.booleans(), max_size=15))
def test_no_reading_shrinks_and_a_replay_is_the_same(
    jumps: list[float], answers: list[bool]
) -> None:
    before = (0.0, 0.0, 0.0, 0.0)
    for facts in moments(JumpingClock(jumps), iter(answers)):
        now = readings(facts)
        assert all(math.isfinite(value) for value in now)
        assert all(was <= value for was, value in zip(before, now, strict=True))
        before = now
