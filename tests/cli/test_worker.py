"""`chartloop submit` and `chartloop worker`: real processes, killed, stopped, and without a part."""

from __future__ import annotations

import ctypes
import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
from chartloop.run.journal import Journal, RunRow
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import LAPSES, WorkerRow
from chartloop.run.sync import by_hand
from tests.cli.shell import PROGRAM, program
from tests.cli.working import PAYS, Place, kill_one_of_two, stopped, until

pytestmark = pytest.mark.slow("starts processes")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_killed_workers_runs_are_taken_up_and_no_recorded_call_is_paid_twice(
    place: Place,
) -> None:
    kill_one_of_two(place)


def test_a_stopped_worker_ends_its_step_and_hands_the_run_back(place: Place) -> None:
    place.submit("--var", "rest=1.5")
    with place.worker("--grace", "60") as worker:
        until(place.effects)
        stopped(worker)
    assert [word for word, *_ in place.effects()] == ["asked", "replied"]
    (row,) = place.rows()
    assert (row.status, row.steps) == ("running", 1)
    with place.journal() as journal:
        backlog = by_hand(journal.backlog())
    assert (backlog.due, backlog.held, backlog.workers, backlog.parked) == (1, 0, [], [])
    assert place.doubts() == {}


def test_what_the_grace_cuts_is_said_and_in_doubt(place: Place) -> None:
    (run,) = place.submit("--var", "rest=30")
    with place.worker("--grace", "0.1") as worker:
        until(place.effects)
        said = stopped(worker)
    assert f"run `{run}` was cut" in said
    with place.journal() as journal:
        assert by_hand(journal.backlog()).due == 1
    with place.worker():
        until(lambda: len(place.effects()) > 1)
    assert len(place.doubts()) == 1


def test_a_worker_ends_whichever_of_its_threads_gets_the_signal(place: Place) -> None:
    place.submit("--var", "rest=0")
    with place.worker() as worker:
        until(place.ended)
        libc, pid = ctypes.CDLL(None), worker.pid
        other = max(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())
        assert other != pid
        assert libc.tgkill(pid, other, signal.SIGTERM) == 0
        _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said


def test_a_worker_without_the_tools_claims_nothing_and_runs_says_so(place: Place) -> None:
    (run,) = place.submit("--var", "rest=0")
    with place.worker(tools=False):
        until(lambda: "no worker can drive 1 run" in place.call("runs"))
        assert "unknown action `pay`" in place.call("runs")
        with place.journal() as journal:
            assert by_hand(journal.backlog()).due == 1
            assert by_hand(journal.lease(run)) is None
        with place.worker():
            until(place.ended)


def test_a_worker_of_a_folder_drives_only_its_machines(place: Place) -> None:
    place.submit("--var", "rest=0")
    other = place.folder / "other"
    other.mkdir()
    with place.worker("--machines", str(other)):
        until(lambda: "no file in its folders is this machine `pays`" in place.call("runs"))
    (other / "pays.yaml").write_text(PAYS)
    with place.worker("--machines", str(other)):
        until(place.ended)


def test_a_run_that_kills_its_workers_is_parked_and_resumed(place: Place) -> None:
    (run,) = place.submit("--var", "rest=dies")
    with place.worker() as worker:
        worker.wait(60)
        assert worker.returncode == -signal.SIGKILL
    with place.worker() as last:
        until(lambda: f"run {run} is parked" in place.call("runs"))
        time.sleep(1.5)
        assert last.poll() is None
    assert len(place.effects()) == 1 + LAPSES
    said = place.call("runs")
    assert f"`chartloop resume {run}` drives it here" in said
    assert "† parked" in said
    resume = ("resume", run, "--tools", "pay.py", "--journal", place.where)
    assert program(*resume, cwd=place.folder).code == -signal.SIGKILL


def test_a_repeated_submit_submits_nothing_twice(place: Place) -> None:
    first = place.submit("--inputs", "tasks.jsonl")
    with place.journal() as journal:  # a crash between the run and its request
        by_hand(journal.withdraw_request(f"start-{first[3]}"))
    more = ("submit", "pays.yaml", "--tools", "pay.py", "--inputs", "tasks.jsonl")
    assert "1 run submitted, 11 submitted before" in place.call(*more)
    nothing = place.call(*more)
    assert "0 runs submitted, 12 submitted before" in nothing
    assert "with `--key TEXT` the same tasks would be submitted again" in nothing
    assert "12 runs submitted\n" in place.call(*more, "--key", "again")
    assert len(place.rows()) == 24


def test_a_file_with_mistakes_is_refused(place: Place) -> None:
    assert "unknown action `pay`" in place.call("submit", "pays.yaml", code=1)
    assert not (place.folder / "j.db").exists()


def test_a_worker_lists_what_it_can_drive_also_of_runs_that_rest(place: Place) -> None:
    place.submit("--var", "rest=0")
    with place.journal() as journal:
        by_hand(journal.keep(WorkerRow("before")))
        (run,) = by_hand(journal.claim("before", 1, {needs_of_first(journal): True})).runs
        by_hand(journal.hand_back("before", run, by_hand(journal.now()) + 600.0))
        by_hand(journal.keep(WorkerRow("before"), ttl=0))

        def listed() -> list[WorkerRow]:
            return [one for one in by_hand(journal.backlog()).workers if one.lacks]

        with place.worker() as worker:
            until(listed)
            (able,) = listed()
            stopped(worker)
        with place.worker(tools=False) as worker:
            until(listed)
            (lacking,) = listed()
            stopped(worker)
    assert able.lacks == {run.request.needs: ""}
    assert "unknown action `pay`" in lacking.lacks[run.request.needs]


def needs_of_first(journal: Journal) -> str:
    """What the first open order needs."""
    return by_hand(journal.requests(open_only=True, limit=1))[0].needs


def test_watch_tells_the_depth_of_the_queue(place: Place) -> None:
    place.submit("--inputs", "tasks.jsonl")
    command = [*PROGRAM, "runs", "--watch", "--format", "json", "--journal", "j.db"]
    with subprocess.Popen(command, cwd=place.folder, stdout=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        seen = json.loads(watch.stdout.readline())
        watch.kill()
    assert (seen["due"], seen["held"], seen["workers"]) == (12, 0, [])
    assert seen["oldest_due_seconds"] > 0


def test_watch_tells_what_each_worker_holds(place: Place) -> None:
    (run,) = place.submit("--priority", "2", "--var", "rest=30")
    command = [*PROGRAM, "runs", "--watch", "--format", "json", "--journal", "j.db"]
    with place.worker("--grace", "0") as worker:
        until(place.effects)
        with subprocess.Popen(
            command, cwd=place.folder, stdout=subprocess.PIPE, text=True
        ) as watch:
            assert watch.stdout is not None
            (seen,) = json.loads(watch.stdout.readline())["workers"]
            watch.kill()
        stopped(worker)
    assert (seen["program"], seen["pid"]) == ("chartloop worker", worker.pid)
    assert seen["lease_left_seconds"] > 0
    (held,) = seen["runs"]
    assert (held["run"], held["priority"]) == (run, 2)
    with place.journal() as journal:
        assert held["since"] < by_hand(journal.now())


def test_a_worker_takes_submits_by_priority_and_children_have_that_of_their_parent(
    place: Place,
) -> None:
    (place.folder / "boss.yaml").write_text(BOSS)
    for priority in (9, 5, 1):
        given = () if priority == 5 else ("--priority", str(priority))
        place.call("submit", "boss.yaml", "--run-id", f"p{priority}", *given)
    assert re.search(r"p1 .* 1\n", place.call("runs"))
    place.call("schedule", "add", "s", "boss.yaml", "--every", "1s", "--priority", "3")
    with place.worker("--concurrency", "1", tools=False) as worker:
        until(lambda: "boss" in {row.machine for row in place.rows() if row.run_id[:2] == "s-"})
        until(lambda: all(row.ended for row in place.rows() if row.run_id[0] == "p"))
        stopped(worker)
    with place.journal() as journal:
        rows = {row.run_id: row for row in by_hand(journal.rows())}
    assert rows["p1"].updated <= rows["p5"].updated <= rows["p9"].updated
    assert {row.priority for run_id, row in rows.items() if run_id[:2] == "s-"} == {3}
    for priority in (9, 5, 1):
        family = [row for run_id, row in rows.items() if run_id.startswith(f"p{priority}")]
        assert len(family) == 2
        assert {row.priority for row in family} == {priority}


BOSS = """\
chartloop: 1
machine: boss
states:
  go: {do: run_machine, with: {machine: child}, next: done}
  done: {stop: completed}
machines:
  child:
    states:
      draft: {do: nothing, next: done}
      done: {stop: completed}
"""
CALLS = """\
chartloop: 1
machine: calls
model: {name: NAME, max_tokens: 9}
states:
  first: {do: infer, next: second}
  second: {do: infer, next: done}
  done: {stop: completed}
"""


def test_a_run_that_waits_for_a_limit_leaves_its_place_to_another(place: Place) -> None:
    for name in ("slow", "free"):
        (place.folder / f"{name}.yaml").write_text(CALLS.replace("NAME", name))
    (place.folder / "replies.yaml").write_text("replies: [one, two]\n")
    place.call("limits", "set", "model:slow", "--requests", "1")
    for name in ("slow", "free"):
        place.call("submit", f"{name}.yaml", "Go.", "--run-id", name)
    with place.worker("--concurrency", "1", "--script", "replies.yaml", tools=False) as worker:
        until(lambda: {row.run_id: row.status for row in place.rows()}.get("free") == "completed")
        (waits,) = (row for row in place.rows() if row.run_id == "slow")
        stopped(worker)
    assert (waits.status, waits.state, waits.steps) == ("paused", "second", 1)
    assert waits.wake_at is not None
    with place.journal() as journal:
        assert waits.wake_at - by_hand(journal.now()) > 1


# the load of a worker -----------------------------------------------------------------------------


def workers_of(journal: Journal, folder: Path) -> Workers:
    """Workers of this process."""
    settings = Settings(machines=(), journal=journal, serves=False)
    return Workers(Runs(settings, journal, Machines(settings, journal)), lambda _, __: None)


def test_ten_thousand_waiting_runs_cost_an_idle_worker_little(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "j.db")
    by_hand(journal.create(RunRow("r", status="paused")))
    database = journal._database  # pyright: ignore[reportPrivateUsage]
    order = StoredRequest("k", "r", "run", "d", 1.0, {})
    by_hand(journal.place_request(order))
    (claimed,) = by_hand(journal.claim("w", 1, {})).runs
    by_hand(journal.hand_back("w", claimed, None))
    database.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000) "
        "INSERT INTO request (key, run_id, kind, digest, at, data) "
        "SELECT 'k' || i, 'r' || i, 'run', 'd', 1.0, '{}' FROM n"
    )
    workers = workers_of(journal, tmp_path)
    workers.start()
    time.sleep(2.0)
    statements: list[str] = []
    database.set_trace_callback(statements.append)
    began = time.monotonic()
    time.sleep(5.0)
    passed = time.monotonic() - began
    database.set_trace_callback(None)
    workers.stop()
    backlog = by_hand(journal.backlog())
    assert (backlog.resting, backlog.due) == (10_001, 0)
    assert len(statements) / passed < 20
    by_hand(journal.close())


def test_two_workers_count_each_order_once(place: Place) -> None:
    place.submit("--inputs", "tasks.jsonl", "--var", "rest=0")
    said: list[str] = []
    with place.worker("--concurrency", "2") as one, place.worker("--concurrency", "2") as two:
        until(lambda: place.working() == 2 and place.ended())
        said += [stopped(one), stopped(two)]
    finished = re.findall(r"(\d+) runs? finished here", "".join(said))
    assert sum(map(int, finished)) == 12
    assert "could not be driven" not in "".join(said)
