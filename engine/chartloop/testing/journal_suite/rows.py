"""The journal's port: one suite for every journal, in memory and in a file."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple

import pytest

from chartloop.core.durability import DURABILITIES
from chartloop.core.errors import Fenced, FollowedError, MovedError, RunError, UnknownRunError
from chartloop.core.outcome import Reply
from chartloop.core.reasons import REASONS, StopSignal, StopSignals
from chartloop.core.records import Input, Record
from chartloop.run.journal import (
    Event,
    InboxMessage,
    Journal,
    Move,
    RunRow,
    Snapshot,
    Update,
    WholeRun,
    digest,
)
from chartloop.run.journal_pages import RunFilter
from chartloop.testing.journal_suite.desk import Desk, intent, step, written

UNKNOWN: dict[str, Callable[[Journal], Coroutine[Any, Any, Any]]] = {
    "acquire": lambda j: j.acquire("no"),
    "append": lambda j: j.append("no", 0, 0, [step(0)]),
    "append-nothing": lambda j: j.append("no", 0, 0, []),
    "events": lambda j: j.events("no"),
    "send": lambda j: j.send("no", InboxMessage("m", 1.0, {})),
    "inbox": lambda j: j.inbox("no"),
    "put-snapshot": lambda j: j.put_snapshot("no", Snapshot(1, 1, {})),
    "snapshot": lambda j: j.snapshot("no"),
    "fork": lambda j: j.fork("no", 0, RunRow("new")),
}


class Refusal(NamedTuple):
    """An append that does not fit the run."""

    id: str
    head: int
    epoch: int
    events: Sequence[Event]


class Listing(NamedTuple):
    """What is wanted of the runs, and those that fit."""

    id: str
    wanted: dict[str, Any]
    found: str


class Fork(NamedTuple):
    """A record to fork at, and the number of events that the fork gets."""

    id: str
    at: int
    kept: int


def family(desk: Desk) -> list[RunRow]:
    """Two runs with messages, one of them read by now; and their rows."""
    for run_id in ("r", "r/a/0"):
        desk.begin(run_id)
        desk.write(run_id, 0, [step(0)])
        for id in ("read", "one", "two"):
            desk(desk.journal.send(run_id, InboxMessage(id, 1.0, {"from": run_id})))
        desk.write(run_id, 1, [step(1)], consumed=["read"])
    rows = [desk(desk.journal.row(run_id)) for run_id in ("r", "r/a/0")]
    return [row for row in rows if row is not None]


def moves(read: list[RunRow]) -> list[Move]:
    """Moves of these runs to others."""
    return [Move(row, row.run_id.replace("r", "new", 1)) for row in read]


BEFORE: dict[str, tuple[Callable[[Desk], Any], type[Exception], str]] = {
    "driven-on": (lambda d: d.write("r", 2, [step(2)]), Fenced, "`r` was driven or moved"),
    "taken-over": (lambda d: d(d.journal.acquire("r")), Fenced, "`r` was driven or moved"),
    "child-driven-on": (lambda d: d.write("r/a/0", 2, [step(2)]), Fenced, "`r/a/0` was driven"),
    "moved": (
        lambda d: d(d.journal.create_whole([], moves=[Move(d.all("r")[0], "other")])),
        MovedError,
        "run `r` continues as run `other`",
    ),
    "gone": (lambda d: d(d.journal.remove(["r"])), UnknownRunError, "there is no run `r`"),
    "id-is-taken": (lambda d: d.begin("new/a/0"), RunError, "there is a run `new/a/0` already"),
}


"""What has happened to one of the runs, or to an id, before; and the refusal."""


class RowCases:
    """Runs, their events, messages, payloads and forks."""

    def test_a_journal_says_what_it_is(self, desk: Desk) -> None:
        journal = desk.journal
        assert isinstance(journal.suspends, bool)
        assert journal.name
        assert journal.path is None or journal.path.is_file()
        assert journal.durability in {None, *DURABILITIES}

    def test_a_new_run_has_a_row_and_nothing_else(self, desk: Desk) -> None:
        row = RunRow(
            "r", "agent", "f" * 64, status="idle", agent="a", session="s", parent="p", created=3.5
        )
        desk(desk.journal.create(row))
        assert desk.all() == (row, [], [], None)

    def test_an_id_is_taken_once(self, desk: Desk) -> None:
        desk.begin(machine="first")
        with pytest.raises(RunError, match="there is a run `r` already"):
            desk(desk.journal.create(RunRow("r", machine="second")))
        assert desk.all()[0].machine == "first"

    @pytest.mark.parametrize("call", UNKNOWN.values(), ids=UNKNOWN)
    def test_an_unknown_run_is_named(
        self, desk: Desk, call: Callable[[Journal], Coroutine[Any, Any, Any]]
    ) -> None:
        desk.begin("another")
        with pytest.raises(UnknownRunError, match="no run `no`"):
            desk(call(desk.journal))
        assert desk(desk.journal.row("no")) is None
        assert desk(desk.journal.row("new")) is None

    def test_a_run_and_what_follows_it_are_of_one_tenant(self, desk: Desk) -> None:
        for name in ("acme:r", "r", "beta:r", "acme:r/s:t/1", "r/s:t/1"):
            desk(desk.journal.create(RunRow(name)))
            desk(desk.journal.append(name, 0, 0, [step(0)]))
        for tenant, top in (("acme", "acme:r"), ("", "r"), ("beta", "beta:r"), ("gamma", "")):
            found = desk(desk.journal.page(RunFilter(tenant=tenant))).rows
            assert [row.run_id for row in found] == [top] * bool(top)
            tail = desk(desk.journal.tail(run=f"{tenant}:")).events
            assert {one.run_id.partition("/")[0] for one in tail} == {top} - {""}
        for name, parent in (("beta:x", "acme:r"), ("x", "acme:r"), ("acme:x", "r")):
            row = RunRow(name, parent=parent)
            for write in (
                desk.journal.create(row), desk.journal.create_whole([WholeRun(row)]),
                desk.journal.fork(parent, 1, RunRow(name)),
            ):  # fmt: skip
                with pytest.raises(RunError, match="cannot follow run"):
                    desk(write)
            assert desk(desk.journal.row(name)) is None

    def test_each_acquiring_raises_the_epoch(self, desk: Desk) -> None:
        assert desk.begin() == 1
        row, _ = desk(desk.journal.acquire("r"))
        assert row.epoch == 2
        assert row == desk(desk.journal.row("r"))

    def test_events_are_read_up_to_a_size(self, desk: Desk) -> None:
        """Also where the texts are kept beside the events, as large ones are."""
        epoch = desk.begin()
        large = [
            Event(seq, "result", 1.0, None, {"key": f"{seq}", "data": f"{seq}" * 50_000})
            for seq in range(6)
        ]
        small = [intent(seq) for seq in range(6, 20)]
        desk(desk.journal.append("r", 0, epoch, [*large, *small]))
        for size, seqs in ((1, [0]), (40_000, [0]), (60_000, [0, 1]), (170_000, [0, 1, 2, 3])):
            assert [event.seq for event in desk(desk.journal.events("r", size=size))] == seqs
            tail = desk(desk.journal.tail(size=size))
            assert [entry.event and entry.event.seq for entry in tail.events] == seqs
            assert tail.cursor == tail.events[-1].cursor != tail.newest
        assert len(desk(desk.journal.events("r", 4, 3, size=10**9))) == 3
        assert len(desk(desk.journal.events("r", 6, size=40_000))) == len(small)
        whole = desk(desk.journal.tail(size=10**9))
        assert len(whole.events) == 20
        assert whole.cursor == whole.newest

    def test_records_are_found_by_their_number(self, desk: Desk) -> None:
        """Whatever else stands between them, and in a fork of the run as well."""
        epoch = desk.begin()
        log = [
            step(0), intent(1), step(2, 1), intent(3), intent(4), step(5, 2), step(6, 3), intent(7),
        ]  # fmt: skip
        desk(desk.journal.append("r", 0, epoch, log))
        desk(desk.journal.fork("r", 3, RunRow("fork")))
        desk.begin("r2")
        for run_id, numbers in (("r", [0, 1, 2, 3]), ("fork", [0, 1, 2]), ("r2", list[int]())):
            whole = desk(desk.journal.records(run_id))
            assert [record.seq for record in whole] == numbers
            assert whole == [e.record for e in desk(desk.journal.events(run_id)) if e.record]
            for start in range(6):
                for limit in range(1, 5):
                    found = desk(desk.journal.records(run_id, start, limit))
                    assert found == whole[start : start + limit]

    def test_a_page_of_records_ends_where_its_texts_reach_a_size(self, desk: Desk) -> None:
        """The record that reaches it is the last: a page has at least one."""
        epoch = desk.begin()
        desk(desk.journal.append("r", 0, epoch, [step(seq, seq) for seq in range(4)]))
        whole = desk(desk.journal.records("r"))
        assert desk(desk.journal.records("r", size=1)) == whole[:1]
        assert desk(desk.journal.records("r", 1, 2, size=1)) == whole[1:2]
        assert desk(desk.journal.records("r", 1, 2, size=10**9)) == whole[1:3]
        assert desk(desk.journal.records("r", 9, size=1)) == []

    def test_the_events_of_one_run_and_its_children_are_in_order(self, desk: Desk) -> None:
        runs = ("r", "r/a/1", "r2", "q", "r/a/2")
        epochs = {run: desk.begin(run) for run in runs}
        for seq in range(3):
            for run in runs:
                desk(desk.journal.append(run, seq, epochs[run], [intent(seq)]))
        wanted = [(run, seq) for seq in range(3) for run in ("r", "r/a/1", "r/a/2")]
        found: list[tuple[str, int]] = []
        cursor = ""
        while (tail := desk(desk.journal.tail(cursor, 2, run="r"))).events:
            assert len(tail.events) <= 2
            found += [(entry.run_id, entry.event.seq) for entry in tail.events if entry.event]
            cursor = tail.cursor
        assert found == wanted
        assert tail.cursor == tail.newest
        assert desk(desk.journal.tail(run="nothing")).events == []

    def test_events_are_read_back_as_they_were_appended(self, desk: Desk) -> None:
        epoch = desk.begin()
        signal = StopSignal(REASONS["steps_limit"], "50 of 50", {"run.steps": 50}, "rules.0")
        full = Record(
            1, "act", Input("stop", "steps_limit", None, 4.0, 4.0, {"source": "x"}, (True, False)),
            ("a", "b"), StopSignals((signal,)), "done", "completed", 99.5, ("careful",),
        )  # fmt: skip
        events = [
            step(0, reply=Reply("hi"), messages=({"role": "assistant", "content": "hi"},)),
            intent(1),
            Event(2, "result", 12.0, None, {"key": "r/1", "reply": [1, None, {"x": 2.5}]}),
            Event(3, "in_doubt", 12.5, None, {"key": "r/1"}),
            Event(4, "record", 13.0, full),
        ]
        assert desk(desk.journal.append("r", 0, epoch, events[:1])) == 1
        assert desk(desk.journal.append("r", 1, epoch, events[1:])) == 5
        assert desk(desk.journal.events("r")) == written(events, epoch)
        assert desk(desk.journal.events("r", 3)) == written(events[3:], epoch)
        assert desk(desk.journal.events("r", 5)) == []
        assert desk(desk.journal.events("r", 1, 2)) == written(events, epoch)[1:3]
        assert desk(desk.journal.events("r", 3, 9)) == written(events, epoch)[3:]
        assert desk.all()[0].head == 5

    def test_an_append_brings_the_row_up_to_date(self, desk: Desk) -> None:
        desk.begin(machine="agent", created=1.0, agent="a")
        desk.write("r", 0, [step(0)], update=Update("paused", "ask", "", 7, 99.5))
        after = RunRow(
            "r", "agent", epoch=1, head=1, status="paused", state="ask", steps=7, wake_at=99.5,
            agent="a", created=1.0, updated=11.25,
        )  # fmt: skip
        assert desk.all()[0] == after
        desk.write("r", 1, [intent(1)])
        assert desk.all()[0] == after.replace(head=2)
        desk.write("r", 2, [], update=Update("error", "end", "error", 8))
        assert desk.all()[0] == after.replace(
            head=2, status="error", state="end", reason="error", steps=8, wake_at=None
        )

    @pytest.mark.parametrize("update", [None, Update("error", "x")], ids=["events", "row"])
    @pytest.mark.parametrize(
        "case",
        [
            Refusal("head-behind", 1, 2, [step(1, messages=({"role": "user"},))]),
            Refusal("head-ahead", 3, 2, [step(3)]),
            Refusal("epoch-behind", 2, 1, [step(2)]),
            Refusal("epoch-ahead", 2, 3, [step(2)]),
            Refusal("same-events-of-a-past-epoch", 0, 1, [step(0)]),
            Refusal("same-events-and-one-more", 1, 2, [step(1), step(2)]),
            Refusal("same-events-not-the-last", 0, 2, [step(0)]),
            Refusal("nothing-at-a-wrong-head", 1, 2, []),
        ],
        ids=lambda case: case.id,
    )
    def test_a_driver_that_was_overtaken_writes_nothing(
        self, desk: Desk, case: Refusal, update: Update | None
    ) -> None:
        desk.begin()
        desk.write("r", 0, [step(0)])
        desk(desk.journal.acquire("r"))
        desk.write("r", 1, [step(1)])
        desk(desk.journal.send("r", InboxMessage("m", 1.0, {})))
        before = desk.all()
        with pytest.raises(Fenced, match="driven by another process") as refused:
            desk(
                desk.journal.append(
                    "r", case.head, case.epoch, case.events, update=update, consumed=["m"]
                )
            )
        assert f"event {case.head} in epoch {case.epoch}" in refused.value.hint
        assert "2 in epoch 2" in refused.value.hint
        assert desk.all() == before

    def test_a_commit_whose_answer_was_lost_counts_as_done(self, desk: Desk) -> None:
        epoch = desk.begin()
        desk.write("r", 0, [step(0)])
        last = [intent(1), step(2, 1, reply=Reply("paid for"))]
        update = Update("running", "act", "", 1)
        assert desk(desk.journal.append("r", 1, epoch, last, update=update)) == 3
        before = desk.all()
        assert desk(desk.journal.append("r", 1, epoch, last, update=update)) == 3
        assert desk.all() == before
        other = [intent(1), step(2, 1, reply=Reply("something else"))]
        with pytest.raises(Fenced):
            desk(desk.journal.append("r", 1, epoch, other, update=update))
        assert desk.all() == before

    def test_messages_come_in_order_and_once(self, desk: Desk) -> None:
        desk.begin()
        first, second = (
            InboxMessage("b", 9.0, {"kind": "answer", "data": {"n": 1}}),
            InboxMessage("a", 8.0, {}),
        )
        assert desk(desk.journal.send("r", first)) is True
        assert desk(desk.journal.send("r", second)) is True
        assert desk(desk.journal.send("r", InboxMessage("b", 10.0, {"other": 1}))) is False
        assert desk(desk.journal.inbox("r")) == [first, second]

    def test_a_consumed_message_is_gone_and_its_id_stays_taken(self, desk: Desk) -> None:
        desk.begin()
        desk.begin("other")
        for run_id in ("r", "other"):
            desk(desk.journal.send(run_id, InboxMessage("a", 1.0, {})))
            desk(desk.journal.send(run_id, InboxMessage("b", 1.0, {})))
        desk.write("r", 0, [step(0)], consumed=["a", "never sent"])
        assert [message.msg_id for message in desk(desk.journal.inbox("r"))] == ["b"]
        assert [message.msg_id for message in desk(desk.journal.inbox("other"))] == ["a", "b"]
        assert desk(desk.journal.send("r", InboxMessage("a", 2.0, {}))) is False

    @pytest.mark.parametrize(
        "case",
        [
            Listing("all-newest-first", {}, "ab a% B_c a_b abc"),
            Listing("limit", {"limit": 2}, "ab a%"),
            Listing("none", {"limit": 0}, ""),
            Listing("machine", {"machine": "m2"}, "B_c"),
            Listing("status", {"status": "running"}, "a_b"),
            Listing("agent", {"agent": "x"}, "ab abc"),
            Listing("session", {"session": "s", "limit": 1}, "a%"),
            Listing("empty-is-a-value", {"agent": ""}, "a% B_c a_b"),
            Listing("several", {"agent": "x", "session": "s"}, "abc"),
            Listing("prefix", {"prefix": "ab"}, "ab abc"),
            Listing("prefix-percent-is-a-character", {"prefix": "a%"}, "a%"),
            Listing("prefix-underscore-is-a-character", {"prefix": "a_"}, "a_b"),
            Listing("prefix-just-before-another", {"prefix": "aa"}, ""),
            Listing("prefix-case", {"prefix": "b"}, ""),
            Listing("prefix-empty", {"prefix": "", "limit": 1}, "ab"),
            Listing("prefix-and-more", {"prefix": "a", "session": "s"}, "a% abc"),
            Listing("prefix-last-character", {"prefix": "\U0010ffff"}, ""),
        ],
        ids=lambda case: case.id,
    )
    def test_runs_are_listed(self, desk: Desk, case: Listing) -> None:
        desk(desk.journal.create(RunRow("abc", "m1", agent="x", session="s", created=1.0)))
        desk(desk.journal.create(RunRow("a_b", "m1", status="running", created=2.0)))
        desk(desk.journal.create(RunRow("B_c", "m2", created=5.0)))
        desk(desk.journal.create(RunRow("a%", "m1", session="s", created=5.0)))
        desk(desk.journal.create(RunRow("ab", "m1", agent="x", created=5.0)))
        found = desk(desk.journal.rows(**case.wanted))
        assert [row.run_id for row in found] == case.found.split()

    def test_a_text_is_kept_by_its_hash(self, desk: Desk) -> None:
        text = "machine: agent\n" * 100
        key = desk(desk.journal.put_blob(text))
        assert key == digest(text)
        assert desk(desk.journal.put_blob(text)) == key
        assert desk(desk.journal.blob(key)) == text
        assert desk(desk.journal.blob(digest("another"))) is None

    def test_the_newest_snapshot_stands(self, desk: Desk) -> None:
        desk.begin()
        desk(desk.journal.put_snapshot("r", Snapshot(1, 1, {"position": {"state": "a"}})))
        last = Snapshot(5, 4, {"position": {"state": "b", "x": [1, None, "ü"]}})
        desk(desk.journal.put_snapshot("r", last))
        assert desk(desk.journal.snapshot("r")) == last

    @pytest.mark.parametrize(
        "case",
        [
            Fork("before-the-first", 0, 0),
            Fork("the-intent-of-the-next-stays-behind", 1, 1),
            Fork("own-intents-come-along", 2, 4),
            Fork("all", 3, 5),
            Fork("beyond", 9, 5),
        ],
        ids=lambda case: case.id,
    )
    def test_a_fork_has_the_events_below_a_record(self, desk: Desk, case: Fork) -> None:
        desk.begin()
        events = [step(0), intent(1), intent(2), step(3, 1), step(4, 2), intent(5)]
        desk.write("r", 0, events)
        before = desk.all()
        new = RunRow("new", "agent", agent="x", created=8.0)
        assert desk(desk.journal.fork("r", case.at, new)) == case.kept
        row = new.replace(parent="r", fork_seq=case.at, head=case.kept)
        assert desk.all("new") == (row, written(events[: case.kept], 0), [], None)
        epoch = desk(desk.journal.acquire("new"))[0].epoch
        assert (
            desk(desk.journal.append("new", case.kept, epoch, [intent(case.kept)])) == case.kept + 1
        )
        assert desk.all() == before

    def test_notes_follow_the_events_of_a_fork(self, desk: Desk) -> None:
        desk.begin()
        desk.write("r", 0, [step(0), intent(1), step(2, 1)])
        notes = [
            Event(1, "forked", 2.0, None, {"key": "r/a/1", "steps": 1}),
            Event(2, "in_doubt", 2.0, None, {"key": "r/a/1", "left": "cut"}),
        ]
        assert desk(desk.journal.fork("r", 1, RunRow("new"), notes)) == 3
        assert desk.all("new")[1] == written([step(0), *notes], 0)
        epoch = desk(desk.journal.acquire("new"))[0].epoch
        assert desk(desk.journal.append("new", 3, epoch, [step(3, 1)])) == 4

    def test_a_fork_needs_an_id_of_its_own(self, desk: Desk) -> None:
        desk.begin()
        desk.begin("new")
        desk.write("r", 0, [step(0)])
        before = desk.all("new")
        with pytest.raises(RunError, match="there is a run `new` already"):
            desk(desk.journal.fork("r", 1, RunRow("new")))
        assert desk.all("new") == before

    def test_whole_runs_come_into_being_with_all_that_they_hold(self, desk: Desk) -> None:
        read = family(desk)
        events = [step(0, result="x" * 40_000), intent(1), step(2, 1)]
        new = RunRow("new", "agent", "f" * 64, status="paused", parent="r", fork_seq=2, created=8.0)
        below = new.replace(run_id="new/a/0", parent="new", epoch=7, head=9)
        runs = [WholeRun(new, events, "r"), WholeRun(below, events[:1], "r/a/0")]
        desk(desk.journal.create_whole(runs, moves=moves(read)))
        messages = [InboxMessage(id, 1.0, {"from": "r"}) for id in ("one", "two")]
        assert desk.all("new") == (new.replace(head=3), written(events, 0), messages, None)
        assert desk.all("new/a/0")[:2] == (below.replace(head=1, epoch=0), written(events[:1], 0))
        assert [message.data["from"] for message in desk.all("new/a/0")[2]] == ["r/a/0"] * 2
        for row in read:
            to = row.run_id.replace("r", "new", 1)
            (now, events, _, _) = desk.all(row.run_id)
            assert now == row.replace(epoch=2, head=3, status="moved", moved_to=to)
            assert (events[-1].type, events[-1].data, events[-1].epoch) == ("moved", {"to": to}, 2)
            assert [message.msg_id for message in desk.all(row.run_id)[2]] == ["one", "two"]
            with pytest.raises(Fenced):
                desk(desk.journal.append(row.run_id, row.head, row.epoch, [step(2)]))
        assert desk.write("new", 3, [step(3, 2)]) == 4  # and it goes on
        assert desk(desk.journal.rows(parent="r")) == [desk.all("new")[0]]

    @pytest.mark.parametrize("case", BEFORE)
    def test_whole_runs_come_into_being_together_or_not_at_all(self, desk: Desk, case: str) -> None:
        read, (happens, error, says) = family(desk), BEFORE[case]
        happens(desk)
        before = desk(desk.journal.rows())
        runs = [WholeRun(RunRow(id), [step(0)], "") for id in ("new", "new/a/0")]
        with pytest.raises(error, match=says):
            desk(desk.journal.create_whole(runs, moves=moves(read)))
        assert desk(desk.journal.rows()) == before

    def test_one_run_follows_another_in_a_session(self, desk: Desk) -> None:
        """Unless it insists on coming after that one. One that was never begun has not come."""
        desk.begin()

        def follow(run_id: str, follows: str, session: str = "", created: float = 1e12) -> str:
            row = RunRow(run_id, follows=follows, session=session, parent="r", created=created)
            try:
                desk(desk.journal.create(row))
            except FollowedError as error:
                return error.successor
            return desk.all()[0].successor

        assert follow("lost", "next", created=0.0) == "lost"
        assert [follow("a", "next"), follow("b", "next"), follow("c", "attempt")] == ["a"] * 3
        assert follow("d", "next", "elsewhere") == "d"
        assert [follow("e", "attempt"), follow("f", "attempt after d")] == ["d", "f"]
        row, _, *_ = desk.all()
        assert desk(desk.journal.page(RunFilter(followed=True))).rows == [row]
        with pytest.raises(FollowedError):
            desk(desk.journal.create_whole([], moves=[Move(row, "new")]))
        for name, newest in (("f", "d"), ("a", "d"), ("d", "")):
            desk(desk.journal.remove([name]))
            assert desk.all()[0].successor == newest

    def test_removed_runs_are_gone_and_others_stay(self, desk: Desk) -> None:
        text = "x" * 40_000
        spec = desk(desk.journal.put_blob("the machine"))
        for run_id in ("r", "other", "third"):
            desk.begin(run_id)
            desk.write(run_id, 0, [step(0, result=text)])
            desk(desk.journal.send(run_id, InboxMessage("a", 1.0, {})))
        desk(desk.journal.fork("r", 1, RunRow("fork")))
        before = desk.all("other"), desk.all("fork")
        assert desk(desk.journal.remove(["r", "no such run", "third", "r"])) == 2
        assert desk(desk.journal.row("r")) is None
        with pytest.raises(UnknownRunError):
            desk(desk.journal.events("r"))
        assert (desk.all("other"), desk.all("fork")) == before
        assert desk(desk.journal.blob(spec)) == "the machine"
        # the id is free again, and nothing of the old run comes back with it
        desk.begin("r")
        assert desk.all()[1:] == ([], [], None)
        assert desk(desk.journal.send("r", InboxMessage("a", 1.0, {}))) is True

    def test_what_nobody_holds_any_more_is_forgotten_but_for_what_was_put(self, desk: Desk) -> None:
        text = "y" * 40_000
        desk.begin()
        desk.write("r", 0, [step(0, result=text)])
        desk(desk.journal.remove(["r"]))
        assert desk(desk.journal.blob(digest(text))) is None
        desk(desk.journal.put_blob(text))
        desk.begin()
        desk.write("r", 0, [step(0, result=text)])
        desk(desk.journal.remove(["r"]))
        assert desk(desk.journal.blob(digest(text))) == text
