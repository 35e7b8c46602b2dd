"""What operators look at: probes, metrics and the view of the queue, while the database changes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.cli.shell import PROGRAM
from tests.cli.working import Place, until
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]


class Probes(NamedTuple):
    """The HTTP endpoints of a worker."""

    base: str

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text of an answer."""
        try:
            with urlopen(self.base + path, timeout=30) as answer:  # noqa: S310  of this computer
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            return refused.code, refused.read().decode()


@contextmanager
def probed(place: Place, *more: str) -> Generator[tuple[Probes, subprocess.Popen[str]]]:
    """A worker with probes."""
    with place.worker("--health", "0", *more) as worker:
        assert worker.stderr is not None
        said = ""
        while (found := re.search(r"http://\S+", said)) is None:
            line = worker.stderr.readline()
            assert line, said
            said += line
        yield Probes(found[0]), worker


def schema_of(place: Place) -> str:
    return place.where.partition("schema=")[2]


def view(cluster: Cluster, place: Place) -> tuple[int, float, int, int]:
    """The row of the view."""
    (row,) = cluster.execute(f"SELECT * FROM {schema_of(place)}.journal_backlog")  # noqa: S608
    return row


def test_a_worker_is_alive_while_its_database_is_away_and_not_ready(tmp_path: Path) -> None:
    server = Cluster()
    try:
        with probed(Place(tmp_path, server.of(tmp_path))) as (probes, worker):
            until(lambda: probes.get("/readyz") == (200, "ok\n"))
            assert probes.get("/livez") == (200, "ok\n")
            server.stop("fast")
            status, why = probes.get("/readyz")
            assert status == 503
            assert "journal" in why or "cannot be reached" in why
            assert probes.get("/livez") == (200, "ok\n")
            told = probes.get("/metrics")[1]
            assert "chartloop_runs_driven 0" in told
            assert "chartloop_runs_due" not in told  # unknown is not zero
            server.start()
            until(lambda: probes.get("/readyz")[0] == 200)
            assert worker.poll() is None
            assert probes.get("/nothing")[0] == 404
    finally:
        server.end()


def test_a_worker_is_not_ready_once_the_tables_are_newer_than_it_knows(
    postgres: Cluster, tmp_path: Path
) -> None:
    place = Place(tmp_path, postgres.of(tmp_path))
    with probed(place) as (probes, _):
        until(lambda: probes.get("/readyz")[0] == 200)
        postgres.execute(f"INSERT INTO {schema_of(place)}.schema_version VALUES (99, 'later')")  # noqa: S608
        status, why = probes.get("/readyz")
        assert (status, "version 99" in why) == (503, True)
        assert probes.get("/livez")[0] == 200


def test_the_view_and_the_metrics_say_the_same(postgres: Cluster, tmp_path: Path) -> None:
    place = Place(tmp_path, postgres.of(tmp_path))
    place.submit("--inputs", "tasks.jsonl", "--var", "rest=60")
    assert view(postgres, place)[::2] == (12, 0)
    assert view(postgres, place)[1] > 0
    with probed(place, "--concurrency", "5", "--grace", "0") as (probes, _):
        until(lambda: len(place.effects()) == 5)
        due, oldest, held, parked = view(postgres, place)
        assert (due, held, parked) == (7, 5, 0)
        told = probes.get("/metrics")[1]
        assert "chartloop_runs_due 7\n" in told
        assert "chartloop_runs_held 5\n" in told
        assert "chartloop_runs_driven 5\n" in told
        found = re.search(r"^chartloop_oldest_due_seconds (\S+)", told, re.MULTILINE)
        assert found is not None
        assert float(found[1]) >= oldest > 0


def test_a_role_of_an_autoscaler_needs_no_more_than_the_view(
    postgres: Cluster, tmp_path: Path
) -> None:
    import psycopg  # noqa: PLC0415  an extra

    place = Place(tmp_path, postgres.of(tmp_path))
    place.submit()
    schema, role = schema_of(place), f"scaler_{schema_of(place)}"
    postgres.execute(
        f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};"
        f"GRANT SELECT ON {schema}.journal_backlog TO {role}"
    )
    with psycopg.connect(postgres.url(user=role), autocommit=True) as database:
        asks = f"SELECT runs_due + runs_held FROM {schema}.journal_backlog"  # noqa: S608
        assert database.execute(asks.encode()).fetchone() == (1,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.execute(f"SELECT * FROM {schema}.request".encode())  # noqa: S608


def test_looking_at_the_queue_reads_none_of_the_runs_that_wait(
    postgres: Cluster, tmp_path: Path
) -> None:
    """Of 20,000 that wait, and 20,000 that were done, none is read: by the plan of the server."""
    place = Place(tmp_path, postgres.of(tmp_path))
    place.submit()
    schema = schema_of(place)
    for name, outcome, worker in (("waits", "NULL", "NULL"), ("done", "'{}'", "'gone'")):
        postgres.execute(
            f"INSERT INTO {schema}.request (key, run_id, kind, digest, at, data, outcome, worker) "  # noqa: S608
            f"SELECT '{name}' || i, '{name}' || i, 'run', 'd', 1, '{{}}', {outcome}, {worker} "
            "FROM generate_series(1, 20000) i"
        )
    postgres.execute(f"ANALYZE {schema}.request")
    plan = postgres.execute(
        f"EXPLAIN (ANALYZE, BUFFERS) SELECT * FROM {schema}.journal_backlog"  # noqa: S608
    )
    text = "\n".join(line for (line,) in plan)
    assert "Seq Scan" not in text, text
    pages = [int(n) for n in re.findall(r"shared (?:hit|read)=(\d+)", text)]
    assert pages[0] < 20, text  # in all, the planning aside


def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path) -> None:
    place = Place(tmp_path)
    with probed(place) as (probes, _):
        port = probes.base.rpartition(":")[2]
        done = subprocess.run(
            [*PROGRAM, "worker", "--health", port, "--journal", place.where],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert place.working() == 1  # no second one was listed
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert f"cannot listen at 127.0.0.1:{port}: another program" in said
    assert "= help: " in said
    assert "Traceback" not in said
