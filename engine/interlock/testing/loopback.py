"""A model provider on this machine: real HTTP, the OpenAI chat format, scripted answers.

It refuses what providers refuse (`refuse`), so that a conversation that a provider would answer
with 400 fails in a test too, and it breaks in the ways in which providers break (`FAULTS`). It
listens on 127.0.0.1 only and never calls anything.

Belongs here: the wire format as a provider sees it. Never: litellm, or anything of a run.
Source: OpenAI API reference, "Create chat completion"; design "traps", litellm.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

from interlock.adapters.scripted import ScriptedCall, ScriptedReply, parse_replies, pieces
from interlock.core.errors import ScriptError, nearest

__all__ = ["FAULTS", "LoopbackRequest", "LoopbackServer", "Refusal", "refuse"]


class Refusal(NamedTuple):
    """An answer that says no, in the provider's shape. `retry_after` is in seconds."""

    status: int
    message: str
    code: str | None = None
    type: str = "invalid_request_error"
    retry_after: float | None = None

    def body(self) -> dict[str, Any]:
        """The JSON that a provider sends."""
        fault = {"message": self.message, "type": self.type, "param": None, "code": self.code}
        return {"error": fault}


_WINDOW = "This model's maximum context length is 8192 tokens, your messages resulted in 9000."
_QUOTA = "You exceeded your current quota, please check your plan and billing details."
_SAFETY = "Your request was rejected as a result of our safety system."
_REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        "rate_limit": Refusal(429, "Rate limit reached.", "rate_limit_exceeded", "requests", 7),
        "quota": Refusal(429, _QUOTA, "insufficient_quota", "insufficient_quota"),
        "unauthorized": Refusal(401, "Incorrect API key provided: {key}.", "invalid_api_key"),
        "forbidden": Refusal(403, "You are not allowed to use this model.", "permission_denied"),
        "not_found": Refusal(404, "The model `{model}` does not exist.", "model_not_found"),
        "bad_request": Refusal(400, "Invalid value for 'messages[0].content'.", "invalid_value"),
        "context_too_long": Refusal(400, _WINDOW, "context_length_exceeded"),
        "content_refused": Refusal(400, _SAFETY, "content_policy_violation"),
        "server_error": Refusal(500, "The server had an error.", None, "server_error"),
        "unavailable": Refusal(503, "The engine is currently overloaded.", None, "server_error"),
    }
)
FAULTS: Mapping[str, str] = MappingProxyType(
    {name: f"{refusal.status}: {refusal.message}" for name, refusal in _REFUSALS.items()}
    | {
        "timeout": "never answers, and holds the connection",
        "disconnect": "closes the connection without an answer",
        "malformed_json": "200, and the JSON ends in the middle",
        "html": "200 with a web page, as a captive proxy sends it",
        "not_streamed": "200 with one JSON reply, even where a stream was asked for",
        "empty_stream": "200 and nothing in it: `[DONE]` at once; unstreamed, no choices",
        "cut_stream": "ends before the last word as if all were well; unstreamed, in mid-body",
        "torn_stream": "breaks the connection before the last word; unstreamed, in mid-body",
        "cut_tool_arguments": "ends in the middle of a tool call's arguments",
        "stream_error": "an error event before the last word; unstreamed, an error with 200",
        "slow": "a twentieth of a second before each word",
        "length": "a reply that ran into its token limit",
        "content_filter": "a reply that the provider's filter cut",
    }
)
"""What can go wrong, by name: ``{"fault": name}`` in a script, or the model ``fault-<name>``."""

_OF_CATEGORY = MappingProxyType(
    {"TRANSIENT": "unavailable", "RECOVERABLE": "context_too_long", "CRITICAL": "bad_request"}
)
_CUTS = frozenset({"cut_stream", "torn_stream", "cut_tool_arguments"})
_PAGE = "<!doctype html><html><body><h1>Sign in to this network</h1></body></html>"
_SECRET = frozenset({"authorization", "api-key", "x-api-key"})
_PAUSE = 0.05
"""Seconds before each word of a `slow` answer."""


class LoopbackRequest(NamedTuple):
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """By lower-case name; those that hold a key hold ``***`` in its place."""
    body: Mapping[str, Any]
    """The JSON object that was sent; empty when it was none."""


# What providers refuse.


class _Rule(NamedTuple):
    """What must hold of every value at a path such as ``tools[].function.name``."""

    path: str
    ok: Callable[[Any], object]
    expected: str
    needed: bool = True
    code: str = "invalid_value"


_ROLES = ("system", "developer", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_filled(value: Any) -> bool:
    return isinstance(value, list) and len(cast(list[Any], value)) > 0


def _is_content(value: Any) -> bool:
    return _is_text(value) or _is_filled(value)


def _within(path: str, low: float, high: float) -> _Rule:
    def ok(value: Any) -> bool:
        return isinstance(value, (int, float)) and low <= value <= high

    return _Rule(path, ok, f"a number from {low} to {high}", False, "number_out_of_range")


_LIST = "an array with at least 1 item"
_WORD = "a name that matches '^[a-zA-Z0-9_-]+$' and has at most 64 characters"
_RULES = (
    _Rule("model", _is_text, "a model; you must provide a model parameter"),
    _Rule("messages", _is_filled, _LIST, code="empty_array"),
    _Rule("messages[].role", _ROLES.__contains__, f"one of {', '.join(_ROLES)}"),
    _Rule("messages[].content", _is_content, "a text", needed=False),
    _Rule("messages[].tool_calls", _is_filled, _LIST, needed=False, code="empty_array"),
    _Rule("messages[].tool_calls[].id", _is_text, "an id"),
    _Rule("messages[].tool_calls[].type", "function".__eq__, "'function'"),
    _Rule("messages[].tool_calls[].function.name", _is_name, _WORD),
    _Rule("messages[].tool_calls[].function.arguments", _is_text, "JSON as a string"),
    _Rule("tools", _is_filled, _LIST, needed=False, code="empty_array"),
    _Rule("tools[].type", "function".__eq__, "'function'"),
    _Rule("tools[].function.name", _is_name, _WORD),
    _Rule("tools[].function.parameters.type", "object".__eq__, "a JSON Schema of type 'object'"),
    _within("temperature", 0, 2),
    _within("top_p", 0, 1),
    _within("n", 1, 128),
    _within("max_tokens", 1, 2**31),
)


def refuse(body: Mapping[str, Any], models: Collection[str]) -> Refusal | None:
    """What a provider with these models would refuse in this request, or None.

    >>> refuse({"model": "m", "messages": []}, ["m"]).code
    'empty_array'
    """
    for rule in _RULES:
        for at, value in _values(body, rule.path):
            if rule.needed if value is None else not rule.ok(value):
                return Refusal(400, f"Invalid '{at}': expected {rule.expected}.", rule.code)
    model: str = body["model"]
    if model not in models and model.removeprefix("fault-") not in FAULTS:
        return _REFUSALS["not_found"]
    said = _unanswered(body["messages"]) or _unfit(body)
    return Refusal(400, said) if said else None


def _values(data: Any, path: str, at: str = "") -> Iterator[tuple[str, Any]]:
    """Every value at a path, with its place; None where it is missing."""
    if not path:
        yield at, data
        return
    name, _, rest = path.partition(".")
    key = name.removesuffix("[]")
    inner: Any = cast(dict[str, Any], data).get(key) if isinstance(data, dict) else None
    if key == name:
        yield from _values(inner, rest, f"{at}.{key}".lstrip("."))
    else:
        for n, item in enumerate(inner or ()):
            yield from _values(item, rest, f"{at}.{key}[{n}]".lstrip("."))


def _unanswered(messages: Sequence[Mapping[str, Any]]) -> str:
    """Every tool call must be answered at once, and every answer must have been asked for."""
    asked: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if not asked:
                return f"Invalid parameter: {_UNASKED}"
            if (called := message.get("tool_call_id")) not in waiting:
                return f"Invalid parameter: 'tool_call_id' '{called}' not found in 'tool_calls'."
            waiting.remove(cast(str, called))
        elif waiting:
            break
        else:
            calls = message.get("tool_calls") if message["role"] == "assistant" else None
            asked = [call["id"] for call in calls or ()]
            waiting = list(asked)
    return _UNANSWERED + ", ".join(waiting) if waiting else ""


_UNASKED = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to "
    "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
)


def _unfit(body: Mapping[str, Any]) -> str:
    """What does not go together, though each part by itself is well."""
    for message in body["messages"]:
        asks = message["role"] == "assistant" and message.get("tool_calls")
        if message.get("content") is None and not asks:
            return "Invalid value for 'content': expected a string, got null."
    if body.get("stream_options") is not None and not body.get("stream"):
        return "'stream_options' is only allowed when 'stream' is enabled."
    if body.get("tool_choice") is not None and body.get("tools") is None:
        return "'tool_choice' is only allowed when 'tools' are specified."
    return ""


# What providers answer.

_SAMPLE = ScriptedReply("The quick brown fox jumps over the lazy dog.", (), "stop", 12, 9)
_SAMPLE_CALL = ScriptedReply(
    "", (ScriptedCall("get_weather", '{"city": "Paris"}'),), "tool_calls", 12, 9
)


class _Turn(NamedTuple):
    reply: ScriptedReply
    fault: str = ""
    refusal: Refusal | None = None


def _turn(fault: str, reply: ScriptedReply | None = None) -> _Turn:
    if reply is None:
        reply = _SAMPLE_CALL if fault == "cut_tool_arguments" else _SAMPLE
    if fault in ("length", "content_filter"):
        return _Turn(reply._replace(finish_reason=fault))
    if (error := reply.error) is None:
        return _Turn(reply, fault, _REFUSALS.get(fault))
    name = error.kind if error.kind in _REFUSALS else _OF_CATEGORY[error.category]
    said = _REFUSALS[name]._replace(message=error.message, retry_after=error.retry_after)
    return _Turn(reply, name, said)


def _read_script(replies: Sequence[Mapping[str, Any] | str]) -> list[_Turn]:
    given = [{"text": r} if isinstance(r, str) else dict(r) for r in replies]
    faults = [reply.pop("fault", "") for reply in given]
    read, problems = parse_replies(given)
    for n, fault in enumerate(faults):
        if fault and fault not in FAULTS:
            problems.append(f"replies.{n}: unknown fault `{fault}`: {nearest(fault, FAULTS)}")
    if problems:
        raise ScriptError("the script cannot be read:\n  " + "\n  ".join(problems))
    rows = zip(faults, read, given, strict=True)
    return [_turn(fault, reply if plain else None) for fault, reply, plain in rows]


class _Answer(NamedTuple):
    """A turn as it goes over the wire: the number of the request, and what was asked."""

    turn: _Turn
    number: int
    asked: Mapping[str, Any]

    def head(self, kind: str) -> dict[str, Any]:
        name, made = f"chatcmpl-{self.number}", int(time.time())
        return {"id": name, "object": kind, "created": made, "model": self.asked["model"]}

    def choices(self, reason: str | None, **said: Any) -> dict[str, Any]:
        count = range(self.asked.get("n") or 1)
        return {"choices": [{"index": n, "finish_reason": reason, **said} for n in count]}

    def usage(self) -> dict[str, Any]:
        prompt, completion = self.turn.reply.prompt_tokens, self.turn.reply.completion_tokens
        if prompt is None or completion is None:
            return {}
        sums = {"completion_tokens": completion, "total_tokens": prompt + completion}
        return {"usage": {"prompt_tokens": prompt, **sums}}

    def calls(self) -> list[dict[str, Any]]:
        return [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in self.turn.reply.calls(self.number)
        ]

    def whole(self) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        if self.turn.fault == "stream_error":
            return _REFUSALS["server_error"].body()
        reply, calls = self.turn.reply, self.calls()
        message = {"role": "assistant", "content": reply.text or None}
        message |= {"tool_calls": calls} if calls else {}
        answer = {**self.head("chat.completion"), **self.usage()}
        answer |= self.choices(reply.finish_reason, message=message)
        return {**answer, "choices": []} if self.turn.fault == "empty_stream" else answer

    def deltas(self) -> Iterator[dict[str, Any]]:
        """What each event of a stream adds; arguments come in pieces of six characters."""
        for piece in pieces(self.turn.reply.text):
            yield {"content": piece}
        for n, call in enumerate(self.calls()):
            arguments = call["function"]["arguments"]
            call["function"]["arguments"] = ""
            yield {"tool_calls": [{"index": n, **call}]}
            for start in range(0, len(arguments), 6):
                part = arguments[start : start + 6]
                yield {"tool_calls": [{"index": n, "function": {"arguments": part}}]}

    def lines(self) -> Iterator[str]:
        """The data of each event of a stream."""
        head, (reply, fault, _) = self.head("chat.completion.chunk"), self.turn
        first = {"role": "assistant", "content": ""}
        events = [{**head, **self.choices(None, delta=d)} for d in (first, *self.deltas())]
        broken = fault in _CUTS or fault in ("stream_error", "malformed_json")
        if fault != "empty_stream":
            yield from map(json.dumps, events[:-1] if broken else events)
        if fault == "malformed_json":
            yield json.dumps(events[-1])[:40]
        if fault == "stream_error":
            yield json.dumps(_REFUSALS["server_error"].body())
        if fault != "empty_stream" and not broken:
            yield json.dumps({**head, **self.choices(reply.finish_reason, delta={})})
            options: Mapping[str, Any] = self.asked.get("stream_options") or {}
            if options.get("include_usage") and self.usage():
                yield json.dumps({**head, "choices": [], **self.usage()})
        if not broken:
            yield "[DONE]"


class LoopbackServer:
    """A provider on 127.0.0.1, on a free port, for as long as a `with` block lasts.

    `replies` are those of a script (`adapters.scripted`) or ``{"fault": name}``, one for each
    request in the order of arrival; a request too many is refused. Without `replies` each gets
    the same short answer. The model ``fault-<name>`` breaks in that way and uses up no reply.
    With `key`, a request with another key is refused.

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
        self.requests: list[LoopbackRequest] = []
        """What was asked, in order of arrival."""
        self.dropped = 0
        """How many answers were broken off because the client closed the connection."""
        self.stopping = threading.Event()
        self._turns = None if replies is None else iter(_read_script(replies))
        self._key = key
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """What goes into `api_base`: ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.hang_up()
        self._http.server_close()
        self._thread.join()

    def take(self, request: LoopbackRequest, key: str) -> _Answer:
        """Note a request down, and say what it is answered."""
        with self._lock:
            self.requests.append(request)
            wrong = self._key is not None and key != self._key
            refusal = _REFUSALS["unauthorized"] if wrong else refuse(request.body, self.models)
            turn = _Turn(_SAMPLE, refusal=refusal) if refusal else self._next(request.body["model"])
            return _Answer(turn, len(self.requests) - 1, request.body)

    def left(self) -> None:
        """Note down that a client left before its answer was complete."""
        with self._lock:
            self.dropped += not self.stopping.is_set()

    def _next(self, model: str) -> _Turn:
        if self._turns is None or model not in self.models:
            return _turn("" if model in self.models else model.removeprefix("fault-"))
        spent = Refusal(400, "The script has no reply left for this request.", "script_exhausted")
        return next(self._turns, _Turn(_SAMPLE, refusal=spent))


class _Http(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False

    def __init__(self, owner: LoopbackServer) -> None:
        self.owner = owner
        self.connections: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def hang_up(self) -> None:
        """Close what clients keep open, so that no thread waits for their next request."""
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _LeftError(Exception):
    """The client closed the connection, or the server is to stop."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Http  # pyright: ignore[reportIncompatibleVariableOverride]

    def setup(self) -> None:
        super().setup()
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: what arrived is in `requests`."""

    def do_GET(self) -> None:
        models = [{"id": m, "object": "model"} for m in self.server.owner.models]
        if self.path == "/v1/models":
            self._send(200, json.dumps({"object": "list", "data": models}))
        else:
            self._refuse(Refusal(404, f"Unknown request URL: GET {self.path}."))

    def do_POST(self) -> None:
        key = self.headers.get("authorization", "").removeprefix("Bearer ")
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers |= {name: "***" for name in _SECRET & headers.keys()}
        request = LoopbackRequest(self.path, headers, self._body())
        if self.path != "/v1/chat/completions":
            self._refuse(Refusal(404, f"Unknown request URL: POST {self.path}."))
            return
        try:
            self._play(self.server.owner.take(request, key), key)
        except (_LeftError, ConnectionError):
            self.server.owner.left()
            self.close_connection = True

    def _play(self, answer: _Answer, key: str) -> None:
        reply, fault, refusal = answer.turn
        self._wait(math.inf if fault == "timeout" else reply.delay)
        if refusal is not None:
            model = str(answer.asked.get("model"))
            text = refusal.message.replace("{key}", key).replace("{model}", model)
            self._refuse(refusal._replace(message=text))
        elif fault == "disconnect":
            self._tear()
        elif fault == "html":
            self._send(200, _PAGE, kind="text/html")
        elif answer.asked.get("stream") and fault != "not_streamed":
            self._stream(answer)
        else:
            self._whole(answer)

    def _whole(self, answer: _Answer) -> None:
        fault, text = answer.turn.fault, json.dumps(answer.whole())
        self._wait(_PAUSE * len(pieces(answer.turn.reply.text)) if fault == "slow" else 0)
        if fault in _CUTS:
            self._send(200, text[: len(text) // 2], length=len(text))
            self._tear()
        else:
            self._send(200, text[: len(text) // 2] if fault == "malformed_json" else text)

    def _stream(self, answer: _Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for line in answer.lines():
            self._wait(_PAUSE if answer.turn.fault == "slow" else 0)
            data = f"data: {line}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if answer.turn.fault == "torn_stream":
            self._tear()
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _body(self) -> dict[str, Any]:
        try:
            data = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        except (ValueError, RecursionError):
            return {}
        return cast(dict[str, Any], data) if isinstance(data, dict) else {}

    def _refuse(self, refusal: Refusal) -> None:
        self._send(refusal.status, json.dumps(refusal.body()), retry_after=refusal.retry_after)

    def _send(
        self,
        status: int,
        text: str,
        *,
        kind: str = "application/json",
        length: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(length or len(data)))
        if retry_after is not None:
            self.send_header("retry-after", f"{retry_after:g}")
        self.end_headers()
        self.wfile.write(data)

    def _tear(self) -> None:
        """Close the connection in the middle of an answer."""
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if self.server.owner.stopping.wait(min(left, 0.02)) or self._client_left():
                raise _LeftError

    def _client_left(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
