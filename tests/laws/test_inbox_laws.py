"""Laws of the inbox: whatever is sent, in whatever order, by whichever of two sessions.

What was sent is kept in a list of our own and compared with the records, which know no more of it.
"""

from __future__ import annotations

import contextlib
import tempfile
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Run, load
from chartloop.core.errors import AnswerError, StatusError
from chartloop.core.records import Record
from chartloop.run.journal import InboxMessage
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock
from tests.effort import examples

FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
MOST = 60
"""More records than there are from one wait to the next."""
MACHINE = load("""
chartloop: 1
machine: gates
states:
  write: {do: nothing, next: approve}
  approve: {ask: "Good?", on: {yes: check, no: write}}
  check: {do: nothing, next: sure}
  sure: {ask: "Sure?", on: {yes: write, no: again, stop: done}, within: 1h, expired: write}
  again: {do: nothing, next: approve}
  done: {stop: completed}
""")
WAITS = ("approve", "sure")
EVENTS = st.sampled_from(["yes", "no"])
WHO = st.sampled_from(["driver", "other", "stale"])


class Given(NamedTuple):
    """An answer that was accepted."""

    number: int
    records: int
    """How many records there were then."""
    asked: bool
    """Whether a question was asked then, as the journal had it."""
    ahead: str = ""


class Inbox(RuleBasedStateMachine):
    """One run in a file, driven by one session; another one, and one that was read long ago."""

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        self.clock, self.numbers = ManualClock(), count()
        self.here = SqliteJournal(Path(self.folder.name) / "journal.db", redactor=None)
        self.there = SqliteJournal(Path(self.folder.name) / "journal.db", redactor=None)
        self.driver = MACHINE.start("t", run_id="r", journal=self.here, clock=self.clock)
        self.driver.advance()
        self.stale = self.opened()
        self.given: dict[int, Given] = {}
        self.wanted = "resume"
        """The newest of pauses and resumes."""

    def teardown(self) -> None:
        for journal in (self.here, self.there):
            by_hand(journal.close())
        self.folder.cleanup()

    def opened(self) -> Run:
        return MACHINE.open("r", journal=self.there, clock=self.clock)

    def who(self, name: str) -> Run:
        return {"driver": lambda: self.driver, "stale": lambda: self.stale, "other": self.opened}[
            name
        ]()

    def records(self) -> list[Record]:
        events = by_hand(self.there.events("r"))
        return [event.record for event in events if event.record is not None]

    def send(self, run: Run, event: str, **named: Any) -> None:
        number, records = next(self.numbers), self.records()
        row = by_hand(self.there.row("r"))
        assert row is not None
        asked = row.status == "paused" and row.state in WAITS
        with contextlib.suppress(AnswerError):
            run.send(event, {"n": number}, **named)
            self.given[number] = Given(number, len(records), asked, named.get("ahead", ""))

    # what may happen ------------------------------------------------------------------------

    @rule(who=WHO, event=EVENTS)
    def answer(self, who: str, event: str) -> None:
        self.send(self.who(who), event)

    @rule(who=WHO, event=EVENTS, wait=st.integers(0, 12).map(str))
    def answer_a_wait(self, who: str, event: str, wait: str) -> None:
        self.send(self.who(who), event, wait=wait)

    @rule(who=WHO, event=EVENTS, state=st.sampled_from(WAITS))
    def answer_ahead(self, who: str, event: str, state: str) -> None:
        self.send(self.who(who), event, ahead=state)

    @rule(event=EVENTS)
    def an_answer_without_a_wait(self, event: str) -> None:
        data = {"kind": "answer", "event": event, "data": {"n": -1}}
        by_hand(
            self.there.send("r", InboxMessage(f"old{next(self.numbers)}", self.clock.now(), data))
        )

    @precondition(lambda self: not self.driver.ended)
    @rule(who=WHO)
    def pause(self, who: str) -> None:
        with contextlib.suppress(StatusError):
            self.who(who).pause()
            self.wanted = "pause"

    @rule()
    def resume(self) -> None:
        """As `chartloop resume` does."""
        message = InboxMessage(f"resume{next(self.numbers)}", self.clock.now(), {"kind": "resume"})
        by_hand(self.there.send("r", message))
        self.wanted = "resume"

    @rule(n=st.integers(0, 9))
    def cancel(self, n: int) -> None:
        with contextlib.suppress(StatusError):
            if n == 0:  # seldom: it ends the story
                self.who("other").cancel()

    @rule()
    def step(self) -> None:
        self.driver.advance()

    @rule()
    def an_hour(self) -> None:
        self.clock.advance(3600)

    @rule()
    def read(self) -> None:
        self.stale = self.opened()

    @rule()
    def take_over(self) -> None:
        """The driver dies; another one takes up where the journal is."""
        self.driver = MACHINE.open("r", journal=self.here, clock=self.clock)

    @rule()
    def rest(self) -> None:
        """On to where it rests: a pause is in effect only if it was asked for last."""
        for _ in range(MOST):
            if self.driver.advance() is None:
                break
        else:
            raise AssertionError("it goes round and round")
        if not self.driver.ended:
            position = self.driver.session.position
            held = position.pause_asked or position.state not in WAITS
            assert held == (self.wanted == "pause")

    # what always holds ----------------------------------------------------------------------

    @invariant()
    def a_gate_is_opened_by_its_own_answer(self) -> None:
        if not hasattr(self, "given"):
            return
        records = self.records()
        taken = [r for r in records if r.kind == "answer"]
        numbers = [r.input.data["n"] for r in taken]
        assert len(set(numbers)) == len(numbers)
        for record in taken:
            given = self.given[record.input.data["n"]]
            between = records[given.records : record.seq]
            if given.ahead:
                assert record.state == given.ahead
                assert record.input.ahead is not None
                assert not any(
                    r.kind in ("answer", "expired") and r.state == given.ahead for r in between
                )
            else:
                assert given.asked
                assert all(
                    r.next == r.state and r.kind not in ("answer", "expired") for r in between
                )

    @invariant()
    def what_was_accepted_is_taken_or_dropped_or_to_come(self) -> None:
        if not hasattr(self, "given"):
            return
        records = self.records()
        taken = {r.input.data["n"] for r in records if r.kind == "answer"}
        dropped = sum(r.kind == "drop" for r in records)
        inbox = [x for x in by_hand(self.there.inbox("r")) if x.data["kind"] == "answer"]
        waiting = {x.data["data"]["n"] for x in inbox if x.data["data"]["n"] >= 0}
        assert not taken & waiting
        assert len(self.given) - len(taken) - len(waiting) <= dropped

    @invariant()
    def it_is_decided_again_alike(self) -> None:
        if hasattr(self, "given"):
            assert self.opened().replay().same


@pytest.mark.law
@pytest.mark.slow("takes seconds")
def test_every_answer_opens_its_own_gate_and_one_resume_ends_every_pause() -> None:
    run_state_machine_as_test(
        Inbox, settings=settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
    )
