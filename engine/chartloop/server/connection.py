"""Connections of a server: how long one may be silent.

Belongs here: uvicorn's connections. Never: what is served over them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

_BASE: Any = AutoHTTPProtocol  # one of two classes, by what is installed


def impatient(silence: float) -> type[asyncio.Protocol]:
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
