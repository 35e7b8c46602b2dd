"""The provider on loopback, seen over plain HTTP: what it refuses, answers and breaks."""

from __future__ import annotations

import contextlib
import doctest
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.core.errors import ScriptError
from chartloop.testing import chat_rules, loopback
from chartloop.testing.loopback import FAULTS, LoopbackServer, refuse

HI: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
FOX = "The quick brown fox jumps over the lazy dog."


class Came(NamedTuple):
    """An answer: its status, headers and text; status 0 when the connection broke first."""

    status: int
    headers: Mapping[str, str] = {}
    text: str = ""
    whole: bool = True
    """False when the connection broke before the body was complete."""

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        lines = [line.removeprefix("data: ") for line in self.text.split("\n\n") if line]
        return [json.loads(line) for line in lines if line != "[DONE]"]


def send(url: str, method: str, path: str, data: bytes | None, **headers: str) -> Came:
    address = urlsplit(url)
    with contextlib.closing(http.client.HTTPConnection(address.netloc, timeout=2)) as connection:
        try:
            connection.request(method, address.path + path, data, headers)
            response = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionResetError):
            return Came(0)
        got = {name.lower(): value for name, value in response.getheaders()}
        try:
            return Came(response.status, got, response.read().decode())
        except http.client.IncompleteRead as error:
            return Came(response.status, got, error.partial.decode(), whole=False)


def post(server: LoopbackServer, **body: Any) -> Came:
    body = {"model": "loopback", "messages": HI, **body}
    return send(server.url, "POST", "/chat/completions", json.dumps(body).encode())


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer() as server:
        yield server


# What it refuses


def asks(*ids: str) -> dict[str, Any]:
    """An assistant message that calls a tool for each id."""
    function = {"name": "add", "arguments": "{}"}
    calls = [{"id": i, "type": "function", "function": function} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(called: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": called, "content": "5"}


def tool(name: Any = "add", **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": name, "parameters": {"type": "object"}, **more}
    return {"type": "function", "function": given}


class Refused(NamedTuple):
    """A request, and what a provider says to it."""

    id: str
    body: Mapping[str, Any]
    says: str
    status: int = 400


UNANSWERED = "must be followed by tool messages responding to each 'tool_call_id'"
REFUSED = [
    Refused("no-model", {"model": None}, "'model'"),
    Refused("unknown-model", {"model": "gpt-99"}, "The model `gpt-99` does not exist.", 404),
    Refused("unknown-fault", {"model": "fault-nonsense"}, "`fault-nonsense`", 404),
    Refused("no-messages", {"messages": None}, "'messages'"),
    Refused("empty-messages", {"messages": []}, "'messages'"),
    Refused("messages-text", {"messages": "hi"}, "'messages'"),
    Refused("message-text", {"messages": ["hi"]}, "'messages[0].role'"),
    Refused("role", {"messages": [*HI, {"role": "robot", "content": "x"}]}, "'messages[1].role'"),
    Refused("no-content", {"messages": [{"role": "user"}]}, "'content'"),
    Refused("content-number", {"messages": [{"role": "user", "content": 5}]}, "'content'"),
    Refused("silent-assistant", {"messages": [*HI, {"role": "assistant", "content": None}]}, "'content'"),
    Refused("unanswered", {"messages": [*HI, asks("a")]}, UNANSWERED),
    Refused("unanswered-names-it", {"messages": [*HI, asks("a", "b"), answer("a")]}, "messages: b"),
    Refused("unanswered-in-the-middle", {"messages": [*HI, asks("a"), *HI, answer("a")]}, UNANSWERED),
    Refused("answer-to-nothing", {"messages": [*HI, answer("a")]}, "must be a response to a preceeding"),
    Refused("answer-after-a-pause", {"messages": [asks("a"), answer("a"), *HI, answer("a")]}, "must be a response"),
    Refused("answer-to-another", {"messages": [*HI, asks("a"), answer("b")]}, "'tool_call_id' 'b' not found"),
    Refused("answered-twice", {"messages": [asks("a"), answer("a"), answer("a")]}, "'tool_call_id' 'a' not found"),
    Refused("empty-calls", {"messages": [{"role": "assistant", "content": "x", "tool_calls": []}]}, "tool_calls'"),
    Refused("call-without-id", {"messages": [{**asks("a"), "tool_calls": [{"type": "function"}]}]}, "tool_calls[0].id"),
    Refused("arguments-object", {"messages": [{**asks(), "tool_calls": [{"id": "a", "type": "function", "function": {"name": "x", "arguments": {}}}]}]}, "function.arguments'"),
    Refused("empty-tools", {"tools": []}, "'tools'"),
    Refused("tool-type", {"tools": [{**tool(), "type": "x"}]}, "'tools[0].type'"),
    Refused("tool-name-dot", {"tools": [tool(), tool("a.b")]}, "'tools[1].function.name'"),
    Refused("tool-name-long", {"tools": [tool("x" * 65)]}, "'tools[0].function.name'"),
    Refused("tool-name-newline", {"tools": [tool("add\n")]}, "'tools[0].function.name'"),
    Refused("tool-schema", {"tools": [tool(parameters={"type": "string"})]}, "'tools[0].function.parameters.type'"),
    Refused("tool-schema-text", {"tools": [tool(parameters="object")]}, "parameters.type'"),
    Refused("choice-without-tools", {"tool_choice": "auto"}, "only allowed when 'tools'"),
    Refused("stream-options", {"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
    Refused("hot", {"temperature": 2.1}, "'temperature'"),
    Refused("cold", {"temperature": -0.1}, "'temperature'"),
    Refused("top-p", {"top_p": 1.5}, "'top_p'"),
    Refused("n-zero", {"n": 0}, "'n'"),
    Refused("n-many", {"n": 129}, "'n'"),
    Refused("max-tokens", {"max_tokens": 0}, "'max_tokens'"),
    Refused("temperature-text", {"temperature": "hot"}, "'temperature'"),
]  # fmt: skip


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.id)
def test_what_a_provider_refuses_is_refused(case: Refused, server: LoopbackServer) -> None:
    came = post(server, **case.body)
    assert came.status == case.status
    error = came.body["error"]
    assert case.says in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"


TAKEN = [
    {"temperature": 0, "top_p": 1, "n": 128, "max_tokens": 1},
    {"temperature": 2, "seed": 7, "stop": ["x"], "user": "u", "tools": [tool("a-b_C9")]},
    {"tools": [tool("x" * 64)], "tool_choice": "required"},
    {"messages": [*HI, asks("a", "b"), answer("b"), answer("a"), *HI]},
    {
        "messages": [
            {"role": "system", "content": ""},
            {"role": "user", "content": [{"type": "text"}]},
        ]
    },
    {"messages": [*HI, {**asks("a"), "content": "Let me."}, answer("a"), asks("a"), answer("a")]},
    {"stream": False, "temperature": None, "tools": None},
]


@pytest.mark.parametrize("body", TAKEN)
def test_what_a_provider_takes_is_answered(body: dict[str, Any], server: LoopbackServer) -> None:
    assert post(server, **body).status == 200


TURNS = st.lists(
    st.sampled_from(["user", "assistant"]) | st.lists(st.integers(0, 99), min_size=1, unique=True),
    min_size=1,
    max_size=6,
)


def conversation(turns: list[Any]) -> list[dict[str, Any]]:
    """Messages in which each list of numbers is calls, answered in another order."""
    messages: list[dict[str, Any]] = []
    for turn in turns:
        if isinstance(turn, str):
            messages.append({"role": turn, "content": "x"})
        else:
            ids = [str(n) for n in turn]
            messages += [asks(*ids), *map(answer, sorted(ids))]
    return messages


@given(turns=TURNS, data=st.data())
def test_answered_calls_are_taken_and_a_missing_answer_is_not(
    turns: list[Any], data: st.DataObject
) -> None:
    messages = conversation(turns)
    assert refuse({"model": "m", "messages": messages}, ["m"]) is None
    answers = [n for n, m in enumerate(messages) if m["role"] == "tool"]
    if answers:
        gone = data.draw(st.sampled_from(answers))
        left = [m for n, m in enumerate(messages) if n != gone]
        refusal = refuse({"model": "m", "messages": left}, ["m"])
        assert refusal is not None
        assert refusal.status == 400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = ["model", "messages", "role", "content", "tool_calls", "tools", "function", "name", "n"]
SHAPED = st.recursive(
    JSON,
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner | st.lists(inner, max_size=2)),
    max_leaves=8,  # each of them JSON of its own
)


@pytest.mark.slow("tries hundreds of examples for seconds")
@given(body=st.dictionaries(st.sampled_from(FIELDS), SHAPED))
def test_any_request_is_judged(body: dict[str, Any]) -> None:
    refusal = refuse({"model": "m", **body}, ["m"])
    assert refusal is None or refusal.status in (400, 404)


@pytest.mark.parametrize(
    "data",
    [None, b"", b"{", b"[]", b"5", b"\xff\xfe", b"[" * 100_000],
    ids=["nothing", "empty", "cut", "list", "number", "no-text", "deep"],
)
def test_a_body_that_is_no_object_is_refused(data: bytes | None, server: LoopbackServer) -> None:
    assert send(server.url, "POST", "/chat/completions", data).status == 400


def test_only_its_own_paths_are_known(server: LoopbackServer) -> None:
    assert send(server.url, "GET", "/nothing", None).status == 404
    listed = send(server.url, "GET", "/models", None).body
    assert [model["id"] for model in listed["data"]] == ["loopback"]


# The key


def test_a_wrong_key_is_refused_and_said_back() -> None:
    with LoopbackServer(key="sk-right") as server:
        body = json.dumps({"model": "loopback", "messages": HI}).encode()
        right = {"authorization": "Bearer sk-right"}
        assert send(server.url, "POST", "/chat/completions", body, **right).status == 200
        wrong = {"authorization": "Bearer sk-wrong", "api-key": "sk-other", "x-own": "kept"}
        came = send(server.url, "POST", "/chat/completions", body, **wrong)
        assert came.status == 401
        assert came.body["error"]["message"] == "Incorrect API key provided: sk-wrong."
        assert post(server).status == 401
        seen = server.requests[1].headers
    assert (seen["authorization"], seen["api-key"], seen["x-own"]) == ("***", "***", "kept")
    assert "sk-" not in repr(server.requests)


# What it answers


def test_a_reply_has_the_provider_s_shape() -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 4}
    call = {"name": "add", "arguments": {"a": 2}}
    with LoopbackServer([{"text": "Hi.", "tool_calls": [call], "usage": usage}]) as server:
        body = post(server).body
    assert (body["object"], body["model"]) == ("chat.completion", "loopback")
    function = {"name": "add", "arguments": '{"a": 2}'}
    asked = [{"id": "call_0_0", "type": "function", "function": function}]
    message = {"role": "assistant", "content": "Hi.", "tool_calls": asked}
    assert body["choices"] == [{"index": 0, "finish_reason": "tool_calls", "message": message}]
    assert body["usage"] == {**usage, "total_tokens": 7}


def test_a_stream_has_the_provider_s_shape(server: LoopbackServer) -> None:
    came = post(server, stream=True, stream_options={"include_usage": True})
    assert came.headers["content-type"] == "text/event-stream"
    assert came.text.endswith("data: [DONE]\n\n")
    first, *words, last, usage = came.events
    assert {event["object"] for event in came.events} == {"chat.completion.chunk"}
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(event["choices"][0]["delta"]["content"] for event in words) == FOX
    assert len(words) == 9
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 21


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}])
def test_a_stream_has_usage_only_when_asked(options: Any, server: LoopbackServer) -> None:
    assert "usage" not in post(server, stream=True, **options).text


def test_usage_that_the_script_does_not_give_is_not_sent() -> None:
    with LoopbackServer(["a", "b"]) as server:
        assert "usage" not in post(server).body
        streamed = post(server, stream=True, stream_options={"include_usage": True})
    assert "usage" not in streamed.text


@given(text=st.text(max_size=40), arguments=st.text(max_size=40))
def test_the_pieces_of_a_stream_make_the_reply(text: str, arguments: str) -> None:
    call = {"name": "add", "arguments": arguments}
    with LoopbackServer([{"text": text, "tool_calls": [call, call]}]) as server:
        choices = [event["choices"][0] for event in post(server, stream=True).events]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == text
    parts = [part for choice in choices for part in choice["delta"].get("tool_calls", ())]
    for n in range(2):
        mine = [part for part in parts if part["index"] == n]
        assert [part.get("id") for part in mine] == [f"call_0_{n}"] + [None] * (len(mine) - 1)
        assert "".join(part["function"]["arguments"] for part in mine) == arguments


def test_several_choices_are_the_same(server: LoopbackServer) -> None:
    assert [choice["index"] for choice in post(server, n=3).body["choices"]] == [0, 1, 2]


# The script


def test_the_script_is_played_in_order_and_ends() -> None:
    with LoopbackServer(["a", {"text": "b"}, {"fault": "unavailable"}]) as server:
        assert [post(server).body["choices"][0]["message"]["content"] for _ in "ab"] == ["a", "b"]
        assert post(server, model="fault-rate_limit").status == 429
        assert post(server, messages=[]).status == 400
        assert post(server).status == 503
        spent = post(server)
    assert (spent.status, spent.body["error"]["code"]) == (400, "script_exhausted")
    assert len(server.requests) == 6


class ErrorReply(NamedTuple):
    """An error of a script, and how it is sent."""

    id: str
    error: dict[str, Any]
    status: int
    retry_after: str | None = None


@pytest.mark.parametrize(
    "case",
    [
        ErrorReply("transient", {"category": "TRANSIENT"}, 503),
        ErrorReply("recoverable", {"category": "RECOVERABLE"}, 400),
        ErrorReply("critical", {"category": "CRITICAL"}, 400),
        ErrorReply("kind", {"category": "TRANSIENT", "kind": "rate_limit"}, 429),
        ErrorReply(
            "wait", {"category": "TRANSIENT", "kind": "rate_limit", "retry_after": "1m"}, 429, "60"
        ),
        ErrorReply("quota", {"category": "CRITICAL", "kind": "quota"}, 429),
        ErrorReply("unknown-kind", {"category": "TRANSIENT", "kind": "odd"}, 503),
    ],
    ids=lambda case: case.id,
)
def test_an_error_of_a_script_is_a_refusal(case: ErrorReply) -> None:
    with LoopbackServer([{"error": {"message": "as {key} written", **case.error}}]) as server:
        came = post(server)
    assert (came.status, came.headers.get("retry-after")) == (case.status, case.retry_after)
    assert came.body["error"]["message"].startswith("as ")


def test_a_fault_may_have_a_reply_of_its_own() -> None:
    call = {"name": "search", "arguments": {"query": "everything"}}
    with LoopbackServer([{"fault": "cut_tool_arguments", "tool_calls": [call]}]) as server:
        text = post(server, stream=True).text
    assert '"name": "search"' in text
    assert "[DONE]" not in text
    assert 'finish_reason": "' not in text


def test_a_delay_is_waited_for() -> None:
    with LoopbackServer([{"text": "late", "delay": 0.1}]) as server:
        assert post(server).body["choices"][0]["message"]["content"] == "late"
    replies = [{"text": "late", "delay": 1}, {"text": "soon"}]
    with LoopbackServer(replies) as server, ThreadPoolExecutor(1) as pool:
        late = pool.submit(post, server)
        while not server.requests:
            time.sleep(0.001)
        post(server)
        assert not late.done()


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (
            {"fault": "rate_limits"},
            "replies.1: unknown fault `rate_limits`: did you mean `rate_limit`?",
        ),
        ({"txt": "a"}, "replies.1: unknown field `txt`: did you mean `text`?"),
    ],
)
def test_a_script_with_a_mistake_is_not_served(reply: dict[str, Any], says: str) -> None:
    with pytest.raises(ScriptError, match="the script cannot be read") as caught:
        LoopbackServer(["fine", reply])
    assert says in caught.value.message


# The faults


class Fault(NamedTuple):
    """How a fault looks on the wire, not streamed and streamed."""

    name: str
    status: int
    whole: bool = True
    streamed_whole: bool = True
    done: bool = True
    """Whether the stream says `[DONE]`."""


BREAKS = [
    Fault("disconnect", 0, done=False),
    Fault("malformed_json", 200, done=False),
    Fault("html", 200, done=False),
    Fault("not_streamed", 200, done=False),
    Fault("empty_stream", 200),
    Fault("cut_stream", 200, whole=False, done=False),
    Fault("torn_stream", 200, whole=False, streamed_whole=False, done=False),
    Fault("cut_tool_arguments", 200, whole=False, done=False),
    Fault("stream_error", 200, done=False),
    Fault("slow", 200),
    Fault("length", 200),
    Fault("content_filter", 200),
]
STATUSES = {
    "rate_limit": 429, "quota": 429, "unauthorized": 401, "forbidden": 403, "not_found": 404,
    "bad_request": 400, "context_too_long": 400, "content_refused": 400, "server_error": 500,
    "unavailable": 503,
}  # fmt: skip


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", STATUSES)
def test_a_refusal_is_the_same_streamed_and_not(
    name: str, streamed: bool, server: LoopbackServer
) -> None:
    came = post(server, model=f"fault-{name}", stream=streamed)
    assert came.status == STATUSES[name]
    assert came.headers["content-type"] == "application/json"
    assert came.headers.get("retry-after") == ("7" if name == "rate_limit" else None)
    assert came.body["error"]["message"]


@pytest.mark.parametrize("fault", BREAKS, ids=lambda fault: fault.name)
def test_a_break_on_the_wire(fault: Fault, server: LoopbackServer) -> None:
    plain = post(server, model=f"fault-{fault.name}")
    assert (plain.status, plain.whole) == (fault.status, fault.whole)
    came = post(server, model=f"fault-{fault.name}", stream=True)
    assert (came.status, came.whole) == (fault.status, fault.streamed_whole)
    assert came.text.endswith("data: [DONE]\n\n") == fault.done


def test_the_text_of_breaks(server: LoopbackServer) -> None:
    def of(fault: str, *, stream: bool) -> Came:
        return post(server, model=f"fault-{fault}", stream=stream)

    with pytest.raises(json.JSONDecodeError):
        _ = of("malformed_json", stream=False).body
    with pytest.raises(json.JSONDecodeError):
        _ = of("malformed_json", stream=True).events
    assert of("html", stream=True).text.startswith("<html>")
    assert of("not_streamed", stream=True).body["choices"][0]["message"]["content"] == FOX
    assert of("empty_stream", stream=True).events == []
    assert of("empty_stream", stream=False).body["choices"] == []
    assert of("stream_error", stream=False).body["error"]["type"] == "server_error"
    assert of("stream_error", stream=True).events[-1]["error"]["type"] == "server_error"
    for fault in ("length", "content_filter"):
        assert of(fault, stream=False).body["choices"][0]["finish_reason"] == fault
        assert of(fault, stream=True).events[-1]["choices"][0]["finish_reason"] == fault


def test_every_fault_has_a_row() -> None:
    held = {"timeout", "stalled_stream"}
    assert {*STATUSES, *(fault.name for fault in BREAKS), *held} == set(FAULTS)


# Clients that leave, many at once, and the end


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("fault", ["timeout", "stalled_stream"])
def test_a_client_that_leaves_is_counted(
    fault: str, streamed: bool, server: LoopbackServer
) -> None:
    asked = {"model": f"fault-{fault}", "messages": HI, "stream": streamed}
    address = urlsplit(server.url)
    connection = http.client.HTTPConnection(address.netloc, timeout=2)
    connection.request("POST", "/v1/chat/completions", json.dumps(asked).encode())
    if (fault, streamed) == ("stalled_stream", True):
        heard = b""
        with connection.getresponse() as response:
            while b'"content": "lazy "' not in heard:
                heard += response.read1()
            assert server.dropped == 0
        assert b"dog" not in heard
    while not server.requests:
        time.sleep(0.01)
    connection.close()
    for _ in range(100):
        if server.dropped:
            break
        time.sleep(0.02)
    assert server.dropped == 1


def test_requests_are_answered_side_by_side() -> None:
    texts = [f"reply {n}" for n in range(30)]
    replies = [{"text": text, "delay": 1} for text in texts]
    with LoopbackServer(replies) as server, ThreadPoolExecutor(30) as pool:
        asked = [pool.submit(post, server) for _ in texts]
        asked[0].result()
        assert len(server.requests) > 2  # one after the other there would be one, or two
        came = [future.result().body for future in asked]
    assert sorted(c["choices"][0]["message"]["content"] for c in came) == sorted(texts)
    assert len({c["id"] for c in came}) == len(texts)


def test_the_end_is_clean_while_a_request_is_held() -> None:
    before = set(threading.enumerate())
    with LoopbackServer() as server:
        pool = ThreadPoolExecutor(1)
        held = pool.submit(post, server, model="fault-timeout")
        while not server.requests:
            time.sleep(0.01)
        url = server.url
    assert held.result(2).status == 0
    pool.shutdown()
    assert set(threading.enumerate()) == before
    assert server.dropped == 0
    with pytest.raises(ConnectionRefusedError):
        send(url, "GET", "/models", None)


def test_it_listens_on_one_address_only(server: LoopbackServer) -> None:
    address = urlsplit(server.url)
    assert address.hostname == "127.0.0.1"
    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection(("127.0.0.2", address.port or 0), timeout=1)


@pytest.mark.parametrize("module", [chat_rules, loopback])
def test_the_examples_run(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted > 0) == (0, True)
