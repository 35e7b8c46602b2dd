"""The bytes of a model call, read before litellm or anything else reads them.

A provider may answer with more than fits, for longer than is useful, or in another form than was
asked for. litellm reads whole bodies, and runs regular expressions over those of errors, on the
event loop. So its HTTP transports are watched: bodies of errors are cut, replies have a size,
and a whole reply to a call that asked for a stream is handed on as a stream.

Belongs here: bytes and headers. Never: what a reply or a failure means.
Source: RFC 9110 "Retry-After"; design "traps", litellm; HTML Standard "Server-sent events".
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import time
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache, wraps
from typing import Any

__all__ = ["Measured", "TooLongError", "Wire", "watch"]

ERROR_BODY = 8_192
"""Bytes of an error's body that are read: enough for its message."""
AROUND = 1_000_000
"""Bytes of a whole reply next to its text."""
PER_CHARACTER = 6
"""Bytes of a character in JSON at most: ``\\u00e9``."""
MOST_STARTS = 256
"""Beginnings of blocks that are kept of a stream."""
BEGINNING = 600
"""Bytes of each that are kept: enough for the kind of the block."""
_START = b'"content_block_start"'
PER_PIECE = 100
"""Bytes of a stream for each character of its text."""


class TooLongError(Exception):
    """A reply is larger than its limit."""


@dataclass
class Wire:
    """One model call: what it may take, and what the server said of itself."""

    most: int
    """Characters of the reply."""
    streamed: bool
    status: int | None = None
    after: str = ""
    """The header `Retry-After`, as it came."""
    whole: list[bytes] = field(default_factory=list[bytes])
    """The body so far, of a reply that is not a stream."""
    starts: list[bytes] = field(default_factory=list[bytes])
    """Of a stream of Anthropic's, how each block of content begins."""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the provider asks to wait; None when it asks for none."""
        return seconds_of(self.after)

    def __enter__(self) -> Wire:
        self._token = _AT_HAND.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _AT_HAND.reset(self._token)


_AT_HAND: ContextVar[Wire | None] = ContextVar("chartloop_wire", default=None)


def seconds_of(header: str) -> float | None:
    """The seconds that a `Retry-After` asks for, in seconds or as a date."""
    with contextlib.suppress(ValueError):
        return found if 0 <= (found := float(header)) < math.inf else None
    with contextlib.suppress(TypeError, ValueError, OverflowError):
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    return None


_WATCHED: list[Any] = []
"""The factories of watched transports, so that none is watched twice."""


def watch(httpx_handler: str = "litellm.llms.custom_httpx.http_handler") -> None:
    """Have every HTTP transport that litellm makes from now on watched. Does nothing twice."""
    handler: Any = importlib.import_module(httpx_handler).AsyncHTTPHandler
    make = handler.create_async_transport
    if make in _WATCHED:
        return

    @wraps(make)
    def create(*args: Any, **more: Any) -> Any:
        made = make(*args, **more)
        if made is not None:
            made.handle_async_request = _watch_transport(made.handle_async_request)
        return made

    _WATCHED.append(create)
    handler.create_async_transport = staticmethod(create)


def _watch_transport(ask: Any) -> Any:
    async def handle_async_request(request: Any) -> Any:
        wire = _AT_HAND.get()
        if wire is None:  # a call of someone else in this process
            return await ask(request)
        request.headers["accept-encoding"] = "identity"
        response = await ask(request)
        status: int = response.status_code
        wire.status, wire.after = status, response.headers.get("retry-after", "")
        if status >= 400:
            return await _truncate_error(response)
        kept = None if wire.streamed else wire.whole
        body = _measured_class()(response.stream, wire.most * PER_CHARACTER + AROUND, kept)
        if wire.streamed:
            body.starts = wire.starts
            lines = "ndjson" in response.headers.get("content-type", "")  # a stream, as Ollama's
            if not lines and await body.begins_as_json():
                return await _as_stream(response, body)
            body.most = wire.most * PER_PIECE + AROUND
        response.stream = body
        return response

    return handle_async_request


async def _truncate_error(response: Any) -> Any:
    """An error with the beginning of its body."""
    body = b""
    async for chunk in response.stream:
        body += chunk[: ERROR_BODY - len(body)]
        if len(body) >= ERROR_BODY:
            break
    await response.stream.aclose()
    if response.headers.get("content-encoding", "identity") != "identity":
        body = b""  # a part of it cannot be read, and the whole may be of any size
    return _remade(response, content=body)


async def _as_stream(response: Any, measured: Measured) -> Any:
    """A whole reply to a call that asked for a stream: the same in one event."""
    body = b"".join([chunk async for chunk in measured])
    await measured.aclose()
    try:
        events = _events(json.loads(body))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return _remade(response, content=body)
    return _remade(response, content=events, kind="text/event-stream")


def _events(reply: Mapping[str, Any]) -> bytes:
    head = {**reply, "object": "chat.completion.chunk"}
    parts: list[dict[str, Any]] = []
    for choice in reply["choices"]:
        delta = dict(choice["message"])
        calls = delta.get("tool_calls") or ()
        delta["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)] or None
        rest = {"index": choice.get("index", 0)}
        parts.append({**head, "usage": None, "choices": [{**rest, "delta": delta}]})
        end: dict[str, Any] = {
            **rest,
            "delta": {},
            "finish_reason": choice.get("finish_reason") or "stop",
        }
        parts.append({**head, "choices": [end]})
    lines = [f"data: {json.dumps(part)}\n\n" for part in parts]
    return "".join([*lines, "data: [DONE]\n\n"]).encode()


_OF_A_BODY = frozenset({"content-length", "content-encoding", "transfer-encoding"})


def _remade(response: Any, *, kind: str = "", **body: Any) -> Any:
    """The response with another body."""
    headers = response.headers
    if "content" in body:
        headers = [(n, v) for n, v in headers.multi_items() if n.lower() not in _OF_A_BODY]
    made = type(response)(response.status_code, headers=headers, **body)
    if kind:
        made.headers["content-type"] = kind
    made.extensions.update(response.extensions)
    return made


_BLANK = b" \t\r\n\xef\xbb\xbf"
"""The bytes that may come before JSON, including a byte order mark."""


class Measured:
    """A body that may not be larger than `most` bytes. Source: httpx `AsyncByteStream`."""

    def __init__(self, stream: Any, most: int, kept: list[bytes] | None) -> None:
        self.most = most
        self.starts: list[bytes] | None = None
        self._tail = b""
        self._stream, self._kept = stream, kept
        self._rest = self._read()
        self._ahead: list[bytes] = []

    async def begins_as_json(self) -> bool:
        """Whether it is a JSON object, whatever its headers say. No event starts with a brace."""
        async for chunk in self._rest:
            self._ahead.append(chunk)
            if head := chunk.lstrip(_BLANK):
                return head.startswith(b"{")
        return False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._ahead:
            yield chunk
        async for chunk in self._rest:
            yield chunk

    async def _read(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > self.most:
                raise TooLongError
            if self._kept is not None:
                self._kept.append(chunk)
            if self.starts is not None:
                self._note_starts(chunk)
            yield chunk

    def _note_starts(self, chunk: bytes) -> None:
        """Keep how blocks of content begin. Where a chunk ends in one, it is read again."""
        assert self.starts is not None
        text = self._tail + chunk
        at = text.find(_START)
        while at >= 0 and len(self.starts) < MOST_STARTS:
            self.starts.append(text[at : at + BEGINNING])
            at = text.find(_START, at + 1)
        self._tail = text[-BEGINNING:]

    async def aclose(self) -> None:
        """The connection is not used again where the body was not read to its end."""
        await self._stream.aclose()


@cache
def _measured_class() -> Any:
    """`Measured` of the class that httpx asks for: known only where litellm is installed."""
    kind: Any = importlib.import_module("httpx").AsyncByteStream
    return type("Measured", (Measured, kind), {})
