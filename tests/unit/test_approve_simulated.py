"""Made-up runs of a machine with `approve` ask, wait, and are denied as real ones."""

from __future__ import annotations

from typing import Any

import pytest

from chartloop import Machine, Run, load, simulate, simulated_run
from chartloop.run.recorded import RecordedRun, read_run
from chartloop.run.sync import by_hand
from chartloop.studies.simulation.learn import learn
from chartloop.studies.simulation.world import NOBODY
from chartloop.testing import ManualClock
from tests.unit.test_approve import TEXT, TOOLS


def test_a_simulation_asks_and_waits_and_carries_out_what_was_approved_only() -> None:
    machine = load(TEXT, tools=TOOLS)
    runs = simulate(machine, runs=100, seed=1).sample
    assert max(run.waiting for run in runs.runs) > 0
    assert {"approve.on.accept", "approve.on.deny", "approve.expired"} <= set(runs.taken)


GATE = """chartloop: 1
machine: m
model: {name: scripted, context_window: 9999}
tools: [conversation_search, send_message]
approve: {tools: [send_message], within: 10s}
states:
  q: {do: receive, next: a}
  a: {do: infer, next: act}
  act: {do: call_tools%s, next: done}
  done: {stop: completed}
"""
SEND = {"name": "send_message", "arguments": {"message": "x"}}
SEARCH = {"name": "conversation_search", "arguments": {"query": "x"}}


def decided(machine: Machine, word: str, *calls: dict[str, Any]) -> Run:
    """A real run whose calls a person accepts or denies; `nobody` lets the wait expire."""
    clock = ManualClock()
    run = machine.start("t", clock=clock, script=[{"tool_calls": [*calls]}])
    while run.status != "paused":
        run.step()
    if word == NOBODY:
        clock.advance(10)
    else:
        run.send(word)
    run.run()
    return run


@pytest.mark.parametrize("fields", ["", ", with: {at_most: 1}"], ids=["all", "one"])
@pytest.mark.parametrize("word", ["accept", "deny", NOBODY])
def test_a_decision_counts_as_it_does_in_a_run(fields: str, word: str) -> None:
    machine = load(GATE % fields)
    reply = {"fails": 0, "tool_calls": 2, "tools": {"send_message": 1}, "duration": "1s"}
    calls, answers = {"call_fails": 0}, {"answers": {word: 1}, "delay": "1s"}
    states = {"a": reply, "approve": answers, "act_approved": calls, "act_others": calls}
    world = {"world": 1, "task": "t", "states": states}
    played, real = (
        simulated_run(machine, 0, world, seed=1).facts,
        decided(machine, word, SEND, SEND).facts,
    )
    assert (played.errors.total, played.usage.tool_calls, played.usage.messages) == (
        real.errors.total, real.usage.tool_calls, real.usage.messages,
    )  # fmt: skip


def test_a_denied_call_is_not_learnt_as_one_that_failed() -> None:
    run = decided(load(GATE % ""), "deny", SEND, SEARCH)
    learnt = by_hand(read_run(run.session.journal, run.session.row))
    assert isinstance(learnt, RecordedRun)
    states = learn(run.machine.chart, [learnt]).states
    assert states["act_others"].call_fails == 0


def test_calls_that_were_answered_are_not_made_again() -> None:
    """After a failed reply the newest one is the reply before, whose calls have been made."""
    machine = load(
        """chartloop: 1
machine: m
model: {name: scripted, context_window: 9999}
tools: [conversation_search]
states:
  q: {do: receive, next: a}
  a: {do: infer, next: b}
  b: {do: call_tools, next: c}
  c: {do: infer, failed: next, next: d}
  d: {do: call_tools, next: done}
  done: {stop: completed}
"""
    )
    calls = {"call_fails": 0}
    states = {
        "a": {"fails": 0, "tool_calls": 2},
        "c": {"fails": {"TRANSIENT": 1.0}},
        "b": calls,
        "d": calls,
    }
    world = {"world": 1, "task": "t", "states": states}
    assert simulated_run(machine, 0, world, seed=1).facts.usage.tool_calls == 2
