"""The journal's port, as it is watched: pages of runs, the tail of events, what changed."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable
from itertools import count
from typing import Any, NamedTuple

import pytest

from chartloop.core.errors import CursorError, CursorGoneError, RunError
from chartloop.run.journal import (
    Event,
    InboxMessage,
    Journal,
    RunRow,
    Update,
    WholeRun,
)
from chartloop.run.journal_pages import SORTS, RunCount, RunFilter, RunOrder, RunPage, Sort, Tail
from chartloop.run.journal_records import LISTED, OpenQuestion
from chartloop.testing.journal_suite.desk import Desk, intent, step, written

ASKS = OpenQuestion("7", "Ship «it»?", {"yes": {"note": "str"}, "no": {}}, "b", "gate", 99.5)


class Case(NamedTuple):
    """A filter, and the runs that fit, the newest first."""

    id: str
    filter: RunFilter
    found: str


def fill(desk: Desk) -> None:
    """Runs a to d and a child, begun one after another; a newest record each."""
    columns: list[tuple[str, dict[str, Any], Update]] = [
        ("a", {"agent": "x", "session": "s"}, Update("completed", "z", "completed")),
        ("b", {"agent": "x"}, Update("paused", "gate", question=ASKS, tokens=70, cost=0.25)),
        ("b/gate/1", {"parent": "b"}, Update("paused", "ask", question=ASKS.replace(due=None))),
        ("c", {"machine": "m2", "parent": "a"}, Update("error", "z", "steps_limit")),
        ("d", {"session": "s"}, Update("paused", "back-off", wake_at=5.0, tokens=0)),
    ]
    for number, (run_id, more, update) in enumerate(columns):
        desk.begin(run_id, **{"machine": "m1", "created": float(number), **more})
        desk.write(run_id, 0, [step(10 * number).replace(seq=0)], update=update)


def fill_list(desk: Desk) -> None:
    """Runs as a list shows them: with tasks, and of every use and length."""
    ended = Update("completed", "end-completed", "completed", 4, ending="done", cost=0.5, tokens=9)
    rows: list[tuple[str, float, str, float, Update]] = [
        ("ask", 1.0, "Where is my parcel?", 4.0, Update("paused", "ask", question=ASKS, cost=2.0)),
        ("big", 1.5, "A Parcel of parcels", 9.0, ended),
        (
            "cut",
            100.0,
            "Count",
            7.0,
            ended.replace(reason="steps_limit", ending="limited", steps=9),
        ),
        (
            "lost",
            101.0,
            "100% done",
            2.0,
            ended.replace(status="error", ending="failed", cost=None),
        ),
        ("run", 250.0, "Ride", 1.0, Update("running", "act", steps=5, tokens=70)),
    ]
    for run_id, created, task, lasted, update in rows:
        desk.begin(run_id, created=created, task=task)
        event = step(0).replace(at=created + lasted)
        desk.write(run_id, 0, [event], update=update)


def pages(desk: Desk, filter: RunFilter, limit: int, between: Callable[[], Any]) -> list[str]:
    """The ids on all pages; something happens between two of them."""
    found, cursor = list[str](), ""
    while True:
        page = desk(desk.journal.page(filter, cursor, limit))
        found += [row.run_id for row in page.rows]
        assert len(page.rows) == limit or not page.next
        if not (cursor := page.next):
            return found
        between()


NO_CURSORS = [
    "x",
    "W10",
    "WzEs",
    "é",
    "WzEuMCwxXQ==",
    "[1.0,null]",
    "bnVsbA",
    "W1tdLFtdXQ",
    "a" * 999,
]


# the tail ---------------------------------------------------------------------------------------
def told(tail: Tail) -> list[tuple[str, Event | None]]:
    """The events of a tail, with their runs."""
    return [(event.run_id, event.event) for event in tail.events]


class Gone(NamedTuple):
    """A cursor, made of the journal's id and its newest number, and what is said of it."""

    id: str
    cursor: str
    error: type[CursorError]
    says: str


# what changed -----------------------------------------------------------------------------------
async def _whole(journal: Journal) -> None:
    await journal.create_whole([WholeRun(RunRow("w"), [step(0)])])


WRITES: dict[str, Callable[[Desk], Any]] = {
    "create": lambda d: d(d.journal.create(RunRow("n"))),
    "acquire": lambda d: d(d.journal.acquire("a")),
    "append": lambda d: d.write("a", 1, [step(1)]),
    "update": lambda d: d.write("a", 1, [], update=Update("paused", "s")),
    "send": lambda d: d(d.journal.send("a", InboxMessage("m", 1.0, {}))),
    "fork": lambda d: d(d.journal.fork("a", 1, RunRow("f"))),
    "whole": lambda d: d(_whole(d.journal)),
    "remove": lambda d: d(d.journal.remove(["a"])),
}


FORGED = (
    "[1,2]", '["x","y"]', '[1,{"hex":"00"}]', '[{"hex":"00"},"a"]', '[Infinity,"a"]', '[NaN,"a"]',
    f'[{10**400},"a"]', f'[{2**64},"a"]', f'[{2**63},"a"]', '[1e300,"a"]', '[1,"a\\u0000"]',
    '[1,"\\ud83d"]', '["\\ud83d","a"]', '[-1,""]', '[true,"a"]', '[["a"],"a"]', '[{"hex":1},"a"]',
)  # fmt: skip
"""Marks of cursors that look like those of a page."""


class WatchedCases:
    """Pages of runs, the tail of events, what changed."""

    @pytest.mark.parametrize(
        "case",
        [
            Case("all-but-children", RunFilter(), "d c b a"),
            Case("children-too", RunFilter(children=True), "d c b/gate/1 b a"),
            Case("machine", RunFilter(machine="m2"), "c"),
            Case("status", RunFilter(status="paused"), "d b"),
            Case("reason", RunFilter(reason="steps_limit"), "c"),
            Case("no-reason-is-a-reason", RunFilter(reason=""), "d b"),
            Case("agent", RunFilter(agent="x"), "b a"),
            Case("session", RunFilter(session="s"), "d a"),
            Case("parent", RunFilter(parent="a"), "c"),
            Case("no-parent", RunFilter(parent=""), "d b a"),
            Case("children-of-one", RunFilter(parent="b", children=True), "b/gate/1"),
            Case("prefix", RunFilter(prefix="b", children=True), "b/gate/1 b"),
            Case("empty-prefix", RunFilter(prefix=""), "d c b a"),
            Case("waiting", RunFilter(waiting=True), "b"),
            Case("waiting-children-too", RunFilter(waiting=True, children=True), "b/gate/1 b"),
            Case("waiting-of-a-machine", RunFilter(waiting=True, machine="m2"), ""),
            Case("not-waiting", RunFilter(waiting=False), "d c a"),
            Case("begun-from", RunFilter(created_from=3.0), "d c"),
            Case("begun-before", RunFilter(created_to=3.0), "b a"),
            Case("begun-between", RunFilter(created_from=1.0, created_to=3.0), "b"),
            Case("nothing-between", RunFilter(created_from=3.0, created_to=3.0), ""),
            Case("active-from", RunFilter(updated_from=41.25), "d c"),
            Case("active-before", RunFilter(updated_to=41.25), "b a"),
            Case("several", RunFilter(agent="x", session="s", status="completed"), "a"),
            Case("none", RunFilter(status="completed", reason="error"), ""),
        ],
        ids=lambda case: case.id,
    )
    def test_a_page_has_the_runs_that_fit(self, desk: Desk, case: Case) -> None:
        fill(desk)
        page = desk(desk.journal.page(case.filter))
        assert [row.run_id for row in page.rows] == case.found.split()
        assert page.next == ""
        assert page.rows == [desk.all(run_id)[0] for run_id in case.found.split()]

    @pytest.mark.parametrize("by", SORTS)
    @pytest.mark.parametrize("ascending", [False, True], ids=["most-first", "least-first"])
    @pytest.mark.parametrize("limit", [1, 2, 50])
    def test_pages_in_every_order_have_each_run_once(
        self, desk: Desk, by: Sort, ascending: bool, limit: int
    ) -> None:
        fill_list(desk)
        order = RunOrder(by, ascending)
        rows, cursor = list[RunRow](), ""
        while True:
            page = desk(desk.journal.page(RunFilter(), cursor, limit, order=order))
            rows += page.rows
            if not (cursor := page.next):
                break
        assert rows == sorted(rows, key=order.place, reverse=not ascending)
        assert {row.run_id for row in rows} == {"ask", "big", "cut", "lost", "run"}

    @pytest.mark.parametrize(
        "case",
        [
            Case("task", RunFilter(search="PARCEL"), "big ask"),
            Case("id", RunFilter(search="Ut"), "cut"),
            Case("not-a-pattern", RunFilter(search="%"), "lost"),
            Case("nowhere", RunFilter(search="zzz"), ""),
            Case("ending", RunFilter(ending="limited"), "cut"),
            Case("not-ended", RunFilter(ending=""), "run ask"),
            Case("ended-of-a-search", RunFilter(ending="done", search="parcel"), "big"),
        ],
        ids=lambda case: case.id,
    )
    def test_a_list_is_searched(self, desk: Desk, case: Case) -> None:
        fill_list(desk)
        page = desk(desk.journal.page(case.filter))
        assert [row.run_id for row in page.rows] == case.found.split()

    def test_runs_are_counted_by_time_and_phase(self, desk: Desk) -> None:
        fill_list(desk)
        counts = desk(desk.journal.tally(RunFilter(created_from=0.0, created_to=200.0), 100.0))
        assert counts == [
            RunCount(0, "done", 1), RunCount(0, "waiting", 1),
            RunCount(1, "failed", 1), RunCount(1, "limited", 1),
        ]  # fmt: skip
        later = desk(desk.journal.tally(RunFilter(created_from=150.0, search="r"), 100.0))
        assert later == [RunCount(1, "running", 1)]

    def test_a_row_keeps_the_beginning_of_long_texts(self, desk: Desk) -> None:
        desk.begin("r", task="two\nlines \0 " + "x" * 999)
        desk.write("r", 0, [step(0)], update=Update("error", "z", "error", message="y" * 999))
        row = desk.all()[0]
        assert row.task == f"two lines \N{REPLACEMENT CHARACTER} {'x' * 287}…"
        assert (len(row.task), row.message) == (LISTED, "y" * (LISTED - 1) + "…")

    def test_a_row_holds_what_the_run_asks_and_has_used(self, desk: Desk) -> None:
        fill(desk)
        row = desk.all("b")[0]
        assert (row.question, row.tokens, row.cost) == (ASKS, 70, 0.25)
        desk.write("b", 1, [step(1)], update=Update("running", "act", tokens=90))
        row = desk.all("b")[0]
        assert (row.question, row.tokens, row.cost) == (None, 90, None)
        assert desk(desk.journal.page(RunFilter(waiting=True))) == RunPage([])
        desk(desk.journal.create(RunRow("e", question=ASKS, tokens=1, cost=0.0)))
        assert desk.all("e")[0] == RunRow("e", question=ASKS, tokens=1, cost=0.0)
        desk(desk.journal.fork("b", 1, RunRow("f", question=ASKS)))
        assert desk.all("f")[0].question == ASKS

    @pytest.mark.parametrize("limit", [1, 2, 3, 4, 9])
    def test_pages_hold_each_run_once_while_others_come_and_go(
        self, desk: Desk, limit: int
    ) -> None:
        created = {"a": 1.0, "b": 2.0, "c": 2.0, "B": 2.0, "d": 3.0, "e": 0.5, "é": 2.0}
        for run_id, at in created.items():
            desk.begin(run_id, created=at)
        there = ["d", "é", "c", "b", "B", "a", "e"]
        assert pages(desk, RunFilter(), limit, lambda: None) == there

        new = count()

        def happens() -> None:
            desk.begin(f"new{next(new)}", created=10.0)
            desk(desk.journal.remove(["d"]))  # was on the first page

        assert pages(desk, RunFilter(), limit, happens) == there

    @pytest.mark.parametrize("cursor", NO_CURSORS)
    def test_a_cursor_that_no_page_gave_is_refused(self, desk: Desk, cursor: str) -> None:
        with pytest.raises(CursorError, match="is not a cursor of a list") as refused:
            desk(desk.journal.page(RunFilter(), cursor))
        assert "`next` of the page before" in refused.value.hint
        assert len(str(refused.value)) < 300

    @pytest.mark.parametrize("by", SORTS)
    @pytest.mark.parametrize("marks", FORGED)
    def test_a_forged_cursor_is_refused_or_of_a_page(
        self, desk: Desk, marks: str, by: Sort
    ) -> None:
        for number in range(3):
            desk.begin(f"r{number}", created=float(number), cost=1.0, tokens=number)
        cursor = urlsafe_b64encode(marks.encode()).decode().rstrip("=")
        for ascending in (False, True):
            try:
                page = desk(desk.journal.page(RunFilter(), cursor, order=RunOrder(by, ascending)))
            except CursorError:
                continue
            assert len(page.rows) <= 3

    @pytest.mark.parametrize("limit", [0, -1, True, "5"])
    def test_a_page_of_no_size_is_refused(self, desk: Desk, limit: Any) -> None:
        with pytest.raises(RunError, match="a page cannot have"):
            desk(desk.journal.page(RunFilter(), "", limit))
        if limit != 0:
            with pytest.raises(RunError, match="a page cannot have"):
                desk(desk.journal.tail("", limit))

    def test_the_tail_has_the_events_of_all_runs_as_they_were_committed(self, desk: Desk) -> None:
        empty = desk(desk.journal.tail())
        assert (empty.events, empty.cursor) == ([], empty.newest)
        desk.begin("a")
        desk.begin("b")
        desk.write("b", 0, [step(0)])
        desk.write("a", 0, [intent(0), step(1, 0)])
        desk.write("b", 1, [step(1)])
        (b0, b1), (a0, a1) = desk.all("b")[1], desk.all("a")[1]
        whole = desk(desk.journal.tail())
        assert told(whole) == [("b", b0), ("a", a0), ("a", a1), ("b", b1)]
        assert whole.cursor == whole.newest == whole.events[-1].cursor
        assert desk(desk.journal.tail(empty.cursor)) == whole
        for number, event in enumerate(whole.events):
            rest = desk(desk.journal.tail(event.cursor))
            assert rest.events == whole.events[number + 1 :]
            assert rest.cursor == whole.newest
        part = desk(desk.journal.tail(whole.events[0].cursor, 2))
        assert part.events == whole.events[1:3]
        assert (part.cursor, part.newest) == (whole.events[2].cursor, whole.newest)
        nothing = desk(desk.journal.tail(part.cursor, 0))
        assert (nothing.events, nothing.cursor, nothing.newest) == ([], part.cursor, whole.newest)

    def test_a_fork_is_a_new_run_in_the_tail(self, desk: Desk) -> None:
        desk.begin("a")
        desk.write("a", 0, [step(0), step(1)])
        before = desk(desk.journal.tail())
        desk(desk.journal.fork("a", 1, RunRow("f")))
        after = desk(desk.journal.tail(before.cursor))
        assert told(after) == [("f", written([step(0)], 0)[0])]

    @pytest.mark.parametrize("gone", ["a", "b", "a b"])
    def test_no_number_is_given_twice_when_runs_are_removed(self, desk: Desk, gone: str) -> None:
        """Else whoever goes on from a cursor would miss what takes the places of removed events."""
        for run_id in ("a", "b"):
            desk.begin(run_id)
            desk.write(run_id, 0, [step(0), step(1)])
        seen = desk(desk.journal.tail())
        desk(desk.journal.remove(gone.split()))
        desk(desk.journal.remove(["no such run"]))
        assert desk(desk.journal.tail(seen.cursor)).events == []
        assert desk(desk.journal.tail()).newest == seen.newest
        desk.begin("a" if "a" in gone else "c")
        run_id = "a" if "a" in gone else "c"
        desk.write(run_id, 0, [step(0)])
        after = desk(desk.journal.tail(seen.cursor))
        assert told(after) == [(run_id, desk.all(run_id)[1][0])]
        assert after.cursor not in {event.cursor for event in seen.events}
        left = [run_id for run_id in "ab" if run_id not in gone]
        before = [name for name, _ in told(desk(desk.journal.tail())) if name in left]
        assert before == [name for name in left for _ in range(2)]

    @pytest.mark.parametrize(
        "case",
        [
            Gone("future", "{id}-{n}0", CursorGoneError, "beyond the newest event"),
            Gone("far-future", "{id}-{n}" + "0" * 40, CursorGoneError, "beyond the newest event"),
            Gone("another-journal", "0a0a0a0a-{n}", CursorGoneError, "another journal"),
            Gone("no-number", "{id}-", CursorError, "not a cursor of a journal"),
            Gone("no-journal", "-{n}", CursorError, "not a cursor of a journal"),
            Gone("a-word", "last", CursorError, "not a cursor of a journal"),
            Gone("negative", "{id}--1", CursorError, "not a cursor of a journal"),
            Gone("other-digits", "{id}-²", CursorError, "not a cursor of a journal"),
            Gone("of-runs", "WzEuMCwicjMiXQ", CursorError, "not a cursor of a journal"),
        ],
        ids=lambda case: case.id,
    )
    def test_a_cursor_of_events_that_leads_nowhere_is_refused(self, desk: Desk, case: Gone) -> None:
        desk.begin("a")
        desk.write("a", 0, [step(0), step(1)])
        whole = desk(desk.journal.tail())
        id, _, number = whole.newest.partition("-")
        with pytest.raises(CursorError, match=case.says) as refused:
            desk(desk.journal.tail(case.cursor.format(id=id, n=number)))
        assert type(refused.value) is case.error
        if isinstance(refused.value, CursorGoneError):
            assert refused.value.newest == whole.newest
            assert refused.value.newest in refused.value.hint
            assert desk(desk.journal.tail(refused.value.oldest)) == whole
            assert desk(desk.journal.tail(refused.value.newest)).events == []

    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_what_is_written_is_a_change(self, desk: Desk, write: Callable[[Desk], Any]) -> None:
        desk.begin("a")
        desk.write("a", 0, [step(0)])
        token = desk(desk.journal.changed())
        assert token
        assert desk(desk.journal.changed(token)) is None
        write(desk)
        after = desk(desk.journal.changed(token))
        assert after not in (None, token)
        assert desk(desk.journal.changed(after)) is None

    def test_reading_is_no_change(self, desk: Desk) -> None:
        fill(desk)
        token = desk(desk.journal.changed())
        assert token is not None
        desk(desk.journal.page(RunFilter(waiting=True)))
        desk(desk.journal.tail())
        desk.all("a")
        assert desk(desk.journal.changed(token)) is None
        assert desk(desk.journal.changed("any other text")) == token
