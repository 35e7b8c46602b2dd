"""A model provider on this machine: real HTTP, the OpenAI chat format, scripted answers.

It refuses what providers refuse (`refuse`), so that what a provider would answer with 400 fails
in a test too, and it breaks in the ways in which providers break (`FAULTS`). It listens on
127.0.0.1 only and never calls anything.

Belongs here: the wire format as a provider sees it. Never: litellm, or anything of a run.
Source: OpenAI API reference, "Create chat completion"; design "traps", litellm.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import re
import select
import socket
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
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


_REFUSALS: Mapping[str, Refusal] = {
    "rate_limit": Refusal(429, "Rate limit reached.", "rate_limit_exceeded", "requests", 7),
    "quota": Refusal(429, "You exceeded your current quota.", "insufficient_quota"),
    "unauthorized": Refusal(401, "Incorrect API key provided: {key}.", "invalid_api_key"),
    "forbidden": Refusal(403, "You are not allowed to use this model.", "permission_denied"),
    "not_found": Refusal(404, "The model `{model}` does not exist.", "model_not_found"),
    "bad_request": Refusal(400, "Invalid value for 'messages[0].content'.", "invalid_value"),
    "context_too_long": Refusal(400, "The messages are too long.", "context_length_exceeded"),
    "content_refused": Refusal(400, "Rejected by our safety system.", "content_policy_violation"),
    "server_error": Refusal(500, "The server had an error.", None, "server_error"),
    "unavailable": Refusal(503, "The engine is currently overloaded.", None, "server_error"),
}
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
        "stalled_stream": "says no more before the last word; unstreamed, as `timeout`",
        "cut_tool_arguments": "ends in the middle of a tool call's arguments",
        "stream_error": "an error event before the last word; unstreamed, an error with 200",
        "slow": "a twentieth of a second before each word",
        "length": "a reply that ran into its token limit",
        "content_filter": "a reply that the provider's filter cut",
    }
)
"""What can go wrong, by name: ``{"fault": name}`` in a script, or the model ``fault-<name>``."""

_CUTS = frozenset({"cut_stream", "torn_stream", "cut_tool_arguments"})
_PAUSE = 0.05  # seconds before each word of a `slow` answer


class LoopbackRequest(NamedTuple):
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]  # by lower-case name, with `***` in place of a key
    body: Mapping[str, Any]  # empty when it was no JSON object


_ROLES = ("system", "developer", "user", "assistant", "tool")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_RULES: tuple[tuple[str, Any], ...] = (
    ("model", str),
    ("messages", list),
    ("messages[].role", _ROLES),
    ("messages[].tool_calls?", list),
    ("messages[].tool_calls[].id", str),
    ("messages[].tool_calls[].type", ("function",)),
    ("messages[].tool_calls[].function.name", _NAME),
    ("messages[].tool_calls[].function.arguments", str),
    ("tools?", list),
    ("tools[].type", ("function",)),
    ("tools[].function.name", _NAME),
    ("tools[].function.parameters.type", ("object",)),
    ("temperature?", range(3)),
    ("top_p?", range(2)),
    ("n?", range(1, 129)),
    ("max_tokens?", range(1, 2**31)),
)
"""What stands at a path: a value of a type, one of some words, text of a pattern, or a number
from the first to the last of a range. With a question mark: or nothing. No list is empty."""


def refuse(body: Mapping[str, Any], models: Collection[str]) -> Refusal | None:
    """What a provider with these models would refuse in this request, or None.

    >>> refuse({"model": "m", "messages": []}, ["m"]).code
    'empty_array'
    """
    for path, wanted in _RULES:
        for at, value in _values(body, path.removesuffix("?")):
            if not _fits(value, wanted) and not (value is None and path.endswith("?")):
                code = "empty_array" if value == [] else "invalid_value"
                return Refusal(400, f"Invalid value for '{at}'.", code)
    if body["model"] not in models and body["model"].removeprefix("fault-") not in FAULTS:
        return _REFUSALS["not_found"]
    if body.get("stream_options") is not None and not body.get("stream"):
        return Refusal(400, "'stream_options' is only allowed when 'stream' is enabled.")
    if body.get("tool_choice") is not None and body.get("tools") is None:
        return Refusal(400, "'tool_choice' is only allowed when 'tools' are specified.")
    return Refusal(400, said) if (said := _unanswered(body["messages"])) else None


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, range):
        return isinstance(value, (int, float)) and wanted[0] <= value <= wanted[-1]
    if isinstance(wanted, tuple):
        return value in wanted
    if wanted is _NAME:
        return isinstance(value, str) and _NAME.fullmatch(value) is not None
    return isinstance(value, wanted) and value != []


def _fields(data: Any) -> dict[str, Any]:
    return cast(dict[str, Any], data) if isinstance(data, dict) else {}


def _values(body: Any, path: str) -> list[tuple[str, Any]]:
    """Every value at a path, with its place; None where it is missing."""
    found: list[tuple[str, Any]] = [("", body)]
    for part in path.split("."):
        key = part.removesuffix("[]")
        found = [(f"{at}.{key}", _fields(data).get(key)) for at, data in found]
        if key != part:
            found = [(f"{at}[{n}]", item) for at, d in found for n, item in enumerate(d or ())]
    return [(at.lstrip("."), data) for at, data in found]


def _unanswered(messages: Sequence[Mapping[str, Any]]) -> str:
    """Every tool call must be answered at once, and every answer must have been asked for."""
    asked: list[str] = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            called = message.get("tool_call_id")
            if not asked:
                return f"Invalid parameter: {_UNASKED}"
            if called not in waiting:
                return f"Invalid parameter: 'tool_call_id' '{called}' not found in 'tool_calls'."
            waiting.remove(called)
        elif waiting:
            break
        else:
            calls = message.get("tool_calls") if message["role"] == "assistant" else None
            asked = [call["id"] for call in calls or ()]
            waiting = list(asked)
        if not asked and not isinstance(message.get("content"), (str, list)):
            return "Invalid value for 'content': expected a string or an array."
    return _UNANSWERED + ", ".join(waiting) if waiting else ""


_UNASKED = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to "
    "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
)
_CALL = ScriptedCall("get_weather", '{"city": "Paris"}')
_SAMPLE = ScriptedReply("The quick brown fox jumps over the lazy dog.", (), "stop", 12, 9)
_SAMPLES = {"cut_tool_arguments": ScriptedReply("", (_CALL,), "tool_calls", 12, 9)}


class _Turn(NamedTuple):
    reply: ScriptedReply
    fault: str = ""
    refusal: Refusal | None = None


def _turn(fault: str, reply: ScriptedReply | None = None) -> _Turn:
    reply = reply or _SAMPLES.get(fault, _SAMPLE)
    if fault in ("length", "content_filter"):
        return _Turn(reply._replace(finish_reason=fault))
    if (error := reply.error) is None:
        return _Turn(reply, fault, _REFUSALS.get(fault))
    usual = {"TRANSIENT": "unavailable", "RECOVERABLE": "context_too_long"}
    name = error.kind if error.kind in _REFUSALS else usual.get(error.category, "bad_request")
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
    return [_turn(f, r if g else None) for f, r, g in zip(faults, read, given, strict=True)]


class _Answer(NamedTuple):
    """A turn as it goes over the wire: the number of the request, and what was asked."""

    turn: _Turn
    number: int
    asked: Mapping[str, Any]

    def body(self, kind: str, reason: str | None, **said: Any) -> dict[str, Any]:
        count = range(self.asked.get("n") or 1)
        choices = [{"index": n, "finish_reason": reason, **said} for n in count]
        head = {"id": f"chatcmpl-{self.number}", "object": kind, "created": int(time.time())}
        return {**head, "model": self.asked["model"], "choices": choices}

    def usage(self) -> dict[str, Any]:
        prompt, completion = self.turn.reply.prompt_tokens, self.turn.reply.completion_tokens
        options = _fields(self.asked.get("stream_options"))
        wanted = options.get("include_usage") or not self.asked.get("stream")
        if prompt is None or completion is None or not wanted:
            return {}
        sums = {"completion_tokens": completion, "total_tokens": prompt + completion}
        return {"usage": {"prompt_tokens": prompt, **sums}}

    def calls(self) -> list[dict[str, Any]]:
        return [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id_, name, arguments in self.turn.reply.calls(self.number)
        ]

    def whole(self) -> str:
        """What is sent when no stream was asked for."""
        if self.turn.fault == "stream_error":
            return json.dumps(_REFUSALS["server_error"].body())
        reply, calls = self.turn.reply, self.calls()
        message = {"role": "assistant", "content": reply.text or None}
        message |= {"tool_calls": calls} if calls else {}
        body = self.body("chat.completion", reply.finish_reason, message=message) | self.usage()
        return json.dumps(body | {"choices": []} if self.turn.fault == "empty_stream" else body)

    def deltas(self) -> Iterator[dict[str, Any]]:
        """What each event of a stream adds; arguments come in pieces of six characters."""
        yield {"role": "assistant", "content": ""}
        for piece in pieces(self.turn.reply.text):
            yield {"content": piece}
        for n, call in enumerate(self.calls()):
            arguments, call["function"]["arguments"] = call["function"]["arguments"], ""
            yield {"tool_calls": [{"index": n, **call}]}
            for part in re.findall(r"(?s).{1,6}", arguments):
                yield {"tool_calls": [{"index": n, "function": {"arguments": part}}]}

    def lines(self) -> Iterator[str]:
        """The data of each event of a stream."""
        event = functools.partial(self.body, "chat.completion.chunk")
        words = [json.dumps(event(None, delta=delta)) for delta in self.deltas()]
        match self.turn.fault:
            case "cut_stream" | "torn_stream" | "stalled_stream" | "cut_tool_arguments":
                yield from words[:-1]
            case "malformed_json":
                yield from (*words[:-1], words[-1][:40])
            case "stream_error":
                yield from (*words[:-1], json.dumps(_REFUSALS["server_error"].body()))
            case "empty_stream":
                yield "[DONE]"
            case _:
                end = [event(self.turn.reply.finish_reason, delta={})]
                end += [event(None) | {"choices": []} | used] if (used := self.usage()) else []
                yield from (*words, *map(json.dumps, end), "[DONE]")


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
        self.requests: list[LoopbackRequest] = []  # what was asked, in order of arrival
        self.dropped = 0  # answers broken off because the client closed the connection
        self.stopping = threading.Event()
        self._turns = None if replies is None else iter(_read_script(replies))
        self._key = key
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """What goes into `api_base`: ``http://127.0.0.1:<port>/v1``."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

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

    def take(self, request: LoopbackRequest, key: str) -> _Answer:
        """Note a request down, and say what it is answered."""
        with self._lock:
            self.requests.append(request)
            wrong = self._key not in (None, key)
            refusal = _REFUSALS["unauthorized"] if wrong else refuse(request.body, self.models)
            turn = _Turn(_SAMPLE, refusal=refusal) if refusal else self._next(request.body["model"])
            return _Answer(turn, len(self.requests) - 1, request.body)

    def left(self) -> None:
        with self._lock:
            self.dropped += not self.stopping.is_set()

    def _next(self, model: str) -> _Turn:
        if self._turns is None or model not in self.models:
            return _turn("" if model in self.models else model.removeprefix("fault-"))
        spent = Refusal(400, "The script has no reply left.", "script_exhausted")
        return next(self._turns, _Turn(_SAMPLE, refusal=spent))


class _Http(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """HTTP 1.0: one request for each connection; the end of a stream is its end."""

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
        headers = {name.lower(): value for name, value in self.headers.items()}
        headers |= dict.fromkeys({"authorization", "api-key", "x-api-key"} & headers.keys(), "***")
        request = LoopbackRequest(self.path, headers, self._body())
        try:
            self._play(self.owner.take(request, key), key)
        except OSError:
            self.owner.left()

    def _play(self, answer: _Answer, key: str) -> None:
        (reply, fault, refusal), asked = answer.turn, answer.asked
        self._wait(math.inf if fault == "timeout" else reply.delay)
        if refusal is not None:
            text = refusal.message.replace("{key}", key).replace("{model}", str(asked.get("model")))
            after = refusal.retry_after
            wait = {} if after is None else {"retry-after": f"{after:g}"}
            self._send(refusal.status, json.dumps(refusal._replace(message=text).body()), **wait)
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

    def _stream(self, answer: _Answer) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        if answer.turn.fault == "torn_stream":
            self.send_header("content-length", str(10**6))
        self.end_headers()
        for line in answer.lines():
            self._wait(_PAUSE if answer.turn.fault == "slow" else 0)
            self.wfile.write(f"data: {line}\n\n".encode())
        self._wait(math.inf if answer.turn.fault == "stalled_stream" else 0)

    def _body(self) -> dict[str, Any]:
        with contextlib.suppress(ValueError, RecursionError):
            return _fields(json.loads(self.rfile.read(int(self.headers["content-length"] or 0))))
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
