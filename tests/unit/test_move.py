"""What a move takes along, and a fork does not: answers, above all."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop.api import Machine, Run, load
from chartloop.core.errors import MovedError, RunError
from chartloop.run.journal import MemoryJournal
from chartloop.run.journal_pages import RunFilter
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from tests.laws.test_approval_move_laws import FIRST, PAID, Refunds, refund

ASK = """chartloop: 1
machine: desk
states:
  a: {do: receive, next: w}
  w: {ask: "Go?", on: {yes: z, no: x}}
  x: {ask: "Sure?", on: {yes: z}}
  z: {stop: completed}
"""
LIMIT = "limits: {steps: 9}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]\nstates:"


class Case(NamedTuple):
    """A machine and its new file, what was answered before the move, and what it takes along."""

    id: str
    old: str
    new: str
    taken: bool
    event: str = "yes"
    ahead: str = ""


CASES = [
    Case("the-same-question", ASK, ASK.replace("states:", LIMIT), taken=True),
    Case("in-other-words", ASK, ASK.replace("Go?", "Really?"), taken=False),
    Case("other-answers", ASK, ASK.replace("{yes: z, no: x}", "{yes: z, no: x, on: a}"), taken=False),
    Case(
        "other-fields",
        ASK,
        ASK.replace("no: x}", "no: {to: x, data: {note: str}}}"),
        taken=False,
    ),
    Case("another-state-asks-the-same", ASK, ASK.replace(" w", " v") + "renamed: {w: v}\n", taken=True),
    Case("given-ahead", ASK, ASK.replace("states:", LIMIT), taken=False, ahead="x"),
    Case(
        "the-same-calls", FIRST, FIRST.replace("steps: 20", "steps: 30"), taken=True, event="accept"
    ),
    Case(
        "the-same-calls-in-other-words", FIRST,
        FIRST.replace("tools: [refund]}", 'tools: [refund], ask: "Really?"}'), taken=False,
        event="accept",
    ),
    Case(
        "for-another-approver", FIRST, FIRST.replace("tools: [refund]}", "tools: [refund], by: eve}"),
        taken=False, event="accept",
    ),
]  # fmt: skip


def made(text: str) -> Machine:
    return load(text, tools=[refund])


def opened(journal: MemoryJournal, text: str, run_id: str = "r") -> Run:
    ports: Any = {"model": Refunds(), "clock": ManualClock()}
    return made(text).open(run_id, journal=journal, changed=True, **ports)


def waiting(text: str) -> MemoryJournal:
    """A journal with the run `r` of that machine, which waits."""
    PAID.clear()
    journal = MemoryJournal()
    ports: Any = {"model": Refunds(), "clock": ManualClock()}
    made(text).start("t", journal=journal, run_id="r", **ports).run()
    return journal


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_an_answer_comes_along_only_to_the_question_that_it_was_given_to(case: Case) -> None:
    journal = waiting(case.old)
    opened(journal, case.old).send(case.event, ahead=case.ahead)
    asked = opened(journal, case.old).question
    assert asked is not None
    run = opened(journal, case.new)
    run.run()
    assert run.ended is case.taken
    assert len(PAID) == (case.event == "accept" and case.taken)
    if not case.taken:  # it asks again, and the answer is where it was
        assert run.question is not None
        (left,) = by_hand(journal.inbox("r"))
        assert left.data["event"] == case.event
        run.send(case.event, {"by": "eve"} if "by" in run.answers[case.event] else None)
        run.run()
        assert run.ended or run.state != asked.state
    assert len(PAID) == (case.event == "accept")
    assert run.replay().same


def test_an_answer_given_under_the_new_file_is_for_its_question() -> None:
    journal = waiting(ASK)
    run = opened(journal, ASK.replace("Go?", "Really?"))
    assert (run.question and run.question.text, run.id) == ("Really?", "r")
    run.send("yes")  # moves: who answers the new question means the new file
    assert run.id != "r"
    assert by_hand(journal.inbox("r")) == []
    assert run.run().reason == "completed"


def test_other_messages_come_along() -> None:
    journal = waiting(ASK)
    opened(journal, ASK).pause()
    run = opened(journal, ASK.replace("Go?", "Really?"))
    run.advance()
    kinds = [message.data["kind"] for message in by_hand(journal.inbox(run.id))]
    assert kinds == ["pause"] or run.records[-1].kind == "pause"


FORKS = {
    "its-own-machine": FIRST,
    "another-machine": FIRST.replace("steps: 20", "steps: 30"),
}


@pytest.mark.parametrize("text", FORKS.values(), ids=FORKS)
@pytest.mark.parametrize("taken", [False, True], ids=["sent", "taken"])
def test_a_fork_takes_no_answer_along(text: str, taken: bool) -> None:
    """Not one in the post, nor one that was taken and not acted upon: it was given once."""
    journal = waiting(FIRST)
    opened(journal, FIRST).send("accept")
    if taken:
        assert opened(journal, FIRST).advance() is not None
    forks = [opened(journal, text).fork() for _ in range(3)]
    for fork in forks:
        assert fork.run().status == "paused"
        assert fork.question is not None
        row = by_hand(journal.row(fork.id))
        assert row is not None
        assert (row.question is not None, row.fork_seq, row.moved_to) == (True, 4, "")
        assert by_hand(journal.inbox(fork.id)) == []
    assert PAID == []
    opened(journal, FIRST).run()
    assert PAID == [49]
    forks[0].send("accept")
    forks[0].run()
    assert PAID == [49, 49]  # accepted anew


def test_a_fork_behind_the_call_keeps_what_was_decided() -> None:
    journal = waiting(FIRST)
    run = opened(journal, FIRST)
    run.send("accept")
    run.run()
    count = len(run.records)
    fork = run.fork(count - 1)
    assert len(fork.records) == count - 1
    fork.run()
    assert PAID == [49]
    back = opened(journal, FIRST)
    back.back(2)  # behind the answer, before the call: it asks again
    assert back.question is not None
    assert (back.run().status, PAID) == ("paused", [49])


def test_a_moved_run_is_forked_and_in_no_list() -> None:
    journal = waiting(FIRST)
    new = opened(journal, FORKS["another-machine"])
    new.run()
    old = opened(journal, FIRST)
    assert (old.moved_to, old.result.to_dict()["moved_to"]) == (new.id, new.id)
    fork = old.fork()
    assert (fork.moved_to, fork.status) == ("", "paused")
    fork.send("deny")
    fork.run()
    rows = by_hand(journal.page(RunFilter(waiting=True))).rows
    assert [row.run_id for row in rows] == [new.id]
    for status in ("paused", "running"):
        assert "r" not in [row.run_id for row in by_hand(journal.rows(status=status))]
    (moved,) = by_hand(journal.rows(status="moved"))
    assert (moved.run_id, moved.ended, moved.wake_at) == ("r", True, None)


def test_a_pickled_moved_run_stays_moved() -> None:
    journal = waiting(ASK)
    run = opened(journal, ASK.replace("Go?", "Really?"))
    run.run()
    kind, values = opened(journal, ASK).__reduce__()
    again = made(ASK).attach(kind(*values))
    assert again.moved_to == run.id
    with pytest.raises(MovedError):
        again.run()


def test_who_continues_a_moved_run_is_told_so() -> None:
    journal = waiting(ASK)
    opened(journal, ASK.replace("Go?", "Really?")).run()
    with pytest.raises(RunError, match="has not ended"):
        made(ASK).start("next", continues="r", journal=journal)
