"""`chartloop schedule`, and the workers that take its ticks."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.machines import Machines
from chartloop.hosting.settings import Settings
from chartloop.hosting.ticks import take_ticks
from chartloop.run.journal import Journal
from chartloop.run.sync import by_hand
from chartloop.testing.crash import CrashAt, Crashed
from tests.cli.shell import Shell
from tests.cli.working import Place, until
from tests.postgres import NEEDED, Cluster

pytestmark = pytest.mark.slow("starts processes and a server")

ASKS = """\
chartloop: 1
machine: asks
vars: {who: "x"}
states:
  draft: {do: nothing, next: ask}
  ask: {ask: "For {vars.who}: {run.task}?", on: {yes: done}}
  done: {stop: completed}
"""
ADD = ("schedule", "add", "poll", "asks.yaml", "--every", "1m")


class Time:
    """A journal's clock."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def take(journal: Journal, lacks: dict[str, str] | None = None) -> int:
    """Look at a journal's schedules as one worker."""
    machines = Machines(Settings(machines=(), journal=journal, serves=False), journal)
    return take_ticks(journal, machines, {} if lacks is None else lacks)


@pytest.fixture
def at(sh: Shell) -> Shell:
    sh.write("asks.yaml", ASKS)
    return sh


def reopened(sh: Shell, time: Time) -> SqliteJournal:
    """The journal of a shell, at the time of its first tick."""
    journal = SqliteJournal(sh.folder / ".chartloop" / "journal.db", now=time)
    (schedule,) = by_hand(journal.cron_schedules())
    time.at = schedule.next
    return journal


def test_a_schedule_is_added_listed_paused_resumed_and_removed(at: Shell) -> None:
    said = at(*ADD, "Go")
    assert "schedule poll starts its first run at" in said.err
    assert "no worker is there" in said.err
    again = at(*ADD, "Go")
    assert (again.code, "is there already: it stays as it is" in again.err) == (0, True)
    other = at(*ADD, "Stop")
    assert (other.code, "already, with another content" in other.err) == (2, True)
    assert "asks     every 1m" in at("schedule", "list").out
    at("schedule", "pause", "poll")
    assert "paused" in at("schedule", "list").out
    at("schedule", "resume", "poll")
    (listed,) = at("schedule", "list", "--format", "json").json
    assert listed["next"]
    assert not listed["paused"]
    wrong = at("schedule", "remove", "pol")
    assert (wrong.code, "did you mean `poll`?" in wrong.err) == (2, True)
    assert at("schedule", "remove", "poll").code == 0
    assert at("schedule", "list", "--format", "json").json == []


MISUSED = {
    "no-time": (("schedule", "add", "x", "asks.yaml"), "say when", 2),
    "two-times": ((*ADD, "--cron", "* * * * *"), "say when", 2),
    "half-a-second": ((*ADD[:-1], "0.5s"), "whole seconds", 2),
    "a-zone-of-an-interval": ((*ADD, "--timezone", "Asia/Tokyo"), "goes with --cron", 2),
    "all-at-once": ((*ADD, "--missed", "all"), "--overlap allow", 2),
    "a-name": (("schedule", "add", "../x", *ADD[3:]), "an id has letters", 2),
    "a-variable": ((*ADD, "--var", "whom=y"), "whom", 2),
    "a-file-with-findings": (("schedule", "add", "x", "bad.yaml", "--every", "1m"), "CL", 1),
}


@pytest.mark.parametrize("case", MISUSED)
def test_what_is_wrong_is_said_and_nothing_is_added(case: str, at: Shell) -> None:
    at.write("bad.yaml", ASKS.replace("next: ask", "next: ashk"))
    line, says, code = MISUSED[case]
    done = at(*line)
    assert (done.code, says in done.err) == (code, True), done.err
    assert at("schedule", "list").out == ""


def test_a_tick_starts_a_run_that_says_by_whom(at: Shell) -> None:
    at(*ADD, "Publish", "--var", "who=Ann", "--agent", "a1")
    time = Time()
    journal = reopened(at, time)
    at.write("asks.yaml", ASKS.replace("For", "Changed"))  # the machine is that of `add`
    assert take(journal) == 1
    (row,) = by_hand(journal.rows())
    (first,) = by_hand(journal.records(row.run_id))
    (listed,) = at("schedule", "list", "--format", "json").json
    tick = {"name": "poll", "tick": listed["last"]}
    assert first.input.data["metadata"] == {"schedule": tick}
    assert (row.run_id, row.agent) == (listed["runs"][0], "a1")
    (request,) = by_hand(journal.requests())
    assert (request.is_open, request.key) == (True, f"start-{row.run_id}")
    assert take(journal) == 0
    by_hand(journal.close())
    at("resume", row.run_id, "--no-input")
    shown = at("show", row.run_id, "--format", "json")
    assert "For Ann: Publish?" in shown.out


def test_each_line_is_a_run_and_a_run_that_goes_on_skips_the_next_tick(at: Shell) -> None:
    at.write("tasks.jsonl", '{"task": "one"}\n{"task": "two", "vars": {"who": "Bo"}}\n')
    at(*ADD, "--inputs", "tasks.jsonl", "--tenant", "acme")
    time = Time()
    journal = reopened(at, time)
    assert take(journal) == 2
    first = [row.run_id for row in by_hand(journal.rows())]
    assert {row.tenant for row in by_hand(journal.rows())} == {"acme"}
    assert {request.run_id for request in by_hand(journal.requests())} == {*first}
    time.at += 60
    assert take(journal) == 0
    (listed,) = at("schedule", "list", "--format", "json").json
    assert f"run `{listed['runs'][0]}` has not ended" in listed["note"]
    assert sorted(listed["runs"]) == sorted(first)
    by_hand(journal.remove(first))
    time.at += 60
    assert take(journal) == 2


def test_what_was_missed_is_started_as_asked(at: Shell) -> None:
    at(*ADD, "--missed", "all", "--overlap", "allow")
    time = Time()
    journal = reopened(at, time)
    time.at += 185
    assert take(journal) == 4
    (schedule,) = by_hand(journal.cron_schedules())
    assert schedule.next > time.at >= schedule.last > time.at - 60
    by_hand(journal.put_cron(schedule, schedule.replace(missed="last")))
    time.at += 6_000
    assert take(journal) == 1
    (schedule,) = by_hand(journal.cron_schedules())
    by_hand(journal.put_cron(schedule, schedule.replace(missed="skip", every=600.0)))
    time.at += 60 * 15
    while (schedule := by_hand(journal.cron_schedules())[0]).next > time.at:
        time.at = schedule.next + 300
    assert take(journal) == 0
    assert "no worker took the ticks" in by_hand(journal.cron_schedules())[0].note


@pytest.mark.parametrize("write", range(1, 4))
@pytest.mark.parametrize("before", [True, False])
def test_a_worker_that_dies_in_a_tick_loses_none_and_starts_none_twice(
    write: int, before: bool, at: Shell
) -> None:
    at(*ADD)
    journal = reopened(at, Time())
    try:
        take(CrashAt(journal, write, before=before))
    except Crashed:
        take(journal)
    assert len(by_hand(journal.rows())) == 1
    assert len(by_hand(journal.requests())) == 1


def race(journals: list[Journal], time: Time) -> None:
    """Workers look at a schedule at the same moment, again and again."""
    meet = Barrier(len(journals))

    def look(journal: Journal) -> int:
        meet.wait()
        return take(journal)

    (added,) = by_hand(journals[0].cron_schedules())
    with ThreadPoolExecutor(len(journals)) as pool:
        for number in range(1, 9):
            assert sum(pool.map(look, journals)) == 1
            assert len(by_hand(journals[0].rows())) == number
            (schedule,) = by_hand(journals[0].cron_schedules())
            assert schedule.version == added.version + number
            time.at = schedule.next
    for journal in journals:
        by_hand(journal.close())


def test_of_workers_on_a_file_one_takes_each_tick(at: Shell) -> None:
    at(*ADD, "--overlap", "allow")
    time = Time()
    first = reopened(at, time)
    race([first, SqliteJournal(first.path, now=time), SqliteJournal(first.path, now=time)], time)


@NEEDED[0]
@NEEDED[1]
@NEEDED[2]
def test_of_workers_on_a_server_one_takes_each_tick(at: Shell, postgres: Cluster) -> None:
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415  an extra

    url = postgres.url("crons")
    at(*ADD, "--overlap", "allow", "--journal", url)
    time = Time()
    journals: list[Journal] = [PostgresJournal(url, now=time) for _ in range(3)]
    (schedule,) = by_hand(journals[0].cron_schedules())
    time.at = schedule.next
    race(journals, time)


def test_workers_take_the_ticks_and_a_worker_without_the_tools_says_so(tmp_path: Path) -> None:
    place = Place(tmp_path)
    line = ("schedule", "add", "pays", "pays.yaml", "--tools", "pay.py", "--every", "1s")
    place.call(*line, "--var", "rest=0", "--overlap", "allow")
    with place.worker(tools=False):
        until(lambda: "unknown action `pay`" in place.call("schedule", "list"))
        assert place.rows() == []
        with place.worker():
            until(lambda: sum(row.ended for row in place.rows()) >= 2)
            (one,) = json.loads(place.call("schedule", "list", "--format", "json"))
    assert one["lacks"] == ""
    assert all(row.run_id.startswith("pays-2") for row in place.rows())
