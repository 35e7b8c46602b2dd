"""Limits across runs in every journal: what is reserved, settled, released and in doubt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chartloop.core.errors import Fenced
from chartloop.run.fleet import DAY, Doubt, FleetLimit, Per, Reservation, Reserved, What
from chartloop.run.journal import Event
from chartloop.testing.clock import ManualClock
from chartloop.testing.journal_suite.desk import Desk, step

MINUTE = 60.0
OF_MODEL = ("model:m",)


def limit(
    do: Desk, most: float, what: What = "cost", per: Per = "all", scope: str = "fleet"
) -> None:
    """A limit across runs."""
    do(do.journal.set_limit(FleetLimit(scope, what, per, most)))


def reserve(
    do: Desk, run_id: str = "r", key: str = "r/think/0", *, head: int = 0,
    scopes: Sequence[str] = ("fleet",), **amounts: float,
) -> Reserved:  # fmt: skip
    """Reserve in the run's present epoch."""
    row = do(do.journal.row(run_id))
    assert row is not None
    return do(do.journal.reserve(Reservation(run_id, row.epoch, head, key, scopes, amounts)))


def settle(do: Desk, key: str = "r/think/0", *, head: int | None = 0, **used: float) -> bool:
    """Settle a call of run `r`."""
    return do(do.journal.settle_call("r", key, used, head=head))


def counted(do: Desk, what: str = "cost") -> tuple[float, float]:
    """What is used and held of a limit."""
    (found,) = (one for one in do(do.journal.limits()) if one.what == what)
    return round(found.used, 6), round(found.held, 6)


def sent(key: str = "r/think/0", seq: int = 0) -> Event:
    """The intent of a call."""
    return Event(seq, "intent", 10.0, None, {"key": key, "state": "think"})


class FleetCases:
    """Limits across runs: a budget never overdrawn, and a rate never passed."""

    def test_a_new_limit_begins_with_what_is_used(self, desk: Desk, clock: ManualClock) -> None:
        do, journal = desk, desk.journal
        today = clock.now() // DAY * DAY
        for given in (
            FleetLimit("fleet", "cost", "all", 5.0, 2.0),
            FleetLimit("fleet", "tokens", "day", 900.0, 300.0, 0.0, today),
            FleetLimit("fleet", "requests", "day", 90.0, 30.0, 0.0, today - DAY),
        ):
            do(journal.set_limit(given))
        assert [one[:5] for one in do(journal.limits())] == [
            ("fleet", "cost", "all", 5.0, 2.0), ("fleet", "requests", "day", 90.0, 0.0),
            ("fleet", "tokens", "day", 900.0, 300.0),
        ]  # fmt: skip
        limit(do, 9.0)
        assert counted(do) == (2.0, 0.0)

    def test_limits_are_set_changed_and_removed(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        assert do(journal.limits()) == []
        limit(do, 5.0)
        limit(do, 600, "requests", "minute", "model:m")
        do.begin()
        assert reserve(do, cost=1.0) == Reserved()
        limit(do, 3.0)
        first, second = do(journal.limits())
        assert (first.scope, first.what, first.per, first.most) == ("fleet", "cost", "all", 3.0)
        assert first.held == 1.0
        assert first.left == 2.0
        assert second.scope == "model:m"
        assert do(journal.remove_limit("fleet", "cost", "all"))
        assert not do(journal.remove_limit("fleet", "cost", "all"))
        assert settle(do, cost=0.5)  # of a limit that is gone

    def test_a_call_holds_the_most_and_settles_what_it_used(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        assert reserve(do, cost=3.0) == Reserved()
        assert counted(do) == (0.0, 3.0)
        assert settle(do, cost=1.25)
        assert counted(do) == (1.25, 0.0)
        assert not settle(do, cost=1.25)

    def test_a_budget_waits_for_calls_in_flight_and_refuses_when_spent(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        assert reserve(do, cost=3.0) == Reserved()
        refused = reserve(do, key="r/think/1", cost=3.0)
        assert refused.by is not None
        assert refused.wait > 0
        assert settle(do, cost=2.5)
        refused = reserve(do, key="r/think/1", cost=3.0)
        assert refused.by is not None
        assert refused.wait == 0
        assert reserve(do, key="r/think/1", cost=2.5) == Reserved()

    def test_a_call_takes_from_every_limit_or_from_none(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        limit(do, 100, "tokens", "all", "session:s")
        do.begin()
        both = ("fleet", "session:s")
        assert reserve(do, scopes=both, cost=1.0, tokens=101).by is not None
        assert counted(do) == counted(do, "tokens") == (0.0, 0.0)
        assert reserve(do, cost=1.0, tokens=101) == Reserved()  # of no session
        assert reserve(do, key="k", scopes=both, cost=1.0, tokens=100) == Reserved()
        assert (counted(do), counted(do, "tokens")) == ((0.0, 2.0), (0.0, 100.0))

    @pytest.mark.parametrize("most", [1, 7, 60, 600])
    def test_no_minute_has_more_requests_than_allowed(
        self, desk: Desk, clock: ManualClock, most: int
    ) -> None:
        do, times = desk, list[float]()
        limit(do, most, "requests", "minute", "model:m")
        do.begin()
        begun, calls = clock.now(), most + most // 2 + 2
        while len(times) < calls:
            answer = reserve(do, key=f"k{len(times)}", scopes=("model:m",), requests=1)
            if answer.wait:
                clock.advance(answer.wait)
            else:
                times.append(clock.now())
        windows = [
            sum(at <= other < at + MINUTE for other in times[n:]) for n, at in enumerate(times)
        ]
        assert max(windows) <= most
        assert times[most - 1] - begun < MINUTE + 1
        assert clock.now() - begun > MINUTE * (calls - most // 60 - 2) / most

    def test_what_tokens_were_not_used_is_given_back(self, desk: Desk, clock: ManualClock) -> None:
        do = desk
        limit(do, 6000, "tokens", "minute", "model:m")
        do.begin()
        assert (
            reserve(do, tokens=1000, scopes=OF_MODEL) == Reserved()
        )  # above a sixtieth, with all its room
        wait = reserve(do, key="k", tokens=50, scopes=OF_MODEL).wait
        assert wait > 9
        assert settle(do, tokens=200)
        assert 0 < reserve(do, key="k", tokens=50, scopes=OF_MODEL).wait < wait - 7
        clock.advance(wait)
        assert reserve(do, key="k", tokens=50, scopes=OF_MODEL) == Reserved()

    @pytest.mark.parametrize("renewed", [False, True], ids=["day", "edition"])
    def test_a_reservation_belongs_to_its_day_and_edition(
        self, desk: Desk, clock: ManualClock, renewed: bool
    ) -> None:
        do = desk
        limit(do, 5.0, "cost", "day")
        do.begin()
        assert reserve(do, cost=3.0) == Reserved()
        assert settle(do, cost=3.0)
        assert reserve(do, key="k", cost=2.0) == Reserved()
        if renewed:
            do(do.journal.remove_limit("fleet", "cost", "day"))
            limit(do, 5.0, "cost", "day")
        else:
            clock.advance(DAY)
        assert counted(do) == (0.0, 0.0)
        assert reserve(do, key="next", cost=1.0) == Reserved()
        assert settle(do, "k", cost=4.0)
        assert counted(do) == (0.0, 1.0)

    def test_a_call_without_an_answer_is_in_doubt(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        assert reserve(do, cost=3.0) == Reserved()
        assert do(do.journal.settle_call("r", "r/think/0", None, head=0))
        assert counted(do) == (3.0, 0.0)
        assert do(do.journal.limits())[0].in_doubt == 3.0
        assert reserve(do, cost=1.0) == Reserved()  # the next call of the same intent
        assert settle(do, head=None, cost=0.5)
        assert counted(do) == (0.5, 1.0)

    def test_who_takes_a_run_up_settles_for_its_children(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        epoch = do.begin("r/think/0", parent="r")
        assert reserve(do, "r/think/0", cost=3.0) == Reserved()
        do(do.journal.acquire("r"))
        assert counted(do) == (0.0, 0.0)
        with pytest.raises(Fenced):
            do(do.journal.append("r/think/0", 0, epoch, [sent()]))

    def test_what_was_reserved_without_an_intent_is_released(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        assert reserve(do, cost=3.0) == Reserved()
        do(do.journal.acquire("r"))
        assert counted(do) == (0.0, 0.0)
        assert do(do.journal.doubts()) == []

    def test_a_call_in_doubt_is_spent_at_its_worst_until_somebody_says_otherwise(
        self, desk: Desk
    ) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        do.write("r", 0, [step(0)])
        assert reserve(do, head=1, cost=3.0) == Reserved()
        do.write("r", 1, [sent(seq=1)])
        do(do.journal.acquire("r"))
        assert counted(do) == (3.0, 0.0)
        assert do(do.journal.doubts()) == [Doubt("r", "r/think/0", {"cost": 3.0})]
        do(do.journal.acquire("r"))
        assert counted(do) == (3.0, 0.0)
        assert reserve(do, head=2, cost=1.0) == Reserved()  # the same call, made again
        assert settle(do, head=2, cost=1.0)
        assert counted(do) == (4.0, 0.0)
        assert settle(do, head=None, cost=0.25)
        assert counted(do) == (1.25, 0.0)
        assert do(do.journal.doubts()) == []

    def test_a_driver_that_was_replaced_reserves_nothing(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        epoch = do.begin()
        do(do.journal.acquire("r"))
        late = Reservation("r", epoch, 0, "k", ("fleet",), {"cost": 1.0})
        with pytest.raises(Fenced):
            do(do.journal.reserve(late))
        assert counted(do) == (0.0, 0.0)

    def test_a_removed_run_holds_nothing(self, desk: Desk) -> None:
        do = desk
        limit(do, 5.0)
        do.begin()
        assert reserve(do, cost=1.0) == Reserved()
        do.write("r", 0, [sent()])
        do(do.journal.remove(["r"]))
        assert counted(do) == (1.0, 0.0)
        assert do(do.journal.doubts()) == []


class SharedFleetCases:
    """Limits across runs when several processes reserve at the same moment."""

    def test_a_budget_is_never_overdrawn_and_nearly_used(self, another: Callable[[], Desk]) -> None:
        first, others = another(), [another() for _ in range(4)]
        limit(first, 1.0)
        for number in range(len(others)):
            first.begin(f"r{number}")

        def spend(number: int) -> float:
            do, run_id, spent = others[number], f"r{number}", 0.0
            for call in range(1000):
                answer = reserve(do, run_id, f"k{call}", cost=0.02)
                if answer.by is None:
                    do(do.journal.settle_call(run_id, f"k{call}", {"cost": 0.013}, head=0))
                    spent += 0.013
                elif not answer.wait:
                    break
            return spent

        with ThreadPoolExecutor(len(others)) as threads:
            spent = sum(threads.map(spend, range(len(others))))
        assert spent + 1e-9 > 0.98
        assert spent <= 1.0
        assert counted(first) == (round(spent, 6), 0.0)

    def test_several_processes_together_have_one_rate(
        self, another: Callable[[], Desk], clock: ManualClock
    ) -> None:
        first, others = another(), [another() for _ in range(4)]
        limit(first, 600, "requests", "minute", "model:m")
        for number in range(len(others)):
            first.begin(f"r{number}")
        taken: list[Any] = []

        def call(number: int) -> None:
            do, run_id = others[number], f"r{number}"
            for n in range(15):
                key = f"k{len(taken)}-{n}"
                if reserve(do, run_id, key, scopes=("model:m",), requests=1).by is None:
                    taken.append(clock.now())

        for _ in range(3):
            with ThreadPoolExecutor(len(others)) as threads:
                list(threads.map(call, range(len(others))))
            clock.advance(1.0)
        assert 10 + 2 * 9 <= len(taken) <= 10 + 2 * 10
