"""uvicorn, as every server of machines runs it: its connections, its limits, its address.

Belongs here: the process and its connections. Never: what is served over them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from chartloop.hosting.settings import Settings

GRACE = 3
"""Seconds that requests at hand are given when the server is to end."""
_BASE: Any = AutoHTTPProtocol  # one of two classes, by what is installed


class HttpServer(uvicorn.Server):
    """Serves an ASGI application at the address of the settings.

    The application finds a function in `app.state.connections` that counts what is open.
    """

    def __init__(self, app: Any, settings: Settings, *, log_level: str = "info") -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                http=_impatient(settings.limits.silence),
                timeout_graceful_shutdown=GRACE,
                server_header=False,
                ws="none",
                log_level=log_level,
            )
        )
        app.state.connections = lambda: len(self.server_state.connections)


def _impatient(silence: float) -> type[asyncio.Protocol]:
    """Uvicorn's connection, closed when it has not sent the head of a request for so long.

    uvicorn itself waits for a first request for ever. Its own limit of connections answers in plain
    text and counts such connections too, so the application refuses instead, see `safety`.
    """

    class Connection(_BASE):
        def connection_made(self, transport: asyncio.Transport) -> None:
            _BASE.connection_made(self, transport)
            self.loop.call_later(silence, self._close_silent)

        def _close_silent(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

    return Connection
