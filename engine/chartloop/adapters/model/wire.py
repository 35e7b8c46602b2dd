"""The bytes of a model call, read before litellm or anything else reads them.

A provider may send too much, for too long, or in another form than requested. litellm reads whole
bodies, and runs regular expressions over those of errors, on the event loop. Therefore its HTTP
transports are wrapped: bodies of errors are truncated, the size of replies is limited, and a whole
reply to a streaming call is passed on as a stream.

Belongs here: bytes and headers. Never: the meaning of a reply or a failure.
Source: HTML Standard "Server-sent events".
"""

from __future__ import annotations

import contextlib
import importlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import Any, cast

from chartloop.adapters.model.waits import wait_asked

ERROR_BODY = 8_192
"""The most bytes read of an error's body: enough for its message."""
AROUND = 1_000_000
"""The most bytes of a reply besides its text."""
PER_CHARACTER = 6
"""The most bytes of a character in JSON: ``\\u00e9``."""
MOST_STARTS = 256
"""The most beginnings of blocks kept of a stream."""
BEGINNING = 600
"""Bytes kept of each beginning: enough for the kind of the block."""
_START = b'"content_block_start"'
_ENDS = re.compile(rb'reason"\s*:\s*"|refusal\.done"', re.IGNORECASE)
"""The part of a line that says why a reply ended: most events have a `finish_reason` of null."""
PER_PIECE = 100
"""The most bytes of a stream for each character of its text."""


class TooLongError(Exception):
    """A reply is larger than its limit."""


@dataclass
class Wire:
    """The HTTP exchange of one model call: its limits, status, headers and bytes."""

    most: int
    """The most characters of the reply."""
    streamed: bool
    status: int | None = None
    retry_after: float | None = None
    """The seconds that the provider asks to wait; None if it does not ask."""
    whole: list[bytes] = field(default_factory=list[bytes])
    """The chunks of the body so far, if the reply is not streamed."""
    starts: list[bytes] = field(default_factory=list[bytes])
    """The beginnings of the content blocks in an Anthropic stream."""
    _ended: str = ""
    _refused: str = ""

    @property
    def reason(self) -> str:
        """Why the reply ended, in the provider's own word, which litellm may replace."""
        return self._ended or _reason_in(self._body())

    @property
    def refusal(self) -> str:
        """The words with which the model refused, which litellm drops from some replies."""
        body = self._body()
        return self._refused or "".join(_text_at(body, path) for path in _REFUSALS)

    def _body(self) -> Any:
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(b"".join(self.whole))
        return None

    def line(self, line: bytes) -> None:
        """Note what a line of a stream says: an event, or a frame of Bedrock's event stream."""
        at = line.find(_START)
        if at >= 0 and len(self.starts) < MOST_STARTS:
            self.starts.append(line[at : at + BEGINNING])
        if _ENDS.search(line):
            begin, end = line.find(b"{"), line.rfind(b"}")
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line[begin : end + 1])
                self._ended = _reason_in(event) or self._ended
                self._refused = _text_at(event, _REFUSED) or self._refused
            if found := _FRAMED.search(line):
                self._ended = found[1].decode("utf-8", "replace")

    def __enter__(self) -> Wire:
        self._token = _AT_HAND.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        _AT_HAND.reset(self._token)


_AT_HAND: ContextVar[Wire | None] = ContextVar("chartloop_wire", default=None)


_FRAMED = re.compile(rb'"stopReason":"([^"\\\\]{1,60})"')
"""The reason in a frame of Bedrock's event stream, which is binary."""
_WHERE = (
    ("choices", 0, "native_finish_reason"),  # OpenRouter
    ("choices", 0, "finish_reason"),
    ("candidates", 0, "finishReason"),  # Gemini
    ("promptFeedback", "blockReason"),
    ("delta", "stop_reason"),  # Anthropic, streamed
    ("response", "incomplete_details", "reason"),  # OpenAI's responses, streamed
    ("incomplete_details", "reason"),
    ("stop_reason",),
    ("stopReason",),  # Bedrock
    ("done_reason",),  # Ollama
    ("finish_reason",),  # Cohere
    ("delta", "finish_reason"),
)
"""Where a body or an event says why the reply ended, by provider."""


_REFUSED = ("refusal",)  # the event `response.refusal.done`
_REFUSALS = (
    ("choices", 0, "message", "refusal"),
    ("output", 0, "content", 0, "refusal"),  # OpenAI's responses
)
"""Where a whole body holds the words of a refusal."""


def _reason_in(body: Any) -> str:
    """Why a reply ended, as its body or an event of its stream says; empty if it does not."""
    for path in _WHERE:
        if found := _text_at(body, path):
            return f"prompt {found}" if path[0] == "promptFeedback" else found
    return ""


def _text_at(value: Any, path: Sequence[str | int]) -> str:
    """The text at a path of a body; empty if there is none."""
    for key in path:
        if isinstance(value, Mapping):
            value = cast("Mapping[Any, Any]", value).get(key)
        elif isinstance(value, list) and key == 0 and value:
            value = cast("list[Any]", value)[0]
        else:
            return ""
    return value if isinstance(value, str) else ""


_WATCHED: list[Any] = []
"""The factories of wrapped transports, so that none is wrapped twice."""


def watch(httpx_handler: str = "litellm.llms.custom_httpx.http_handler") -> None:
    """Wrap every HTTP transport that litellm creates from now on. Idempotent."""
    handler: Any = importlib.import_module(httpx_handler).AsyncHTTPHandler
    make = handler.create_async_transport
    if make in _WATCHED:
        return

    @wraps(make)
    def create(*args: Any, **more: Any) -> Any:
        transport = make(*args, **more)
        if transport is not None:
            transport.handle_async_request = _watch_transport(transport.handle_async_request)
        return transport

    _WATCHED.append(create)
    handler.create_async_transport = staticmethod(create)


def _watch_transport(ask: Any) -> Any:
    async def handle_async_request(request: Any) -> Any:
        wire = _AT_HAND.get()
        if wire is None:  # not a call of chartloop
            return await ask(request)
        request.headers["accept-encoding"] = "identity"
        response = await ask(request)
        status: int = response.status_code
        wire.status = status
        if status >= 400:
            body = b""
            async for chunk in response.stream:
                body += chunk[: ERROR_BODY - len(body)]
                if len(body) >= ERROR_BODY:
                    break
            await response.stream.aclose()
            wire.retry_after = wait_asked(response.headers, body.decode("utf-8", "replace"))
            if response.headers.get("content-encoding", "identity") != "identity":
                body = b""  # a part cannot be decompressed, and the whole may be of any size
            return _with_body(response, content=body)
        kept = None if wire.streamed else wire.whole
        body = _measured_class()(response.stream, wire.most * PER_CHARACTER + AROUND, kept)
        if wire.streamed:
            body.on_line = wire.line
            lines = "ndjson" in response.headers.get("content-type", "")  # a stream, as Ollama's
            if not lines and await body.begins_as_json():
                return await _as_stream(response, body)
            body.most = wire.most * PER_PIECE + AROUND
        response.stream = body
        return response

    return handle_async_request


async def _as_stream(response: Any, measured: Measured) -> Any:
    """A whole reply to a streaming call, as a stream of events."""
    body = b"".join([chunk async for chunk in measured])
    await measured.aclose()
    try:
        reply = json.loads(body)
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
        events = "".join([*lines, "data: [DONE]\n\n"]).encode()
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return _with_body(response, content=body)
    return _with_body(response, content=events, kind="text/event-stream")


_OF_A_BODY = frozenset({"content-length", "content-encoding", "transfer-encoding"})


def _with_body(response: Any, *, kind: str = "", **body: Any) -> Any:
    """A copy of the response with another body."""
    headers = response.headers
    if "content" in body:
        headers = [(n, v) for n, v in headers.multi_items() if n.lower() not in _OF_A_BODY]
    copy = type(response)(response.status_code, headers=headers, **body)
    if kind:
        copy.headers["content-type"] = kind
    copy.extensions.update(response.extensions)
    return copy


_BLANK = b" \t\r\n\xef\xbb\xbf"
"""The bytes that may come before JSON, including a byte order mark."""


class Measured:
    """A body of at most `most` bytes. Source: httpx `AsyncByteStream`."""

    def __init__(self, stream: Any, most: int, kept: list[bytes] | None) -> None:
        self.most = most
        self.on_line: Callable[[bytes], None] | None = None
        """Called with each whole line."""
        self._line: list[bytes] = []
        self._stream, self._kept = stream, kept
        self._rest = self._read()
        self._ahead: list[bytes] = []

    async def begins_as_json(self) -> bool:
        """Whether the body is a JSON object, whatever its headers say: no event starts with `{`."""
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
            if self.on_line is not None:
                *ended, rest = chunk.split(b"\n")
                for line in ended:
                    self.on_line(b"".join((*self._line, line)))
                    self._line.clear()
                self._line.append(rest)
            yield chunk
        if self.on_line is not None:
            self.on_line(b"".join(self._line))

    async def aclose(self) -> None:
        """Close the stream; httpx drops a connection whose body was not read to its end."""
        await self._stream.aclose()


@cache
def _measured_class() -> Any:
    """`Measured` as a subclass of httpx's stream class, which comes with litellm."""
    kind: Any = importlib.import_module("httpx").AsyncByteStream
    return type("Measured", (Measured, kind), {})
