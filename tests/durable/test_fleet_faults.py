"""Workers that stop, race, are poked, have wrong clocks, or lose their database: real processes.

    CHARTLOOP_OUTAGES=10 CHARTLOOP_FIGURES=docs/durability.jsonl pytest tests/durable/test_fleet_faults.py

Each test ends with the promises of `fleet.check`: no acknowledged step is lost, no recorded call is
paid twice, and the calls reported in doubt are exactly those that a process left.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from chartloop.core.errors import ChartloopError
from chartloop.machine.evolve import RULES
from chartloop.run.sync import by_hand
from tests.cli.working import until
from tests.durable.fleet import Fleet, fleet_of, report, until_answering
from tests.durable.links import Network, Proxy
from tests.durable.pairs import DBOS, POSTGRES, SQLITE, WITH_DBOS, place_of
from tests.postgres import NEEDED, USER, Cluster

pytestmark = [*NEEDED, pytest.mark.slow("stops processes and servers")]
ROOT = Path(__file__).parents[2]
ALL = pytest.mark.parametrize("pair", [SQLITE, POSTGRES, WITH_DBOS])
SERVERS = pytest.mark.parametrize("pair", [POSTGRES, WITH_DBOS])
OUTAGES = int(os.environ.get("CHARTLOOP_OUTAGES", "1"))
"""How often the server is ended during load. What lasts for longer than a lease is done a fifth as
often."""
LONG = max(1, OUTAGES // 5)
TTL = 30.0 if "CHARTLOOP_FIGURES" in os.environ else 12.0
"""The seconds that a lease lasts where one is waited for: what is published is with the real one."""


@pytest.fixture
def cluster() -> Generator[Cluster]:
    """A server that a test may end."""
    server = Cluster()
    try:
        yield server
    finally:
        server.end()


@pytest.fixture
def fleet(pair: str, request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Fleet]:
    """Two workers at work on the journal of a pair: on the test's own server where it asks for
    `cluster`, else on the one that all share.
    """
    own = "cluster" if "cluster" in request.fixturenames else "postgres"
    where = place_of(pair, request.getfixturevalue(own), tmp_path)
    with fleet_of(tmp_path, where, workers=2) as made:
        yield made


def asked(fleet: Fleet) -> Counter[str]:
    """How often each call was made."""
    return Counter(key for word, key, *_ in fleet.effects() if word == "asked")


def in_a_call(fleet: Fleet, pid: int) -> bool:
    """Whether a worker has made a call that has not come back."""
    mine = [word for word, _, of, _ in fleet.effects() if of == pid]
    return mine.count("asked") > mine.count("replied")


def far_is_in_a_call(fleet: Fleet, pid: int) -> bool:
    """Whether a worker is in a call; more runs are started if the others have taken every one."""
    if fleet.answer():
        fleet.submit(6)
    return in_a_call(fleet, pid)


def lengths(fleet: Fleet) -> dict[str, int]:
    """The number of events of each run."""
    return {run: len(by_hand(fleet.journal.events(run))) for run in fleet.runs}


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
    pair: str, place: str, fleet: Fleet
) -> None:
    fleet.submit(3)
    fleet.arm(place, signal.SIGSTOP)
    until_answering(fleet, fleet.stopped)
    (pid,) = fleet.stopped()
    fleet.lapse(pid)
    fleet.finish()
    before = lengths(fleet)
    resume_and_stop(fleet, pid)
    assert lengths(fleet) == before
    report("a worker stopped until its lease had lapsed, and continued", pair, fleet, 1)
    assert sum(fleet.story().reported.values())


@SERVERS
def test_a_stopped_worker_that_goes_on_before_the_next_has_written(pair: str, fleet: Fleet) -> None:
    fleet.submit(1)
    fleet.arm("before-record", signal.SIGSTOP)
    until(fleet.stopped)
    (first,) = fleet.stopped()
    fleet.arm("apart:after-acquire", signal.SIGSTOP)  # the run has lapsed
    fleet.lapse(first)
    until(lambda: len(fleet.stopped()) == 2)
    before = lengths(fleet)
    resume_and_stop(fleet, first)
    assert lengths(fleet) == before
    os.kill(fleet.stopped()[1], signal.SIGCONT)
    fleet.finish()
    report("a worker stopped until its lease had lapsed, and continued", pair, fleet, 1)


@pytest.mark.parametrize(
    ("pair", "place"),
    [
        (POSTGRES, "within-record"), (POSTGRES, "within-claim"),
        pytest.param(DBOS, "within-record", marks=WITH_DBOS.marks),
    ],
)  # fmt: skip
def test_a_worker_that_is_stopped_within_a_transaction_holds_up_the_others_for_seconds(
    pair: str, place: str, fleet: Fleet
) -> None:
    fleet.submit(3)
    fleet.arm(place, signal.SIGSTOP)
    until_answering(fleet, fleet.stopped)
    (pid,) = fleet.stopped()
    fleet.lapse(pid)
    fleet.finish()
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
    pair: str, fleet: Fleet, postgres: Cluster
) -> None:
    fleet.submit(4)
    schema = fleet.where.rpartition("=")[2]

    def poke(run_id: str) -> None:
        for _ in range(50):
            by_hand(fleet.journal.enqueue(run_id))
            if pair == DBOS:  # the same run again, whatever its row says
                postgres.execute(f"SELECT {schema}.enqueue_run('{run_id}', 1.0, 5, 1)")

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
    pair: str, fleet: Fleet
) -> None:
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


# workers that differ --------------------------------------------------------------------------


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


@pytest.mark.parametrize("pair", [SQLITE, POSTGRES])  # DBOS delivers to any: `test_dbos`
def test_of_workers_of_other_versions_only_those_take_a_run_that_can_drive_it(
    pair: str, postgres: Cluster, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(ROOT / "engine", older)
    evolve = older / "chartloop" / "machine" / "evolve.py"
    text = evolve.read_text()
    evolve.write_text(text.replace(f"\nRULES = {RULES}\n", "\nRULES = 0\n"))
    assert evolve.read_text() != text
    with fleet_of(tmp_path, place_of(pair, postgres, tmp_path)) as fleet:
        (old,) = fleet.start(PYTHONPATH=str(older))
        (without,) = fleet.start(able=False)
        fleet.submit(3)

        def lacking() -> dict[int, str]:
            workers = by_hand(fleet.journal.backlog()).workers
            return {one.process.pid: " ".join(one.lacks.values()) for one in workers if one.lacks}

        until(lambda: lacking().keys() == {old.pid, without.pid})
        assert f"it has the rules 0, not rules {RULES} of chartloop" in lacking()[old.pid]
        assert "unknown action `pay`" in lacking()[without.pid]
        (able,) = fleet.start()
        fleet.arm("asked")
        able.wait(60)
        (last,) = fleet.start()
        fleet.finish()
        report("workers with other rules and without the tool, and a kill", pair, fleet, 1)
        ids = {line[-2]: line[1] for line in fleet.trace() if line[0] == "kept"}
        claimed = {ids[line[-2]] for line in fleet.trace() if line[0] == "claimed"}
        # a process of its own has the id of its worker, and more
        assert all(id.startswith((ids[able.pid], ids[last.pid])) for id in claimed)


# the server -----------------------------------------------------------------------------------


@SERVERS
@pytest.mark.parametrize(
    ("length", "seconds"),
    [pytest.param("less", 0.5, id=f"less-{n}") for n in range(OUTAGES)]
    + [pytest.param("more", TTL + 5, id=f"more-{n}") for n in range(LONG)],
)
def test_the_server_is_ended_during_load(
    pair: str, length: str, seconds: float, cluster: Cluster, tmp_path: Path
) -> None:
    where, ttl = place_of(pair, cluster, tmp_path), str(TTL)
    with fleet_of(tmp_path, where, workers=2, VICTIM_TTL=ttl) as fleet:
        fleet.submit(4)
        until_answering(fleet, lambda: len(fleet.effects()) > 3)
        cluster.stop("immediate")
        time.sleep(seconds)  # the outage itself
        cluster.start()
        back = time.monotonic()
        fleet.finish()
        fault = f"PostgreSQL ended with `-m immediate` for {length} than a lease"
        report(fault, pair, fleet, 1, [fleet.back(back)])


@SERVERS
@pytest.mark.parametrize("number", range(LONG))
def test_the_server_is_ended_again_during_the_sweep(
    pair: str, number: int, cluster: Cluster, fleet: Fleet
) -> None:
    fleet.start()
    until(lambda: fleet.working() == 3)
    fleet.submit(4)
    fleet.arm("within-sweep", signal.SIGSTOP)
    fleet.arm("asked")
    until_answering(fleet, fleet.stopped)
    (pid,) = fleet.stopped()
    cluster.stop("immediate")
    cluster.start()
    back = time.monotonic()
    os.kill(pid, signal.SIGCONT)
    fleet.finish()
    fault = "PostgreSQL ended while dead workers are swept"
    report(fault, pair, fleet, 1, [fleet.back(back)])


CUT = ("claim", "acquire", "intent", "record", "expired", "answer", "hand_back", "settle")
"""The transactions whose commits are cut."""


@SERVERS
@pytest.mark.parametrize("lose", ["asked", "answer"])
def test_connections_are_cut_at_their_commits(
    pair: str, lose: str, postgres: Cluster, tmp_path: Path
) -> None:
    """Of each kind of transaction one: its worker stops within it until the proxy is told."""
    proxy = Proxy(postgres)
    try:
        with fleet_of(tmp_path, place_of(pair, postgres, tmp_path)) as fleet:
            fleet.start(link=proxy)
            until(lambda: fleet.working() == 1)
            for number, kind in enumerate(CUT * LONG, 1):
                fleet.arm(f"within-{kind}", signal.SIGSTOP)
                fleet.submit(1)
                until_answering(fleet, lambda number=number: len(fleet.stopped()) == number)
                proxy.lose = lose
                os.kill(fleet.stopped()[-1], signal.SIGCONT)
                until_answering(fleet, lambda number=number: proxy.lost == number)
            fleet.finish()
            when = "between commit and answer" if lose == "answer" else "before the commit"
            report(f"connections cut {when}", pair, fleet, proxy.lost)
            assert {*asked(fleet).values()} == {1}
    finally:
        proxy.end()


# the network ----------------------------------------------------------------------------------

NETWORK = pytest.mark.system("ip", install="apt-get install iproute2")
PARTED = {
    "link": "the link is down",
    "both": "packets dropped in both directions",
    "asked": "packets to the server dropped",
    "answers": "packets from the server dropped",
    "proxy": "a proxy that forwards nothing",
}
"""What parts a worker from the server, by what is lost. Only the last needs no rights."""


def parted() -> list[Any]:
    """Each way over one of the pairs, and over the other one the next time."""
    return [
        pytest.param(
            lost, pair, longer, id=f"{lost}-{pair}-{'more' if longer else 'less'}-{number}",
            marks=[*((NETWORK,) if lost != "proxy" else ()), *(WITH_DBOS.marks if pair == DBOS else ())],
        )
        for number in range(LONG)
        for place, lost in enumerate(PARTED)
        for pair in [(POSTGRES, DBOS)[(place + number) % 2]]
        for longer in (False, True)
    ]  # fmt: skip


@pytest.mark.parametrize(("lost", "pair", "longer"), parted())
def test_a_worker_is_parted_from_the_server(
    lost: str, pair: str, longer: bool, cluster: Cluster, tmp_path: Path
) -> None:
    """For less than a lease, or until others have taken up and ended what it held."""
    link = Proxy(cluster) if lost == "proxy" else Network(cluster, lost)
    try:
        ttl = str(TTL if longer else 30.0)
        where = place_of(pair, cluster, tmp_path)
        with fleet_of(tmp_path, where, PAY="0.3", VICTIM_TTL=ttl) as fleet:
            (far,) = fleet.start(link=link)
            fleet.start()
            until(lambda: fleet.working() == 2)
            until(lambda: far_is_in_a_call(fleet, far.pid))
            link.part()
            if longer:
                fleet.finish()
            else:
                time.sleep(8.0)  # the fault itself
            link.mend()
            mended = time.monotonic()
            until_answering(fleet, lambda: fleet.back(mended, far.pid) is not None)
            fleet.finish()
            assert not fleet.dead()
            fault = f"worker and database parted: {PARTED[lost]}"
            report(fault, pair, fleet, 1, [fleet.back(mended, far.pid)])
    finally:
        link.end()


# the disk -------------------------------------------------------------------------------------


@pytest.fixture
def disk() -> Generator[Path]:
    """A disk of 96 MB."""
    folder = Path(tempfile.mkdtemp(prefix="disk"))
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m,mode=0777", "chartloop-test", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    try:
        if done.returncode:
            pytest.skip(f"needs a disk of its own: {done.stderr.strip()}")
        yield folder
    finally:
        if not done.returncode:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()


def fill(disk: Path) -> Path:
    """Leave no room on a disk; what is to be removed to make some."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):  # there is no room for so much
                while True:
                    file.write(bytes(size))
    return filler


def fill_during_load(fleet: Fleet, disk: Path, happened: Callable[[], bool]) -> float:
    """Fill the disk until something has happened, and no call is in flight whose record may fit.

    Returns when there was room again.
    """
    fleet.submit(12)
    until(lambda: len(fleet.effects()) > 3)
    filler = fill(disk)
    until(lambda: happened() and not any(in_a_call(fleet, one.pid) for one in fleet.workers))
    filler.unlink()
    return time.monotonic()


def ended(server: Cluster) -> bool:
    """Whether a server has ended, that is asked for a new file of its log."""
    import psycopg  # noqa: PLC0415  an extra

    with suppress(psycopg.OperationalError):
        server.execute("SELECT pg_switch_wal()")
    return not server.runs


@ALL
def test_the_disk_of_the_tables_is_full(
    pair: str, disk: Path, cluster: Cluster, tmp_path: Path
) -> None:
    where = str(disk / "j.db")
    if pair != SQLITE:
        tables = disk / "tables"
        tables.mkdir()
        shutil.chown(tables, USER)
        cluster.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
        cluster.execute("ALTER DATABASE postgres SET default_tablespace = small")
        where = place_of(pair, cluster, tmp_path)
    with fleet_of(tmp_path, where, workers=2, PAY="0.3") as fleet:
        back = fill_during_load(fleet, disk, lambda: "disk is full" in fleet.said())
        fleet.finish()
        report("the disk of the tables full", pair, fleet, 1, [fleet.back(back)])


@SERVERS
def test_the_disk_of_the_server_is_full_and_it_ends(pair: str, disk: Path, tmp_path: Path) -> None:
    """Without room for its log PostgreSQL ends. It is started again when there is some."""
    server = Cluster(within=disk)
    try:
        with fleet_of(tmp_path, place_of(pair, server, tmp_path), workers=2) as fleet:
            fill_during_load(fleet, disk, lambda: ended(server))
            server.start()
            back = time.monotonic()
            fleet.finish()
            report("the disk of the server full", pair, fleet, 1, [fleet.back(back)])
    finally:
        server.end()
