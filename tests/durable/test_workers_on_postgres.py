"""Workers of two processes' journals on one PostgreSQL: each run once, and no work while none is due."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chartloop.hosting.callers import Caller
from chartloop.hosting.machines import Machines
from chartloop.hosting.runs import Runs
from chartloop.hosting.settings import Settings
from chartloop.hosting.workers import Workers
from chartloop.run.journal import Journal, RunRow
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand
from tests.cli.working import Place, kill_one_of_two, until
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]

STEPS = """\
chartloop: 1
machine: steps
states:
  work: {do: nothing, next: [{when: run.steps >= 5, to: done}, {to: work}]}
  done: {stop: completed}
"""


@contextmanager
def working(folder: Path, url: str) -> Generator[tuple[Runs, Workers]]:
    """A worker with a journal of its own, as another process has it."""
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

    (folder / "steps.yaml").write_text(STEPS)
    journal: Journal = PostgresJournal(url)
    settings = Settings(machines=(folder,), journal=journal)
    runs = Runs(settings, journal, Machines(settings, journal))
    workers = Workers(runs, lambda _, __: None)
    workers.start()
    yield runs, workers
    workers.stop()
    by_hand(journal.close())


@pytest.mark.slow("kills a process")
def test_a_killed_workers_runs_are_taken_up(postgres: Cluster, tmp_path: Path) -> None:
    kill_one_of_two(Place(tmp_path, postgres.of(tmp_path)))


def test_each_run_is_driven_by_one_of_two_workers(postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.of(tmp_path)
    with working(tmp_path, url) as (runs, one), working(tmp_path, url) as (_, two):
        for _ in range(20):
            runs.start({"machine": "steps"}, Caller())
        until(lambda: all(row.ended for row in by_hand(runs.journal.rows())))
        until(lambda: by_hand(runs.journal.backlog()).held == 0)
        assert by_hand(runs.journal.backlog()).placed == 20
        rows = by_hand(runs.journal.rows())
        assert {(row.status, row.steps) for row in rows} == {("completed", 5)}
        assert (one.finished + two.finished).total() == 20
        workers = by_hand(runs.journal.backlog()).workers
        assert {worker.id for worker in workers} == {one.id, two.id}


@pytest.fixture
def talkative() -> Generator[Cluster]:
    """A server that writes down every statement."""
    cluster = Cluster("log_statement = 'all'")
    yield cluster
    cluster.end()


def test_an_idle_fleet_with_ten_thousand_waiting_runs_rests(
    talkative: Cluster, tmp_path: Path
) -> None:
    def statements() -> int:
        return (talkative.folder / "log").read_text().count("LOG:")

    url = talkative.of(tmp_path)
    schema = url.rpartition("=")[2]
    with working(tmp_path, url) as (runs, _), working(tmp_path, url):
        journal = runs.journal
        by_hand(journal.create(RunRow("r", status="paused")))
        by_hand(journal.place_request(StoredRequest("k", "r", "run", "d", 1.0, {}, needs="x")))
        talkative.execute(
            f"INSERT INTO {schema}.request (key, run_id, kind, digest, at, data) "  # noqa: S608
            "SELECT 'k' || n, 'r' || n, 'run', 'd', 1.0, '{}' FROM generate_series(1, 10000) n"
        )
        time.sleep(3.0)
        rate = 0.0
        for _ in range(5):  # on a busy machine it comes to rest later
            before, began = statements(), time.monotonic()
            time.sleep(6.0)
            rate = (statements() - before) / (time.monotonic() - began)
            if rate < 20:
                break
        backlog = by_hand(journal.backlog())
    assert (backlog.resting, backlog.held) == (10_000, 0)
    assert rate < 20
