"""Requests in every journal: kept by key, one open at a time, gone with their run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chartloop.core.errors import MovedError, StatusError
from chartloop.run.journal import Move, RunRow
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.requests import StoredRequest
from chartloop.testing.journal_suite.desk import Desk


def asked(key: str, run_id: str = "r", *, digest: str = "d", open: bool = True) -> StoredRequest:
    """A request to drive a run."""
    return StoredRequest(key, run_id, "run", digest, 1.0, {"until": ""}, None if open else {})


ELSEWHERE = Driver("other", "chartloop serve", Process("another-host", 1, "x", "y"))


HAPPENS: dict[str, tuple[Callable[[Desk], Any], bool]] = {
    "nothing": (lambda _: None, True),
    "driven-by-another": (lambda d: d(d.journal.acquire("r", ELSEWHERE)), False),
    "driven-and-left-by-another": (
        lambda d: (
            d(d.journal.acquire("r", ELSEWHERE)), d(d.journal.release("r", ELSEWHERE))
        ), False,
    ),
    "a-child-driven-by-another": (lambda d: d(d.journal.acquire("r/a/1", ELSEWHERE)), True),
    "settled-before": (lambda d: d(d.journal.settle_request("k", {"status": "first"}, 1)), False),
    "removed": (lambda d: d(d.journal.remove(["r"])), False),
}  # fmt: skip


"""What happens after this driver had the run in epoch 1, and whether it may settle the order."""


class RequestCases:
    """Requests: kept by key, one open at a time, gone with their run."""

    def test_a_key_that_is_kept_gives_what_was_asked_first(self, desk: Desk) -> None:
        first, again = asked("k"), asked("k", "other", digest="e")
        assert desk(desk.journal.place_request(first)) == first
        assert desk(desk.journal.place_request(again)) == first
        assert desk(desk.journal.requests()) == [first]

    def test_a_run_has_one_open_request(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        do(journal.place_request(asked("a")))
        with pytest.raises(StatusError, match="`run` was asked before"):
            do(journal.place_request(asked("b")))
        do(journal.place_request(asked("c", "another")))
        done = asked("d", open=False)
        assert do(journal.place_request(done)) == done  # nobody is to drive for it
        assert do(journal.settle_request("a", {"status": "completed"}, 0))
        assert not do(
            journal.settle_request("a", {"status": "later"}, 0)
        )  # the first outcome stands
        do(journal.place_request(asked("b")))
        assert [one.key for one in do(journal.requests(open_only=True))] == ["b", "c"]
        assert [one.key for one in do(journal.requests("r", limit=2))] == ["b", "d"]
        (a,) = do(journal.requests(key="a"))
        assert a.outcome == {"status": "completed"}

    def test_a_key_that_was_withdrawn_may_be_used_again(self, desk: Desk) -> None:
        desk(desk.journal.place_request(asked("a")))
        desk(desk.journal.withdraw_request("a"))
        other = asked("a", digest="e")
        assert desk(desk.journal.place_request(other)) == other

    def test_a_claim_is_settled_and_withdrawn_by_its_own_outcome(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        mine, other = {"by": "me", "until": 0.1 + 0.2}, {"by": "another"}
        do(journal.place_request(asked("a")._replace(outcome=mine)))
        assert not do(journal.settle_request("a", {"made": "x"}, before=other))
        do(journal.withdraw_request("a", before=other))
        assert [one.outcome for one in do(journal.requests())] == [mine]
        assert do(journal.settle_request("a", other, before=mine))
        do(journal.withdraw_request("a", before=mine))
        assert [one.outcome for one in do(journal.requests())] == [other]
        do(journal.withdraw_request("a", before=other))
        assert do(journal.requests()) == []

    def test_requests_go_with_their_run(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        for run_id in ("r", "r/a/0", "s"):
            do(journal.create(RunRow(run_id)))
            do(journal.place_request(asked(f"of-{run_id}", run_id)))
        do(journal.remove(["r"]))
        assert [one.key for one in do(journal.requests())] == ["of-s"]

    @pytest.mark.parametrize("case", HAPPENS)
    def test_only_the_last_driver_of_a_run_settles_its_order(self, desk: Desk, case: str) -> None:
        happens, settles = HAPPENS[case]
        do, journal = desk, desk.journal
        for run_id in ("r", "r/a/1"):
            do(journal.create(RunRow(run_id)))
        do(journal.place_request(asked("k")))
        row, _ = do(journal.acquire("r"))
        happens(desk)
        before = do(journal.requests())
        assert do(journal.settle_request("k", {"status": "mine"}, row.epoch)) is settles
        if not settles:
            assert do(journal.requests()) == before

    def test_a_moved_run_gets_no_open_request(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        do(journal.create(RunRow("r")))
        do(journal.place_request(asked("a")))
        row, _ = do(journal.acquire("r"))
        do(journal.create_whole([], moves=[Move(row, "new")]))
        with pytest.raises(MovedError, match="run `r` continues as run `new`"):
            do(journal.place_request(asked("b")))
        assert (
            do(journal.place_request(asked("a"))).key == "a"
        )  # a repetition is answered as before
        assert do(journal.place_request(asked("c", open=False))).key == "c"
        assert not do(journal.settle_request("a", {}, row.epoch))
        assert do(journal.settle_request("a", {}, row.epoch + 1))
