"""uvicorn as both servers run it, with their address and connection limits.

Belongs here: the process and its connections. Never: what is served over them.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from chartloop.hosting.listening import listen
from chartloop.hosting.metrics import Metrics, Turns
from chartloop.hosting.settings import Settings

GRACE = 3
"""Seconds that open requests are given to finish when the server shuts down."""
COLLECT = 5
"""Seconds between two looks whether there is much garbage."""
_BASE: Any = AutoHTTPProtocol  # one of two classes, depending on the installed parser


class HttpServer(uvicorn.Server):
    """Serves an ASGI application at the address of the settings.

    `free` is the option that names any free port. Sets `app.state.connections` to a function that
    returns the number of open connections.
    """

    def __init__(
        self, app: Any, settings: Settings, metrics: Metrics, *, log_level: str = "info",
        free: str = "--port 0",
    ) -> None:  # fmt: skip
        self._free, self.metrics = free, metrics
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http=_impatient(settings.limits.silence),
                proxy_headers=bool(settings.proxies),
                forwarded_allow_ips=list(settings.proxies),
                timeout_graceful_shutdown=GRACE,
                server_header=False,
                ws="none",
                log_level=log_level,
            )
        )
        app.state.connections = lambda: len(self.server_state.connections)

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until the process is asked to end.

        Raises `SetupError` if it cannot listen at the address, before anything is started: uvicorn
        itself would look only once the workers drive runs.
        """
        if threading.current_thread() is threading.main_thread():
            threading.Thread(target=_collect, daemon=True).start()
        super().run(sockets or listen(self.config.host, self.config.port, free=self._free))

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.metrics.turns = Turns.of(asyncio.get_running_loop())
        self._log_started_message(sockets or [])


def _collect() -> None:
    """Look for garbage of all generations in this thread: in a callback it would hold up the loop.

    The objects of the start are kept, and not looked through.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 2**30)
    while True:
        time.sleep(COLLECT)
        if gc.get_count()[2] > 10:
            gc.collect()


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _impatient(silence: float) -> type[asyncio.Protocol]:
    """A connection of uvicorn that is closed after `silence` seconds for nothing.

    uvicorn itself waits forever for the rest of a head, and for a reader that takes nothing of a
    response. Its own connection limit responds in plain text and counts idle connections too, so
    the application refuses instead: see `safety`.
    """

    class Connection(_BASE):
        """A request's state has `abort`, which drops it and what its reader has not taken.

        It also has `leaves`, which are called when its caller hangs up.
        """

        _head: asyncio.TimerHandle | None = None
        """Runs while a head is awaited: the first, or the rest of one that has begun."""
        _reader: asyncio.TimerHandle | None = None
        """Runs while the write buffer is full."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            _BASE.connection_made(self, transport)
            state: dict[str, Any] = self.app_state
            self._leaves: set[Callable[[], None]] = set()
            self.app_state = {**state, "abort": transport.abort, "leaves": self._leaves}
            self._head = self.loop.call_later(silence, transport.close)

        def data_received(self, data: bytes) -> None:
            _BASE.data_received(self, data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._head = _cancelled(self._head)
            elif self._head is None:
                self._head = self.loop.call_later(silence, self.transport.close)

        def pause_writing(self) -> None:
            _BASE.pause_writing(self)
            self._await_reader(self.transport.get_write_buffer_size() + 1)

        def _await_reader(self, before: int) -> None:
            left = self.transport.get_write_buffer_size()
            if left < before:
                self._reader = self.loop.call_later(silence, self._await_reader, left)
            else:
                self.transport.abort()

        def resume_writing(self) -> None:
            self._reader = _cancelled(self._reader)
            _BASE.resume_writing(self)

        def connection_lost(self, exc: Exception | None) -> None:
            for leave in [*self._leaves]:
                leave()
            self._head, self._reader = _cancelled(self._head), _cancelled(self._reader)
            _BASE.connection_lost(self, exc)

    return Connection
