"""`step` does one action; `advance` makes one record."""

from __future__ import annotations

import asyncio

from chartloop import load
from chartloop.api import Run
from chartloop.core.records import Record
from chartloop.testing import ManualClock

ASKS = """
chartloop: 1
machine: asks
model: {name: scripted}
states:
  think: {do: infer, retry: {times: 2, base: 1s, factor: 2}, next: agree}
  agree: {ask: Agreed?, on: {yes: work, no: done}}
  work: {do: infer, next: done}
  done: {stop: completed}
"""
BUSY = {"error": {"category": "TRANSIENT", "message": "busy"}}


def asking(*script: object) -> Run:
    return load(ASKS).start("x", script=list(script), clock=ManualClock())


def kinds(run: Run) -> list[str]:
    return [record.kind for record in run.records]


def test_the_first_step_does_the_first_action() -> None:
    run = asking("a", "b")
    record = run.step()
    assert record is not None
    assert (record.kind, record.state, run.facts.run.steps) == ("step", "think", 1)
    assert kinds(run) == ["start", "step"]


def test_a_step_after_an_answer_does_the_action_that_follows() -> None:
    run = asking("a", "b")
    run.step()
    assert run.step() is None
    run.send("yes")
    record = run.step()
    assert record is not None
    assert (record.kind, record.state, run.ended) == ("step", "work", True)
    assert kinds(run) == ["start", "step", "answer", "step"]
    assert run.step() is None


def test_an_answer_that_ends_the_run_is_the_newest_record() -> None:
    run = asking("a")
    run.step()
    run.send("no")
    record = run.step()
    assert record is not None
    assert (record.kind, run.ended) == ("answer", True)


def test_a_step_out_of_a_back_off_does_the_action_again() -> None:
    run = asking(BUSY, "a", "b")
    first = run.step()
    assert first is not None
    assert kinds(run)[:2] == ["start", "step"]
    while run.state == "think":
        run.step()
    assert run.facts.run.steps == 2


def test_a_step_after_a_pause_does_the_action_at_hand() -> None:
    run = load("agent").start("x", script=["Hi."])
    run.step()
    run.pause()
    record = run.step()
    assert record is not None
    assert (record.kind, run.status) == ("pause", "paused")
    assert run.step() is None
    run.resume()
    record = run.step()
    assert record is not None
    assert (record.kind, run.ended) == ("step", True)


def test_advance_makes_one_record() -> None:
    run = asking("a", "b")
    made = [run.advance(), run.advance(), run.advance()]
    assert [None if record is None else record.kind for record in made] == ["start", "step", None]


def test_both_have_an_async_face() -> None:
    async def stepped() -> list[Record | None]:
        run = asking("a", "b")
        return [await run.aadvance(), await run.astep(), await run.astep()]

    made = asyncio.run(stepped())
    assert [None if record is None else record.kind for record in made] == ["start", "step", None]
