"""The stream of messages from an MCP server, watched before `mcp` reads it.

`mcp` parses a listing as one, so a single bad tool would take all others away, and validates
results with `re`, which a pattern of the server could stop for ever. So a listing is kept here as
it came, and `mcp` gets the part that it needs: the names of the locked tools, and their arguments
for the headers of the protocol of 2026.

Belongs here: what a message says before it is parsed. Never: an import of `mcp`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, cast


class Wire:
    """A transport of `mcp`, and the stream of messages that it reads."""

    def __init__(self, transport: Any, tools: Collection[str]) -> None:
        self.listed: list[Any] = []
        """The tools of the last page of a listing, as the server wrote them."""
        self.ended = False
        """Whether the server has closed the connection."""
        self._transport = transport
        self._tools = tools
        self._messages: Any = None

    async def __aenter__(self) -> tuple[Any, Any]:
        self._messages, write = await self._transport.__aenter__()
        return _Messages(self, self._messages), write

    async def __aexit__(self, *error: Any) -> Any:
        return await self._transport.__aexit__(*error)

    def take(self, item: Any) -> Any:
        """A message for `mcp`."""
        result = getattr(getattr(item, "message", None), "result", None)
        tools = cast("dict[str, Any]", result).get("tools") if isinstance(result, dict) else None
        if isinstance(tools, list):
            self.listed = cast("list[Any]", tools)
            result["tools"] = [
                {"name": str(offer["name"]), "inputSchema": _shape(offer.get("inputSchema"))}
                for offer in self.listed
                if isinstance(offer, dict) and str(offer.get("name")) in self._tools
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
