"""Cron schedules in every journal: one worker takes a tick, and all of it is written at once."""

from __future__ import annotations

from chartloop.run.cron import CronSchedule
from chartloop.run.journal import RunRow
from chartloop.run.journal_records import WholeRun
from chartloop.run.schedule import WorkerRow
from chartloop.testing.clock import ManualClock
from chartloop.testing.journal_suite.desk import Desk, step
from chartloop.testing.journal_suite.requests import asked

NIGHTLY = CronSchedule("nightly", "agent", "h", ({"task": "\ud800 go"},), 5.0, 60.0, every=55.0)


def tick(run_id: str) -> WholeRun:
    """A run that a tick starts."""
    return WholeRun(RunRow(run_id), [step(0)])


class CronCases:
    """Cron schedules: each change names the version that it has read."""

    def test_a_cron_schedule_is_added_changed_and_removed(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        assert do(journal.put_cron(None, NIGHTLY))
        assert not do(journal.put_cron(None, NIGHTLY))
        do(journal.put_cron(None, NIGHTLY.replace(name="a")))
        (_, found) = do(journal.cron_schedules())
        assert found == NIGHTLY
        assert do(journal.put_cron(found, found.replace(note="x")))
        assert not do(journal.put_cron(found, found.replace(note="late")))
        (_, now) = do(journal.cron_schedules())
        assert now == NIGHTLY.replace(note="x", version=1)
        assert not do(journal.put_cron(found, None))
        assert do(journal.put_cron(now, None))
        assert [one.name for one in do(journal.cron_schedules())] == ["a"]

    def test_a_change_that_was_meant_for_a_removed_schedule_is_not_made_to_a_new_one(
        self, desk: Desk
    ) -> None:
        do, journal = desk, desk.journal
        do(journal.put_cron(None, NIGHTLY.replace(version=7)))
        (old,) = do(journal.cron_schedules())
        assert do(journal.put_cron(old, None))
        assert do(journal.put_cron(None, NIGHTLY.replace(note="new", version=40)))
        assert not do(journal.put_cron(old, old.replace(note="old")))
        (new,) = do(journal.cron_schedules())
        assert (new.note, new.version) == ("new", 40)

    def test_a_cron_schedule_is_due_at_its_time_by_the_journals_clock(
        self, desk: Desk, clock: ManualClock
    ) -> None:
        do, journal = desk, desk.journal
        at = clock.now() + 60.0
        do(journal.put_cron(None, NIGHTLY.replace(next=at)))
        do(journal.put_cron(None, NIGHTLY.replace(name="paused", next=at, paused=True)))
        assert do(journal.cron_schedules(due=True)) == []
        clock.advance(60.0)
        assert [one.name for one in do(journal.cron_schedules(due=True))] == ["nightly"]

    def test_of_two_workers_one_takes_a_tick(self, desk: Desk, clock: ManualClock) -> None:
        do, journal = desk, desk.journal
        do(journal.put_cron(None, NIGHTLY))
        (read,) = do(journal.cron_schedules())
        for number, wins in ((1, True), (2, False)):
            run = tick(f"nightly-{number}")
            after = read.replace(next=115.0, last=60.0, runs=(run.row.run_id,))
            order = asked(f"start-{run.row.run_id}", run.row.run_id)
            assert do(journal.put_cron(read, after, runs=[run], requests=[order])) is wins
        assert [row.run_id for row in do(journal.rows())] == ["nightly-1"]
        assert len(do(journal.events("nightly-1"))) == 1
        (after,) = do(journal.cron_schedules())
        assert (after.next, after.runs, after.version) == (115.0, ("nightly-1",), 1)
        do(journal.keep(WorkerRow("one"), ttl=30.0))
        (claimed,) = do(journal.claim("one", 9, {})).runs
        assert claimed.request.run_id == "nightly-1"

    def test_a_tick_leaves_a_run_that_is_there_as_it_is(self, desk: Desk) -> None:
        do, journal = desk, desk.journal
        do.begin("there")
        do(journal.put_cron(None, NIGHTLY))
        runs = [tick(run_id) for run_id in ("there", "new")]
        orders = [asked(f"start-{run.row.run_id}", run.row.run_id) for run in runs]
        assert do(
            journal.put_cron(NIGHTLY, NIGHTLY.replace(next=115.0), runs=runs, requests=orders)
        )
        assert do(journal.events("there")) == []
        assert [one.run_id for one in do(journal.requests())] == ["new"]
