"""Serve the tools over stdio or HTTP.

Belongs here: the process, its streams and its address. Never: what is served.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from anyio.to_thread import run_sync
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from chartloop.hosting.http_server import HttpServer
from chartloop.hosting.mcp_server.protocol import ProtocolServer
from chartloop.hosting.mcp_server.tool_calls import Calls
from chartloop.hosting.metrics import Metrics
from chartloop.hosting.safety import Safety
from chartloop.hosting.settings import Settings

PATH = "/mcp"
"""The path of the protocol over HTTP."""
_log = logging.getLogger(__name__)


def serve_stdio(settings: Settings) -> None:
    """Serve the client behind stdin and stdout until it closes stdin.

    Meanwhile, the output of tools to stdout goes to stderr.
    """
    anyio.run(_serve_stdio, open_calls(settings))


def open_calls(settings: Settings) -> Calls:
    """Open the runs behind the tools, with a warning for each machine that has errors."""
    calls = Calls(settings)
    for file in calls.machines.listing():
        if file.machine is None:
            _log.warning("machine `%s` has errors and is not offered", file.name)
    return calls


async def _serve_stdio(calls: Calls) -> None:
    server = ProtocolServer(calls).server()
    async with working(calls), stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


@asynccontextmanager
async def working(calls: Calls) -> AsyncGenerator[None]:
    """Drive runs with workers for the duration; at the end each run stops between two steps."""
    calls.workers.start()
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await run_sync(calls.workers.stop)


class StreamableHttpServer(HttpServer):
    """The tools over streamable HTTP, behind the same checks as the HTTP API."""

    def __init__(self, settings: Settings, *, log_level: str = "info") -> None:
        calls = open_calls(settings)
        # `Safety` checks host and origin, by the names in the settings
        unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        app = ProtocolServer(calls).server().streamable_http_app(
            streamable_http_path=PATH, transport_security=unchecked,
            max_request_body_size=settings.limits.body,
        )  # fmt: skip
        plain: Any = app.router.lifespan_context

        @asynccontextmanager
        async def lifespan(of: Any) -> AsyncGenerator[Any]:
            async with working(calls), plain(of) as state:
                yield state

        app.router.lifespan_context = lifespan
        app.add_middleware(cast("Any", Safety), settings=settings, metrics=(metrics := Metrics()))
        super().__init__(app, settings, metrics, log_level=log_level, free="--http 0")


def serve_http(settings: Settings) -> None:
    """Serve until the process is asked to end."""
    StreamableHttpServer(settings).run()
