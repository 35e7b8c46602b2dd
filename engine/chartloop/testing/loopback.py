"""A model provider on the local machine: real HTTP, scripted answers, two formats.

It serves OpenAI's chat format and Anthropic's Messages format, each at its own path.

It refuses the requests that providers refuse (`refuse`), so that they fail in a test too, and it
simulates the failures of providers (`FAULTS`). It listens on 127.0.0.1 only and makes no requests.

Belongs here: the server. The rules are in `chat_rules` and `messages_rules`, the answers in
`chat_wire` and `messages_wire`. Never: litellm, or anything of a run.
Source: OpenAI API reference, "Create chat completion".
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import select
import socket
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from chartloop.adapters.model.scripted import pieces
from chartloop.testing.chat_rules import FAULTS, REFUSALS, Refusal, fields_of, refuse
from chartloop.testing.chat_wire import SAMPLE, Answer, Turn, as_text, read_script, turn_of
from chartloop.testing.messages_rules import refuse_messages
from chartloop.testing.messages_wire import MessagesAnswer

__all__ = ["FAULTS", "LoopbackRequest", "LoopbackServer", "Refusal", "refuse"]

_CUTS = frozenset({"cut_stream", "torn_stream", "cut_tool_arguments"})
_PAUSE = 0.05  # seconds before each word of a `slow` answer


class LoopbackRequest(NamedTuple):
    """A received request."""

    path: str
    headers: Mapping[str, str]  # by lower-case name, with `***` in place of a key
    body: Mapping[str, Any]  # empty if it was not a JSON object


class LoopbackServer:
    """A provider on a free port of 127.0.0.1, for the duration of a `with` block.

    `replies` are those of a script (`adapters.model.scripted`), ``{"fault": name}``, or what a
    provider was seen to send: ``{"sent": {"whole": BODY, "stream": [EVENT, ...], "status": 200}}``.
    There is one for each request in order of arrival; a further request is refused. Without
    `replies` every request gets the same short answer. The model ``fault-<name>`` fails in that way
    and uses no reply. With `key`, a request with another key is refused.

    >>> from urllib.request import urlopen
    >>> with LoopbackServer() as server:
    ...     b"loopback" in urlopen(f"{server.url}/models").read()
    True
    """

    def __init__(
        self,
        replies: Sequence[Mapping[str, Any] | str] | None = None,
        *,
        models: Collection[str] = ("loopback",),
        key: str | None = None,
    ) -> None:
        self.models = tuple(models)
        self.requests: list[LoopbackRequest] = []  # in order of arrival
        self.dropped = 0  # answers broken off because the client closed the connection
        self.stopping = threading.Event()
        self._turns = None if replies is None else iter(read_script(replies))
        self._key = key
        self._signed: dict[str, set[str]] = {}
        """The signatures of the thinking blocks that each model sent; those of "" are any's."""
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """The value for `api_base`: ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def messages_url(self) -> str:
        """The value for `api_base` with Anthropic's models: ``http://127.0.0.1:<port>``."""
        return self.url.removesuffix("/v1")

    def __enter__(self) -> Self:
        self._http = _Http(("127.0.0.1", 0), functools.partial(_Handler, self))
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def take(self, request: LoopbackRequest, key: str) -> Answer:
        """Record a request, and return its answer."""
        with self._lock:
            self.requests.append(request)
            body, number = request.body, len(self.requests) - 1
            messages = request.path.endswith("/messages")
            if self._key not in (None, key):
                refusal = REFUSALS["unauthorized"]
            elif messages:
                signed = self._signed.get("", set()) | self._signed.get(
                    body.get("model", ""), set()
                )
                refusal = refuse_messages(body, self.models, signed)
            else:
                refusal = refuse(body, self.models)
            turn = Turn(SAMPLE, refusal=refusal) if refusal else self._next(body["model"])
            if not messages:
                return Answer(turn, number, body)
            answer = MessagesAnswer(turn, number, body)
            self._signed.setdefault(body.get("model", ""), set()).update(answer.signatures())
            return answer

    def trust_signatures(self, *signatures: str) -> None:
        """Accept these signatures of thinking blocks, which were sent elsewhere."""
        with self._lock:
            self._signed.setdefault("", set()).update(signatures)

    def forget_signatures(self) -> None:
        """Refuse earlier thinking blocks from now on, as another model would."""
        with self._lock:
            self._signed.clear()

    def count_dropped(self) -> None:
        with self._lock:
            self.dropped += not self.stopping.is_set()

    def _next(self, model: str) -> Turn:
        if self._turns is None or model not in self.models:
            return turn_of("" if model in self.models else model.removeprefix("fault-"))
        spent = Refusal(400, "The script has no reply left.", "script_exhausted")
        return next(self._turns, Turn(SAMPLE, refusal=spent))


class _Http(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """HTTP 1.0: one request per connection; closing it ends a stream."""

    timeout = 5  # seconds for a client to send its request
    disable_nagle_algorithm = True

    def __init__(self, owner: LoopbackServer, *args: Any) -> None:
        self.owner = owner
        super().__init__(*args)

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        models = [{"id": m, "object": "model"} for m in self.owner.models]
        if self.path == "/v1/models":
            self._send(200, json.dumps({"object": "list", "data": models}))
        else:
            self._send(404, json.dumps(Refusal(404, "Unknown request URL.").body()))

    def do_POST(self) -> None:
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        key = key or self.headers.get("x-api-key", "")
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers |= dict.fromkeys({"authorization", "api-key", "x-api-key"} & headers.keys(), "***")
        request = LoopbackRequest(self.path, headers, self._body())
        try:
            self._play(self.owner.take(request, key), key)
        except OSError:
            self.owner.count_dropped()

    def _play(self, answer: Answer, key: str) -> None:
        (reply, fault, refusal, sent), asked = answer.turn, answer.asked
        self._wait(math.inf if fault == "timeout" else reply.delay)
        if refusal is not None:
            text = refusal.message.replace("{key}", key).replace("{model}", str(asked.get("model")))
            after = refusal.retry_after
            wait = {} if after is None else {"retry-after": f"{after:g}"}
            body = answer.refusal(refusal._replace(message=text))
            self._send(refusal.status, json.dumps(body), **wait)
        elif sent is not None:
            if asked.get("stream") and sent.stream is not None and sent.status < 400:
                self._stream(answer)
            else:
                self._send(sent.status, as_text(sent.whole))
        elif fault == "html":
            self._send(200, "<html>Sign in first.</html>", **{"content-type": "text/html"})
        elif fault == "disconnect":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif asked.get("stream") and fault != "not_streamed":
            self._stream(answer)
        else:
            pauses = {"slow": _PAUSE * len(pieces(reply.text)), "stalled_stream": math.inf}
            self._wait(pauses.get(fault, 0))
            text, half = answer.whole(), fault in _CUTS or fault == "malformed_json"
            length = {"content-length": str(len(text))} if fault in _CUTS else {}
            self._send(200, text[: len(text) // 2] if half else text, **length)

    def _stream(self, answer: Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if answer.turn.fault == "torn_stream":
            self.send_header("content-length", str(10**6))
        self.end_headers()
        for line in answer.lines():
            self._wait(_PAUSE if answer.turn.fault == "slow" else 0)
            comment = line.startswith(":")
            self.wfile.write((f"{line}\n\n" if comment else answer.frame(line)).encode())
        self._wait(math.inf if answer.turn.fault == "stalled_stream" else 0)

    def _body(self) -> dict[str, Any]:
        with contextlib.suppress(ValueError, RecursionError):
            return fields_of(json.loads(self.rfile.read(int(self.headers["content-length"] or 0))))
        return {}

    def _send(self, status: int, text: str, **headers: str) -> None:
        data = text.encode()
        usual = {"content-type": "application/json", "content-length": str(len(data))}
        self.send_response(status)
        for name, value in (usual | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            readable, _, _ = select.select([self.connection], [], [], 0)
            gone = readable and not self.connection.recv(1, socket.MSG_PEEK)
            if gone or self.owner.stopping.wait(min(left, 0.02)):
                raise ConnectionAbortedError
