"""Laws of whole runs: every face, every journal and every interruption give the same run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chartloop.actions import with_own
from chartloop.actions.declare import specs_of, tool_spec
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run, lifecycle
from chartloop.core.plain import plain
from chartloop.core.records import Record
from chartloop.language.load import load
from chartloop.machine.build import Chart
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.driving import ROUNDS, Made, begin, help_on, machine_of, made
from tests.strategies import machines


def to_the_end(run: Run, clock: ManualClock, face: Callable[[Run], Any]) -> list[str]:
    """The records of the run, driven by one face and helped on where it waits."""
    for _ in range(ROUNDS):
        face(run)
        if run.ended:
            break
        help_on(run, clock)
    return [as_it_was(record) for record in run.records]


def as_it_was(record: Record) -> str:
    """A record without the certificate, which only a journal that lasts keeps."""
    data = {name: value for name, value in record.input.data.items() if name != "certificate"}
    return record.replace(input=record.input.replace(data=data)).to_json()


def steps(run: Run) -> None:
    while run.advance() is not None:
        pass


def actions(run: Run) -> None:
    """One action at a time: whatever is recorded on the way, no step does two."""
    while True:
        done = run.facts.run.steps
        record = run.step()
        assert run.facts.run.steps - done in (0, 1)
        if record is None:
            return
        rests = run.ended or run.status == "paused"
        assert rests or record.kind == "step"


def streamed(run: Run) -> None:
    for _ in run.stream():
        pass


def in_a_loop(run: Run) -> None:
    asyncio.run(run.arun())


async def astreamed(run: Run) -> None:
    async for _ in run.astream():
        pass


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made)
def test_every_face_gives_the_same_run(data: Any, what: list[Made]) -> None:
    machine = machine_of(data, what)
    run, clock = begin(machine)
    expected = to_the_end(run, clock, Run.run)
    for face in (steps, actions, streamed, in_a_loop):
        other, its_clock = begin(machine)
        assert to_the_end(other, its_clock, face) == expected
        assert other.result.to_dict() == run.result.to_dict()
    assert run.replay().same


@given(machines(), made)
@settings(max_examples=25)
def test_the_async_stream_gives_the_same_run(data: Any, what: list[Made]) -> None:
    machine = machine_of(data, what)
    expected = to_the_end(*begin(machine), Run.run)
    assert to_the_end(*begin(machine), lambda r: asyncio.run(astreamed(r))) == expected


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, st.booleans())
def test_opened_anew_at_every_record_it_is_the_same_run(
    data: Any, what: list[Made], snapshots: bool
) -> None:
    machine = machine_of(data, what)
    run, clock = begin(machine)
    expected = to_the_end(run, clock, Run.run)
    journal = MemoryJournal()
    other, its_clock = begin(machine, journal)
    for _ in range(len(expected) + ROUNDS):
        if other.advance() is None:
            if other.ended:
                break
            help_on(other, its_clock)
        if snapshots:
            by_hand(other.session.put_snapshot())
        before = plain(other.session.position.to_dict())
        other = machine.open("r", journal=journal, clock=its_clock)
        assert plain(other.session.position.to_dict()) == before
    assert [record.to_json() for record in other.records] == expected
    assert other.result.to_dict() == run.result.to_dict()


@given(machines(), made)
@settings(max_examples=25)
def test_a_file_holds_the_same_run(data: Any, what: list[Made]) -> None:
    machine = machine_of(data, what)
    expected = to_the_end(*begin(machine), Run.run)
    with tempfile.TemporaryDirectory() as folder:
        journal = SqliteJournal(Path(folder) / "j.db")
        run, clock = begin(machine, journal)
        assert to_the_end(run, clock, Run.run) == expected
        again = machine.open("r", journal=journal, clock=clock)
        position = again.session.position.to_dict()
        assert plain(position) == plain(run.session.position.to_dict())
        by_hand(journal.close())


some_tasks = st.lists(
    st.one_of(st.just("t"), st.sampled_from("abc").map(lambda id: {"id": id, "text": "t"})),
    min_size=1,
    max_size=3,
    unique_by=str,
)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(machines(), made, st.dictionaries(st.integers(0, 12), some_tasks, max_size=4))
def test_tasks_may_be_added_at_any_record(
    data: Any, what: list[Made], when: dict[int, list[Any]]
) -> None:
    machine, journal = machine_of(data, what), MemoryJournal()
    run, clock = begin(machine, journal)
    run.advance()
    for number in range(20):
        if run.ended:
            break
        if number in when:
            run.enqueue(when[number], message_id=str(number))
        if run.advance() is None and not run.ended:
            help_on(run, clock)
    came = [record for record in run.records if record.kind == "enqueue"]
    assert all((r.state, r.taken) == (r.next, ()) for r in came)
    added = sum(len(r.input.data["tasks"]) for r in came)
    queue = run.session.position.queue
    assert len({task.id for task in queue}) == len(queue)
    assert len(queue) == added or any(
        r.outcome and r.outcome.queue is not None for r in run.records
    )
    assert run.replay().same
    again = machine.open("r", journal=journal, clock=clock)
    assert plain(again.session.position.to_dict()) == plain(run.session.position.to_dict())


CHAT = """
tools: [add, bad]
limits: {steps: 30}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  a: {do: receive, next: b}
  b: {do: infer, retry: {times: 1, base: 1s}, failed: next, next: [{when: len(last.tool_calls) > 0, to: c}, {to: d}]}
  c: {do: %s, failed: next, next: b}
  d: {ask: Enough?, when: usage.llm_calls >= 6, then: z, else: b}
  z: {stop: completed}
"""

_asked = st.sampled_from(["add", "bad", "nope"]).map(
    lambda name: {"name": name, "arguments": {"n": 1}}
)
replies = st.lists(
    st.one_of(
        st.just({"text": "so", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}),
        st.lists(_asked, min_size=1, max_size=3).map(
            lambda calls: {"text": "", "tool_calls": calls}
        ),
        st.just({"error": {"category": "TRANSIENT", "message": "busy"}}),
        st.just({"text": "late", "delay": 3}),
    ),
    min_size=40,
    max_size=40,
)


@given(replies, st.sampled_from(["call_tools", "call_tool"]))
@settings(max_examples=15)
def test_a_conversation_is_the_same_however_it_is_driven(script: list[Any], action: str) -> None:
    def add(n: int) -> int:
        return n + 1

    def bad(n: int) -> int:
        raise ValueError(f"not {n}")

    tools = specs_of(tool_spec(add), tool_spec(bad))
    loaded = load(f"chartloop: 1\nmachine: m\n{CHAT % action}", "m.yaml", with_own(tools))
    assert loaded.spec is not None, loaded.findings
    machine = Machine(Chart(loaded.spec, lifecycle()))

    def start(journal: Journal | None = None) -> Run:
        return machine.start(
            "t", script=script, clock=ManualClock(1000), journal=journal, run_id="r"
        )

    run = start()
    run.run()
    expected = [record.to_json() for record in run.records]
    stepped = start()
    steps(stepped)
    assert [record.to_json() for record in stepped.records] == expected
    journal = MemoryJournal()
    other = start(journal)
    while other.advance() is not None:
        clock = other.session.ports.clock
        other = machine.open("r", journal=journal, script=script, clock=clock)
    assert [record.to_json() for record in other.records] == expected
    assert other.messages == run.messages
