"""Two connections at once: each case goes wrong where a transaction does not hold what it read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Barrier
from typing import Any

from chartloop.core.errors import Driven, Fenced, RunError, StatusError
from chartloop.run.journal import InboxMessage, RunRow
from chartloop.run.journal_pages import TailEvent
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.requests import StoredRequest
from chartloop.testing.journal_suite.desk import Desk, intent, step

ROUNDS = 40
"""How often two connections race for the same thing."""
CALLERS = 4
"""How many connections do the same."""
EVENTS = 150
"""How many events each writer appends while somebody reads."""
FAR = Driver("far", "chartloop run", Process("another-box", 7, "elsewhere", "1"))
NEAR = Driver("near", "python", Process("third-box", 8, "nowhere", "2"))

Another = Callable[[], Desk]


def race(*works: Callable[[], Any]) -> list[Any]:
    """Do these at the same moment, each in a thread; gives what each returned or raised."""
    begin = Barrier(len(works))

    def outcome(work: Callable[[], Any]) -> Any:
        begin.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as threads:
        done: Sequence[Future[Any]] = [threads.submit(outcome, work) for work in works]
    return [each.exception() or each.result() for each in done]


def lost(outcomes: Sequence[Any], refusal: type[Exception]) -> list[Any]:
    """The refusals among these outcomes; an error of any other kind is raised."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException) and not isinstance(outcome, refusal):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, refusal)]


class ConcurrentCases:
    """What must hold when two processes use the journal at the same moment."""

    def test_the_tail_misses_nothing_while_others_write(self, another: Another) -> None:
        """A reader that goes on from its cursor sees each event once, in the order of commits."""
        reader, writers = another(), {name: another() for name in ("a", "b", "c")}
        for name, writer in writers.items():
            writer.begin(name)

        def write(name: str) -> None:
            for seq in range(EVENTS):
                writers[name].write(name, seq, [intent(seq)])

        seen: list[TailEvent] = []
        with ThreadPoolExecutor(len(writers)) as threads:
            done = [threads.submit(write, name) for name in writers]
            cursor, writing = "", True
            while writing:
                writing = not all(each.done() for each in done)  # then read once more
                tail = reader(reader.journal.tail(cursor))
                seen += tail.events
                cursor = tail.cursor
                while tail.cursor != tail.newest:
                    tail = reader(reader.journal.tail(cursor))
                    seen += tail.events
                    cursor = tail.cursor
        for each in done:
            each.result()
        whole, cursor = list[TailEvent](), ""
        while (tail := reader(reader.journal.tail(cursor))).events:
            whole += tail.events
            cursor = tail.cursor
        assert [event.cursor for event in seen] == [event.cursor for event in whole]
        for name in writers:
            own = [entry.event.seq for entry in seen if entry.run_id == name and entry.event]
            assert own == list(range(EVENTS))

    def test_of_two_drivers_of_a_run_one_is_refused(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            run_id = f"r{number}"
            one(one.journal.create(RunRow(run_id)))
            outcomes = race(
                lambda run_id=run_id: one(one.journal.acquire(run_id, FAR)),
                lambda run_id=run_id: two(two.journal.acquire(run_id, NEAR)),
            )
            assert len(lost(outcomes, Driven)) == 1
            row = one(one.journal.row(run_id))
            assert row is not None
            assert row.epoch == 1

    def test_a_child_has_one_driver_while_its_parent_is_taken(self, another: Another) -> None:
        """The driver of the parent goes on to the child; another one wants the child alone."""
        one, two = another(), another()
        for number in range(ROUNDS):
            parent, child = f"r{number}", f"r{number}/a/1"
            for run_id in (parent, child):
                one(one.journal.create(RunRow(run_id)))

            def both(parent: str = parent, child: str = child) -> None:
                one(one.journal.acquire(parent, FAR))
                one(one.journal.acquire(child, FAR))

            outcomes = race(both, lambda child=child: two(two.journal.acquire(child, NEAR)))
            assert len(lost(outcomes, Driven)) == 1

    def test_of_two_events_with_one_number_one_is_fenced(self, another: Another) -> None:
        one, two = another(), another()
        epoch = one.begin()
        for head in range(ROUNDS):
            outcomes = race(
                lambda head=head: one(one.journal.append("r", head, epoch, [intent(head)])),
                lambda head=head: two(two.journal.append("r", head, epoch, [step(head)])),
            )
            assert len(lost(outcomes, Fenced)) == 1
        assert [event.seq for event in one.all()[1]] == list(range(ROUNDS))

    def test_of_two_runs_with_one_id_one_is_refused(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            row = RunRow(f"r{number}")
            outcomes = race(
                lambda row=row: one(one.journal.create(row.replace(machine="one"))),
                lambda row=row: two(two.journal.create(row.replace(machine="two"))),
            )
            assert len(lost(outcomes, RunError)) == 1

    def test_of_two_open_requests_of_a_run_one_is_refused(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            run_id = f"r{number}"
            first, second = (
                StoredRequest(f"{key}{number}", run_id, "run", "d", 1.0, {}) for key in "ab"
            )
            outcomes = race(
                lambda request=first: one(one.journal.place_request(request)),
                lambda request=second: two(two.journal.place_request(request)),
            )
            assert len(lost(outcomes, StatusError)) == 1
            assert len(one(one.journal.requests(run_id, open_only=True))) == 1

    def test_one_key_is_one_request_for_all_who_ask(self, another: Another) -> None:
        desks = [another() for _ in range(CALLERS)]
        for number in range(ROUNDS):
            asked = [
                StoredRequest(f"k{number}", f"r{number}-{caller}", "start", "d", 1.0, {}, {})
                for caller in range(CALLERS)
            ]
            works = (
                lambda desk=desk, one=one: desk(desk.journal.place_request(one))
                for desk, one in zip(desks, asked, strict=True)
            )
            kept = race(*works)
            assert kept == [kept[0]] * CALLERS
            assert desks[0](desks[0].journal.requests(key=f"k{number}")) == [kept[0]]

    def test_a_due_run_is_claimed_by_one_worker(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            run_id = f"r{number}"
            one.begin(run_id)
            one(one.journal.place_request(StoredRequest(run_id, run_id, "run", "d", 1.0, {})))
            claims = race(
                lambda: one(one.journal.claim("one", 9, {})),
                lambda: two(two.journal.claim("two", 9, {})),
            )
            claimed = [run.request.run_id for claim in claims for run in claim.runs]
            assert claimed == [run_id]

    def test_a_message_during_a_hand_back_is_not_lost(self, another: Another) -> None:
        one, two = another(), another()
        one.begin("r")
        one(one.journal.place_request(StoredRequest("k", "r", "run", "d", 1.0, {})))
        for number in range(ROUNDS):
            (run,) = one(one.journal.claim("one", 9, {})).runs
            race(
                lambda run=run: one(one.journal.hand_back("one", run, None)),
                lambda number=number: two(
                    two.journal.send("r", InboxMessage(f"m{number}", 1.0, {}))
                ),
            )

    def test_what_a_check_saw_is_true_when_the_message_is_written(self, another: Another) -> None:
        one, two = another(), another()

        def alone(row: RunRow, inbox: Sequence[InboxMessage]) -> None:
            time.sleep(0.002)  # so long another may write, where nothing holds it off
            if inbox:
                raise StatusError(f"run `{row.run_id}` has a message")

        for number in range(ROUNDS):
            run_id = f"r{number}"
            one(one.journal.create(RunRow(run_id)))
            first, second = InboxMessage("a", 1.0, {}), InboxMessage("b", 1.0, {})
            outcomes = race(
                lambda run_id=run_id, m=first: one(one.journal.send(run_id, m, check=alone)),
                lambda run_id=run_id, m=second: two(two.journal.send(run_id, m, check=alone)),
            )
            assert len(lost(outcomes, StatusError)) == 1
            assert len(one(one.journal.inbox(run_id))) == 1

    def test_a_payload_stays_that_another_run_is_just_getting(self, another: Another) -> None:
        one, two = another(), another()
        for number in range(ROUNDS):
            old, new, text = f"old{number}", f"new{number}", f"{number} " * 20_000
            one.begin(old)
            one.write(old, 0, [step(0, result=text)])
            two.begin(new)
            outcomes = race(
                lambda old=old: one(one.journal.remove([old])),
                lambda new=new, text=text: two.write(new, 0, [step(0, result=text)]),
            )
            assert outcomes == [1, 1]
            (event,) = one(one.journal.events(new))
            assert event.record is not None
            assert event.record.input.outcome is not None
            assert event.record.input.outcome.result == text
