"""A provider on loopback that sends whatever bytes a test says: what a hostile or broken one does."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[int, Mapping[str, Any]], Iterable[bytes]]
"""The pieces of the answer to the n-th request, from 0, and its body."""

SECRET = "hunter2-hunter2-hunter2"
"""The value of `THE_PASSWORD` where the fixture `provider_keys` is used."""

USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


class Provider:
    """Serves `answer` until it is left. `url` is what `api_base` takes."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.left = threading.Event()
        """Set when the test is over: an answer that never ends asks for it."""

        def serve(handler: BaseHTTPRequestHandler) -> None:
            size = int(handler.headers["content-length"] or 0)
            body = json.loads(handler.rfile.read(size) or b"{}")
            self.asked.append(body)
            with contextlib.suppress(OSError):
                for piece in answer(len(self.asked) - 1, body):
                    handler.wfile.write(piece)
                    handler.wfile.flush()
                    if self.left.is_set():
                        break
            handler.close_connection = True

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                serve(self)

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.left.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def http(
    body: Any, status: str = "200 OK", kind: str = "application/json", **headers: str
) -> Iterator[bytes]:
    """One whole answer. A `body` that is not a text or bytes is written as JSON."""
    if isinstance(body, str):
        body = body.encode()
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"content-type": kind, "content-length": str(len(data)), "connection": "close"}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in (given | headers).items()]
    yield "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + data


def reply(text: str | None = "hello there", calls: int = 0, **more: Any) -> dict[str, Any]:
    """The body of a reply, with tool calls of `add` where they are wanted."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    finish = "stop"
    if calls:
        finish, function = "tool_calls", {"name": "add", "arguments": '{"x": 1}'}
        message["tool_calls"] = [
            {"id": f"c{n}", "type": "function", "function": function} for n in range(calls)
        ]
    choice = {"index": 0, "message": message, "finish_reason": more.pop("finish", finish)}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini"}
    return {**head, "choices": [choice], "usage": USAGE, **more}


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini"}
    return f"data: {json.dumps({**head, 'choices': [choice], **more})}\n\n".encode()


def streamed(text: str, **more: Any) -> Iterator[bytes]:
    """A whole reply as a stream."""
    yield STREAM
    yield event({"role": "assistant", "content": text})
    yield event({}, "stop", **more)
    yield b"data: [DONE]\n\n"
