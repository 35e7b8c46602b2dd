"""Watchers of a server in a process of their own: what they miss, and how long events take.

    python benchmarks/serving_watchers.py PORT COUNT hear RUNS
    python benchmarks/serving_watchers.py PORT COUNT mute ID        # who read nothing

Who hears, hears of one of `run-0` to `run-RUNS`; where that is 0, of all. The mute ask for what is
behind event ID; where that is 0, for what is new. Prints `ready` once all are connected. A line of
JSON on its standard input says how many events each run has; once every watcher has all of its own,
or nothing has come for ten seconds, it prints what it found.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import time
from array import array
from typing import Any

EVENT = re.compile(rb'id: (\S+)\nevent: \w+\ndata: {"run": "([^"]+)", "seq": (\d+), "at": ([\d.]+)')
HEAD = 400
"""More bytes than the part of an event that is read."""
PATIENCE = 10.0


class Heard:
    """What all watchers found."""

    def __init__(self) -> None:
        self.delays = array("d")
        self.lost = self.disordered = self.resumed = self.open = 0
        self.last = time.monotonic()

    def told(self, watchers: list[Watcher], heads: dict[str, int]) -> dict[str, Any]:
        """The figures; times in milliseconds."""
        lost = sum(watcher.missing(heads) for watcher in watchers)
        delays = sorted(self.delays)
        return {
            "events": len(delays), "lost": lost + self.lost, "disordered": self.disordered,
            "resumed": self.resumed, "p50": 1_000 * delays[len(delays) // 2],
            "p99": 1_000 * delays[len(delays) * 99 // 100],
        }  # fmt: skip


class Watcher(asyncio.Protocol):
    """One stream. Closed, it goes on behind the last event that it saw."""

    def __init__(self, port: int, run: str, heard: Heard) -> None:
        self._port, self.run, self._heard = port, run, heard
        self._buffer, self._last = b"", b""
        self._transport: asyncio.BaseTransport | None = None
        self.next: dict[bytes, int] = {}
        """The number of the next event of each run."""
        self.over = self._open = False

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, "127.0.0.1", self._port)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._buffer = transport, b""
        last = b"Last-Event-ID: %s\r\n" % self._last if self._last else b""
        path = f"/events?run={self.run}" if self.run else "/events"
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
        transport.write(head.encode() + last + b"\r\n")  # pyright: ignore[reportAttributeAccessIssue]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._open and b": open" in self._buffer:
            self._open = True
            self._heard.open += 1
        now, end = time.time(), 0
        for found in EVENT.finditer(self._buffer):
            end = found.end()
            self._last, run, seq, at = found.groups()
            self._see(run, int(seq), now - float(at))
        self._buffer = self._buffer[max(end, len(self._buffer) - HEAD) :]

    def _see(self, run: bytes, seq: int, delay: float) -> None:
        heard, due = self._heard, self.next.get(run, 0)
        heard.delays.append(delay)
        heard.last = time.monotonic()
        heard.lost += max(0, seq - due)
        heard.disordered += seq < due
        self.next[run] = max(due, seq + 1)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.over:
            self._heard.resumed += 1
            self._again = asyncio.ensure_future(self.connect())

    def missing(self, heads: dict[str, int]) -> int:
        """How many events of its runs it has not seen."""
        own = {run: head for run, head in heads.items() if self.run in ("", run)}
        return sum(max(0, head - self.next.get(run.encode(), 0)) for run, head in own.items())

    def close(self) -> None:
        self.over = True
        if self._transport is not None:
            self._transport.close()


async def listen(port: int, count: int, runs: int) -> None:
    """Connect, hear, say what was heard."""
    heard = Heard()
    names = [f"run-{number % runs}" if runs else "" for number in range(count)]
    watchers = [Watcher(port, name, heard) for name in names]
    for watcher in watchers:
        await watcher.connect()
    while heard.open < count:  # noqa: ASYNC110  nobody says it but the count
        await asyncio.sleep(0.02)
    print("ready", flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    heads: dict[str, int] = json.loads(line or "{}")
    heard.last = time.monotonic()
    while time.monotonic() - heard.last < PATIENCE:
        if not any(watcher.missing(heads) for watcher in watchers):
            break
        await asyncio.sleep(0.05)
    if heads:
        print(json.dumps(heard.told(watchers, heads)), flush=True)
    for watcher in watchers:
        watcher.close()


def mute(port: int, count: int, last: str) -> None:
    """Connect one after the other, and read nothing until the standard input ends."""
    open_ones: list[socket.socket] = []
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", port))
        resumed = "" if last == "0" else f"Last-Event-ID: {last}\r\n"
        one.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n{resumed}\r\n".encode())
        one.recv(16)  # the status: it is open
        open_ones.append(one)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    if sys.argv[3] == "mute":
        mute(int(sys.argv[1]), int(sys.argv[2]), sys.argv[4])
    else:
        asyncio.run(listen(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])))
