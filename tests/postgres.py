"""A PostgreSQL of the tests' own, which ends with them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest


def _programs() -> Path:
    """The folder of the newest server's programs. Debian keeps them out of the PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3])
    )
    return (found[-1] if found else Path(shutil.which("postgres") or "postgres")).parent


PROGRAMS = _programs()
NEEDED = (
    pytest.mark.durable,
    pytest.mark.extra(  # noqa: S610 - no Django
        "psycopg", install='pip install -e ".[postgres]"'
    ),
    pytest.mark.system(str(PROGRAMS / "postgres"), install="apt-get install postgresql"),
)
"""The marks of a test that starts a server."""
USER = "postgres"
"""Who runs it where the tests run as root, which it refuses."""


class Cluster:
    """A server on a free port, with its data in a folder for temporary files."""

    def __init__(
        self, *settings: str, primary: Cluster | None = None, within: Path | None = None
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg", dir=within))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        if os.geteuid() == 0:
            shutil.chown(self.folder, USER)
        if primary is not None:  # a standby, which follows it
            where = ("--host=127.0.0.1", f"--port={primary.port}", "--username=postgres")
            self.do("pg_basebackup", *where, "--write-recovery-conf", "--checkpoint=fast")
        else:
            self.do("initdb", "--username=postgres", "--auth=trust", "--no-sync",
                    "--encoding=UTF8", "--locale=C.UTF-8")  # fmt: skip
        wanted = (
            f"port = {self.port}", f"unix_socket_directories = '{self.folder}'", "fsync = off",
            "listen_addresses = '127.0.0.1'", "max_connections = 60", "autovacuum = off", *settings,
        )  # fmt: skip
        with (self.data / "postgresql.conf").open("a") as file:
            file.write("\n".join(wanted) + "\n")
        self.start()

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def do(self, program: str, *arguments: str) -> None:
        """Run a program of the server on its data."""
        command = [str(PROGRAMS / program), "-D", str(self.data), *arguments]
        if os.geteuid() == 0:
            command = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *command]
        # to no pipe: the server would keep it open
        with (self.folder / "said").open("w+b") as said:
            done = subprocess.run(command, cwd="/", stdout=said, stderr=said, check=False)
            said.seek(0)
            assert done.returncode == 0, (command, said.read())

    def start(self) -> None:
        self.do("pg_ctl", "start", "-w", "-s", "-l", str(self.folder / "log"))

    def stop(self, how: str = "immediate") -> None:
        self.do("pg_ctl", "stop", "-w", "-s", "-m", how)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return (self.data / "postmaster.pid").exists()

    def url(self, schema: str = "", *, user: str = "postgres", port: int = 0) -> str:
        """The URL of its database, over its socket, or over a port of this machine."""
        query = f"?schema={schema}" if schema else ""
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres{query}"

    def of(self, folder: Path) -> str:
        """The URL of a schema that belongs to a folder."""
        return self.url("t" + sha256(str(folder).encode()).hexdigest()[:16])

    def execute(self, sql: str) -> list[Any]:
        """The rows of a statement, as the owner of everything."""
        import psycopg  # noqa: PLC0415  an extra

        with psycopg.connect(self.url(), autocommit=True) as database:
            cursor = database.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def end(self) -> None:
        if self.runs:
            self.stop()
        shutil.rmtree(self.folder)
