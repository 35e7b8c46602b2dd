"""Tasks that are added to a run that has begun."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Run, load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import SpecError, StatusError, TaskError
from chartloop.core.facts import QueueFacts, Task
from chartloop.core.fold import name_tasks
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.run.journal import MemoryJournal
from chartloop.run.redact import Redactor
from chartloop.run.sync import by_hand
from chartloop.scenarios import scenario
from chartloop.testing import ManualClock

WORKER = """
chartloop: 1
machine: worker
tools: [do_it]
tasks: [{id: first, text: one, by: {tool: do_it}}]
states:
  left: {ask: Left?, when: queue.size > 0, then: work, else: more}
  work: {do: work, failed: next, next: left}
  more: {ask: More?, on: {look: left, no: done}}
  done: {stop: completed}
"""


@tool
def do_it(task: str) -> str:
    """Do a task."""
    return f"did {task}"


BY_TOOL: dict[str, Any] = {"by": {"tool": "do_it"}}


def worker(**options: Any) -> Run:
    """A run of the worker that has begun, its first task not yet done."""
    given: dict[str, Any] = {"clock": ManualClock(1000), "run_id": "r", **options}
    run = load(WORKER, tools=[do_it]).start(**given)
    run.advance()
    return run


def ids(run: Run) -> list[str]:
    """The tasks that wait."""
    return [task.id for task in run.session.position.queue]


def done(run: Run) -> list[str]:
    """The tasks that were done, in order."""
    return [r.outcome.result["task"] for r in run.records if r.outcome and r.state == "work"]


# where it goes ------------------------------------------------------------------------------


def test_they_come_last_and_are_on_the_record() -> None:
    run = worker()
    run.enqueue([{"text": "two", **BY_TOOL}, {"id": "x", "text": "three", **BY_TOOL}])
    assert ids(run) == ["first"]  # nothing has happened before it is recorded
    record = run.advance()
    assert record is not None
    assert (record.kind, record.state, record.next) == ("enqueue", "work", "work")
    assert ids(run) == ["first", "task_1", "x"]
    assert run.facts.queue.size == 3
    run.run()
    assert done(run) == ["first", "task_1", "x"]
    assert run.facts.run.steps == 3  # it is not a step
    assert run.replay().same
    assert Record.from_dict(record.seq, record.to_dict()).input == record.input


def test_a_run_that_waits_takes_them_and_goes_on_waiting() -> None:
    run = worker()
    run.run()
    assert (run.state, run.status) == ("more", "paused")
    run.enqueue("two")
    assert run.run().reason is None
    assert (run.state, run.status, ids(run)) == ("more", "paused", ["task_2"])
    run.send("look")
    run.advance()
    assert run.state == "work"


def test_a_run_that_was_paused_takes_them_and_stays_paused() -> None:
    run = worker()
    run.pause()
    run.advance()
    run.enqueue({"text": "two", **BY_TOOL})
    run.run()
    assert (run.status, ids(run)) == ("paused", ["first", "task_1"])
    run.resume()
    run.run()
    assert done(run) == ["first", "task_1"]


def test_an_async_face() -> None:
    async def both() -> list[str]:
        run = worker()
        await run.aenqueue({"text": "two", **BY_TOOL})
        await run.arun()
        return done(run)

    assert asyncio.run(both()) == ["first", "task_1"]


def test_a_run_that_has_not_begun_begins() -> None:
    run = load(WORKER, tools=[do_it]).start(clock=ManualClock(1000))
    run.enqueue({"text": "two", **BY_TOOL})
    run.run()
    assert done(run) == ["first", "task_1"]


def test_another_process_may_send_them(tmp_path: Path) -> None:
    driving, sending = SqliteJournal(tmp_path / "j.db"), SqliteJournal(tmp_path / "j.db")
    run = worker(journal=driving)
    load(WORKER, tools=[do_it]).open("r", journal=sending).enqueue({"text": "two", **BY_TOOL})
    run.run()
    assert done(run) == ["first", "task_1"]
    again = load(WORKER, tools=[do_it]).open("r", journal=sending)
    position = again.session.position.to_dict()
    assert plain(position) == plain(run.session.position.to_dict())


def test_what_is_delivered_twice_is_taken_once() -> None:
    run = worker()
    for _ in range(2):
        run.enqueue({"id": "x", "text": "two", **BY_TOOL}, message_id="m")
        run.advance()
    run.enqueue({"id": "x", "text": "two", **BY_TOOL}, message_id="m")
    run.run()
    assert done(run) == ["first", "x"]


def test_they_are_there_after_a_fork_and_gone_after_a_step_back() -> None:
    run = worker()
    run.enqueue("two")
    run.advance()
    assert ids(run.fork()) == ["first", "task_1"]
    assert ids(run.back()) == ["first"]


def test_a_queue_that_was_empty_counts_from_then_on() -> None:
    run = load(WORKER, tools=[do_it]).start(tasks=[], clock=ManualClock(1000))
    run.advance()
    assert (run.state, run.facts.queue.primary_done) == ("more", True)
    run.enqueue([{"text": "a", **BY_TOOL}, {"text": "b", "kind": "improvement", **BY_TOOL}])
    run.advance()
    assert (run.facts.queue.size, run.facts.queue.primary_done) == (1, False)


# what is refused ----------------------------------------------------------------------------


class Refused(NamedTuple):
    id: str
    tasks: Any
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Refused("number", 3, "task 1 is int"),
        Refused("empty", ["a", ""], "task 2 has no text"),
        Refused("taken", {"id": "first", "text": "a"}, "a task `first` already"),
        Refused("unknown-tool", {"text": "a", "by": {"tool": "do_them"}}, "unknown tool `do_them`"),
    ],
    ids=lambda case: case.id,
)
def test_what_is_no_task_is_not_sent(case: Refused) -> None:
    run = worker()
    with pytest.raises(TaskError, match=case.says):
        run.enqueue(case.tasks)
    run.advance()
    assert [r.kind for r in run.records] == ["start", "step"]


def test_a_run_that_has_ended_takes_none() -> None:
    run = worker()
    run.run()
    run.send("no")
    run.run()
    with pytest.raises(StatusError, match="has ended"):
        run.enqueue("two")


# ids ----------------------------------------------------------------------------------------


def test_what_is_sent_has_the_id_that_it_gets() -> None:
    run = worker(journal=(journal := MemoryJournal()))
    run.enqueue(["two", {"id": "x", "text": "three"}])
    (message,) = by_hand(journal.inbox("r"))
    assert [task["id"] for task in message.data["tasks"]] == ["task_1", "x"]
    run.advance()
    run.enqueue("four")
    (message,) = by_hand(journal.inbox("r"))
    assert [task["id"] for task in message.data["tasks"]] == ["task_2"]


class Ids(NamedTuple):
    id: str
    given: list[str]
    taken: list[str]
    made: list[str]
    gone: int = 0


@pytest.mark.parametrize(
    "case",
    [
        Ids("none", ["", ""], [], ["task_1", "task_2"]),
        Ids("own", ["x", ""], [], ["x", "task_1"]),
        Ids("taken", ["", "x"], ["task_1", "x"], ["task_2", "task_3"]),
        Ids("own-comes-later", ["", "task_1"], [], ["task_2", "task_1"]),
        Ids("after-some-are-done", ["", "x", ""], ["task_4"], ["task_3", "x", "task_5"], 2),
        Ids("twice", ["x", "x"], [], ["x", "task_1"]),
    ],
    ids=lambda case: case.id,
)
def test_every_task_has_an_id_of_its_own(case: Ids) -> None:
    tasks = [Task(id, "t") for id in case.given]
    assert [
        task.id for task in name_tasks(tasks, case.taken, QueueFacts(done=case.gone))
    ] == case.made


def test_two_that_send_at_once_do_not_collide() -> None:
    run = worker()
    run.enqueue("two")
    run.enqueue("three")  # the queue is as it was: the messages have not been read
    run.advance()
    run.advance()
    assert ids(run) == ["first", "task_1", "task_2"]


# secrets ------------------------------------------------------------------------------------


def test_a_secret_in_a_task_is_hidden_and_its_words_are_kept(tmp_path: Path) -> None:
    key = "sk-proj-" + "a1b2c3d4" * 5
    redactor = Redactor({"WORD": "improvement", "KEY": key}, environ={})
    run = worker(journal=SqliteJournal(tmp_path / "j.db", redactor=redactor))
    run.enqueue({"id": "mend", "text": f"use {key}", "kind": "improvement", **BY_TOOL})
    run.advance()
    (task,) = run.records[-1].input.data["tasks"]
    assert (task["id"], task["kind"]) == ("mend", "improvement")
    assert task["text"] == "use «redacted:openai-key»"
    assert run.replay().same
    assert not any(key.encode() in path.read_bytes() for path in tmp_path.iterdir())


# in a scenario ------------------------------------------------------------------------------


def test_a_scenario_adds_them_while_it_runs() -> None:
    events = [{"after": 0, "enqueue": [{"text": "two", **BY_TOOL}]}, {"after": 2, "send": "no"}]
    report = scenario(
        WORKER,
        own=[do_it],
        events=events,
        expect={"reason": "completed", "facts": {"queue.done": 2, "queue.size": 0}},
    )
    assert report.run is not None
    assert [r.kind for r in report.run.records if r.kind == "enqueue"] == ["enqueue"]


def test_a_scenario_with_a_bad_task_has_its_place() -> None:
    with pytest.raises(SpecError, match="task 2 has no text") as caught:
        scenario(
            WORKER,
            own=[do_it],
            events=[{"after": 1, "enqueue": ["a", " "]}],
            expect={"reason": "x"},
        )
    assert "events.0.enqueue.1" in [f.at for f in caught.value.findings]
