"""Serves the application with uvicorn.

Belongs here: the process. Never: what is served.
"""

from __future__ import annotations

import socket

import uvicorn

from chartloop.server.application import create_app
from chartloop.server.connection import impatient
from chartloop.server.settings import Settings

GRACE = 3
"""Seconds that requests at hand are given when the server is to end."""


class Server(uvicorn.Server):
    """A server that ends its streams before it waits for its connections."""

    def __init__(self, settings: Settings, *, log_level: str = "info") -> None:
        self._app = create_app(settings)
        super().__init__(
            uvicorn.Config(
                self._app,
                host=settings.host,
                port=settings.port,
                http=impatient(settings.limits.silence),
                timeout_graceful_shutdown=GRACE,
                server_header=False,
                ws="none",
                log_level=log_level,
            )
        )

        self._app.state.connections = lambda: len(self.server_state.connections)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.state.parts.hub.stop()
        await super().shutdown(sockets)


def serve(settings: Settings) -> None:
    """Serve until the process is asked to end. Runs that are driven then rest between two steps."""
    Server(settings).run()
