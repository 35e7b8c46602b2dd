"""Laws of runs with children: whatever happens in between, a run ends and leaves none behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.api import Machine, Run, load
from chartloop.core.errors import AnswerError, StatusError
from chartloop.run.journal import MemoryJournal, RunRow
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from chartloop.testing.crash import CrashAt, Crashed

MOST = 100
"""More records than a family of at most seven runs needs from one wait to the next."""
TEXT = """
chartloop: 1
machine: top
TASKS
limits: {time: 1h}
rules: [{when: run.elapsed >= limits.time, stop: time_limit}]
machines:
  middle:
    on_stop: sure
    machines:
      asks:
        states:
          a: {do: nothing, next: q}
          q: {ask: "Really?", on: {yes: done, no: lost}, within: 20m, expired: lost}
          done: {stop: completed}
          lost: {stop: error}
    states:
      go: {do: INNER, failed: next, next: done}
      done: {stop: completed}
      sure: SURE
      out: {stop: highest}
states:
  go: {do: OUTER, FIELD failed: next, next: done}
  done: {stop: completed}
"""
RUNS = {
    "one": "run_machine, with: {machine: NAME}",
    "all": "run_machines, with: {children: {x: {machine: NAME}, y: {machine: NAME}}}",
    "any": "run_machines, with: {children: {x: {machine: NAME}, y: {machine: NAME}}, "
    "wait_for: any}",
}
SURE = ("{do: nothing, next: out}", '{ask: "Sure?", on: {yes: out}}')
FIELDS = ("", "within: 10m,", "retry: {times: 1, base: 1s, on: [TRANSIENT]},")


@cache
def machine_of(inner: str, outer: str, sure: str, field: str) -> Machine:
    """A machine with a child, and that with its own; `work` does it as a task."""
    text = TEXT.replace("INNER", RUNS[inner].replace("NAME", "asks")).replace("SURE", sure)
    tasks = "tasks: [{text: x, by: {machine: middle}}]" if outer == "work" else ""
    action = "work" if outer == "work" else RUNS[outer].replace("NAME", "middle")
    return load(text.replace("TASKS", tasks).replace("OUTER", action).replace("FIELD", field))


shapes = st.builds(
    machine_of, st.sampled_from([*RUNS]), st.sampled_from([*RUNS, "work"]),
    st.sampled_from(SURE), st.sampled_from(FIELDS),
)  # fmt: skip


class SmallSteps(ManualClock):
    """Leaves waits for somebody to the driver, as a real clock does."""

    suspends = True


class Act(NamedTuple):
    """One thing that somebody does; `n` says which child, which write, how long."""

    do: str
    n: int = 0


acts = st.lists(
    st.one_of(
        st.sampled_from(["go", "go", "yes", "no", "pause", "resume", "cancel", "fork"]).map(Act),
        st.builds(Act, st.sampled_from(["crash", "clock", "child", "stop_child"]), st.integers(1, 12)),
    ),
    max_size=20,
)  # fmt: skip


class World:
    """A run, its journal and its clock, and what may be done to them."""

    def __init__(self, machine: Machine, clock: ManualClock) -> None:
        self.machine, self.clock, self.journal = machine, clock, MemoryJournal()
        self.run = machine.start(journal=self.journal, clock=clock)
        self.run.advance()

    def act(self, act: Act) -> None:
        """Do it; what cannot be done now is refused."""
        does: dict[str, Callable[[int], object]] = {
            "go": lambda _: self.go(self.run),
            "yes": lambda _: self.run.send("yes"),
            "no": lambda _: self.run.send("no"),
            "pause": lambda _: self.run.pause(),
            "resume": lambda _: self.run.resume(),
            "cancel": lambda _: self.run.cancel(),
            "fork": lambda _: self.fork(),
            "crash": self.crash,
            "clock": lambda n: self.clock.advance(200.0 * n),
            "child": self.answer_child,
            "stop_child": lambda n: [child.cancel() for child in self.child(n)],
        }
        with contextlib.suppress(AnswerError, StatusError):
            does[act.do](act.n)

    @staticmethod
    def go(run: Run) -> None:
        """Until it ends or waits, and that soon."""
        for _ in range(MOST):
            if run.advance() is None:
                return
        raise AssertionError("it goes round and round")

    def fork(self) -> None:
        """Go on with a fork."""
        self.run = self.run.fork()

    def crash(self, write: int) -> None:
        """Drive it in a process that dies, and open it in another."""
        dying = CrashAt(self.journal, write)
        with contextlib.suppress(Crashed):
            self.go(self.machine.open(self.run.id, journal=dying, clock=self.clock))
        self.run = self.machine.open(self.run.id, journal=self.journal, clock=self.clock)

    def below(self) -> Sequence[RunRow]:
        """The children, theirs too."""
        return by_hand(self.journal.rows(prefix=f"{self.run.id}/"))

    def child(self, n: int) -> list[Run]:
        """One of the children, in hand as any other run; none where there is none."""
        if not (rows := self.below()):
            return []
        row, chart = rows[n % len(rows)], self.machine.chart.child("middle")
        machine = Machine(chart if row.machine == "middle" else chart.child("asks"))
        return [machine.open(row.run_id, journal=self.journal, clock=self.clock)]

    def answer_child(self, n: int) -> None:
        """Answer a child itself, and drive it on or not."""
        for child in self.child(n):
            child.send("yes")
            if n % 2:
                self.go(child)

    def finish(self) -> None:
        """Help it on until it ends."""
        for _ in range(MOST):
            self.go(self.run)
            if self.run.ended:
                return
            self.act(Act("yes" if self.run.answers else "resume"))


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(shapes, st.sampled_from([ManualClock, SmallSteps]), acts)
def test_a_run_ends_and_leaves_no_child_behind(
    machine: Machine, clock: type[ManualClock], acts: list[Act]
) -> None:
    world = World(machine, clock())
    for act in acts:
        if not world.run.ended:
            world.act(act)
    world.finish()
    assert world.run.ended
    assert [row.run_id for row in world.below() if not row.ended] == []
    assert world.run.replay().same
