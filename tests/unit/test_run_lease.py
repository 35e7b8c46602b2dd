"""A run's lease from its first action to where it rests, and who is told what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chartloop import tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, load
from chartloop.core.errors import Driven, Fenced
from chartloop.run.journal import Event, Journal, MemoryJournal
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.sync import by_hand

FAR = Driver("far", "chartloop run", Process("another-box", 7, "elsewhere", "1"))
TEXT = """
chartloop: 1
machine: worker
model: {name: scripted}
tools: [work]
vars: {n: 0}
states:
  hear: {do: receive, next: act}
  act: {do: tool, with: {name: work}, next: ask}
  ask: {ask: "Again?", on: {yes: act, no: done}}
  done: {stop: completed}
"""


def machine(work: Callable[..., Any]) -> Machine:
    return load(TEXT, tools=[work])


def quick() -> Machine:
    @tool(effect="pure")
    def work() -> str:
        """Work."""
        return "done"

    return machine(work)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "j.db")
    yield made
    by_hand(made.close())


def held(journal: Journal) -> bool:
    return by_hand(journal.lease("r")) is not None


def test_it_is_kept_between_steps_and_given_back_where_the_run_rests(journal: Journal) -> None:
    run = quick().start("t", journal=journal, run_id="r")
    assert run.advance() is not None
    assert held(journal)
    run.advance()
    assert held(journal)
    assert run.run().kind == "waiting"
    assert not held(journal)
    run.set("vars.n", 1)
    assert not held(journal)
    run.send("no")
    assert run.advance() is not None
    assert run.ended
    assert not held(journal)


def test_it_is_given_back_at_a_breakpoint_and_where_an_error_leaves_the_run(
    journal: Journal,
) -> None:
    run = quick().start("t", journal=journal, run_id="r")
    run.run(until="act")
    assert (run.state, held(journal)) == ("act", False)
    run.session.ports.clock = None  # pyright: ignore[reportAttributeAccessIssue]  it fails
    with pytest.raises(AttributeError):
        run.advance()
    assert not held(journal)


def test_another_run_of_this_process_may_take_it_between_two_steps(journal: Journal) -> None:
    made = quick()
    run = made.start("t", journal=journal, run_id="r")
    run.advance()
    other = made.open("r", journal=journal)
    other.advance()
    for _ in range(2):
        with pytest.raises(Fenced, match=r"driven by another process: python, pid .* took it over"):
            run.advance()
    assert other.run().kind == "waiting"


def test_another_process_is_told_who_holds_it_between_two_steps(journal: Journal) -> None:
    run = quick().start("t", journal=journal, run_id="r")
    run.session.holder.face = "chartloop step"
    run.advance()
    lease = by_hand(journal.lease("r"))
    assert lease is not None
    assert lease.driver.process.pid > 0
    assert lease.driver.face == "chartloop step"


def test_a_run_that_is_driven_elsewhere_is_read_and_not_driven(journal: Journal) -> None:
    made = quick()
    run = made.start("t", journal=journal, run_id="r")
    run.run()
    by_hand(journal.acquire("r", FAR))
    opened = made.open("r", journal=journal)
    assert opened.status == "paused"
    before = by_hand(journal.row("r"))
    for drive in (opened.step, opened.run, lambda: opened.set("vars.n", 1)):
        with pytest.raises(Driven, match="pid 7 on another-box"):
            drive()
    assert by_hand(journal.row("r")) == before
    opened.send("no")  # what is sent needs no lease
    taken = made.open("r", journal=journal, take_over=True)
    assert taken.run().reason == "completed"
    assert taken.session.tally.warnings == []  # nothing was in flight


@pytest.mark.parametrize("left", ["alive", "silent", ""])
def test_a_doubt_says_how_the_call_was_left(left: str) -> None:
    """An interruption only where there was one."""
    now = [1_000.0]
    journal, made = MemoryJournal(now=lambda: now[0]), quick()
    made.start("t", journal=journal, run_id="r").advance()
    row, _ = by_hand(journal.acquire("r", FAR if left else None))
    run = made.open("r", journal=journal)
    run.session.epoch = row.epoch - 1
    by_hand(run.session.journal.append("r", row.head, row.epoch, [_intent(row.head)]))
    now[0] += 100 if left == "silent" else 0
    run = made.open("r", journal=journal, take_over=left == "alive")
    run.run()
    said = {
        "alive": "was in flight when this run was taken over from `chartloop run`, pid 7 on ano",
        "silent": "was started by `chartloop run`, pid 7 on another-box, which has not renewed",
        "": "was started before an interruption",
    }
    (warning,) = run.result.warnings
    assert said[left] in warning
    assert ("interruption" in warning) == (left == "")
    assert made.open("r", journal=journal).result.warnings == (warning,)  # as the record has it


def _intent(seq: int) -> Any:
    return Event(seq, "intent", 1.0, None, {"key": "r/hear/0", "state": "hear", "action": "pay"})


def renewed_twice(path: Path) -> None:
    """Stand still until the lease was renewed twice meanwhile."""
    journal, seen = SqliteJournal(path), set[float]()
    while len(seen) < 3:
        if (lease := by_hand(journal.lease("r"))) is not None:
            seen.add(lease.renewed)
        time.sleep(0.01)
    by_hand(journal.close())


@pytest.mark.parametrize("kind", ["sync", "async", "async-that-blocks"])
def test_a_tool_that_takes_longer_than_a_lease_keeps_it(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "j.db"

    @tool(effect="pure")
    def work() -> str:
        """Take long, in a thread."""
        renewed_twice(path)
        return "done"

    @tool(name="work", effect="pure")
    async def waits() -> str:
        """Take long."""
        await asyncio.to_thread(renewed_twice, path)
        return "done"

    @tool(name="work", effect="pure")
    async def blocks() -> str:
        """Take long, and stand the event loop still."""
        renewed_twice(path)
        return "done"

    made = machine({"sync": work, "async": waits, "async-that-blocks": blocks}[kind])
    journal = SqliteJournal(path)
    run = made.start("t", journal=journal, run_id="r")
    run.session.holder.ttl = 0.3
    assert run.run().kind == "waiting"
    assert not held(journal)
    by_hand(journal.close())


def test_a_driver_that_was_overtaken_does_nothing_more(tmp_path: Path) -> None:
    done: list[str] = []

    @tool(effect="pure")
    def work() -> str:
        """Work."""
        done.append("work")
        return "done"

    journal = SqliteJournal(tmp_path / "j.db")
    run = machine(work).start("t", journal=journal, run_id="r")
    run.session.holder.ttl = 0.3
    run.advance()
    run.advance()
    by_hand(journal.acquire("r", FAR, take_over=True))
    while not run.session.holder.may_be_lost:
        time.sleep(0.01)
    with pytest.raises(Fenced, match="`chartloop run`, pid 7 on another-box took it over"):
        run.advance()
    assert done == []
    by_hand(journal.close())
