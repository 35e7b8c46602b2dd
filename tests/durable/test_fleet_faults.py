"""Workers that stop, race, are poked, have wrong clocks, or lose their database: real processes.

Each test ends with the promises of `fleet.check`: no acknowledged step is lost, no recorded call is
paid twice, and the calls reported in doubt are exactly those that a process left.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from chartloop.core.errors import ChartloopError
from chartloop.run.sync import by_hand
from tests.cli.working import until
from tests.durable.fleet import Fleet, fleet_of, report, until_answering
from tests.durable.pairs import DBOS, POSTGRES, SQLITE, WITH_DBOS, place_of
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED, pytest.mark.slow("stops processes and servers")]
ALL = pytest.mark.parametrize("pair", [SQLITE, POSTGRES, WITH_DBOS])
SERVERS = pytest.mark.parametrize("pair", [POSTGRES, WITH_DBOS])
OUTAGES = int(os.environ.get("CHARTLOOP_OUTAGES", "1"))
"""How often the server is ended during load; every third time for longer than a lease."""


@pytest.fixture
def cluster() -> Generator[Cluster]:
    """A server that a test may end."""
    server = Cluster()
    try:
        yield server
    finally:
        server.end()


def asked(fleet: Fleet) -> Counter[str]:
    """How often each call was made."""
    return Counter(key for word, key, _ in fleet.effects() if word == "asked")


def resume_and_stop(fleet: Fleet, pid: int) -> None:
    """Let a stopped worker go on, and end it when it has done what it was about."""
    (zombie,) = [one for one in fleet.workers if one.pid == pid]
    os.kill(pid, signal.SIGCONT)
    kept = sum(line[0] == "kept" and line[-2] == pid for line in fleet.trace())
    zombie.send_signal(signal.SIGTERM)
    assert zombie.wait(60) == 0
    assert kept


# a worker that stops and goes on --------------------------------------------------------------


@ALL
@pytest.mark.parametrize("place", ["replied", "before-record"])
def test_a_stopped_worker_that_goes_on_after_its_lease_writes_nothing_more(
    pair: str, place: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=2) as fleet:
        fleet.submit(3)
        fleet.arm(place, signal.SIGSTOP)
        until_answering(fleet, fleet.stopped)
        (pid,) = fleet.stopped()
        fleet.lapse(pid)
        fleet.finish()
        before = {run: len(by_hand(fleet.journal.events(run))) for run in fleet.runs}
        resume_and_stop(fleet, pid)
        assert {run: len(by_hand(fleet.journal.events(run))) for run in fleet.runs} == before
        report("a worker stopped until its lease had lapsed, and continued", pair, fleet, 1)
        assert sum(fleet.story().reported.values())


@SERVERS
def test_a_stopped_worker_that_goes_on_before_the_next_has_written(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=2) as fleet:
        fleet.submit(1)
        fleet.arm("before-record", signal.SIGSTOP)
        until(fleet.stopped)
        (first,) = fleet.stopped()
        fleet.arm("after-acquire", signal.SIGSTOP)
        fleet.lapse(first)
        until(lambda: len(fleet.stopped()) == 2)
        before = by_hand(fleet.journal.events(fleet.runs[0]))
        resume_and_stop(fleet, first)
        assert by_hand(fleet.journal.events(fleet.runs[0])) == before
        os.kill(fleet.stopped()[1], signal.SIGCONT)
        fleet.finish()
        report("a worker stopped until its lease had lapsed, and continued", pair, fleet, 1)


@SERVERS
def test_a_worker_that_is_stopped_within_a_transaction_holds_up_the_others_for_seconds(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=2) as fleet:
        fleet.submit(3)
        fleet.arm("within-record", signal.SIGSTOP)
        until_answering(fleet, fleet.stopped)
        (pid,) = fleet.stopped()
        fleet.lapse(pid)
        fleet.finish(60)
        resume_and_stop(fleet, pid)
        report("a worker stopped within a transaction, and continued", pair, fleet, 1)


# several at one run ---------------------------------------------------------------------------


@ALL
def test_of_many_drivers_of_a_run_one_drives(pair: str, postgres: Cluster, tmp_path: Path) -> None:
    where = place_of(pair, postgres, tmp_path)
    with fleet_of(tmp_path, where, workers=2, PAY="0.3") as fleet:
        fleet.submit(1)
        racing = [fleet.call("resume", fleet.runs[0], "--tools", "pay.py") for _ in range(4)]
        until_answering(fleet, lambda: all(one.poll() is not None for one in racing))
        fleet.finish()
        report("five drivers of one run", pair, fleet, 1)
        assert {*asked(fleet).values()} == {1}
        assert not fleet.story().reported


@ALL
def test_a_storm_of_wake_ups_and_repeated_deliveries_wakes_a_run_once(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=2) as fleet:
        fleet.submit(4)
        schema = fleet.where.rpartition("=")[2]

        def poke(run_id: str) -> None:
            for _ in range(50):
                by_hand(fleet.journal.enqueue(run_id))
                if pair == DBOS:  # the same run again, whatever its row says
                    postgres.execute(f"SELECT {schema}.enqueue_run('{run_id}', 1.0)")

        with ThreadPoolExecutor(4) as threads:
            storm = [threads.submit(poke, run_id) for run_id in fleet.runs]
            until_answering(fleet, lambda: all(one.done() for one in storm))
            for one in storm:
                one.result()
        fleet.finish()
        report("a storm of wake-ups, and deliveries twice", pair, fleet, 200)
        assert {*asked(fleet).values()} == {1}
        assert not fleet.story().reported


@ALL
def test_an_answer_at_the_moment_of_its_deadline_counts_or_is_refused(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path), workers=2) as fleet:
        fleet.submit(12)
        sent = dict[str, str]()

        def answer() -> bool:
            now = by_hand(fleet.journal.now())
            for row in by_hand(fleet.journal.rows()):
                late = row.wake_at is not None and row.wake_at - now < 0.03 * (len(sent) % 3 - 1)
                if row.state == "rest" and row.run_id not in sent and late:
                    sent[row.run_id] = "refused"
                    with suppress(ChartloopError):
                        fleet.send(row.run_id)
                        sent[row.run_id] = "sent"
            return fleet.answer() and not fleet.open

        until(answer)
        assert sent
        report("an answer at its deadline", pair, fleet, len(sent))
        assert {*asked(fleet).values()} == {1}


# clocks ---------------------------------------------------------------------------------------


@SERVERS
def test_workers_whose_clocks_are_ten_minutes_off_keep_leases_and_waits(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path)) as fleet:
        fleet.start(VICTIM_CLOCK="600")
        fleet.start(VICTIM_CLOCK="-600")
        until(lambda: fleet.working() == 2)
        fleet.submit(6)
        fleet.arm("asked")
        until_answering(fleet, lambda: fleet.working() == 1)
        fleet.finish()
        report("clocks ten minutes ahead and behind, and a kill", pair, fleet, 1)
        ats = [event.at for run in fleet.runs for event in by_hand(fleet.journal.events(run))]
        assert max(ats) - min(ats) < 300  # of the journal's clock, not ten minutes apart


# the server -----------------------------------------------------------------------------------


@SERVERS
@pytest.mark.parametrize("number", range(OUTAGES))
def test_the_server_is_ended_during_load(
    pair: str, number: int, cluster: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, cluster, tmp_path), workers=2) as fleet:
        fleet.submit(4)
        until_answering(fleet, lambda: len(fleet.effects()) > 3)
        cluster.stop("immediate")
        time.sleep(35.0 if number % 3 == 2 else 0.5)  # the outage itself
        cluster.start()
        fleet.finish()
        report("PostgreSQL ended with `-m immediate`", pair, fleet, 1)


@SERVERS
def test_the_server_is_ended_again_during_the_sweep(
    pair: str, cluster: Cluster, tmp_path: Path
) -> None:
    with fleet_of(tmp_path, place_of(pair, cluster, tmp_path), workers=3) as fleet:
        fleet.submit(4)
        fleet.arm("within-sweep", signal.SIGSTOP)
        fleet.arm("asked")
        until_answering(fleet, fleet.stopped)
        (pid,) = fleet.stopped()
        cluster.stop("immediate")
        cluster.start()
        os.kill(pid, signal.SIGCONT)
        fleet.finish()
        report("PostgreSQL ended while dead workers are swept", pair, fleet, 1)
