"""Leases in every journal: who may drive a run, until when, and who is told what."""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import pytest

from chartloop.core.errors import Driven, Fenced
from chartloop.run.journal import Event, Move, RunRow, Update, WholeRun
from chartloop.run.lease import Driver, Left, here
from chartloop.run.processes import Process, this_process
from chartloop.testing.clock import ManualClock
from chartloop.testing.journal_suite.desk import Desk, step

FAR = Driver("far", "chartloop run", Process("another-box", 7, "elsewhere", "1"))


NEAR = Driver("near", "python", Process("third-box", 8, "nowhere", "2"))


START = 1_700_000_000.0


def driven(desk: Desk, driver: Driver = FAR, run_id: str = "r") -> Desk:
    """A journal with a run that somebody drives."""
    desk(desk.journal.create(RunRow(run_id)))
    desk(desk.journal.acquire(run_id, driver, ttl=30))
    return desk


class Moment(NamedTuple):
    """A moment after a lease was acquired, and how its driver has left then."""

    id: str
    after: float
    left: Left


class Two:
    """What drives in this process."""

    busy = True
    run_id = "r"

    def lose(self, to: Driver | None) -> None: ...

    def yield_lease(self) -> None: ...


class LeaseCases:
    """Who may drive a run, until when, and who is told what."""

    def test_a_second_driver_is_told_who_since_when_and_until_when(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        driven(desk)
        clock.advance(10)
        before = desk.all()
        with pytest.raises(
            Driven, match="driven by another process: `chartloop run`, pid 7 on ano"
        ) as no:
            desk(desk.journal.acquire("r", NEAR))
        error = no.value
        assert (error.run_id, error.host, error.pid, error.face) == (
            "r",
            "another-box",
            7,
            "chartloop run",
        )
        assert (error.since, error.until) == (START, START + 30)
        assert "`--take-over`" in error.hint
        assert "paid twice" in error.hint
        assert desk.all() == before
        assert (
            desk(desk.journal.append("r", 0, 1, [Event(0, "intent", 1.0, None, {"key": "k"})])) == 1
        )

    def test_whoever_says_so_takes_it_over_and_fences_the_other(self, desk: Desk) -> None:
        driven(desk)
        row, acquired = desk(desk.journal.acquire("r", NEAR, take_over=True))
        assert (row.epoch, acquired.left) == (2, "alive")
        assert acquired.before is not None
        assert acquired.before.driver == FAR
        lease = desk(desk.journal.lease("r"))
        assert lease == acquired.lease
        assert lease is not None
        assert lease.driver == NEAR
        assert desk(desk.journal.renew("r", FAR)) is False
        with pytest.raises(Fenced):
            desk(desk.journal.append("r", 0, 1, [Event(0, "intent", 1.0, None, {"key": "k"})]))
        desk(desk.journal.release("r", FAR))
        assert desk(desk.journal.lease("r")) == lease

    def test_a_lease_is_kept_by_renewing_it(self, desk: Desk, clock: ManualClock) -> None:
        driven(desk)
        for _ in range(5):
            clock.advance(29)
            assert desk(desk.journal.renew("r", FAR, ttl=30)) is True
            with pytest.raises(Driven):
                desk(desk.journal.acquire("r", NEAR))
        lease = desk(desk.journal.lease("r"))
        assert lease is not None
        assert (lease.since, lease.renewed, lease.until) == (START, START + 145, START + 175)

    @pytest.mark.parametrize(
        "case",
        [
            Moment("a-moment-before-its-end", 29.9, "alive"),
            Moment("at-its-end", 30.0, "silent"),
            Moment("long-after", 10_000.0, "silent"),
            Moment("the-clock-was-set-back-a-little", -20.0, "alive"),
            Moment("the-clock-was-set-back-by-a-year", -3e7, "silent"),
        ],
        ids=lambda case: case.id,
    )
    def test_a_lease_of_another_machine_lasts_until_its_end(
        self, desk: Desk, clock: ManualClock, case: Moment
    ) -> None:
        driven(desk)
        clock.advance(case.after)
        if case.left == "alive":
            with pytest.raises(Driven):
                desk(desk.journal.acquire("r", NEAR))
        _, acquired = desk(desk.journal.acquire("r", NEAR, take_over=case.left == "alive"))
        assert acquired.left == case.left

    def test_a_journal_tells_its_time(self, desk: Desk, clock: ManualClock) -> None:
        assert desk(desk.journal.now()) == clock.now()
        clock.advance(-3600)
        assert desk(desk.journal.now()) == clock.now()

    def test_the_living_lease_is_of_the_run_or_an_ancestor(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        living = desk.journal.living_lease
        assert desk(living("no")) is None
        driven(desk)
        lease = desk(desk.journal.lease("r"))
        assert desk(living("r")) == desk(living("r/ask/3/one/go/2")) == ("r", lease)
        assert desk(living("r2")) is None
        driven(desk, NEAR, "s/ask/3")
        assert desk(living("s")) is None  # whoever drives the child does not keep the parent
        clock.advance(30)
        assert desk(living("r")) is None  # it has lapsed
        assert desk(desk.journal.lease("r")) == lease
        desk(desk.journal.renew("r", FAR))
        assert desk(living("r")) is not None
        desk(desk.journal.release("r", FAR))
        assert desk(living("r")) is None

    def test_one_that_was_given_back_is_nobodys(self, desk: Desk) -> None:
        driven(desk)
        desk(desk.journal.release("r", FAR))
        assert desk(desk.journal.lease("r")) is None
        assert desk(desk.journal.renew("r", FAR)) is False
        _, acquired = desk(desk.journal.acquire("r", NEAR))
        assert (acquired.before, acquired.left) == (None, "")

    def test_the_same_driver_takes_it_again(self, desk: Desk, clock: ManualClock) -> None:
        """As after a commit whose answer was lost."""
        driven(desk)
        clock.advance(5)
        row, acquired = desk(desk.journal.acquire("r", FAR))
        assert (row.epoch, acquired.before, acquired.left) == (2, None, "")
        assert acquired.lease is not None
        assert (acquired.lease.since, acquired.lease.renewed) == (START, START + 5)

    def test_a_process_that_has_ended_is_recognised_at_once(self, desk: Desk) -> None:
        gone = subprocess.Popen([sys.executable, "-c", ""])
        process = this_process()._replace(pid=gone.pid, born="1")
        driven(desk, Driver("gone", "python", process))
        gone.communicate()
        _, acquired = desk(desk.journal.acquire("r", NEAR))
        assert acquired.left == "gone"

    def test_another_process_with_the_pid_of_one_that_ended_is_not_taken_for_it(
        self, desk: Desk
    ) -> None:
        init = this_process()._replace(pid=1, born="a long time ago")
        driven(desk, Driver("used-again", "python", init))
        _, acquired = desk(desk.journal.acquire("r", NEAR))
        assert acquired.left == "gone"

    def test_nobody_in_particular_leaves_no_lease(self, desk: Desk) -> None:
        desk(desk.journal.create(RunRow("r")))
        row, acquired = desk(desk.journal.acquire("r"))
        assert (row.epoch, acquired.lease, desk(desk.journal.lease("r"))) == (1, None, None)
        desk(desk.journal.acquire("r", FAR))
        with pytest.raises(Driven):
            desk(desk.journal.acquire("r"))

    def test_in_one_process_the_turn_decides(self, desk: Desk) -> None:
        driven(desk, Driver("mine", "python", this_process()))
        other = Driver("mine too", "python", this_process())
        here["mine"] = driving = Two()
        with pytest.raises(Driven, match="driven by this process, elsewhere: python, pid"):
            desk(desk.journal.acquire("r", other))
        driving.busy = False  # between two steps
        assert desk(desk.journal.acquire("r", other))[1].left == "gone"

    # children -----------------------------------------------------------------------------------
    def test_a_child_is_under_the_lease_of_its_parent(self, desk: Desk) -> None:
        driven(desk)
        for child in ("r/ask/3", "r/ask/3/one/go/2"):
            desk(desk.journal.create(RunRow(child, parent="r")))
            row, acquired = desk(desk.journal.acquire(child, FAR))
            assert (row.epoch, acquired.lease, desk(desk.journal.lease(child))) == (1, None, None)
            with pytest.raises(Driven, match="run `r` is driven"):
                desk(desk.journal.acquire(child, NEAR))
        desk(desk.journal.create(RunRow("r2")))
        desk(desk.journal.acquire("r2", NEAR))  # no child, though it begins alike

    def test_a_child_that_is_driven_alone_is_refused_to_its_parent(self, desk: Desk) -> None:
        driven(desk, NEAR, "r/ask/3")
        driven(desk)
        with pytest.raises(Driven, match="run `r/ask/3` is driven"):
            desk(desk.journal.acquire("r/ask/3", FAR))

    # runs that go on as others ------------------------------------------------------------------
    def test_a_run_that_is_driven_does_not_go_on_as_another(self, desk: Desk) -> None:
        driven(desk)
        read = desk(desk.journal.row("r"))
        assert read is not None
        new = [WholeRun(RunRow("new"))]
        with pytest.raises(Driven):
            desk(desk.journal.create_whole(new, moves=[Move(read, "new")]))
        assert desk(desk.journal.row("new")) is None
        desk(desk.journal.create_whole(new, moves=[Move(read, "new")], take_over=True))
        assert desk(desk.journal.lease("r")) is None
        assert desk(desk.journal.renew("r", FAR)) is False

    def test_a_run_that_was_removed_leaves_no_lease(self, desk: Desk) -> None:
        driven(desk, NEAR, "r/ask/3")
        driven(desk)
        desk(desk.journal.remove(["r"]))
        for run_id in ("r", "r/ask/3"):
            desk(desk.journal.create(RunRow(run_id)))
            assert desk(desk.journal.lease(run_id)) is None

    # a journal that was restored from a backup ----------------------------------------------------
    def test_the_mark_of_a_restored_journal_fences_every_driver(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        driven(desk)
        assert desk(desk.journal.restored()) == 0
        for _ in range(2):  # the mark of a second backup takes the place of the first
            clock.advance(5)
            desk(desk.journal.mark_restored())
        assert desk(desk.journal.restored()) == START + 10
        with pytest.raises(Fenced):
            desk(desk.journal.append("r", 0, 1, [Event(0, "intent", 1.0, None, {"key": "k"})]))
        row, acquired = desk(desk.journal.acquire("r", NEAR, take_over=True))
        assert (row.epoch, acquired.restored) == (4, START + 10)

    def test_the_mark_leaves_runs_that_have_ended_alone(self, desk: Desk) -> None:
        desk.begin()
        desk.write("r", 0, [step(0)], update=Update("completed", "done", ending="done"))
        before = desk.all()
        desk(desk.journal.mark_restored())
        assert desk.all() == before

    def test_the_mark_is_no_earlier_than_any_run(self, desk: Desk) -> None:
        """The clock of the server may be behind that of the one which made the backup."""
        desk(desk.journal.create(RunRow("r", created=START + 500)))
        desk(desk.journal.mark_restored())
        assert desk(desk.journal.restored()) == START + 500

    def test_a_mark_that_is_lifted_is_gone_and_fences_nobody(self, desk: Desk) -> None:
        driven(desk)
        desk(desk.journal.mark_restored())
        desk(desk.journal.acquire("r", NEAR, take_over=True))
        desk(desk.journal.mark_restored(lift=True))
        event = Event(0, "intent", 1.0, None, {"key": "k"})
        assert desk(desk.journal.append("r", 0, 3, [event])) == 1
        assert desk(desk.journal.acquire("r", NEAR))[1].restored == 0
