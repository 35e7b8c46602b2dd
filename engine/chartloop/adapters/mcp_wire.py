"""The stream of messages from an MCP server, watched before `mcp` reads it.

`mcp` parses a listing as one, so a single bad tool would take all others away, and validates
results with `re`, which a pattern of the server could stop for ever. So a listing is kept here as
it came, and `mcp` gets the part that it needs: the names of the locked tools, and their arguments
for the headers of the protocol of 2026.

Belongs here: what a message says before it is parsed. Never: an import of `mcp`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

_FORGOTTEN: Mapping[int, str] = {
    -32600: "Session terminated", -32603: "Server returned an error response",
    -32000: "SSE stream ",
}  # fmt: skip
"""How the messages of `mcp` begin, by their code, for a reply of an HTTP server outside the
protocol: a restarted server does not know the session. The next call connects again."""


class Wire:
    """A transport of `mcp`, and the stream of messages that it reads."""

    def __init__(self, transport: Any, tools: Collection[str], *, over_http: bool) -> None:
        self.listed: list[Any] = []
        """The tools of the last page of a listing, as the server wrote them."""
        self.ended = False
        """Whether the server has closed the connection."""
        self._transport = transport
        self._tools = tools
        self._over_http = over_http
        self._messages: Any = None

    async def __aenter__(self) -> tuple[Any, Any]:
        self._messages, write = await self._transport.__aenter__()
        return _Messages(self, self._messages), write

    async def __aexit__(self, *error: Any) -> Any:
        return await self._transport.__aexit__(*error)

    def has_ended_by(self, error: BaseException) -> bool:
        """Whether an error means that the connection has ended; one of the server does not."""
        ends = ("ClosedResourceError", "BrokenResourceError", "EndOfStream")
        if type(error).__name__ in ends or isinstance(error, ConnectionError):
            return True
        if not self._over_http:
            return self.ended and str(error) == "Connection closed"
        begins = _FORGOTTEN.get(getattr(error, "code", 0))
        return begins is not None and str(error).startswith(begins)

    def take(self, item: Any) -> Any:
        """A message for `mcp`."""
        found: Any = getattr(getattr(item, "message", None), "result", None)
        result = cast("dict[str, Any]", found if isinstance(found, dict) else {})
        if isinstance(result.get("tools"), list):
            self.listed = result["tools"]
            offers = [cast("dict[str, Any]", one) for one in self.listed if isinstance(one, dict)]
            result["tools"] = [
                {"name": name, "inputSchema": _shape(offer.get("inputSchema"))}
                for offer in offers
                if (name := str(offer.get("name"))) in self._tools
            ]
        return item


def _shape(schema: Any) -> dict[str, Any]:
    """The properties of a schema, in a form that every version of the protocol takes."""
    given: Any = (
        cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else {}
    )
    fields = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
    return {
        "type": "object",
        "properties": {name: one for name, one in fields.items() if isinstance(one, dict)},
    }


class _Messages:
    """The stream of messages from the server. Source: `mcp`, the protocol `ReadStream`."""

    def __init__(self, wire: Wire, stream: Any) -> None:
        self._wire, self._stream = wire, stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)  # `last_context`, over HTTP

    async def receive(self) -> Any:
        return self._wire.take(await self._stream.receive())

    def __aiter__(self) -> _Messages:
        return self

    async def __anext__(self) -> Any:
        try:
            return self._wire.take(await self._stream.__anext__())
        except StopAsyncIteration:
            self._wire.ended = True
            raise

    async def __aenter__(self) -> _Messages:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._stream.__aexit__(*error)
