"""The HTTP API: machines and runs for other programs and for browsers. ``chartloop serve``.

    request ─▶ safety ─▶ route ─▶ journal (read) ─▶ JSON, SVG or a stream of events
                           └─▶ journal (request, message) ─▶ worker ─▶ run

A route reads the journal or writes what is asked into it. It never drives: a worker does, on its
own thread and event loop (`workers`), so that an action that blocks delays no answer and a server
can be killed at any moment.

Belongs here: HTTP, and what is shown over it. Never: markup, deciding what a run does.
Source: 000 "Proposed Geist API"; RFC 9457 (problems), the Idempotency-Key draft, WHATWG SSE.
"""

from chartloop.server.app import create_app
from chartloop.server.settings import Settings, Token, read_tokens

__all__ = ["Settings", "Token", "create_app", "read_tokens"]
