"""The HTTP API: machines and runs for other programs and for browsers. ``chartloop serve``.

    request ─▶ safety ─▶ route ─▶ journal (read) ─▶ JSON, SVG or a stream of events
                           └─▶ journal (request, message) ─▶ worker ─▶ run

A route reads the journal or writes an order into it. It never drives a run: a worker of `hosting`
does, on its own thread and event loop. So a blocking action delays no response, and the server can
be killed at any moment.

Belongs here: HTTP and the views served over it. Never: markup, deciding what a run does.
Source: 000 "Proposed Geist API"; RFC 9457 (problems), the Idempotency-Key draft, WHATWG SSE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chartloop.hosting.settings import Limits, Settings, Token, read_tokens

if TYPE_CHECKING:
    from chartloop.hosting.server.application import create_app

__all__ = ["Limits", "Settings", "Token", "create_app", "read_tokens"]


def __getattr__(name: str) -> Any:
    if name != "create_app":
        raise AttributeError(f"module `chartloop.hosting.server` has no attribute `{name}`")
    from chartloop.hosting.server.application import create_app  # noqa: PLC0415  loads FastAPI, so only on demand

    return create_app
