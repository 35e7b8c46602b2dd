"""Many machines: what a journal's database carries, how workers share it, what a fleet needs.

    python benchmarks/fleet.py [--only NAME,NAME ...] [--write]     # all: some twelve minutes
    python benchmarks/fleet.py --plan --runs-per-day 1_000_000 --steps 10 --model-seconds 2

It starts a PostgreSQL of its own, with `fsync` and `synchronous_commit` on, in the folder for
temporary files. Each measure keeps its figures in `fleet.json`, with the load of the machine
before it. `--write` puts the tables into docs/scale.md. `--plan` measures nothing: it computes
from `fleet.json` what a number of runs a day needs.

Belongs here: the measures and their tables. Never: arithmetic on them (`fleet_model`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import fleet_model as model
from fleet_tables import (
    AGENT_TURNS,
    AGENTS,
    FIGURES,
    LIBRARIES,
    RUNS,
    STEPS,
    TURNS,
    Figures,
    kept_figures,
    plans_table,
    service_of,
    tables,
    write,
)
from fleet_worker import runs_of
from run import LANGGRAPH, Subject, interpreter

from chartloop.adapters.journal.opening import journal_of
from chartloop.adapters.journal.postgres import PostgresJournal
from chartloop.adapters.journal.postgres_dialect import NUMBERED
from chartloop.hosting.runs import Caller, Runs
from chartloop.run.journal import Event, Journal, MemoryJournal, RunRow
from chartloop.run.processes import this_process
from chartloop.run.requests import StoredRequest
from chartloop.run.schedule import WorkerRow
from chartloop.run.sync import by_hand

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the server of the tests
from tests.postgres import PROGRAMS, Cluster  # noqa: E402

TEXT = "x" * 400
FOR = 3.0
"""Seconds for which a rate is measured."""
CONNECTIONS = (1, 4, 16)
"""The processes that append at once."""
FINISHED, FILLS = 100_000, 150.0
"""The finished runs of a long list, and the seconds after which their filling ends."""
ROUND_TRIP = 0.001


class Place:
    """A server, and folders that end with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = Cluster("fsync = on", "autovacuum = on", "shared_buffers = 256MB")
        self._count = 0

    def journals(self) -> Iterator[tuple[str, Path, str]]:
        """An empty journal of each kind: its kind, a folder, and where it is."""
        for kind in ("SQLite", "Postgres"):
            folder, url = self.fresh()
            yield kind, folder, url if kind == "Postgres" else str(folder / "journal.db")

    def fresh(self) -> tuple[Path, str]:
        """An empty folder, and the URL of an empty schema."""
        self._count += 1
        folder = self.folder / str(self._count)
        folder.mkdir()
        return folder, self.cluster.url(f"fleet{self._count}")

    def cpu(self) -> float:
        """Seconds of processor time that the server has used."""
        first = int((self.cluster.data / "postmaster.pid").read_text().split()[0])
        used = 0
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                columns = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            pid = int(status.parent.name)
            if pid == first:
                used += sum(map(int, columns[11:15]))  # with its children that have ended
            elif int(columns[1]) == first:
                used += sum(map(int, columns[11:13]))
        return used / os.sysconf("SC_CLK_TCK")


# appends ------------------------------------------------------------------------------------------


def note(seq: int) -> Event:
    return Event(seq, "intent", 1.0, None, {"key": str(seq), "text": TEXT})


async def append_for(journal: Journal, names: list[str], seconds: float) -> float:
    """Appends a second of runs that write at once."""
    written, end = 0, time.monotonic() + seconds

    async def write(name: str) -> None:
        nonlocal written
        row = await journal.row(name)
        assert row is not None
        head = row.head
        while time.monotonic() < end:
            head = await journal.append(name, head, row.epoch, [note(head)])
            written += 1

    await asyncio.gather(*map(write, names))
    return written / seconds


def append_beside(url: str, number: int, ready: Any, found: Any) -> None:
    """One of several processes that write at once: alone, then 50 runs in groups."""
    journal = PostgresJournal(url)
    names = [f"r{number}-{n}" for n in range(50)]
    for name in names:
        by_hand(journal.create(RunRow(name)))
    asyncio.run(append_for(journal.grouped, names, 0.3))
    ready.wait()
    alone = asyncio.run(append_for(journal, names[:1], FOR))
    ready.wait()
    found.put((alone, asyncio.run(append_for(journal.grouped, names, FOR))))


def measure_appends(place: Place) -> Figures:
    """Appends a second from several processes, alone and in groups."""
    figures, spawn = Figures(), get_context("spawn")
    for connections in CONNECTIONS:
        _, url = place.fresh()
        by_hand(PostgresJournal(url).close())
        ready, found = spawn.Barrier(connections), spawn.Queue()
        processes = [
            spawn.Process(target=append_beside, args=(url, number, ready, found))
            for number in range(connections)
        ]
        for one in processes:
            one.start()
        rates = [found.get(timeout=120) for _ in processes]
        for one in processes:
            one.join()
        figures[f"alone {connections}"], figures[f"groups {connections}"] = map(
            sum, zip(*rates, strict=True)
        )
    return figures


def measure_counter(place: Place) -> Figures:
    """Commits a second of 16 connections that do nothing else: where the counter ends.

    `pgbench` sends the statements of a group's end, so that no Python is in the way.
    """
    figures = Figures()
    folder, url = place.fresh()
    by_hand(PostgresJournal(url).close())
    schema = url.rpartition("=")[2]
    # as `NUMBERED`, which gives numbers to rows that it is sent: these are made here
    assert NUMBERED.startswith("WITH given AS (UPDATE journal SET newest = newest + ?1 RETURNING")
    for size in (1, 50):
        script = folder / f"commit{size}.sql"
        script.write_text(
            "\\startpipeline\nBEGIN;\n"  # noqa: S608
            f"WITH given AS (UPDATE {schema}.journal SET newest = newest + {size}"
            f" RETURNING newest - {size} AS before) INSERT INTO {schema}.event"
            " (number, run_id, seq, epoch, type, record, at, data)"
            " SELECT before + place, 'r' || :client_id, before + place, 0, 'intent', NULL, 1.0,"
            f" '{TEXT}' FROM given, generate_series(1, {size}) AS place;\n"
            f"SELECT pg_notify('chartloop_{schema}', 'x');\nCOMMIT;\n\\endpipeline\n"
        )
        said = subprocess.run(
            [PROGRAMS / "pgbench", "-n", "-M", "extended", "-f", script, "-c", "16", "-j", "2",
             "-T", f"{FOR:.0f}", place.cluster.url()],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
        figures[f"commits of {size}"] = float(said.partition("tps = ")[2].split()[0])
    return figures


def measure_far(place: Place) -> Figures:
    """50 runs that write at once, with a round trip of a millisecond more."""
    figures = Figures()
    program = [sys.executable, HERE / "fleet_proxy.py", str(place.cluster.port), str(ROUND_TRIP)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as proxy:
        assert proxy.stdout is not None
        port = int(proxy.stdout.readline())
        for name, through in (("near", 0), ("far", port)):
            _, url = place.fresh()
            schema = url.rpartition("=")[2]
            journal = PostgresJournal(place.cluster.url(schema, port=through))
            names = [f"r{n}" for n in range(50)]
            for run in names:
                by_hand(journal.create(RunRow(run)))
            figures[f"{name} trip, ms"] = median_ms(lambda journal=journal: journal.now(), 51)
            asyncio.run(append_for(journal.grouped, names, 0.3))
            figures[name] = asyncio.run(append_for(journal.grouped, names, FOR))
            by_hand(journal.close())
        proxy.kill()
    return figures


# single operations --------------------------------------------------------------------------------


def median_ms(work: Callable[[], Any], times: int) -> float:
    """The median of so many calls, in milliseconds."""
    took = list[float]()
    for _ in range(times):
        before = time.perf_counter()
        by_hand(work())
        took.append(1_000 * (time.perf_counter() - before))
    return statistics.median(took)


def measure_operations(place: Place) -> Figures:
    """A submit, a claim of 20 runs, a hand-back and a sweep, with a thousand runs due."""
    figures = Figures()
    for kind, folder, where in place.journals():
        runs = runs_of(folder, where)
        journal = runs.journal
        took = list[float]()
        for _ in range(100):
            before = time.perf_counter()
            submit(runs, 1)
            took.append(1_000 * (time.perf_counter() - before))
        figures[f"{kind} submit"] = statistics.median(took)
        needs = by_hand(journal.requests(limit=1))[0].needs
        for number in range(1_000):
            by_hand(journal.place_request(
                StoredRequest(f"k{number}", f"x{number}", "run", "", 1.0, {}, needs=needs)
            ))  # fmt: skip
        by_hand(journal.keep(WorkerRow("w", process=this_process())))
        claims, backs = list[float](), list[float]()
        for _ in range(50):
            before = time.perf_counter()
            claimed = by_hand(journal.claim("w", 20, {needs: True})).runs
            claims.append(1_000 * (time.perf_counter() - before))
            assert len(claimed) == 20
            for one in claimed:
                before = time.perf_counter()
                by_hand(journal.hand_back("w", one, 1.0))
                backs.append(1_000 * (time.perf_counter() - before))
        figures[f"{kind} claim"] = statistics.median(claims)
        figures[f"{kind} hand back"] = statistics.median(backs)
        figures[f"{kind} sweep"] = median_ms(journal.sweep, 50)
        by_hand(journal.create(RunRow("alone")))
        appended = list[float]()
        for head in range(200):
            before = time.perf_counter()
            by_hand(journal.append("alone", head, 0, [note(head)]))
            appended.append(1_000 * (time.perf_counter() - before))
        figures[f"{kind} append"] = statistics.median(appended)
        by_hand(journal.close())
    return figures


def measure_finished(place: Place) -> Figures:
    """The commands that look at runs, in a journal with many finished ones."""
    figures = Figures()
    for kind, folder, where in place.journals():
        runs = runs_of(folder, where, turns=3)
        submit(runs, 1)
        drive(folder, where, turns=3, pause=0, at_once=1, workers=1, runs=1)
        journal = runs.journal
        (row,) = by_hand(journal.rows())
        raw = by_hand(journal.raw(row.run_id))
        assert raw is not None
        until, filled = time.monotonic() + FILLS, 1
        while filled < FINISHED and time.monotonic() < until:
            copies = [
                raw._replace(
                    row=row.replace(run_id=f"{n:08}", created=row.created + n), requests=()
                )
                for n in range(filled, min(filled + 500, FINISHED))
            ]
            by_hand(journal.put_raw(copies))
            filled += len(copies)
        figures[f"{kind} filled"] = filled
        if kind == "Postgres":
            place.cluster.execute("VACUUM ANALYZE")
        commands = {
            "runs": ["runs"],
            "runs of a status": ["runs", "--status", "error"],
            "runs --waiting": ["runs", "--waiting"],
            "why": ["why", row.run_id],
            "stats": ["stats", "--newest", "100"],
        }
        (folder / "tools.py").write_text("from serving_server import look_up\n")
        variables = {**os.environ, "PYTHONPATH": str(HERE)}
        for name, command in commands.items():
            tools = ["--tools", "tools.py"] if name == "why" else []
            took = list[float]()
            for _ in range(3):
                before = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-m", "chartloop", *command, *tools, "--journal", where],
                    check=True, capture_output=True, cwd=folder, env=variables,
                )  # fmt: skip
                took.append(time.perf_counter() - before)
            figures[f"{kind} {name}"] = statistics.median(took)
        by_hand(journal.close())
    return figures


# workers ------------------------------------------------------------------------------------------


def submit(runs: Runs, count: int) -> None:
    """Submit runs, as `chartloop submit` and the server do."""
    for _ in range(count):
        runs.start({"machine": "loop", "task": "look up short"}, Caller())


class Worked(NamedTuple):
    """What came of workers."""

    seconds: float
    cpu: float


def drive(
    folder: Path, where: str, *, turns: int, pause: float, at_once: int, workers: int, runs: int
) -> Worked:
    """Let so many workers drive the runs that are due, of which there are `runs`."""
    with working(folder, where, turns, pause, at_once, workers=workers) as started:
        before, journal = time.perf_counter(), journal_of(where)
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        while by_hand(journal.backlog()).settled < runs:
            time.sleep(0.05)
        seconds = time.perf_counter() - before
        cpu = sum(float(one.communicate(timeout=60)[0]) for one in started)
    return Worked(seconds, cpu)


@contextmanager
def working(folder: Path, *given: Any, workers: int) -> Generator[list[subprocess.Popen[str]]]:
    """Workers in processes of their own, which are ready to begin."""
    command = [sys.executable, HERE / "fleet_worker.py", folder, *map(str, given)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(workers)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            assert one.stdout.readline(), "a worker ended"
        yield started
    finally:
        for one in started:
            if one.poll() is None:
                one.communicate(timeout=60)


def measure_fleet(place: Place) -> Figures:
    """1,000 runs of 20 steps on two workers, whose model answers at once."""
    figures = Figures()
    for kind, folder, where in place.journals():
        runs = runs_of(folder, where, turns=TURNS)
        submit(runs, RUNS)
        before = place.cpu()
        worked = drive(folder, where, turns=TURNS, pause=0, at_once=20, workers=2, runs=RUNS)
        rows = by_hand(runs.journal.rows())
        assert {(row.status, row.steps) for row in rows} == {("completed", STEPS)}, rows[0]
        steps = RUNS * STEPS
        figures[f"{kind} seconds"] = worked.seconds
        figures[f"{kind} steps/s"] = steps / worked.seconds
        figures[f"{kind} worker μs"] = worked.cpu / steps * 1e6
        if kind == "Postgres":
            figures["server μs"] = (place.cpu() - before) / steps * 1e6
            schema = where.rpartition("=")[2]
            sql = (
                "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' "  # noqa: S608
                f"AND relnamespace = '{schema}'::regnamespace"
            )
            figures["Postgres bytes"] = float(place.cluster.execute(sql)[0][0]) / steps
        by_hand(runs.journal.close())
        if kind == "SQLite":
            size = (folder / "journal.db").stat().st_size
            figures["SQLite bytes"] = size / steps
    figures["appends a step"] = appends_of_a_step(place)
    return figures


class Counting(MemoryJournal):
    """A journal that counts its appends."""

    appends = 0

    async def append(self, *given: Any, **more: Any) -> int:
        self.appends += 1
        return await super().append(*given, **more)


def appends_of_a_step(place: Place) -> float:
    """How often a step writes."""
    folder, _ = place.fresh()
    runs, journal = runs_of(folder, str(folder / "journal.db"), turns=TURNS), Counting()
    components = runs.settings.components
    machine = runs.machines.to_start("loop")
    result = machine.run("look up short", journal=journal, **components)
    assert result.steps == STEPS, result
    return journal.appends / STEPS


def measure_second(place: Place) -> Figures:
    """What a second worker gains where the model takes a second."""
    figures = Figures()
    for workers in (1, 2):
        folder, url = place.fresh()
        submit(runs_of(folder, url), 40)
        worked = drive(folder, url, turns=3, pause=1.0, at_once=10, workers=workers, runs=40)
        figures[f"{workers}, s"] = worked.seconds
    figures["gain"] = figures["1, s"] / figures["2, s"]
    return figures


def measure_waiting(place: Place) -> Figures:
    """Statements a second of two idle workers, while 10,000 runs wait for a person."""
    folder, url = place.fresh()
    schema = url.rpartition("=")[2]
    by_hand(PostgresJournal(url).close())
    place.cluster.execute(
        f"INSERT INTO {schema}.request (key, run_id, kind, digest, at, data) "  # noqa: S608
        "SELECT 'k' || n, 'r' || n, 'run', 'd', 1.0, '{}' FROM generate_series(1, 10000) n"
    )
    log = place.cluster.folder / "log"
    place.cluster.execute("ALTER ROLE postgres SET log_statement = 'all'")
    with working(folder, url, 1, 0.0, 20, workers=2) as started:
        for one in started:
            assert one.stdin is not None
            one.stdin.write("go\n")
            one.stdin.flush()
        time.sleep(3.0)
        before = log.read_text().count("LOG:")
        time.sleep(10.0)
        rate = (log.read_text().count("LOG:") - before) / 10
    place.cluster.execute("ALTER ROLE postgres RESET log_statement")
    return {"statements/s": rate}


# others -------------------------------------------------------------------------------------------

DBOS_PACKAGES = ("pydantic-ai-slim[dbos]>=2,<3", "psycopg[binary]>=3.2,<4")
ON_POSTGRES = ("langgraph-checkpoint-postgres>=3,<4", "psycopg[binary,pool]>=3.2,<4")
PEERS = (
    Subject(LIBRARIES[0], "fleet_in_chartloop.py", first=("inline",)),
    Subject(
        LIBRARIES[1], "fleet_in_langgraph.py", "langgraph_postgres", (*LANGGRAPH, *ON_POSTGRES)
    ),
    Subject(LIBRARIES[2], "fleet_in_pydantic_ai.py", "dbos", DBOS_PACKAGES),
    Subject(LIBRARIES[3], "fleet_in_dbos.py", "dbos", DBOS_PACKAGES),
)


def measure_peers(place: Place) -> Figures:
    """The same agents in other libraries: steps a second, each of them durable in this server."""
    figures = Figures()
    for number, subject in enumerate(PEERS):
        rates = list[float]()
        for attempt in range(2):
            name = f"peer{number}{attempt}{os.getpid()}"
            place.cluster.execute(f"CREATE DATABASE {name}")
            url = f"{place.cluster.url().rpartition('/')[0]}/{name}"
            size = [url, str(AGENTS), str(AGENT_TURNS)]
            command = [interpreter(subject), HERE / subject.script, *subject.first, *size]
            try:
                done = subprocess.run(
                    command, check=True, capture_output=True, text=True, timeout=120
                )
                rates.append(json.loads(done.stdout.splitlines()[-1])["steps/s"])
            except subprocess.CalledProcessError as error:
                print(error.stderr[-2000:], file=sys.stderr)
            except subprocess.TimeoutExpired:
                print(f"{subject.name}: over 120 s", file=sys.stderr)
        if rates:
            figures[subject.name] = max(rates)
    return figures


MEASURES: dict[str, Callable[[Place], Figures]] = {
    "appends": measure_appends, "counter": measure_counter, "far": measure_far,
    "operations": measure_operations, "finished": measure_finished, "fleet": measure_fleet,
    "second": measure_second, "waiting": measure_waiting, "peers": measure_peers,
}  # fmt: skip


def options() -> Any:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--only", default=",".join(MEASURES), help=f"of: {', '.join(MEASURES)}")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/scale.md")
    parser.add_argument("--plan", action="store_true", help="compute what a demand needs")
    usual = model.Demand(1_000_000, 10, 2.0)
    for name, value in usual._asdict().items():
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(value), default=value,
            help=f"with --plan (default: {value:,g})",
        )  # fmt: skip
    given = parser.parse_args()
    given.only = [name for name in given.only.split(",") if name]
    if unknown := sorted(set(given.only) - MEASURES.keys()):
        parser.error(f"`{unknown[0]}` is not a measure; they are {', '.join(MEASURES)}")
    return given


def main() -> None:
    """Measure or plan, and print."""
    given = options()
    kept = kept_figures()
    if given.plan:
        names = model.Demand._fields
        asked = model.Demand(**{name: getattr(given, name) for name in names})
        found = {name: one["figures"] for name, one in kept.items()}
        print(plans_table((asked,), service_of(found)))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # and end the server
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        place = Place(Path(name))
        try:
            for measure in given.only:
                load, began = os.getloadavg()[0], time.monotonic()
                figures = {
                    what: float(f"{value:.4g}") for what, value in MEASURES[measure](place).items()
                }
                kept[measure] = {"load": round(load, 1), "figures": figures}
                took = time.monotonic() - began
                print(f"{measure}, {took:.0f} s, load {load:.1f}: {figures}", file=sys.stderr)
                ordered = {each: kept[each] for each in MEASURES if each in kept}
                FIGURES.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")
        finally:
            place.cluster.end()
    print(*tables(kept).values(), sep="\n\n")
    if given.write:
        write()


if __name__ == "__main__":
    main()
