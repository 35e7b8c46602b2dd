"""An answer and the wait that it is for: who is refused, and what becomes of the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Context, action
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run, load
from chartloop.core.errors import (
    AheadError,
    AnsweredError,
    AnswerError,
    RunError,
    StatusError,
    ToolError,
    WaitError,
)
from chartloop.run.journal import InboxMessage, Journal, MemoryJournal
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from chartloop.testing.crash import CrashAt, Crashed

GATE = """
chartloop: 1
machine: gate
states:
  think: {do: nothing, next: approve}
  approve:
    ask: "Is that right?"
    on: {accept: done, correct: {to: think, data: {note: str}}}
  done: {stop: completed}
"""
TIMED = GATE.replace("note: str}}}", "note: str}}}\n    within: 1h\n    expired: done")


class Patient(ManualClock):
    """Leaves waits for somebody to the driver, as a real clock does."""

    suspends = True


def gate(journal: Journal | None = None, clock: ManualClock | None = None) -> Run:
    """A run of the gate, before its first record."""
    return load(GATE).start("t", run_id="r", journal=journal, clock=clock or ManualClock())


def waiting(journal: Journal | None = None, clock: ManualClock | None = None) -> Run:
    """One that waits for an answer."""
    run = gate(journal, clock)
    run.run()
    return run


def kinds(run: Run) -> list[str]:
    return [record.kind for record in run.records]


# the id of a wait -----------------------------------------------------------------------------


def test_each_visit_of_a_wait_has_its_own_id_which_outlives_the_process() -> None:
    journal, clock = MemoryJournal(), ManualClock()
    run = waiting(journal, clock)
    first = run.question
    assert first is not None
    assert (first.wait, first.text, first.run, first.state) == (
        "1",
        "Is that right?",
        "r",
        "approve",
    )
    assert run.result.wait == first.wait == run.result.to_dict()["wait"]
    run.pause()
    run.advance()
    again = load(GATE).open("r", journal=journal, clock=clock)
    assert again.question == first
    run.send("correct", {"note": "n"})
    run.resume()
    run.run()
    second = run.question
    assert second is not None
    assert second.wait != first.wait


def test_the_question_of_a_child_has_the_wait_of_the_child() -> None:
    text = """
chartloop: 1
machine: top
machines: {asks: {states: {q: {ask: "Really?", on: {yes: z}}, z: {stop: completed}}}}
states:
  go: {do: run_machine, with: {machine: asks}, next: done}
  done: {stop: completed}
"""
    run = load(text).start("t", run_id="r", clock=ManualClock())
    run.run()
    assert run.question is not None
    assert (run.question.wait, run.question.run) == ("go/0:0", "r/go/0")
    with pytest.raises(WaitError, match="no wait go/0:1"):
        run.send("yes", wait="go/0:1")
    sent = run.send("yes", wait="go/0:0", message_id="m")
    assert (sent.run, sent.wait) == ("r/go/0", "go/0:0")
    assert run.send("yes", message_id="m").new is False
    with pytest.raises(AnsweredError):
        run.send("yes")
    assert run.run().reason == "completed"


# refused --------------------------------------------------------------------------------------


def test_an_answer_that_leads_straight_to_a_paid_call_is_taken_once() -> None:
    """Its record is not held for the call's: the message would still be in the inbox."""
    text = """
chartloop: 1
machine: gate
model: {name: scripted}
states:
  hold: {ask: "Go?", on: {go: think}}
  think: {do: infer, next: done}
  done: {stop: completed}
"""
    run = load(text).start(script=["hi"])
    run.run()
    run.send("go")
    result = run.run()
    assert [record.kind for record in run.records] == ["start", "answer", "step"]
    assert result.warnings == ()


def test_an_answer_before_the_first_step_is_refused() -> None:
    with pytest.raises(WaitError, match="it has not started"):
        gate().send("accept")


def test_a_second_answer_is_refused_and_opens_no_later_gate() -> None:
    run = waiting()
    run.send("correct", {"note": "n"})
    with pytest.raises(
        AnsweredError, match="wait 1 was answered already, with `correct`"
    ) as raised:
        run.send("accept")
    assert (raised.value.wait, raised.value.at) == ("1", run.session.ports.clock.now())
    assert run.run().kind == "waiting"
    assert kinds(run) == ["start", "step", "answer", "step"]


class Late(NamedTuple):
    """What has become of wait 1, and how an answer to it is refused."""

    id: str
    happens: Callable[[Run], object]
    said: str


def correct(run: Run) -> None:
    run.send("correct", {"note": "n"})
    run.run()


def expire(run: Run) -> None:
    by_hand(run.session.ports.clock.sleep(4000))
    run.run()


def cancel(run: Run) -> None:
    run.cancel()
    run.run()


@pytest.mark.parametrize(
    "case",
    [
        Late("answered", correct, "wait 1 was answered already, with `correct` at"),
        Late("expired", expire, "wait 1 expired at"),
        Late("cancelled", cancel, "wait 1 ended with a stop at"),
    ],
    ids=lambda case: case.id,
)
@pytest.mark.parametrize("stale", [False, True], ids=["who-drives-it", "who-read-it-before"])
def test_an_answer_to_a_wait_that_is_over_is_refused(case: Late, stale: bool) -> None:
    journal, clock, machine = MemoryJournal(), Patient(), load(TIMED)
    run = machine.start("t", run_id="r", journal=journal, clock=clock)
    run.run()
    before = machine.open("r", journal=journal, clock=clock)
    case.happens(run)
    with pytest.raises(WaitError, match=case.said) as raised:
        (before if stale else run).send("accept", wait="1")
    asked = machine.open("r", journal=journal, clock=clock).question
    assert raised.value.question == asked
    if asked is not None:
        assert f"it asks now, as wait {asked.wait}" in raised.value.hint
    assert by_hand(journal.inbox("r")) == []


@pytest.mark.parametrize("wait", ["0", "7", "x", "-1", "٣", "9" * 400, "go/1:2"])
def test_a_wait_that_never_was_is_named(wait: str) -> None:
    run = waiting()
    with pytest.raises(WaitError, match="there is no wait"):
        run.send("accept", wait=wait)


def test_who_does_not_see_the_wait_at_hand_does_not_answer_it() -> None:
    """A session that was read at one wait does not answer the next one by accident."""
    journal, clock = MemoryJournal(), ManualClock()
    run = waiting(journal, clock)
    stale = load(GATE).open("r", journal=journal, clock=clock)
    correct(run)
    with pytest.raises(AnsweredError):
        stale.send("accept")
    assert run.question is not None
    stale.send("accept", wait=run.question.wait)  # who names it has seen it
    assert run.run().reason == "completed"


def test_the_data_of_an_answer_are_checked_when_it_is_sent() -> None:
    run = waiting()
    for data in ({}, {"nope": 3}, {"note": 3}):
        with pytest.raises(AnswerError):
            run.send("correct", data)
        with pytest.raises(AnswerError):
            gate().send("correct", data, ahead="approve")
    assert by_hand(run.session.journal.inbox(run.id)) == []


def test_the_same_message_may_come_again_after_its_wait() -> None:
    run = waiting()
    assert run.send("correct", {"note": "n"}, message_id="m").new
    run.run()
    assert not run.send("correct", {"note": "n"}, message_id="m").new
    assert kinds(run).count("answer") == 1


ANSWERS = """
import sys
from chartloop import RunError
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import load
run = load(sys.stdin.read()).open("r", journal=SqliteJournal(sys.argv[1]))
print("ready", flush=True)
while not __import__("os").path.exists(sys.argv[2]):
    pass
try:
    run.send("correct", {"note": sys.argv[3]})
    print("sent")
except RunError as error:
    print(type(error).__name__)
"""


@pytest.mark.slow("starts processes for seconds")
def test_of_two_processes_that_answer_at_once_one_is_told(tmp_path: Path) -> None:
    path, go = tmp_path / "journal.db", tmp_path / "go"
    journal = SqliteJournal(path)
    load(GATE).start("t", run_id="r", journal=journal).run()
    with ExitStack() as ends:
        both = [
            ends.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", ANSWERS, str(path), str(go), name],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )
            for name in "ab"
        ]  # fmt: skip
        for one in both:
            assert one.stdin is not None
            one.stdin.write(GATE)
            one.stdin.close()
        outputs = [one.stdout for one in both if one.stdout is not None]
        assert [output.readline() for output in outputs] == ["ready\n", "ready\n"]
        go.touch()
        said = [output.read().strip() for output in outputs]
    assert sorted(said) == ["AnsweredError", "sent"]
    assert len(by_hand(journal.inbox("r"))) == 1
    by_hand(journal.close())


# dropped --------------------------------------------------------------------------------------


def message(id: str, run: Run, **data: Any) -> InboxMessage:
    return InboxMessage(id, run.session.ports.clock.now(), {"kind": "answer", "data": {}, **data})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"event": "accept"}, "it names no question"),
        ({"event": "accept", "wait": "0"}, "wait 0, which it was for, is over"),
        ({"event": "accept", "wait": "3"}, "wait 3, which it was for, is over"),
        ({"event": "nope", "wait": "1"}, "wait 1 does not take it"),
        ({"event": "accept", "ahead": "think"}, "`think`, which it was given ahead for"),
    ],
    ids=["without-a-wait", "past", "to-come", "another-event", "ahead-of-no-wait"],
)
def test_a_message_that_fits_no_wait_opens_none_and_the_record_says_so(
    data: dict[str, Any], why: str
) -> None:
    run = waiting()
    assert by_hand(run.session.journal.send("r", message("m", run, **data)))
    result = run.run()
    assert result.kind == "waiting"
    assert kinds(run) == ["start", "step", "drop"]
    assert any(why in warning for warning in result.warnings)
    assert run.result.wait == "1"  # and the question is the same one
    assert by_hand(run.session.journal.inbox(run.id)) == []
    assert run.replay().same
    assert why in str(run.why())


# ahead ----------------------------------------------------------------------------------------


def test_an_answer_ahead_is_taken_by_the_first_wait_of_its_state_and_the_record_says_so() -> None:
    run = gate()
    run.send("correct", {"note": "n"}, ahead="approve")
    assert run.run().kind == "waiting"  # the second visit is nobody's
    taken = next(record for record in run.records if record.kind == "answer")
    assert taken.input.ahead == taken.input.at
    assert taken.to_dict()["ahead"] == taken.input.ahead
    assert "given ahead of the question" in run.why(taken.seq).title
    assert run.replay().same


@pytest.mark.parametrize(
    ("begun", "state", "event", "said"),
    [
        (False, "aprove", "accept", "not a state that waits"),
        (False, "think", "accept", "not a state that waits"),
        (False, "approve", "acept", "does not take"),
        (True, "approve", "accept", "asks now"),
    ],
)
def test_an_answer_ahead_is_refused(begun: bool, state: str, event: str, said: str) -> None:
    run = waiting() if begun else gate()
    with pytest.raises(AnswerError, match=said):
        run.send(event, ahead=state)


def test_one_answer_ahead_is_kept_for_a_state() -> None:
    run = gate()
    run.send("accept", ahead="approve")
    with pytest.raises(AheadError, match="given ahead for `approve` already") as raised:
        run.send("correct", {"note": "n"}, ahead="approve")
    assert raised.value.state == "approve"


# pauses ---------------------------------------------------------------------------------------

LINE = """
chartloop: 1
machine: line
states:
  a: {do: nothing, next: b}
  b: {do: nothing, next: c}
  c: {do: nothing, next: done}
  done: {stop: completed}
"""


def line() -> Run:
    run = load(LINE).start("t", run_id="r", clock=ManualClock())
    run.advance()
    return run


def test_one_resume_ends_every_pause_that_was_sent_before_it() -> None:
    run = line()
    for _ in range(5):
        run.pause()
    assert run.run().status == "paused"
    run.resume()
    assert run.run().reason == "completed"
    assert kinds(run).count("pause") == 1


def test_a_pause_that_was_sent_before_a_resume_stops_nothing_after_it() -> None:
    run = line()
    run.pause()
    run.advance()
    run.pause()
    run.pause()
    run.resume()
    assert run.run().reason == "completed"


def test_a_resume_that_had_nothing_to_resume_does_not_end_a_later_pause() -> None:
    run = line()
    early = InboxMessage("early", run.session.ports.clock.now(), {"kind": "resume"})
    assert by_hand(run.session.journal.send("r", early))
    run.pause()
    assert run.run().status == "paused"


BACK_OFF = """
chartloop: 1
machine: back_off
states:
  a: {do: flaky, retry: {times: 2, base: 1h, on: [TRANSIENT]}, next: done}
  done: {stop: completed}
"""


def flaky() -> Machine:
    failures = ["once"]

    @action(effect="pure")
    def flaky(ctx: Context) -> str:
        """Fails the first time."""
        if failures:
            raise ToolError(failures.pop(), category="TRANSIENT")
        return "ok"

    return load(BACK_OFF, tools=[flaky])


def test_one_resume_ends_a_pause_that_was_asked_for_in_a_back_off() -> None:
    run = flaky().start("t", run_id="r", clock=ManualClock())
    run.advance()
    run.advance()
    assert run.session.position.blocked_on == "retry"
    for _ in range(3):
        run.pause()
    run.advance()
    run.resume()
    assert run.run().reason == "completed"


def test_a_pause_while_a_call_is_in_doubt_takes_effect_once_that_is_settled() -> None:
    """And `fail` fails the call, instead of raising that a paused run finishes nothing."""
    text = """
chartloop: 1
machine: pay
in_doubt: ask
states:
  a: {do: buy, failed: next, next: b}
  b: {do: nothing, next: done}
  done: {stop: completed}
"""

    @action(effect="paid")
    def buy(ctx: Context) -> str:
        """Buys."""
        return "bought"

    machine, journal, clock = load(text, tools=[buy]), MemoryJournal(), ManualClock()
    dying = CrashAt(journal, 4, before=False)
    with pytest.raises(Crashed):
        machine.start("t", run_id="r", journal=dying, clock=clock).run()
    run = machine.open("r", journal=journal, clock=clock)
    assert run.run().events == ("retry", "fail")
    run.pause()
    run.advance()
    assert run.question is not None
    run.send("fail", wait=run.question.wait)
    assert run.run().status == "paused"
    assert run.state == "a"
    run.resume()
    assert run.run().reason == "completed"
    assert run.replay().same


def test_a_call_that_is_interrupted_again_is_in_doubt_again() -> None:
    interruptions = ["once", "twice"]

    @action(effect="paid")
    def buy(ctx: Context) -> str:
        """Buys, unless the program that drives the run has a fault."""
        if interruptions:
            raise RunError(interruptions.pop())
        return "bought"

    text = """
chartloop: 1
machine: pay
in_doubt: retry
states:
  a: {do: buy, next: done}
  done: {stop: completed}
"""
    journal = MemoryJournal()
    run = load(text, tools=[buy]).start("t", run_id="r", journal=journal)
    for _ in range(2):
        with pytest.raises(RunError):
            run.run()
    assert run.run().reason == "completed"
    types = [event.type for event in by_hand(journal.events("r"))]
    tries = ["intent", "in_doubt", "intent", "in_doubt", "intent"]
    assert types == ["record", *tries, "record"]


def test_a_resume_ends_a_pause_that_was_only_asked_for() -> None:
    text = """
chartloop: 1
machine: two
states:
  a: {do: nothing, next: b}
  b: {do: nothing, next: done}
  done: {stop: completed}
"""
    run = load(text).start("t")
    run.advance()
    with pytest.raises(StatusError, match="running, not paused"):
        run.resume()
    run.pause()
    run.resume()
    assert run.run().reason == "completed"
    assert [record.kind for record in run.records] == ["start", "pause", "resume", "step", "step"]
