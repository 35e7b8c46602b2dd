"""A run and its journal: doubts about paid calls, snapshots, writes that fail or overlap."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.api import Machine, Run
from chartloop.core.errors import AnswerError, Fenced, JournalError, StatusError
from chartloop.run.journal import Event, InboxMessage, MemoryJournal, RunRow, Update
from chartloop.run.log import SNAPSHOT_AFTER
from chartloop.run.sync import by_hand
from chartloop.testing.clock import ManualClock
from chartloop.testing.crash import CrashAt, Crashed
from tests.support import machine as own_machine
from tests.support import path
from tests.talks import calls, machine

END = "  z: {stop: completed}\n"
PAY = (
    "tools: [one, two]\nin_doubt: %s\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tools, failed: f, next: z}\n  f: {do: nothing, next: z}\n"
    + END
)


class Shop:
    """Two paid tools, and how often each was called."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    def tools(self) -> list[object]:
        return [tool_spec(self.one), tool_spec(self.two)]

    def one(self) -> str:
        self.paid.append("one")
        return "1"

    def two(self) -> str:
        self.paid.append("two")
        return "2"


def interrupted(policy: str, shop: Shop, *, answered: bool) -> tuple[Machine, MemoryJournal]:
    """A run that stood at `b` when its process died: `one` begun, and perhaps answered."""
    made, journal = machine(PAY % policy, shop.tools()), MemoryJournal()
    run = made.start(
        "t", script=[calls("one", "two")], clock=ManualClock(), journal=journal, run_id="r"
    )
    run.advance()
    run.advance()
    key = "r/a/0/call_0_0"
    by_hand(run.session.note("intent", key, {"state": "b", "tool": "one"}, 1.0))
    if answered:
        by_hand(run.session.note("result", key, {"text": "1", "ok": True, "result": "1"}, 1.0))
    return made, journal


def reopened(made: Machine, journal: MemoryJournal) -> Run:
    return made.open(
        "r", journal=journal, script=[calls("one", "two")], clock=ManualClock(1_700_000_100)
    )


def doubts(journal: MemoryJournal) -> list[str]:
    return [e.data["key"] for e in by_hand(journal.events("r")) if e.type == "in_doubt"]


class TestDoubt:
    def test_an_answered_call_is_not_made_again(self) -> None:
        shop = Shop()
        run = reopened(*(kept := interrupted("retry", shop, answered=True)))
        assert run.run().reason == "completed"
        assert shop.paid == ["two"]
        assert [m["content"] for m in run.messages[1:]] == ["1", "2"]
        assert doubts(kept[1]) == []

    def test_retry_makes_it_again_and_says_so(self) -> None:
        shop = Shop()
        run = reopened(*(kept := interrupted("retry", shop, answered=False)))
        result = run.run()
        assert sorted(shop.paid) == ["one", "two"]
        assert doubts(kept[1]) == ["r/a/0/call_0_0"]
        assert any("started before an interruption" in w for w in result.warnings)

    @pytest.mark.parametrize("policy", ["retry", "fail", "ask"])
    def test_a_driver_that_dies_of_its_report_leaves_it_to_no_other(self, policy: str) -> None:
        shop, key = Shop(), "r/a/0/call_0_0"
        made, journal = interrupted(policy, shop, answered=False)
        crash = CrashAt(journal, 2, before=False)
        with pytest.raises(Crashed):
            made.open("r", journal=crash, script=[], clock=ManualClock(1_700_000_100)).run()
        assert doubts(journal) == [key]
        run = reopened(made, journal)
        result = run.run()
        assert doubts(journal) == [key]
        assert sum("started before an interruption" in w for w in result.warnings) == 1
        ends = {"retry": "a b z", "fail": "a b f z", "ask": "a b"}
        assert path(run) == ends[policy]

    def test_fail_fails_the_action(self) -> None:
        shop = Shop()
        run = reopened(*interrupted("fail", shop, answered=False))
        run.run()
        assert (shop.paid, path(run)) == ([], "a b f z")
        outcome = run.records[-2].outcome
        assert outcome is not None
        assert outcome.in_doubt

    @pytest.mark.parametrize(
        ("answer", "paid", "way"), [("retry", ["one", "two"], "a b z"), ("fail", [], "a b f z")]
    )
    def test_ask_waits_for_somebody(self, answer: str, paid: list[str], way: str) -> None:
        shop = Shop()
        run = reopened(*(kept := interrupted("ask", shop, answered=False)))
        result = run.run()
        assert (result.kind, result.events, shop.paid) == ("waiting", ("retry", "fail"), [])
        assert "not known whether `one`" in str(result.question)
        with pytest.raises(StatusError, match="in doubt"):
            run.resume()
        with pytest.raises(AnswerError):
            run.send("yes")
        by_hand(kept[1].send("r", InboxMessage("x", 1_700_000_100, {"kind": "resume"})))
        assert run.run().kind == "waiting"  # nor does a resume from elsewhere answer it
        run = reopened(*kept)  # the question outlives another process
        run.send(answer)
        run.run()
        assert (sorted(shop.paid), path(run), doubts(kept[1])) == (paid, way, ["r/a/0/call_0_0"])
        assert run.replay().same

    def test_what_was_answered_stays_so_after_the_question(self) -> None:
        shop = Shop()
        made, journal = interrupted("ask", shop, answered=True)
        run = reopened(made, journal)
        by_hand(run.session.become_driver())
        by_hand(run.session.note("intent", "r/a/0/call_0_1", {"state": "b", "tool": "two"}, 1.0))
        run = reopened(made, journal)
        run.run()
        run.send("retry")
        run.run()
        assert shop.paid == ["two"]

    def test_an_edit_in_between_hides_nothing(self) -> None:
        shop = Shop()
        made = machine("vars: {n: 0}\n" + PAY % "fail", shop.tools())
        journal = MemoryJournal()
        run = made.start(
            "t", script=[calls("one")], clock=ManualClock(), journal=journal, run_id="r"
        )
        run.advance()
        run.advance()
        by_hand(run.session.note("intent", "r/a/0/call_0_0", {"state": "b", "tool": "one"}, 1.0))
        run = reopened(made, journal)
        run.set("vars.n", 1)
        run.run()
        assert (shop.paid, path(run)) == ([], "a b f z")


class Slow(MemoryJournal):
    """A journal whose appends really wait, as those of a database do."""

    suspends = True

    def __init__(self) -> None:
        super().__init__()
        self.at_once = 0

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *, update: Update | None = None,
        consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        self.at_once += 1
        assert self.at_once == 1
        await asyncio.sleep(0.001)
        self.at_once -= 1
        return await super().append(run_id, head, epoch, events, update=update, consumed=consumed)


def test_intents_of_calls_at_once_are_written_one_after_the_other() -> None:
    shop, journal = Shop(), Slow()
    made = machine(PAY % "retry", shop.tools())
    result = made.run(
        "t", script=[calls(*["one", "two"] * 10)], clock=ManualClock(), journal=journal, run_id="r"
    )
    assert result.reason == "completed"
    log = by_hand(journal.events("r"))
    assert [e.seq for e in log] == list(range(len(log)))
    assert sum(e.type == "intent" for e in log) == 21
    assert sum(e.type == "result" for e in log) == 20


class Failing(MemoryJournal):
    """A journal that loses the answer of append `n`, or the append itself."""

    def __init__(self, n: int, *, written: bool, error: BaseException) -> None:
        super().__init__()
        self.n, self.written, self.error, self.count = n, written, error, 0

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *, update: Update | None = None,
        consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        self.count += 1
        if self.count != self.n:
            return await super().append(
                run_id, head, epoch, events, update=update, consumed=consumed
            )
        if self.written:
            await super().append(run_id, head, epoch, events, update=update, consumed=consumed)
        raise self.error


class Ticking(ManualClock):
    """Time goes on: what is done again is another event."""

    def now(self) -> float:
        self.advance(1)
        return super().now()


LINE = "states:\n  a: {do: act, next: b}\n  b: {do: act, next: c}\n  c: {do: act, next: z}\n" + END


@pytest.mark.parametrize(
    "error", [JournalError("full"), KeyboardInterrupt()], ids=["error", "interrupt"]
)
@pytest.mark.parametrize("written", [False, True], ids=["lost", "answer lost"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_write_that_fails_can_be_tried_again(n: int, written: bool, error: BaseException) -> None:
    journal = Failing(n, written=written, error=error)
    run = own_machine(LINE).start("t", clock=Ticking(), journal=journal, run_id="r")
    with pytest.raises(type(error)):
        run.run()
    assert run.run().reason == "completed"
    assert path(run) == "a b c z"
    assert [r.seq for r in run.records] == [0, 1, 2, 3]
    assert run.replay().same


def test_who_was_fenced_stays_so() -> None:
    journal = MemoryJournal()
    made = own_machine(LINE)
    run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
    run.advance()
    other = made.open("r", journal=journal, clock=ManualClock())
    other.advance()
    for _ in range(2):
        with pytest.raises(Fenced):
            run.advance()
    assert other.run().reason == "completed"


LOOP = (
    "states:\n  a: {do: act, set: {vars.n: vars.n + 1}, next: [{when: run.steps >= 2000, to: z}, {to: a}]}\n"
    + END
)


class Counting(MemoryJournal):
    """Notes down when it was given a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[int] = []

    async def put_snapshot(self, run_id: str, snapshot: Any) -> None:
        self.snapshots.append(snapshot.record_seq)
        await super().put_snapshot(run_id, snapshot)


class TestSnapshots:
    def test_they_are_spaced_in_proportion_to_the_run(self) -> None:
        journal = Counting()
        own_machine("vars: {n: 0}\n" + LOOP).run("t", clock=ManualClock(), journal=journal)
        assert journal.snapshots == [256, 640, 1216]
        assert journal.snapshots[0] == SNAPSHOT_AFTER

    def test_opening_again_and_again_makes_no_more(self) -> None:
        journal = Counting()
        made = own_machine("vars: {n: 0}\n" + LOOP)
        run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
        while not run.ended:
            for _ in range(100):
                run.advance()
            run = made.open("r", journal=journal, clock=ManualClock(2_000_000_000))
        assert journal.snapshots == [256, 640, 1216]

    @pytest.mark.parametrize("steps", [10, 300, 700])
    def test_a_run_is_the_same_with_and_without(self, steps: int) -> None:
        journal = MemoryJournal()
        made = own_machine("vars: {n: 0}\n" + LOOP)
        run = made.start("t", clock=ManualClock(), journal=journal, run_id="r")
        for _ in range(steps):
            run.advance()
        fast = made.open("r", journal=journal, clock=ManualClock())
        slow = made.open("r", journal=_without_snapshots(journal), clock=ManualClock())
        assert fast.session.position == slow.session.position == run.session.position
        assert (
            fast.session.tally.to_dict()
            == slow.session.tally.to_dict()
            == run.session.tally.to_dict()
        )
        assert fast.session.head == slow.session.head == steps


def _without_snapshots(journal: MemoryJournal) -> MemoryJournal:
    """The same log, and nothing else."""
    row = by_hand(journal.row("r"))
    assert row is not None
    made = MemoryJournal()
    by_hand(made.create(RunRow("r", row.machine, row.machine_hash)))
    by_hand(made.acquire("r"))
    by_hand(made.append("r", 0, 1, by_hand(journal.events("r"))))
    return made


def test_messages_from_another_thread_are_taken_between_actions() -> None:
    entered, release = threading.Event(), threading.Event()

    def one() -> str:
        entered.set()
        release.wait(20)
        return "x"

    made = machine(PAY % "retry", [tool_spec(one), tool_spec(Shop().two)])
    run = made.start("t", script=[calls("one")], clock=ManualClock())
    thread = threading.Thread(target=run.run)
    thread.start()
    assert entered.wait(20)
    run.pause()
    release.set()
    thread.join(20)
    assert (run.status, run.ended) == ("completed", True)  # nothing was left to pause before
