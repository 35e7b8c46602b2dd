"""The schedule in every journal: what makes a run due, and what becomes of a claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from chartloop.run.journal import InboxMessage, Move, RunRow, Update
from chartloop.run.journal_pages import RunFilter
from chartloop.run.journal_records import OpenQuestion
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.schedule import LAPSES, STRAY, Activation, Resting, WorkerRow
from chartloop.run.tenants import covers
from chartloop.testing.clock import ManualClock
from chartloop.testing.journal_suite.desk import Desk, intent, step
from chartloop.testing.journal_suite.requests import asked

FAR = Process("another-host", 1, "x", "y")
ONE, TWO = (WorkerRow(name, "chartloop worker", FAR, 4) for name in ("one", "two"))
MACHINE, OTHER = "machine a", "machine b"


def claim(
    do: Desk, worker: WorkerRow = ONE, limit: int = 9, *, alone: bool = False
) -> list[Activation]:
    """Claim what is due, as a worker that is listed."""
    do(do.journal.keep(worker, ttl=30.0))
    claimed = do(do.journal.claim(worker.id, limit, {}, alone=alone)).runs
    assert {run.alone for run in claimed} <= {alone}
    return claimed


def lapse(do: Desk, clock: ManualClock, *run_ids: str, alone: bool = False) -> None:
    """Let the only worker die that holds these runs."""
    assert {*runs_of(claim(do, alone=alone))} == {*run_ids}
    clock.advance(31.0)
    assert do(do.journal.sweep()) == len(run_ids)


def runs_of(claimed: list[Activation]) -> list[str]:
    """The ids of claimed runs."""
    return [one.request.run_id for one in claimed]


def order(do: Desk, *run_ids: str, needs: str = "", at: float = 1.0, **columns: Any) -> None:
    """Runs with an open request each, which are due."""
    for run_id in run_ids:
        do.begin(run_id, **columns)
        do(do.journal.place_request(asked(f"of-{run_id}", run_id)._replace(needs=needs, at=at)))


def rest(do: Desk, worker: WorkerRow = ONE, due: float | None = None) -> None:
    """Claim what is due and hand it back, as runs that wait."""
    for run in claim(do, worker):
        do(do.journal.hand_back(worker.id, run, due))


def message(msg_id: str = "m") -> InboxMessage:
    """A message to a run."""
    return InboxMessage(msg_id, 2.0, {"kind": "pause"})


def check_parked(do: Desk, died: tuple[float, ...] | None) -> None:
    """What rows, lists and counts say of the only run of a journal."""
    row, phase = do(do.journal.row("r")), "idle" if died is None else "parked"
    assert row is not None
    assert (row.parked, row.phase().name) == (died, phase)
    for parked in (False, True):
        wanted, fits = RunFilter(parked=parked), parked is (died is not None)
        assert do(do.journal.page(wanted)).rows == [row] * fits
        counted = do(do.journal.tally(wanted, 1e12))
        assert [(one.phase, one.runs) for one in counted] == [(phase, 1)] * fits


CAUSES: dict[str, Callable[[Desk], Any]] = {
    "a-message": lambda do: do(do.journal.send("r", message())),
    "a-message-to-a-child": lambda do: do(do.journal.send("r/a/1", message())),
    "another-driver-leaves-it": lambda do: do(do.journal.release("r", Driver("t"))),
    "it-moves": lambda do: do(
        do.journal.create_whole([], moves=[Move(do(do.journal.acquire("r"))[0], "new")])
    ),
    "somebody-says-so": lambda do: do(do.journal.enqueue("r")),
}
"""What makes a run due that rests."""


class ScheduleCases:
    """The schedule: a run is due once for all its causes, and one worker claims it."""

    def test_what_is_due_longest_is_claimed_first_and_once(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        for at, run_id in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
            do.begin(run_id)
            do(journal.place_request(asked(run_id, run_id)._replace(at=clock.now() + at)))
        assert claim(do) == []
        clock.advance(9.0)
        assert runs_of(claim(do, ONE, 2)) == ["a", "b"]
        assert runs_of(claim(do, TWO, 2)) == ["c"]
        assert claim(do, TWO) == []
        backlog = do(journal.backlog())
        assert (backlog.due, backlog.held, backlog.resting) == (0, 3, 0)
        assert do(journal.depth())[:4] == (0, 0.0, 3, 0)
        assert {worker.id for worker in backlog.workers} == {"one", "two"}
        assert [held[:2] for held in backlog.holds] == [("one", "a"), ("one", "b"), ("two", "c")]
        assert {held.since for held in backlog.holds} == {clock.now()}
        assert {worker.until - clock.now() for worker in backlog.workers} == {30.0}

    def test_a_higher_priority_is_claimed_first_whatever_made_it_due(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        for priority in (9, 5, 1):
            order(do, f"p{priority}", priority=priority)
        expected = ["p1", "p5", "p9"]
        claimed = claim(do)
        assert runs_of(claimed) == expected
        for run in claimed:
            do(journal.hand_back("one", run, None))
        for run_id in ("p9", "p5", "p1"):
            do(journal.send(run_id, message()))
        claimed = claim(do)
        assert runs_of(claimed) == expected
        for run in claimed[::-1]:
            do(journal.hand_back("one", run, clock.now() + 5.0))
        clock.advance(5.0)
        assert runs_of(claim(do)) == expected
        clock.advance(31.0)
        do(journal.sweep())
        assert runs_of(claim(do, TWO, alone=True)) == expected

    @pytest.mark.parametrize("other", ["acme:one", "single"])
    def test_a_submitter_with_many_runs_keeps_nobody_waiting(self, desk: Desk, other: str) -> None:
        do = desk
        order(do, *(f"many{number:02}" for number in range(30)), session="many")
        first = claim(do, limit=3)
        assert runs_of(first) == ["many00", "many01", "many02"]
        order(do, other, session="many" if other == "acme:one" else "s")  # another tenant's session
        order(do, "low", session="low", priority=6)
        order(do, "acme:two", session="many")
        second = runs_of(claim(do, TWO, 4))
        assert {other, "acme:two"} <= {*second}
        assert len([run_id for run_id in second if run_id.startswith("many")]) >= 1

    @pytest.mark.parametrize("seed", range(4))
    def test_submitters_take_turns(self, desk: Desk, clock: ManualClock, seed: int) -> None:
        """While a submitter's next run waits, no other one is served more than twice."""
        do, random = desk, Random(seed)  # noqa: S311  a plan, not a secret
        waiting: dict[str, list[str]] = {}
        passed: dict[str, Counter[str]] = {}
        held: list[Activation] = []
        for number in range(40):
            clock.advance(0.01)
            share = random.choice("aaaab")  # `a` submits four times as much as `b`
            for n in range(random.choice((0, 1, 4))):
                order(do, run_id := f"{share}{number}-{n}", session=share, at=clock.now())
                waiting.setdefault(share, []).append(run_id)
            if held and random.random() < 0.5:
                do(do.journal.hand_back("one", run := held.pop(0), clock.now()))
                waiting.setdefault(run.request.run_id[0], []).append(run.request.run_id)
            for run in claim(do, limit=random.choice((0, 1, 2))):
                held.append(run)
                served = run.request.run_id[0]
                waiting[served].remove(run.request.run_id)
                passed[served] = Counter()
                for share in waiting.keys() - {served}:
                    passed.setdefault(share, Counter())
                    passed[share][served] += bool(waiting[share])
                    assert passed[share][served] <= 2
        assert len({run.request.run_id[0] for run in held}) == 2

    def test_the_depth_counts_what_is_due_held_and_open(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        for run_id in "abc":
            order(do, run_id)
        claim(do, ONE, 1)
        clock.advance(4.0)
        depth = do(journal.depth())
        assert (depth.due, depth.held, depth.parked) == (2, 1, 0)
        assert depth.waited >= 4.0
        row = do(journal.row("a"))
        assert row is not None
        assert do(journal.settle_request("of-a", {}, row.epoch))
        assert do(journal.depth())[:4] == (2, depth.waited, 0, 0)
        assert do(journal.depth()).tables == depth.tables

    def test_the_depth_of_a_tenant_counts_its_runs_alone(self, desk: Desk) -> None:
        for run_id in ("a", "a/call:b", "acme:a", "acme:b", "beta:a"):
            order(desk, run_id)
        claim(desk, ONE, 5)
        held = {n: desk(desk.journal.depth(n)).held for n in ("", ":", "acme:", "beta:", "b:")}
        assert held == {"": 5, ":": 2, "acme:": 2, "beta:": 1, "b:": 0}

    def test_a_claim_carries_the_request(self, desk: Desk) -> None:
        order(desk, "r")
        (run,) = claim(desk)
        assert [run.request] == desk(desk.journal.requests("r"))

    @pytest.mark.parametrize("cause", CAUSES)
    def test_a_run_that_rests_is_due_when_something_happens_to_it(
        self, desk: Desk, cause: str
    ) -> None:
        do = desk
        order(do, "r")
        do.begin("r/a/1")
        order(do, "elsewhere")
        rest(do)
        backlog = do(do.journal.backlog())
        assert (backlog.due, backlog.oldest, backlog.resting) == (0, None, 2)
        assert claim(do) == []
        CAUSES[cause](do)
        assert do(do.journal.backlog()).due == 1
        assert runs_of(claim(do)) == ["r"]

    def test_two_causes_are_one_activation(self, desk: Desk) -> None:
        order(desk, "r")
        rest(desk)
        for number in range(3):
            desk(desk.journal.send("r", message(f"m{number}")))
        (run,) = claim(desk)
        desk(desk.journal.hand_back("one", run, None))
        assert claim(desk) == []

    def test_a_cause_during_a_claim_is_not_lost(self, desk: Desk) -> None:
        order(desk, "r")
        (run,) = claim(desk)
        desk(desk.journal.send("r", message()))
        assert claim(desk, TWO) == []  # not while the first has it
        desk(desk.journal.hand_back("one", run, None))
        assert runs_of(claim(desk, TWO)) == ["r"]

    def test_its_own_driver_leaves_a_claimed_run_without_waking_it(self, desk: Desk) -> None:
        do, driver = desk, Driver("mine", "chartloop worker", FAR)
        order(do, "r")
        (run,) = claim(do)
        do(do.journal.acquire("r", driver))
        do(do.journal.release("r", driver))
        do(do.journal.hand_back("one", run, None))
        assert claim(do) == []

    def test_a_wait_is_due_at_its_time(self, desk: Desk, clock: ManualClock) -> None:
        order(desk, "r")
        due = clock.now() + 60.0
        rest(desk, due=due)
        claimed = desk(desk.journal.claim("one", 9, {}))
        assert (claimed.runs, claimed.following) == ([], due)
        assert desk(desk.journal.resting(9)) == [("r", due, "")]
        clock.advance(60.0)
        assert desk(desk.journal.resting(9)) == []
        assert runs_of(claim(desk)) == ["r"]

    def test_what_rests_is_listed_by_its_time(self, desk: Desk, clock: ManualClock) -> None:
        now = clock.now()
        order(desk, "late", needs="tools", at=now + 90)
        order(desk, "soon", at=now + 30)
        order(desk, "due", "held", "settled", at=now)
        order(desk, "asks", status="paused")
        claim(desk, TWO, limit=4)
        for key, due in (("asks", None), ("due", now)):
            (request,) = desk(desk.journal.requests(key=f"of-{key}"))
            desk(desk.journal.hand_back(TWO.id, Activation(request, 0), due))
        desk(desk.journal.settle_request("of-settled", {}))
        resting = [Resting("soon", now + 30, ""), Resting("late", now + 90, "tools")]
        assert desk(desk.journal.resting(9)) == resting
        assert desk(desk.journal.resting(1)) == resting[:1]

    def test_a_settled_withdrawn_or_removed_request_is_not_due(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        order(do, "settled", "withdrawn", "removed")
        (first, *_) = claim(do, limit=1)
        assert do(journal.settle_request("of-settled", {}, 1))
        do(journal.withdraw_request("of-withdrawn"))
        do(journal.remove(["removed"]))
        do(journal.hand_back("one", first, None))
        assert not do(journal.enqueue("settled"))
        assert claim(do) == []
        backlog = do(journal.backlog())
        assert (backlog.due, backlog.held, backlog.resting) == (0, 0, 0)

    def test_a_worker_claims_only_what_it_can_drive(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        order(do, "a", needs=MACHINE)
        order(do, "b", needs=OTHER)
        do(journal.keep(ONE._replace(lacks={OTHER: "no tool `x`"})))
        first = do(journal.claim("one", 9, {}))
        assert (first.runs, first.unjudged) == ([], {MACHINE: "a", OTHER: "b"})
        then = do(journal.claim("one", 9, {MACHINE: True, OTHER: False}))
        assert (runs_of(then.runs), then.unjudged) == (["a"], {})
        backlog = do(journal.backlog())
        assert (backlog.due, backlog.needs) == (1, {OTHER: 1})
        assert backlog.workers[0].lacks == {OTHER: "no tool `x`"}
        assert runs_of(do(journal.claim("two", 9, {OTHER: True})).runs) == ["b"]

    def test_living_runs_are_counted_by_version_and_by_where_they_are(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        row = RunRow("asks", "a", "h", status="running")
        of: dict[str, Any] = {"machine": "a", "machine_hash": "h", "status": "running"}
        order(do, "held", needs=MACHINE, **of)
        do(journal.claim("one", 9, {MACHINE: True}))
        order(do, "t:r1", "t:r2", needs=MACHINE, at=2.0, **of)
        order(do, "later", at=clock.now() + 60.0, **of)
        for new in (
            row.replace(status="paused", question=OpenQuestion("1")),
            RunRow("old", "a", "g", priority=9, wake_at=9e9, status="paused"),
            row.replace(run_id="held/child/1"), row.replace(run_id="ended", ending="done"),
            row.replace(run_id="moved", status="moved"),
        ):  # fmt: skip
            do(journal.create(new))
        found = do(journal.living())
        counts = Counter[tuple[object, ...]]()
        for each in found:
            counts[(*each[:6], each.phase.name, each.due)] += each.runs
        assert counts == {
            ("", "a", "g", "", 9, "", "sleeping", None): 1,
            ("", "a", "h", "", 5, "", "waiting", None): 1,
            ("", "a", "h", "", 5, "rests", "queued", clock.now() + 60.0): 1,
            ("", "a", "h", MACHINE, 5, "held", "running", 1.0): 1,
            ("t", "a", "h", MACHINE, 5, "due", "queued", 2.0): 2,
        }
        for name in ("t:", ":"):
            assert do(journal.living(name)) == [one for one in found if covers(name, one.run_id)]

    def test_the_runs_of_a_dead_worker_are_due_again(self, desk: Desk, clock: ManualClock) -> None:
        do, journal = desk, desk.journal
        order(do, "r", "s")
        (run,) = claim(do, ONE, 1)
        clock.advance(20.0)
        claim(do, TWO, 1)
        assert do(journal.sweep()) == 0
        clock.advance(20.0)  # `one` was kept for 30 s
        assert do(journal.sweep()) == 1
        assert [worker.id for worker in do(journal.backlog()).workers] == ["two"]
        assert runs_of(claim(do, TWO, alone=True)) == ["r"]
        do(journal.hand_back("one", run, None))  # it lives after all, and has nothing to give
        assert do(journal.backlog()).held == 2

    def test_a_worker_that_left_holds_nothing(self, desk: Desk) -> None:
        order(desk, "r")
        claim(desk)
        desk(desk.journal.keep(ONE, ttl=0))
        assert desk(desk.journal.sweep()) == 1
        assert runs_of(claim(desk, TWO, alone=True)) == ["r"]

    def test_what_has_lapsed_is_claimed_alone_and_nothing_else_is(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        order(do, "a", "b")
        lapse(do, clock, "a", "b")
        order(do, "new", needs=MACHINE)
        assert claim(do) == []
        given = do(journal.claim("one", 9, {MACHINE: True}))
        assert (runs_of(given.runs), given.lapsed) == (["new"], 2)
        (*both,) = claim(do, alone=True)
        for run in both:
            do(journal.hand_back("one", run, 0.0))  # at once: its worker stops
        assert do(journal.claim("one", 9, {})).lapsed == 2
        assert runs_of(claim(do, limit=1, alone=True)) == ["a"]
        assert claim(do, TWO) == []
        assert runs_of(claim(do, TWO, alone=True)) == ["b"]
        assert not do(journal.claim("two", 9, {})).lapsed
        assert do(journal.backlog()).held == 3

    @pytest.mark.parametrize("can", [{}, {MACHINE: False}, {MACHINE: True}])
    def test_a_worker_drives_alone_only_what_it_can_drive(
        self, desk: Desk, clock: ManualClock, can: dict[str, bool]
    ) -> None:
        do, journal = desk, desk.journal
        order(do, "r", needs=MACHINE)
        do(journal.keep(ONE, ttl=30.0))
        do(journal.claim("one", 9, {MACHINE: True}))
        clock.advance(31.0)
        do(journal.sweep())
        able, unjudged = can.get(MACHINE, False), {} if can else {MACHINE: "r"}
        found = do(journal.claim("two", 9, can))
        assert (found.runs, found.lapsed, found.unjudged) == ([], able, unjudged)
        found = do(journal.claim("two", 9, can, alone=True))
        assert (runs_of(found.runs), found.lapsed) == (["r"] if able else [], False)
        assert found.unjudged == unjudged

    @pytest.mark.parametrize("cause", CAUSES)
    def test_whatever_makes_a_run_due_that_has_lapsed_it_is_claimed_alone(
        self, desk: Desk, clock: ManualClock, cause: str
    ) -> None:
        do = desk
        order(do, "r")
        do.begin("r/a/1")
        lapse(do, clock, "r")
        (run,) = claim(do, alone=True)
        do(do.journal.hand_back("one", run, None))
        assert claim(do, alone=True) == []
        CAUSES[cause](do)
        assert claim(do) == []
        assert runs_of(claim(do, alone=True)) == ["r"]

    def test_a_run_that_lapsed_waits_for_its_time(self, desk: Desk, clock: ManualClock) -> None:
        do = desk
        order(do, "r")
        lapse(do, clock, "r")
        (run,) = claim(do, alone=True)
        due = clock.now() + 60.0
        do(do.journal.hand_back("one", run, due))
        claimed = do(do.journal.claim("two", 9, {}))
        assert (claimed.lapsed, claimed.following) == (0, due)
        clock.advance(60.0)
        assert runs_of(claim(do, alone=True)) == ["r"]

    def test_those_that_lapsed_least_are_claimed_first(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do = desk
        order(do, "guilty")
        for number in range(3):
            lapse(do, clock, "guilty", alone=number > 0)
        order(do, "innocent")
        lapse(do, clock, "innocent")
        assert runs_of(claim(do, alone=True)) == ["innocent", "guilty"]

    @pytest.mark.parametrize("of", ["r", "r/a/1"])
    def test_a_record_clears_a_run_that_lapsed(
        self, desk: Desk, clock: ManualClock, of: str
    ) -> None:
        do = desk
        order(do, "r")
        do.begin("r/a/1")
        lapse(do, clock, "r")
        (run,) = claim(do, alone=True)
        do.write(of, 0, [step(0)])
        do(do.journal.hand_back("one", run, clock.now()))
        assert not do(do.journal.claim("two", 0, {})).lapsed
        assert runs_of(claim(do)) == ["r"]

    def test_a_run_that_processes_die_with_is_parked_until_somebody_takes_it_up(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        order(do, "r")
        for again in range(2):
            for number in range(again, LAPSES + 1):
                (run,) = claim(do, alone=number > 0)
                do(journal.hand_back("one", run, clock.now()))  # does not count
                assert runs_of(claim(do, alone=number > 0)) == ["r"]
                head = LAPSES * again + number
                do.write("r", head, [intent(head)])  # a call that nobody comes back from
                clock.advance(31.0)
                assert do(journal.sweep()) == 1
            do(journal.send("r", message(f"m{again}")))
            do(journal.sweep(lost=True))
            assert claim(do) == claim(do, alone=True) == []
            (parked,) = do(journal.backlog()).parked
            died = [lapse.worker for lapse in parked.lapses]
            assert (parked.run_id, died) == ("r", ["one"] * (LAPSES + 1))
            assert parked.lapses[0].until - parked.lapses[0].since == 31.0
            assert do(journal.depth())[:4] == (0, 0.0, 0, 1)
            check_parked(do, tuple(lapse.until for lapse in parked.lapses))
            assert do(journal.enqueue("r"))  # the count begins again, and it stays alone
            assert do(journal.backlog()).parked == []
            check_parked(do, None)
            assert claim(do) == []
        assert runs_of(claim(do, alone=True)) == ["r"]

    def test_deaths_of_neighbours_never_park_a_run(self, desk: Desk, clock: ManualClock) -> None:
        """It has a record between any two of them, which clears it each time."""
        do, journal = desk, desk.journal
        order(do, "r")
        for number in range(3 * LAPSES):
            lapse(do, clock, "r")
            (run,) = claim(do, alone=True)
            do.write("r", number, [step(number)])
            do(journal.hand_back("one", run, clock.now()))
        assert do(journal.backlog()).parked == []
        assert runs_of(claim(do)) == ["r"]

    @pytest.mark.parametrize("of", ["r", "r/a/1"])
    def test_a_record_ends_the_count_of_lapses_but_not_the_suspicion(
        self, desk: Desk, clock: ManualClock, of: str
    ) -> None:
        do, journal = desk, desk.journal
        order(do, "r")
        do.begin("r/a/1")
        for number in range(2 * LAPSES):
            assert runs_of(claim(do, alone=number > 0)) == ["r"]
            if number == LAPSES - 1:
                do.write(of, 0, [step(0)])
            clock.advance(31.0)
            do(journal.sweep())
            assert bool(do(journal.backlog()).parked) is (number == 2 * LAPSES - 1)

    def test_a_run_that_goes_on_although_it_was_handed_back_to_wait_is_due_again(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        for run_id, status in (("goes-on", "running"), ("waits", "paused"), ("ended", "completed")):
            do(journal.create(RunRow(run_id, status=status)))
            do(journal.place_request(asked(run_id, run_id)))
        rest(do)
        assert claim(do) == []
        clock.advance(STRAY)
        assert {*runs_of(claim(do))} == {"goes-on", "ended"}

    def test_a_run_is_due_that_was_driven_by_another_program_which_died(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        for run_id in ("goes-on", "waits", "driven"):
            do(journal.create(RunRow(run_id, status="paused")))
            do(journal.place_request(asked(run_id, run_id)))
        rest(do)
        for run_id, ttl in (("goes-on", 30.0), ("waits", 30.0), ("driven", 90.0)):
            driver = Driver("answers", "chartloop answer", FAR)
            do(journal.acquire(run_id, driver, ttl=ttl))
            if run_id != "waits":
                do.write(run_id, 0, [step(0)], update=Update("running", "s"))
        assert do(journal.sweep(lost=True)) == 0
        clock.advance(31.0)
        assert do(journal.sweep()) == 0
        assert claim(do) == []
        assert do(journal.sweep(lost=True)) == 1
        assert runs_of(claim(do)) == ["goes-on"]
