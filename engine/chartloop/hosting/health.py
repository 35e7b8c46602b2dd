"""Whether a process that drives runs is alive and ready, and what it tells of itself over HTTP.

Alive: its threads turn. If not, restart the process; an unreachable journal is no reason to.
Ready: a row of the journal was read just now, and its tables are those that the process knows.

Belongs here: both probes, the figures of the queue, their small server, and systemd's socket.
Never: FastAPI or uvicorn, which a worker does without.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from chartloop.core.errors import ChartloopError
from chartloop.hosting.listening import listen
from chartloop.hosting.metrics import Gauge, gauge_lines
from chartloop.hosting.workers import Workers
from chartloop.run.schedule import Depth
from chartloop.run.sync import by_hand
from chartloop.run.tenants import ALL_TENANTS, Reach

ANSWER = 3.0
"""The seconds after which a journal that has not answered is not ready."""
SILENCE = 5.0
"""The seconds that a caller may take to send a request."""


class Verdict(NamedTuple):
    """The outcome of a probe."""

    ok: bool
    why: str = ""
    """What is wrong, without a secret."""


class Health:
    """The probes of a process and its workers. Safe from any thread."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._asked: dict[str, Future[Depth]] = {}
        self._tables: int | None = None
        """The version of the tables when the process first read them: it has checked them then."""

    def alive(self) -> Verdict:
        """Whether the workers turn."""
        return Verdict(not (why := self._workers.stuck()), why)

    def ready(self) -> Verdict:
        """Whether runs can be driven and shown."""
        if self._workers.stopping:
            return Verdict(False, "stopping")
        try:
            depth = self.depth()
        except TimeoutError:
            return Verdict(False, f"the journal has not answered within {ANSWER:g} s")
        except ChartloopError as error:
            return Verdict(False, error.message)
        if self._tables not in (None, depth.tables):
            why = f"the journal's tables have become version {depth.tables}: update this process"
            return Verdict(False, why)
        self._tables = depth.tables
        return Verdict(True)

    def depth(self, of: str = "") -> Depth:
        """The figures of the queue; raises `TimeoutError` if the journal does not answer.

        There is one question of a tenant at a time: probes of a journal that is away do not pile
        up.
        """
        with self._lock:
            if (asked := self._asked.get(of)) is None or asked.done():
                asked = self._asked[of] = Future()
                threading.Thread(target=self._ask, args=(asked, of), daemon=True).start()
        return asked.result(ANSWER)

    def _ask(self, asked: Future[Depth], of: str) -> None:
        try:
            asked.set_result(by_hand(self._workers.runs.journal.depth(of)))
        except Exception as error:  # noqa: BLE001  raised for who waits for it
            asked.set_exception(error)

    def gauges(self, reach: Reach = ALL_TENANTS) -> Iterator[Gauge]:
        """The figures of the queue, which are those of all processes, and of this process.

        Those of the queue are missing while the journal does not answer.
        """
        with suppress(TimeoutError, ChartloopError):
            due, waited, held, parked, _ = self.depth(reach.name)
            yield "chartloop_runs_due", "gauge", "Runs that wait for a worker.", due
            yield (
                "chartloop_oldest_due_seconds", "gauge",
                "How long the run has waited that waits longest for a worker.", waited,
            )  # fmt: skip
            yield "chartloop_runs_held", "gauge", "Runs that a worker has claimed.", held
            yield (
                "chartloop_runs_parked", "gauge",
                "Runs that no worker claims: processes died with them, or they were imported.",
                parked,
            )  # fmt: skip
        workers = self._workers
        driven = sum(map(reach.sees, [*workers.driven]))
        ended = sum(
            n for tenant, n in [*workers.finished.items()] if reach.tenant in (None, tenant)
        )
        yield "chartloop_runs_driven", "gauge", "Runs that this process drives.", driven
        yield (
            "chartloop_orders_finished_total", "counter", "Orders that this process finished.",
            ended,
        )  # fmt: skip


class HealthServer:
    """`/livez`, `/readyz` and `/metrics` of a worker, on threads of their own."""

    def __init__(self, health: Health, host: str, port: int) -> None:
        class Handler(_Handler):
            its = health

        listener, *others = listen(host, port, free="--health 0")
        for one in others:
            one.close()
        self._server = ThreadingHTTPServer((host, port), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = listener
        self.host, self.port = host, listener.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    its: Health
    timeout = SILENCE

    def do_GET(self) -> None:
        match self.path.partition("?")[0]:
            case "/livez":
                self._tell(self.its.alive())
            case "/readyz":
                self._tell(self.its.ready())
            case "/metrics":
                self._answer(HTTPStatus.OK, gauge_lines(self.its.gauges()))
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "there are /livez, /readyz and /metrics\n")

    do_HEAD = do_GET  # noqa: N815  the name is the library's

    def _tell(self, verdict: Verdict) -> None:
        status = HTTPStatus.OK if verdict.ok else HTTPStatus.SERVICE_UNAVAILABLE
        self._answer(status, f"{verdict.why or 'ok'}\n")

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "chartloop"

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: probes come every few seconds."""


class Notifier:
    """Tells systemd that the process is ready, alive or stopping, where it asks for that."""

    def __init__(self) -> None:
        self._where = os.environ.pop("NOTIFY_SOCKET", "")
        """Of this process: programs that an action starts must not speak for it."""
        limit = os.environ.pop("WATCHDOG_USEC", "")
        self.every = int(limit) / 3e6 if self._where and limit.isdecimal() else None
        """The seconds between two signs of life; None if none are wanted."""

    def tell(self, state: str) -> None:
        """Send a state: ``READY=1``, ``WATCHDOG=1``, ``STOPPING=1``."""
        if self._where:
            where = "\0" + self._where[1:] if self._where.startswith("@") else self._where
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.sendto(state.encode(), where)
