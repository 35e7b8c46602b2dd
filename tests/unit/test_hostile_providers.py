"""Providers that lie, hang or flood, over HTTP: the limits of a run hold against them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import count
from threading import Event
from typing import Any, NamedTuple

import pytest

from chartloop.api import Machine
from chartloop.core.errors import SetupError
from chartloop.run.events import Delta
from chartloop.run.result import Result
from tests.provider import STREAM, USAGE, Answer, Provider, event, http, reply, streamed
from tests.tool_loop import WITH_KEYS, http_model, needs_litellm, tool_loop

pytestmark = [needs_litellm, *WITH_KEYS]


LIMITS = {"tokens": 5_000, "cost": 1.0, "steps": 40}


def asking(provider: Provider, model: str = "stream: false", state: str = "") -> Machine:
    settings = http_model("openai/gpt-4o-mini", provider.url, model)
    return tool_loop(settings, state=state, limits=LIMITS)


def played(answer: Answer, model: str = "stream: false", state: str = "") -> Result:
    with Provider(answer) as provider:
        return asking(provider, model, state).run("a task")


class Lie(NamedTuple):
    id: str
    usage: dict[str, Any] | None
    said: str


LONG = "word " * 2_000
"""2,500 tokens, as they are estimated."""

LIES = [
    Lie("negative-prompt", {"prompt_tokens": -100_000, "completion_tokens": 5}, "-100,000"),
    Lie("negative-completion", {"prompt_tokens": 9, "completion_tokens": -9}, "-9"),
    Lie("zero-sum", {"prompt_tokens": -5, "completion_tokens": 5}, "-5"),
    Lie("absurd", {"prompt_tokens": 10**30, "completion_tokens": 5}, "digits"),
    Lie("zeros", {"prompt_tokens": 0, "completion_tokens": 0}, "without usage"),
    Lie("none", None, "without usage"),
]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("case", LIES, ids=lambda case: case.id)
def test_a_loop_with_usage_that_cannot_be_stops_at_its_token_limit(
    case: Lie, streamed: bool
) -> None:
    usage = case.usage and {**case.usage, "total_tokens": sum(case.usage.values())}

    def answer(n: int, _: Any) -> Iterator[bytes]:
        body = reply(LONG, calls=1, usage=usage)
        body["choices"][0]["message"]["tool_calls"][0]["id"] = f"c{n}"
        if not streamed:
            return http(body)
        return _as_stream(body, usage)

    result = played(answer, f"stream: {json.dumps(streamed)}")
    assert result.reason == "token_limit"
    usage_ = result.facts.usage
    assert usage_.llm_calls <= 3
    assert min(usage_.prompt_tokens, usage_.completion_tokens) > 0
    assert usage_.cost is not None
    assert usage_.cost > 0
    assert any(case.said in warning for warning in result.warnings)


def _as_stream(body: dict[str, Any], usage: Any) -> Iterator[bytes]:
    message = body["choices"][0]["message"]
    yield STREAM
    yield event({"role": "assistant", "content": message["content"]})
    calls = [{"index": n, **call} for n, call in enumerate(message["tool_calls"])]
    yield event({"tool_calls": calls})
    yield event({}, "tool_calls", **({"usage": usage} if usage else {}))
    yield b"data: [DONE]\n\n"


def words_for_ever(_: int, __: Any) -> Iterator[bytes]:
    """A stream without an end. Each word is another: litellm ends one that repeats itself."""
    yield STREAM
    for number in count():
        yield event({"content": f"word{number} "})


QUICK = "retry: {times: 1, base: 0s}, "


def test_a_stream_that_never_ends_is_cut_at_the_timeout() -> None:
    result = played(words_for_ever, "stream: true, timeout: 1s, reply_limit: 900_000_000")
    assert "no answer within 1 s" in result.errors[0]["message"]


@pytest.mark.parametrize("field", ["content", "tool_calls"])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_a_reply_has_a_size(field: str, streamed: bool) -> None:
    def answer(_: int, __: Any) -> Iterator[bytes]:
        body = reply("x" * 5_000 if field == "content" else None, calls=1)
        if field == "tool_calls":
            call = body["choices"][0]["message"]["tool_calls"][0]
            call["function"] = {"name": "add", "arguments": '{"x": 1}' + " " * 5_000}
        return _as_stream(body, None) if streamed else http(body)

    result = played(answer, f"stream: {json.dumps(streamed)}, reply_limit: 4_000")
    (error,) = result.errors
    assert (error["category"], result.facts.usage.llm_calls) == ("RECOVERABLE", 0)
    assert "more than 4,000 characters" in error["message"]


def test_a_body_of_any_size_is_not_read_whole() -> None:
    sent: list[int] = []

    def answer(_: int, __: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
        while True:
            sent.append(1)
            yield b" " * 100_000

    result = played(answer, "stream: false, reply_limit: 1_000")
    assert "more than 1,000 characters" in result.errors[0]["message"]
    assert len(sent) < 400


def test_the_body_of_an_error_is_cut_before_anything_reads_it() -> None:
    sent: list[int] = []

    def answer(_: int, __: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 500 Oh\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n"
        yield b'{"error": {"message": "'
        while True:
            sent.append(1)
            yield b"e" * 100_000

    result = played(answer)
    assert result.errors
    assert len(sent) < 400


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain", ""])
@pytest.mark.parametrize("before", ["", "\n  ", "\ufeff"], ids=["plain", "blank", "mark"])
def test_a_reply_that_is_not_streamed_is_understood(kind: str, before: str) -> None:
    asked: list[Any] = []
    whole = reply("hello", usage={**USAGE, "prompt_tokens": 7, "total_tokens": 27})

    def answer(_: int, body: Any) -> Iterator[bytes]:
        asked.append(body["stream"])
        return http(before + json.dumps(whole, indent=2), kind=kind)

    result = played(answer, "stream: true", QUICK)
    assert (result.reason, result.output, asked) == ("completed", "hello", [True])
    assert result.facts.usage.prompt_tokens == 7


def test_a_stream_of_json_lines_is_heard_as_it_comes() -> None:
    heard, waited = Event(), list[bool]()

    def line(text: str, **end: Any) -> bytes:
        message = {"role": "assistant", "content": text}
        return json.dumps({"model": "m", "message": message, "done": bool(end), **end}).encode()

    def answer(_: int, body: Any) -> Iterator[bytes]:
        if "messages" not in body:  # litellm asks what the model can do
            yield from http({}, "404 Not Found")
            return
        yield b"HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n"
        yield line("hel") + b"\n"
        waited.append(heard.wait(10))
        yield line("lo") + b"\n"
        yield line("", done_reason="stop", prompt_eval_count=7, eval_count=3) + b"\n"

    with Provider(answer) as provider:
        at = http_model("ollama_chat/m", provider.url.removesuffix("/v1"))
        run = tool_loop(at, limits=LIMITS).start("a task")
        for one in run.stream():
            if isinstance(one, Delta):
                heard.set()
    assert (run.result.output, waited) == ("hello", [True])
    assert run.result.facts.usage.prompt_tokens == 7


class Odd(NamedTuple):
    id: str
    answer: Answer
    said: str


def always(body: Any, status: str = "200 OK", **headers: str) -> Answer:
    """The same answer to every request."""

    def answer(_: int, __: Any) -> Iterator[bytes]:
        return http(body, status, **headers)

    return answer


CALLS_OF_TEXT = reply()
CALLS_OF_TEXT["choices"][0]["message"] = {"role": "assistant", "tool_calls": "abc"}
ODD = [
    Odd("418", always({"error": {"message": "teapot"}}, "418 Teapot"), "HTTP 418: teapot"),
    Odd("599", always("x", "599 What"), "HTTP 599"),
    Odd("calls-of-text", always(CALLS_OF_TEXT), ""),
    Odd("usage-of-text", always(reply(usage={"prompt_tokens": "many"})), ""),
]


class Paid(NamedTuple):
    """A whole reply of which a part has another type than it should."""

    id: str
    part: dict[str, Any]
    """Of the message, or the usage."""
    output: str | None = "hello there"
    warning: str = ""
    refused: str = ""
    """What the tool's parser says of the arguments."""


def arguments(given: Any) -> dict[str, Any]:
    """A message with one call of `add`."""
    function = {"name": "add", "arguments": given}
    return {"content": None, "tool_calls": [{"id": "c", "type": "function", "function": function}]}


GUESSED = "without usage"
PAID = [
    Paid("usage-of-text", {"usage": {"prompt_tokens": "many"}}, warning=GUESSED),
    Paid("usage-of-nan", {"usage": {**USAGE, "prompt_tokens": float("nan")}}, warning=GUESSED),
    Paid("usage-is-text", {"usage": "many"}, warning=GUESSED),
    Paid("usage-is-a-list", {"usage": [1]}, warning=GUESSED),
    Paid("number-for-content", {"content": 42}, output="42"),
    Paid("deep-arguments", arguments("[" * 5_000 + "]" * 5_000), refused="nested too deeply"),
    Paid("big-number", arguments('{"x": ' + "9" * 5_000 + "}"), refused="5,000 digits"),
    Paid("number-for-arguments", arguments(5), refused="not 5"),
    Paid("list-for-arguments", arguments([1]), refused="not [1]"),
]


@pytest.mark.parametrize("case", PAID, ids=lambda case: case.id)
def test_a_reply_that_was_paid_is_kept(case: Paid) -> None:
    body = reply()
    body["usage"] = case.part.get("usage", USAGE)
    body["choices"][0]["message"] |= {n: v for n, v in case.part.items() if n != "usage"}
    with Provider(lambda n, _: http(body if n == 0 else reply())) as provider:
        result = asking(provider, "stream: false", QUICK).run("a task")
        calls = len(provider.asked)
    assert result.reason == "completed"
    assert result.output == case.output
    assert calls == (2 if case.refused else 1)
    assert case.warning in " ".join(result.warnings)
    assert case.refused in " ".join(error["message"] for error in result.errors)
    assert bool(case.refused) == bool(result.errors)
    spent = result.facts.usage
    assert spent.prompt_tokens > 0
    if not case.warning:
        assert spent.prompt_tokens == calls * USAGE["prompt_tokens"]
        assert spent.cost == pytest.approx(calls * (100 * 0.15 + 20 * 0.6) / 1e6)


def test_a_stream_is_whole_once_its_end_was_told() -> None:
    def answer(_: int, __: Any) -> Iterator[bytes]:
        return streamed("hello", usage={"prompt_tokens": "many"})

    with Provider(answer) as provider:
        result = asking(provider, "stream: true", QUICK).run("a task")
        assert len(provider.asked) == 1
    assert (result.reason, result.output) == ("completed", "hello")
    assert GUESSED in " ".join(result.warnings)


def test_a_reply_that_nobody_can_read_is_paid_once() -> None:
    with Provider(always(CALLS_OF_TEXT)) as provider:
        result = asking(provider, "stream: false", QUICK).run("a task")
        assert len(provider.asked) == 1
    assert [error["category"] for error in result.errors] == ["RECOVERABLE"]


@pytest.mark.parametrize("case", ODD, ids=lambda case: case.id)
def test_an_error_is_one_short_line(case: Odd) -> None:
    result = played(case.answer)
    for error in result.errors:
        assert "Traceback" not in error["message"]
        assert "site-packages" not in error["message"]
        assert case.said in error["message"]
        assert len(error["message"]) < 400
    assert result.errors or not case.said


@pytest.mark.parametrize("date", [False, True], ids=["seconds", "date"])
def test_a_busy_provider_is_left_alone(date: bool) -> None:
    after = format_datetime(datetime.now(UTC) + timedelta(seconds=400)) if date else "400"
    state = "retry: {times: 1, base: 0s, most: 10s}, "
    busy = always({"error": {"message": "busy"}}, "429 Busy", retry_after=after)
    with Provider(busy) as p:
        result = asking(p, state=state).run("a task")
        assert len(p.asked) == 1
    assert any("the provider asked to wait" in warning for warning in result.warnings)


def test_a_bound_on_money_knows_the_price_and_the_window_of_litellm() -> None:
    with Provider(always(reply())) as provider:
        machine = asking(provider)
        with pytest.raises(SetupError, match=r"usd: at most [\d.]+ USD, and 0.001 USD is wanted"):
            machine.start("x", require_bound={"usd": 0.001})
        assert machine.start("x", require_bound={"usd": 5}).run().success
        with pytest.raises(SetupError, match="price is not known"):
            machine.start("x", script=["4"], require_bound={"usd": 5})


@pytest.mark.parametrize("as_setting", [False, True], ids=["model", "settings"])
def test_a_bound_on_money_is_of_the_model_that_the_caller_names(as_setting: bool) -> None:
    dear: Any = {"settings": {"name": "openai/gpt-4"}} if as_setting else {"model": "openai/gpt-4"}
    with Provider(always(reply())) as provider:
        machine = asking(provider)
        with pytest.raises(SetupError, match=r"usd: at most [\d.]+ USD, and 0.1 USD is wanted"):
            machine.start("x", **dear, require_bound={"usd": 0.1})
        assert machine.start("x", require_bound={"usd": 0.1}).run().success
