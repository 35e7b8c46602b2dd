"""What belongs together is one transaction, and nothing is lost by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from chartloop import load, tool
from chartloop.actions.declare import action
from chartloop.api import Machine, Run
from chartloop.core.errors import Fenced, JournalError
from chartloop.run.context import Context
from chartloop.run.journal import Event, MemoryJournal, Update
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

TALK = """
chartloop: 1
machine: talk
model: {name: scripted}
tools: [add]
limits: {steps: 99}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  think:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]
  use: {do: call_tools, next: think}
  done: {stop: completed}
"""


class Noting(MemoryJournal):
    """Notes what each append wrote; fails at the `n`-th, before or after it wrote."""

    def __init__(self, n: int = 0, *, written: bool = False) -> None:
        super().__init__()
        self.n, self.written = n, written
        self.appends: list[str] = []

    async def append(
        self, run_id: str, head: int, epoch: int, events: Sequence[Event], *, update: Update | None = None,
        consumed: Sequence[str] = (),
    ) -> int:  # fmt: skip
        self.appends.append(" ".join(e.record.state if e.record else e.type for e in events))
        fails = len(self.appends) == self.n
        if fails and not self.written:
            raise JournalError("full")
        head = await super().append(run_id, head, epoch, events, update=update, consumed=consumed)
        if fails:
            raise JournalError("the answer is lost")
        return head


def asks(*numbers: int) -> dict[str, Any]:
    """A reply with a call of `add` for each number."""
    return {"tool_calls": [{"name": "add", "arguments": {"a": n}, "id": f"c{n}"} for n in numbers]}


def talk(effect: str, seen: Callable[[], object] = lambda: None) -> Machine:
    given: Any = effect

    @tool(effect=given)
    def add(a: int) -> str:
        """Add."""
        seen()
        return str(a)

    return load(TALK, tools=[add])


def started(made: Machine, journal: MemoryJournal, *replies: Any, at: float = 1e9) -> Run:
    return made.start(
        "t", script=[*replies, "Done."], journal=journal, clock=ManualClock(at), run_id="r"
    )


@pytest.mark.parametrize(
    ("effect", "turn"),
    [
        # of a paid tool: 4 events, and of one that is not: 3; two transactions either way
        ("paid", ["think intent", "use intent"]),
        ("pure", ["think", "use intent"]),
    ],
)
def test_a_turn_takes_two_transactions(effect: str, turn: list[str]) -> None:
    journal = Noting()
    run = started(talk(effect), journal, *(asks(n) for n in range(5)))
    assert run.run().reason == "completed"
    first = "think intent"  # the start, at `think`
    assert journal.appends == [first, *turn * 5, "think"]
    assert run.replay().same


def test_what_came_before_is_in_the_journal_when_a_tool_is_called() -> None:
    for effect in ("paid", "local", "pure"):
        journal, kinds = MemoryJournal(), list[list[str]]()

        def look(journal: MemoryJournal = journal, kinds: list[list[str]] = kinds) -> None:
            kinds.append([e.type for e in by_hand(journal.events("r"))])

        started(talk(effect, look), journal, asks(1, 2)).run()
        begun = ["record", "intent", "record"]
        assert all(seen[:3] == begun for seen in kinds)
        assert len(kinds) == 2


def test_a_result_waits_for_nothing_while_another_call_is_under_way() -> None:
    journal = Noting()
    started(talk("paid"), journal, asks(1, 2)).run()
    assert journal.appends[:2] == ["think intent", "think intent"]
    # one after the other or at once: the first result is in the journal while the second is awaited
    assert sorted(journal.appends[2:4]) == ["intent", "result"]
    # the last result is in the record, and nowhere else
    assert journal.appends[4:] == ["use intent", "think"]


def test_who_steps_has_each_record_in_the_journal() -> None:
    journal = Noting()
    run = started(talk("paid"), journal, asks(1))
    while run.advance() is not None:
        assert len(run.records) == run.session.tally.records
    assert journal.appends == [
        "think", "intent", "think", "intent", "use", "intent", "think",
    ]  # fmt: skip


def test_who_listens_is_told_of_nothing_that_is_not_in_the_journal() -> None:
    journal, heard = Noting(), list[object]()
    run = started(talk("paid"), journal, asks(1))
    run.listen(heard.append)
    run.run()
    assert journal.appends == [
        "think", "intent", "think", "intent", "use", "intent", "think",
    ]  # fmt: skip


def test_a_breakpoint_before_a_paid_action_leaves_nothing_unwritten() -> None:
    journal = Noting()
    run = started(talk("paid"), journal, asks(1), asks(2))
    run.breakpoints.add("use")
    run.run()
    assert run.state == "use"
    assert len(run.records) == run.session.tally.records == 2
    assert load_again(journal).state == "use"


def load_again(journal: MemoryJournal, effect: str = "paid") -> Run:
    return talk(effect).open("r", journal=journal, script=["Done."], clock=ManualClock(2e9))


@pytest.mark.parametrize("written", [False, True], ids=["lost", "answer-lost"])
@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("effect", ["paid", "pure"])
def test_a_write_of_several_that_fails_can_be_tried_again(
    effect: str, n: int, written: bool
) -> None:
    journal = Noting(n, written=written)
    run = started(talk(effect), journal, asks(1), asks(2))
    with pytest.raises(JournalError):
        run.run()
    assert run.run().reason == "completed"
    assert [r.seq for r in run.records] == list(range(6))
    assert run.replay().same
    assert load_again(journal, effect).result.path == run.result.path
    assert [e.seq for e in by_hand(journal.events("r"))] == list(range(run.session.head))


def test_what_was_not_written_gives_way_to_who_drove_meanwhile() -> None:
    journal = Noting(2)
    run = started(talk("paid"), journal, asks(1), asks(2))
    with pytest.raises(JournalError):
        run.run()
    other = load_again(journal)
    other.advance()
    before = by_hand(journal.events("r"))
    for _ in range(2):
        with pytest.raises(Fenced, match="by another process meanwhile"):
            run.run()
    assert by_hand(journal.events("r")) == before


def test_fields_that_fail_again_and_again_pile_nothing_up() -> None:
    @action(effect="paid")
    def buy(ctx: Context, n: int) -> str:
        """Buys."""
        return "bought"

    text = """
chartloop: 1
machine: failing
vars: {none: 0}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  a: {do: buy, with: {n: round(1 / vars.none)}, failed: next, next: a}
"""
    journal = Noting()
    run = load(text, tools=[buy]).start("t", journal=journal, clock=ManualClock(), run_id="r")
    assert run.run().reason == "steps_limit"
    assert max(len(written.split()) for written in journal.appends) <= 2
