"""What every command says of a database that cannot hold a journal: one message, exit code 2."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import struct
import subprocess
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.sync import by_hand
from tests.cli.shell import Done, call, program
from tests.cli.working import Place
from tests.postgres import NEEDED, USER, Cluster

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
MORE = {
    "run": ("run", "pays.yaml", "--tools", "pay.py"),
    "resume": ("resume", "last", "--tools", "pay.py"),
    "why": ("why", "last"),
    "stats": ("stats",),
    "limits": ("limits",),
    "schedule": ("schedule", "list"),
    "mcp": ("mcp", "--machines", ".", "--tools", "pay.py"),
    "http": ("mcp", "--machines", ".", "--tools", "pay.py", "--http", "0"),
}
"""Further commands, which open a journal through the same door: tried with one fault."""


def refused(
    folder: Path, url: str, *says: str, commands: Mapping[str, Sequence[str]] = COMMANDS,
    start: Callable[..., Done] = call,
) -> None:  # fmt: skip
    """The commands refuse the URL, with these words and without its password.

    They are called in this process, unless they are to `start` as programs of their own.
    """
    Place(folder)
    url = url.replace("@", f":{SECRET}@", 1)
    for name, line in commands.items():
        done = start(*line, "--journal", url, cwd=folder)
        said = " ".join((done.out + done.err).split())
        assert done.code == 2, (name, said)
        for words in says:
            assert words in said, (name, said)
        assert said.count("error") == 1, (name, said)
        assert "= help:" in said, (name, said)
        for never in (SECRET, "Traceback", "drives up to", "submitted"):
            assert never not in said, (name, said)
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


@pytest.fixture
def shop(postgres: Cluster, tmp_path: Path) -> Iterator[str]:
    """The URL of a schema that holds something else, which stays as it is."""
    url = postgres.of(tmp_path)
    schema = url.partition("schema=")[2]
    postgres.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.shop (price INT)")
    yield url
    tables = postgres.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")  # noqa: S608
    assert tables == [("shop",)]


def test_a_schema_that_holds_something_else(shop: str, tmp_path: Path) -> None:
    refused(tmp_path, shop, "holds something else", "name another schema", start=program)


@pytest.mark.parametrize("name", MORE)
def test_another_command(shop: str, tmp_path: Path, name: str) -> None:
    more = {name: MORE[name]}
    refused(tmp_path, shop, "holds something else", commands=more, start=program)


def test_doctor_reports_it_and_completion_never_fails(shop: str, tmp_path: Path) -> None:
    url = shop.replace("@", f":{SECRET}@", 1)
    told = program("doctor", "--journal", url, "--format", "json", cwd=tmp_path)
    (found,) = (one for one in told.json if one["what"] == "journal")
    assert (told.code, found["verdict"]) == (1, "broken")
    assert SECRET not in told.out + told.err
    words = f"chartloop show --journal={url} "
    asked = {"_CHARTLOOP_COMPLETE": "bash_complete", "COMP_CWORD": "3", "COMP_WORDS": words}
    completed = program(cwd=tmp_path, env=asked)
    assert (completed.code, completed.err) == (0, "")


def test_tables_of_something_else_that_are_named_as_ours(postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.of(tmp_path)
    schema = url.partition("schema=")[2]
    postgres.execute(f"CREATE SCHEMA {schema}")
    for table in ("schema_version", "run", "event", "journal"):
        postgres.execute(f"CREATE TABLE {schema}.{table} (version TEXT)")
    refused(tmp_path, url, "is damaged or is not a journal", "name another database")


def test_encryption_that_the_server_does_not_have(made: str, tmp_path: Path) -> None:
    refused(tmp_path, f"{made}&sslmode=require", "does not support SSL", "`sslmode`")


def test_certificates(tmp_path: Path) -> None:
    """One that is not there, and one of another server."""
    server = Cluster()
    try:
        made = [server.data / name for name in ("server.key", "server.crt")]
        subprocess.run(
            [
                "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=other",
                "-keyout", made[0], "-out", made[1],
            ],
            check=True, capture_output=True,
        )  # fmt: skip
        made[0].chmod(0o600)
        if os.geteuid() == 0:
            for path in made:
                shutil.chown(path, USER)
        server.stop("fast")
        with (server.data / "postgresql.conf").open("a") as file:
            file.write("ssl = on\n")
        server.start()
        (tmp_path / "root.crt").write_bytes(made[1].read_bytes())
        for file, says in (
            ("none.crt", "does not exist"),
            ("root.crt", "does not match host name"),
        ):
            url = f"{server.of(tmp_path)}&sslmode=verify-full&sslrootcert={tmp_path / file}"
            refused(tmp_path, url, "cannot be reached", says, "see the URL's `sslrootcert=FILE`")
    finally:
        server.end()


FILES: dict[str, Callable[[Path], object]] = {
    "of-something-else": lambda path: sqlite3.connect(path).execute("CREATE TABLE shop (price)"),
    "a-text": lambda path: path.write_text("no database" * 500),
    "below-a-file": lambda path: path.parent.write_text(""),
}


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_journal(tmp_path: Path, case: str) -> None:
    path = tmp_path / "of" / "j.db"
    if case != "below-a-file":
        path.parent.mkdir()
    FILES[case](path)
    before = path.read_bytes() if path.is_file() else b""
    refused(tmp_path, str(path), "/j.db")
    assert (path.read_bytes() if path.is_file() else b"") == before


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    Place(tmp_path)
    for name, line in COMMANDS.items():
        done = call(*line, "--journal", str(tmp_path), cwd=tmp_path)
        assert (done.code, "is a directory" in done.err) == (2, True), (name, done)


def test_tables_of_a_newer_version(postgres: Cluster, made: str, tmp_path: Path) -> None:
    schema = made.partition("schema=")[2]
    postgres.execute(f"INSERT INTO {schema}.schema_version VALUES (99, 'later')")  # noqa: S608
    refused(tmp_path, made, "update chartloop")
