"""The process dies between any two writes of its journal, and another one goes on.

The law: killing between any two journal writes and resuming ends in the same path, facts,
output and recorded calls. It may add `in_doubt` and a repeated intent, nothing else. A call
whose answer is in the journal is never paid again; one that was begun and never answered is
made again at most once for each time that it was found in doubt.

Source: design "architecture", section 4; 004 "Step checkpointing and recovery".
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.api import Run
from chartloop.core.errors import Fenced, RunError, StatusError
from chartloop.run.journal import Journal
from chartloop.run.log import SNAPSHOT_AFTER
from chartloop.run.sync import by_hand, wait
from chartloop.testing import CrashAt, Crashed, MemoryJournal
from tests.durable.crashing import (
    AGENT,
    ERRANDS,
    EXECUTIVE,
    FAMILY,
    HALTED,
    MENDED,
    RUN,
    STORES,
    Case,
    Memory,
    World,
    doubts,
    story,
)

pytestmark = pytest.mark.slow("crashes at every write")


class Ended(NamedTuple):
    """A run that came to its end."""

    story: dict[str, Any]
    writes: int


FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where a flush costs nothing: these deaths are a process's, and it is the order that counts."""


def undisturbed(case: Case, store: str = "memory") -> Ended:
    """The run as it goes when nobody dies."""
    with TemporaryDirectory(dir=FAST) as folder:
        world = World(case, STORES[store](Path(folder)))
        journal = CrashAt(world.store.open())
        run = world.start(journal)
        world.drive(run)
        told = story(run)
        world.store.close()
    assert set(world.paid.values()) <= {1}
    return Ended(told, journal.writes)


def die(world: World, n: int, *, before: bool) -> bool:
    """One process: it drives the run until it dies at write `n`. False when it lived."""
    journal = CrashAt(world.store.open(), n, before=before)
    try:
        world.drive(world.resume(journal))
    except Crashed:
        return True
    return False


def survive(world: World) -> tuple[Run, Journal]:
    """One more process, which lives."""
    journal = world.store.open()
    run = world.resume(journal)
    world.drive(run)
    return run, journal


def check(world: World, expected: Ended) -> None:
    run, journal = survive(world)
    assert story(run) == expected.story
    doubted = doubts(journal)
    repeated = {key: count for key, count in world.paid.items() if count > 1 + doubted[key]}
    assert repeated == {}, "paid again without being in doubt"
    row = wait(journal.row(RUN), suspends=journal.suspends)
    assert row is not None
    assert (row.status, row.state) == (run.status, run.state)
    assert run.replay().same


class Spot(NamedTuple):
    """A case in a store, dying before or after each write."""

    case: Case
    store: str
    before: bool

    @property
    def id(self) -> str:
        return f"{self.case.id}-{self.store}-{'before' if self.before else 'after'}"


SPOTS = [
    Spot(case, store, before)
    for store, cases in {
        "memory": [AGENT, EXECUTIVE, ERRANDS, HALTED, FAMILY, MENDED],
        "sqlite": [AGENT, EXECUTIVE, ERRANDS, HALTED, FAMILY, MENDED],
        "grouped": [AGENT, FAMILY],
        "sqlite-power": [AGENT, EXECUTIVE, ERRANDS, HALTED, FAMILY],
        "grouped-power": [AGENT, FAMILY],
    }.items()
    for case in cases
    for before in (True, False)
]


@pytest.mark.parametrize("spot", SPOTS, ids=lambda spot: spot.id)
def test_dying_at_any_write_changes_nothing(spot: Spot) -> None:
    expected = undisturbed(spot.case, spot.store)
    assert expected.writes >= 10
    for n in range(1, expected.writes + 1):
        with TemporaryDirectory(dir=FAST) as folder:
            world = World(spot.case, STORES[spot.store](Path(folder)))
            assert die(world, n, before=spot.before), f"write {n} was never made"
            check(world, expected)
            world.store.close()


@cache
def errands() -> Ended:
    return undisturbed(ERRANDS)


writes = st.integers(1, 32)
"""A few more than the errands have: not every process dies."""


@given(deaths=st.lists(st.tuples(writes, st.booleans()), max_size=6))
def test_dying_again_and_again_changes_nothing(deaths: list[tuple[int, bool]]) -> None:
    world = World(ERRANDS, Memory(Path()))
    for n, before in deaths:
        die(world, n, before=before)
    check(world, errands())


@given(n=writes, before=st.booleans(), edits=st.integers(0, 2))
def test_what_was_answered_is_kept_through_pauses_and_edits(
    n: int, before: bool, edits: int
) -> None:
    world = World(ERRANDS, Memory(Path()))
    die(world, n, before=before)
    journal = world.store.open()
    run = world.resume(journal)
    if run.session.head and not run.ended and run.status != "paused":
        run.pause()
        run.advance()
        for _ in range(edits):
            run.set("limits.steps", 40)
        run = world.resume(journal)  # and by yet another process
        run.resume()
    world.drive(run)
    expected = {**errands().story, "records": (), "facts": ()}
    assert {**story(run), "records": (), "facts": ()} == expected
    doubted = doubts(journal)
    assert all(count <= 1 + doubted[key] for key, count in world.paid.items())


# before the first record -----------------------------------------------------------------------


def test_a_run_that_died_before_its_first_record_is_started_again() -> None:
    world = World(ERRANDS, Memory(Path()))
    assert die(world, 2, before=False)  # its row is written, and nothing else
    journal = world.store.open()
    with pytest.raises(StatusError, match="before its first record") as caught:
        world.machine.open(RUN, journal=journal, model=world.model).run()
    assert "start it again" in caught.value.hint
    check(world, errands())


def test_an_id_that_has_records_is_not_started_again() -> None:
    world = World(ERRANDS, Memory(Path()))
    run, journal = survive(world)
    with pytest.raises(RunError, match="there is a run"):
        world.start(journal).run()
    assert story(run) == errands().story


# what is in doubt ------------------------------------------------------------------------------

IN_DOUBT = """
chartloop: 1
machine: careful
model: {name: scripted}
tools: [pay]
in_doubt: %s
limits: {steps: 9}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think: {do: infer, next: shop}
  shop: {do: call_tools, failed: sorry, next: done}
  sorry: {do: report, next: done}
  done: {stop: completed}
"""
PAID = [
    {
        "tool_calls": [
            {"name": "pay", "arguments": {"what": "bread"}, "id": "bread"},
            {"name": "pay", "arguments": {"what": "milk"}, "id": "milk"},
        ]
    }
]


def careful(policy: str) -> World:
    """A process has died when `bread` was answered and `milk` was paid and not answered."""
    world = World(Case(policy, IN_DOUBT % policy, PAID), Memory(Path()))
    whole = CrashAt(MemoryJournal())
    world.drive(world.start(whole))
    world.paid.clear()
    assert die(world, whole.writes - 1, before=True)  # the answer with its record; the release
    assert world.paid == {"r/think/0": 1, "r/think/0/bread": 1, "r/think/0/milk": 1}
    return world


def test_in_doubt_retry_makes_only_the_open_call_again() -> None:
    world = careful("retry")
    run, journal = survive(world)
    assert world.paid == {"r/think/0": 1, "r/think/0/bread": 1, "r/think/0/milk": 2}
    assert doubts(journal) == {"r/think/0/milk": 1}
    assert run.result.path[-2:] == ("shop", "done")
    assert any("started before an interruption" in w for w in run.result.warnings)
    again = world.resume(journal)
    assert again.result.warnings == run.result.warnings


def test_a_snapshot_forgets_no_answer_that_is_still_needed() -> None:
    world = careful("retry")
    journal = world.store.open()
    run = world.resume(journal)
    run.pause()
    run.advance()
    for _ in range(SNAPSHOT_AFTER + 10):
        run.set("limits.steps", 9)
    run.resume()
    run, _ = survive(world)
    assert world.paid == {"r/think/0": 1, "r/think/0/bread": 1, "r/think/0/milk": 2}
    assert run.result.path[-2:] == ("shop", "done")


def test_in_doubt_fail_fails_the_action() -> None:
    world = careful("fail")
    run, _ = survive(world)
    assert world.paid == {"r/think/0": 1, "r/think/0/bread": 1, "r/think/0/milk": 1}
    assert run.result.path[-2:] == ("sorry", "done")


@pytest.mark.parametrize(("answer", "paid", "last"), [("retry", 2, "shop"), ("fail", 1, "sorry")])
def test_in_doubt_ask_waits_for_an_answer(answer: str, paid: int, last: str) -> None:
    world = careful("ask")
    journal = world.store.open()
    run = world.resume(journal)
    asked = run.run()
    assert (asked.kind, asked.events) == ("waiting", ("retry", "fail"))
    later = world.resume(journal)  # the answer comes to another process
    later.send(answer)
    done = later.run()
    assert done.path[-2:] == (last, "done")
    assert world.paid == {"r/think/0": 1, "r/think/0/bread": 1, "r/think/0/milk": paid}


# who drives ------------------------------------------------------------------------------------


def test_saving_does_not_take_the_run_back_from_another_process() -> None:
    world = World(EXECUTIVE, Memory(Path()))
    journal = world.store.open()
    first = world.start(journal)
    while first.state != "save_turn":
        first.advance()
    first.advance()  # the turn is saved: a snapshot is written
    by_hand(world.resume(journal).session.become_driver())
    with pytest.raises(Fenced):
        first.run()
