"""What every command says of a database that cannot hold a journal: one message, exit code 2."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand
from tests.cli.shell import PROGRAM
from tests.cli.working import Place
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]
SECRET = "c0rrect-horse"


def message(kind: bytes, body: bytes) -> bytes:
    """A message of PostgreSQL's protocol."""
    return kind + struct.pack("!i", len(body) + 4) + body


@contextmanager
def old_server() -> Generator[int]:
    """The port of a server that says that it is PostgreSQL 13, and answers nothing.

    It speaks only what a client needs to ask its version: no such server is in Debian.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def talk(client: socket.socket) -> None:
        with client, suppress(OSError, struct.error):
            while struct.unpack("!ii", client.recv(65536)[:8])[1] != 196_608:  # not yet its 3.0
                client.sendall(b"N")  # neither TLS nor GSS
            version = message(b"S", b"server_version\0" + b"13.14\0")
            utf8 = message(b"S", b"client_encoding\0UTF8\0")
            client.sendall(message(b"R", bytes(4)) + version + utf8 + message(b"Z", b"I"))
            client.recv(65536)

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


COMMANDS = {
    "worker": ("worker", "--tools", "pay.py", "--until-idle"),
    "submit": ("submit", "pays.yaml", "--tools", "pay.py"),
    "runs": ("runs",),
    "serve": ("serve", "--machines", ".", "--tools", "pay.py", "--port", "0"),
    "migrate": ("journal", "migrate"),
    "export": ("journal", "export", "--to", "runs.jsonl"),
}


def refused(folder: Path, url: str, *says: str) -> None:
    """Every command refuses the URL, with these words and without its password."""
    Place(folder)
    url = url.replace("@", f":{SECRET}@", 1)
    started = {
        name: subprocess.Popen(
            [*PROGRAM, *line, "--journal", url], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for name, line in COMMANDS.items()
    }  # fmt: skip
    try:
        for name, process in started.items():
            said = " ".join(process.communicate(timeout=120)[0].split())
            assert process.returncode == 2, (name, said)
            for words in says:
                assert words in said, (name, said)
            assert said.count("error") == 1, (name, said)
            assert "= help:" in said, (name, said)
            for never in (SECRET, "Traceback", "drives up to", "submitted"):
                assert never not in said, (name, said)
    finally:
        for process in started.values():
            with process:  # closes its output
                process.kill()
    assert not (folder / "runs.jsonl").exists()


@pytest.fixture
def made(postgres: Cluster, tmp_path: Path) -> str:
    """The URL of a journal with its tables."""
    url = postgres.of(tmp_path)
    by_hand(journal_of(url).close())
    return url


def test_a_text_that_is_no_url(tmp_path: Path) -> None:
    refused(tmp_path, "postgresql://team@more@127.0.0.1/runs", "is not the URL of a PostgreSQL")


def test_a_server_that_is_down(tmp_path: Path) -> None:
    refused(tmp_path, "postgresql://team@127.0.0.1:1/runs", "cannot be reached", "start the server")


def test_a_database_that_is_not_there(postgres: Cluster, tmp_path: Path) -> None:
    url = f"postgresql://postgres@127.0.0.1:{postgres.port}/nothing"
    refused(tmp_path, url, "nothing", "check the user, the password and the database")


def test_a_server_that_is_too_old(tmp_path: Path) -> None:
    with old_server() as port:
        url = f"postgresql://team@127.0.0.1:{port}/runs?sslmode=disable&gssencmode=disable"
        refused(tmp_path, url, "is PostgreSQL 13, and a journal needs 14")


def test_a_standby(tmp_path: Path) -> None:
    primary = Cluster()
    try:
        by_hand(journal_of(primary.of(tmp_path)).close())
        standby = Cluster(primary=primary)
        try:
            refused(tmp_path, standby.of(tmp_path), "is a standby", "name its primary")
        finally:
            standby.end()
    finally:
        primary.end()


ROLES: dict[str, tuple[str, tuple[str, ...]]] = {
    "without-rights": ("LOGIN", ("may not do this", "permission denied")),
    "out-of-connections": (
        "LOGIN CONNECTION LIMIT 0", ("too many connections", "raise `max_connections`"),
    ),
    "may-not-log-in": ("NOLOGIN", ("is not permitted to log in",)),
}  # fmt: skip


@pytest.mark.parametrize("case", ROLES)
def test_a_role(postgres: Cluster, made: str, tmp_path: Path, case: str) -> None:
    options, says = ROLES[case]
    role = "r" + made[-8:] + case.replace("-", "_")
    postgres.execute(f"CREATE ROLE {role} {options}")
    refused(tmp_path, made.replace("postgres@", f"{role}@"), *says)


def test_tables_of_a_newer_version(postgres: Cluster, made: str, tmp_path: Path) -> None:
    schema = made.partition("schema=")[2]
    postgres.execute(f"INSERT INTO {schema}.schema_version VALUES (99, 'later')")  # noqa: S608
    refused(tmp_path, made, "update chartloop")
