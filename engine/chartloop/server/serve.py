"""Serves the application with uvicorn.

Belongs here: the process. Never: what is served.
"""

from __future__ import annotations

import logging

import uvicorn

from chartloop.server.app import create_app
from chartloop.server.settings import Settings


def serve(settings: Settings) -> None:
    """Serve until the process is asked to end. Runs that are driven then rest between two steps."""
    logging.getLogger("chartloop").setLevel(logging.INFO)
    config = uvicorn.Config(
        create_app(settings),
        host=settings.host,
        port=settings.port,
        limit_concurrency=settings.limits.connections,
        timeout_graceful_shutdown=3,
        server_header=False,
        log_level="info",
    )
    uvicorn.Server(config).run()
