"""A real model server for these tests, which are not collected unless ``CHARTLOOP_REAL`` is set."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Self

import pytest

ENVIRONMENT = os.environ.get("CHARTLOOP_REAL", "")
collect_ignore_glob = [] if ENVIRONMENT else ["test_*.py"]
HERE = Path(__file__).parent


class RealServer:
    """llama.cpp's server in a process of its own, with the model of these tests."""

    def __init__(self, environment: Path, log: Path) -> None:
        model = os.environ.get("CHARTLOOP_REAL_MODEL") or str(environment / "tiny.gguf")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        command = [str(environment / "bin" / "python"), str(HERE / "serve.py"), model]
        with log.open("w") as out:
            self._process = subprocess.Popen(
                [*command, str(self.port)], stdin=subprocess.PIPE, stdout=out, stderr=out
            )
        self._wait(log)

    def _wait(self, log: Path) -> None:
        for _ in range(600):
            assert self._process.poll() is None, log.read_text()
            connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
            with suppress(OSError), closing(connection):
                connection.request("GET", "/health")
                if json.loads(connection.getresponse().read()).get("status") == "ok":
                    return
            time.sleep(0.1)
        raise AssertionError(log.read_text())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


class Wire:
    """A TCP proxy in front of the server: it passes answers on slowly, and cuts the first ones.

    `cut` are numbers of bytes of an answer, one for each connection in order of arrival, after
    which the connection is closed; later ones are left whole. `pause` is in seconds a read.
    """

    def __init__(self, port: int, *, cut: tuple[int, ...] = (), pause: float = 0.0) -> None:
        self._to = port
        self._cut = [*cut]
        self._pause = pause
        self.opened = 0
        self.broken = 0
        """Connections that the client closed before their answer was over."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """What goes into `api_base`."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _start(self, work: Callable[..., None], *given: Any) -> None:
        threading.Thread(target=work, args=given, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.opened += 1
                cut = self._cut.pop(0) if self._cut else None
                self._start(self._pass_on, client, cut)

    def _pass_on(self, client: socket.socket, cut: int | None) -> None:
        server = socket.create_connection(("127.0.0.1", self._to))
        self._start(self._requests, client, server)
        seen = 0
        with client, server, suppress(OSError):
            while piece := server.recv(256):
                if self._pause:
                    time.sleep(self._pause)
                seen += len(piece)
                try:
                    client.sendall(piece)
                except OSError:
                    self.broken += 1
                    return
                if cut is not None and seen >= cut:
                    client.shutdown(socket.SHUT_RDWR)
                    return

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(65_536):
                server.sendall(piece)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One server for all tests."""
    made = RealServer(Path(ENVIRONMENT).absolute(), tmp_path_factory.mktemp("real") / "server.log")
    yield made
    made.close()
