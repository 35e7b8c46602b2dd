"""Serve the application with uvicorn.

Belongs here: the process. Never: what is served.
"""

from __future__ import annotations

import socket

from chartloop.hosting.http_server import HttpServer
from chartloop.hosting.server.application import create_app
from chartloop.hosting.server.watch import Hub
from chartloop.hosting.settings import Settings


class Server(HttpServer):
    """A server that closes its event streams before it waits for connections to finish."""

    def __init__(self, settings: Settings, *, log_level: str = "info") -> None:
        app = create_app(settings)
        super().__init__(app, settings, app.state.parts.metrics, log_level=log_level)
        self.hub: Hub = app.state.parts.hub
        """The event streams that are open."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self.hub.stop()
        await super().shutdown(sockets)


def serve(settings: Settings) -> None:
    """Serve until the process is asked to end. Runs being driven then stop between two steps."""
    Server(settings).run()
