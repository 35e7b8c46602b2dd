"""uvicorn as both servers run it, with their address and connection limits.

Belongs here: the process and its connections. Never: what is served over them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from chartloop.hosting.settings import Settings

GRACE = 3
"""Seconds that open requests are given to finish when the server shuts down."""
_BASE: Any = AutoHTTPProtocol  # one of two classes, depending on the installed parser


class HttpServer(uvicorn.Server):
    """Serves an ASGI application at the address of the settings.

    Sets `app.state.connections` to a function that returns the number of open connections.
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
    """A connection of uvicorn that is closed if no request arrives within `silence` seconds.

    uvicorn itself waits forever for the first request. Its own connection limit responds in plain
    text and counts idle connections too, so the application refuses instead: see `safety`.
    """

    class Connection(_BASE):
        def connection_made(self, transport: asyncio.Transport) -> None:
            _BASE.connection_made(self, transport)
            self.loop.call_later(silence, self._close_silent)

        def _close_silent(self) -> None:
            if self.cycle is None and not self.transport.is_closing():
                self.transport.close()

    return Connection
