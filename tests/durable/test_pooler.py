"""The journal behind PgBouncer, which hands a connection of the server on with each transaction."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand
from tests.cli.working import Place, kill_one_of_two, until
from tests.postgres import NEEDED, USER, Cluster

PROGRAM = "/usr/sbin/pgbouncer"
pytestmark = [*NEEDED, pytest.mark.system(PROGRAM, install="apt-get install pgbouncer")]


@pytest.fixture
def pooler(postgres: Cluster, tmp_path: Path) -> Iterator[int]:
    """The port of a pooler in transaction mode with fewer connections than its clients have."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    settings = postgres.folder / f"pooler-{port}.ini"
    settings.write_text(
        "[databases]\n"
        f"postgres = host=127.0.0.1 port={postgres.port} user=postgres\n"
        "[pgbouncer]\n"
        f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 3\n"
    )
    settings.chmod(0o644)
    command = [PROGRAM, "--quiet", str(settings)]
    if os.geteuid() == 0:
        command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]
    with (tmp_path / "pooler.log").open("w") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log)
    until(lambda: _listens(port))
    yield port
    started.terminate()
    started.wait()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow("kills a process")
def test_a_killed_workers_runs_are_taken_up(postgres: Cluster, pooler: int, tmp_path: Path) -> None:
    schema = f"pooled{pooler}"
    by_hand(journal_of(postgres.url(schema)).close())
    kill_one_of_two(Place(tmp_path, postgres.url(schema, port=pooler)))


def test_a_server_that_would_acknowledge_too_early_is_told_in_each_transaction(
    postgres: Cluster, pooler: int
) -> None:
    from chartloop.adapters.journal.postgres_connection import (  # noqa: PLC0415  an extra
        Connection,
        address,
    )

    postgres.execute("CREATE ROLE hasty LOGIN SUPERUSER")
    postgres.execute("ALTER ROLE hasty SET synchronous_commit = off")
    for port, user, wanted in (
        (0, "hasty", "on"),
        (0, "postgres", "on"),
        (pooler, "postgres", "on"),
    ):
        connection = Connection(address(postgres.url(user=user, port=port)))
        with connection.database.transaction():
            connection.database.execute(connection.begins.encode())
            assert connection.ask("SHOW synchronous_commit")[0] == wanted
            assert connection.ask("SHOW lock_timeout")[0] == "5s"
        connection.database.close()
