"""What stands between a worker and its database, and breaks when a test wants it.

    Proxy      on loopback: cuts a connection at its commit, or forwards nothing and says nothing
    Network    a worker in a network of its own, whose wire to the server loses packets

Belongs here: the links. Never: what a journal or a fleet makes of them.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from tests.postgres import Cluster


class Proxy:
    """Stands before the server."""

    before: tuple[str, ...] = ()
    """What a command starts with that is to use it: nothing."""

    def __init__(self, server: Cluster) -> None:
        self.lose = ""
        """`asked`: the connection of the next COMMIT is cut before it; `answer`: after it."""
        self.lost = 0
        self._server, self.port = server, 0
        self._writers: list[asyncio.StreamWriter] = []
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,))
        self._thread.start()
        ready.wait()

    def leads_to(self, url: str) -> str:
        """The URL of the server, through the proxy."""
        return url.replace(f":{self._server.port}/", f":{self.port}/")

    def part(self) -> None:
        """Forward nothing, and close nothing: TCP itself sees no fault."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """Forward what has come meanwhile, and go on."""
        self._loop.call_soon_threadsafe(self._open.set)

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._stop, self._open = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._loop.run_until_complete(self._serve(ready))
        self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        async with server:
            await self._stop.wait()
            for writer in self._writers:
                writer.close()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            await asyncio.gather(*rest, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far, to_server = await asyncio.open_connection("127.0.0.1", self._server.port)
        except OSError:  # the server is down
            writer.close()
            return
        self._writers += (writer, to_server)

        async def pump(
            source: asyncio.StreamReader, target: asyncio.StreamWriter, way: str
        ) -> None:
            # on its way there the statement is prepared, and goes with the notice; back comes its tag
            mark = b"chartloop_" if way == "asked" else b"COMMIT"
            try:
                while data := await source.read(65536):
                    await self._open.wait()
                    if self.lose == way and mark in data:
                        self.lose, self.lost = "", self.lost + 1
                        break
                    target.write(data)
            finally:
                for each in (writer, to_server):
                    each.close()

        ways = pump(reader, to_server, "asked"), pump(far, writer, "answer")
        await asyncio.gather(*ways, return_exceptions=True)
        for each in (writer, to_server):
            await asyncio.gather(each.wait_closed(), return_exceptions=True)

    def end(self) -> None:
        self.mend()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


NETWORKS = "198.18.0.0/15"
"""The addresses that are kept for tests of networks."""
NOBODY = "02:00:00:00:00:99"
"""A hardware address that no end of the wire has: what is sent to it is dropped without a word."""


class Network:
    """A network of its own (a namespace of Linux) for the processes that are started in it.

    One wire leads from it to the server. It skips the test where namespaces are not allowed.
    """

    def __init__(self, server: Cluster, lost: str) -> None:
        number = os.getpid()
        first = int(IPv4Address(NETWORKS.partition("/")[0])) + number % 2**15 * 4
        self.name, self._lost, self._server = f"chartloop{number}", lost, server
        self._near, self._far = str(IPv4Address(first + 1)), str(IPv4Address(first + 2))
        self._wire = f"cl{number}"
        self.before = ("ip", "netns", "exec", self.name)
        """What a command starts with that runs in it."""
        if problem := _ip("netns", "add", self.name):
            pytest.skip(f"needs network namespaces: {problem}")
        try:
            for line in (
                f"link add {self._wire} type veth peer name wire netns {self.name}",
                f"addr add {self._near}/30 dev {self._wire}",
                f"link set {self._wire} up",
                f"-n {self.name} addr add {self._far}/30 dev wire",
                f"-n {self.name} link set wire up",
                f"-n {self.name} link set lo up",
            ):
                if problem := _ip(*line.split()):
                    pytest.skip(f"needs network namespaces: {problem}")
            self._listen(server.data)
        except BaseException:
            self.end()
            raise

    def _listen(self, data: Path) -> None:
        """Let the server listen at the near end of the wire."""
        with (data / "pg_hba.conf").open("a") as file:
            file.write(f"host all all {NETWORKS} trust\n")
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"listen_addresses = '127.0.0.1, {self._near}'\n")
        self._server.stop("fast")
        self._server.start()

    def leads_to(self, url: str) -> str:
        """The URL of the server, as it is seen from the network."""
        return url.replace("127.0.0.1", self._near)

    def part(self) -> None:
        """Lose what is sent: in one direction (`asked`, `answers`), in both, or with the link."""
        self._change("down", "replace", "lladdr", NOBODY, "nud", "permanent")

    def mend(self) -> None:
        """Lose nothing more."""
        self._change("up", "del")

    def _change(self, link: str, neighbour: str, *wrong: str) -> None:
        changes = list[tuple[str, ...]]()
        if self._lost == "link":
            changes.append(("link", "set", self._wire, link))
        if self._lost in ("asked", "both"):
            there = ("neigh", neighbour, self._near, *wrong, "dev", "wire")
            changes.append(("-n", self.name, *there))
        if self._lost in ("answers", "both"):
            changes.append(("neigh", neighbour, self._far, *wrong, "dev", self._wire))
        for words in changes:
            assert _ip(*words) == ""

    def end(self) -> None:
        """Take the network away, with its wire."""
        _ip("netns", "del", self.name)


def _ip(*words: str) -> str:
    """Configure networks; what is wrong, if anything is."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""
