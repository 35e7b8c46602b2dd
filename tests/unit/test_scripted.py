"""A script is read with every mistake named, and answers by the number of the call."""

from __future__ import annotations

import asyncio
import doctest
import json
import subprocess
import sys
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop.adapters.clock import SystemClock
from chartloop.adapters.model import scripted
from chartloop.adapters.model.scripted import (
    Scripted,
    ScriptedCall,
    ScriptedError,
    ScriptedReply,
    parse_replies,
    pieces,
)
from chartloop.core.errors import Category, ModelError, ScriptError
from chartloop.core.facts import ToolCall
from chartloop.run.ports import Clock, Model, ModelReply, ModelRequest
from chartloop.testing.clock import ManualClock


def ask(model: Model, number: int = 0, heard: list[str] | None = None) -> ModelReply:
    on_text = None if heard is None else heard.append
    return asyncio.run(model.complete(ModelRequest((), number=number), on_text))


class Good(NamedTuple):
    """A reply as a script writes it, and as it is read."""

    id: str
    data: Any
    reply: ScriptedReply


GOOD = [
    Good("text", "Hello.", ScriptedReply("Hello.")),
    Good("mapping", {"text": "Hello."}, ScriptedReply("Hello.")),
    Good("nothing", {}, ScriptedReply()),
    Good("finish", {"text": "a", "finish_reason": "length"}, ScriptedReply("a", (), "length")),
    Good(
        "call",
        {"tool_calls": [{"name": "add", "arguments": {"a": 2, "ü": [None]}}]},
        ScriptedReply("", (ScriptedCall("add", '{"a": 2, "ü": [null]}'),), "tool_calls"),
    ),
    Good(
        "call-as-written",
        {
            "tool_calls": [{"name": "add", "arguments": '{"a": ', "id": "x"}],
            "finish_reason": "stop",
        },
        ScriptedReply("", (ScriptedCall("add", '{"a": ', "x"),), "stop"),
    ),
    Good(
        "call-without-arguments",
        {"tool_calls": [{"name": "now"}]},
        ScriptedReply("", (ScriptedCall("now", "{}"),), "tool_calls"),
    ),
    Good(
        "usage",
        {"usage": {"prompt_tokens": 120, "completion_tokens": 0, "cost": 0.5}},
        ScriptedReply(prompt_tokens=120, completion_tokens=0, cost=0.5),
    ),
    Good(
        "usage-as-the-language-writes-numbers",
        {"usage": {"prompt_tokens": "1_000", "completion_tokens": "20", "cost": "1_000_000"}},
        ScriptedReply(prompt_tokens=1_000, completion_tokens=20, cost=1_000_000),
    ),
    Good("delay-as-a-number", {"delay": "1_000"}, ScriptedReply(delay=1_000)),
    Good("half-a-usage", {"usage": {"prompt_tokens": 1}}, ScriptedReply(prompt_tokens=1)),
    Good("delay", {"delay": "1m30s"}, ScriptedReply(delay=90)),
    Good("delay-in-seconds", {"delay": 0.5}, ScriptedReply(delay=0.5)),
    Good(
        "error",
        {
            "error": {
                "category": "TRANSIENT",
                "message": "no",
                "kind": "rate_limit",
                "retry_after": "7s",
            }
        },
        ScriptedReply(error=ScriptedError(Category.TRANSIENT, "no", "rate_limit", 7)),
    ),
    Good(
        "error-after-some-text",
        {"text": "Once upon", "error": {"category": "CRITICAL", "message": "no"}},
        ScriptedReply("Once upon", error=ScriptedError(Category.CRITICAL, "no")),
    ),
]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_a_reply_is_read(case: Good) -> None:
    assert parse_replies(["before", case.data]) == ([ScriptedReply("before"), case.reply], [])


class Bad(NamedTuple):
    """A mistake, and all that is said about it."""

    id: str
    data: Any
    says: list[str]


BAD = [
    Bad("field", {"txt": "a"}, ["replies.0: unknown field `txt`: did you mean `text`?"]),
    Bad("not-a-mapping", 5, ["replies.0: a mapping of `text`, "]),
    Bad("text", {"text": 5}, ["replies.0.text: a text is needed, not `5`: put it in quotes"]),
    Bad("null-text", {"text": None}, ["replies.0.text: a text is needed, not a value of type NoneType"]),
    Bad("finish", {"finish_reason": True}, ["replies.0.finish_reason: a text is needed, not `True`"]),
    Bad("calls", {"tool_calls": "add"}, ["replies.0.tool_calls: a list of {name, arguments, id}"]),
    Bad("call", {"tool_calls": ["add"]}, ["replies.0.tool_calls.0: a mapping of `name`, "]),
    Bad("call-name", {"tool_calls": [{}]}, ["replies.0.tool_calls.0: `name` is missing"]),
    Bad("call-field", {"tool_calls": [{"name": "a", "args": {}}]}, ["did you mean `arguments`?"]),
    Bad("arguments", {"tool_calls": [{"name": "a", "arguments": [1]}]}, ["0.arguments: a mapping of JSON"]),
    Bad("no-json", {"tool_calls": [{"name": "a", "arguments": {"x": {1}}}]}, ["a mapping of JSON"]),
    Bad("nan", {"tool_calls": [{"name": "a", "arguments": {"x": float("nan")}}]}, ["a mapping of JSON"]),
    Bad("usage", {"usage": 5}, ["replies.0.usage: a mapping of `prompt_tokens`, "]),
    Bad("usage-field", {"usage": {"tokens": 5}}, ["replies.0.usage: unknown field `tokens`: "]),
    Bad("negative", {"usage": {"prompt_tokens": -1}}, ["usage.prompt_tokens: a number of tokens, zero or more"]),
    Bad("half-a-token", {"usage": {"prompt_tokens": 1.5}}, ["a whole number of tokens is needed, not `1.5`"]),
    Bad("negative-number-in-a-text", {"usage": {"prompt_tokens": "-1"}}, ["usage.prompt_tokens: a number of tokens"]),
    Bad("misplaced-underscore", {"usage": {"prompt_tokens": "10_00"}}, ["usage.prompt_tokens: a number of tokens"]),
    Bad("bool", {"usage": {"completion_tokens": True}}, ["usage.completion_tokens: a number of tokens"]),
    Bad("cost", {"usage": {"cost": float("inf")}}, ["usage.cost: a number of USD"]),
    Bad("delay", {"delay": "soon"}, ["replies.0.delay: a number of seconds, or a duration such as `30s`"]),
    Bad("category", {"error": {"category": "BAD", "message": "m"}}, ["unknown category `BAD`: one of TRANSIENT, RECOVERABLE, CRITICAL"]),
    Bad("error", {"error": {}}, ["replies.0.error: `category` is missing", "`message` is missing"]),
    Bad(
        "error-that-calls",
        {"error": {"category": "CRITICAL", "message": "m"}, "tool_calls": [{"name": "a"}]},
        ["replies.0: `error` and `tool_calls` do not go together"],
    ),
    Bad("huge", {"text": 10**5000, "delay": -(10**5000)}, ["not a value of type int", "not a value of type int"]),
]  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_mistake_is_named_with_its_place(case: Bad) -> None:
    _, problems = parse_replies([case.data])
    assert len(problems) == len(case.says), problems
    assert all(text in problem for text, problem in zip(case.says, problems, strict=True)), problems
    with pytest.raises(ScriptError) as caught:
        Scripted([case.data])
    assert all(problem in caught.value.message for problem in problems)


@pytest.mark.parametrize("data", [None, "text", b"x", {"text": "a"}, 5])
def test_replies_are_a_list(data: Any) -> None:
    replies, (problem,) = parse_replies(data)
    assert replies == []
    assert problem.startswith("replies: a list is needed")


def test_a_deep_nest_is_a_mistake_and_no_crash() -> None:
    nest: Any = {}
    for _ in range(5000):
        nest = {"x": nest}
    _, problems = parse_replies([{"tool_calls": [{"name": "a", "arguments": nest}]}])
    assert len(problems) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=12,
)
FIELDS = st.sampled_from(["text", "tool_calls", "finish_reason", "usage", "delay", "error", "name"])


@given(data=JSON | st.lists(st.dictionaries(FIELDS, JSON, max_size=4), max_size=3))
def test_any_data_is_read_or_refused(data: Any) -> None:
    replies, problems = parse_replies(data)
    if not problems:
        assert len(replies) == len(data)
        assert parse_replies(data) == (replies, [])


# What it says


@given(text=st.text())
def test_the_words_make_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert all(piece.strip() for piece in pieces(text)[1:])


def test_a_reply_is_given_whole() -> None:
    call = {"name": "add", "arguments": {"a": 2}}
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "cost": 0.25}
    model = Scripted(
        ["first", {"text": "Let me.", "tool_calls": [call, {**call, "id": "x"}], "usage": usage}]
    )
    calls = (ToolCall("call_1_0", "add", '{"a": 2}'), ToolCall("x", "add", '{"a": 2}'))
    assert ask(model, 1) == ModelReply("Let me.", calls, "tool_calls", 3, 4, 0.25, "scripted")


def test_usage_and_cost_that_are_not_written_are_unknown() -> None:
    reply = ask(Scripted(["Hello."]))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.cost) == (None, None, None)


def test_a_listener_hears_the_words() -> None:
    heard: list[str] = []
    assert ask(Scripted(["Hello,  big\nworld "]), 0, heard).text == "Hello,  big\nworld "
    assert heard == ["Hello,  ", "big\n", "world "]


def test_an_error_is_raised_as_the_model_s_own() -> None:
    error = {
        "category": "RECOVERABLE",
        "message": "too long",
        "kind": "context_overflow",
        "retry_after": 2,
    }
    heard: list[str] = []
    with pytest.raises(ModelError, match="too long") as caught:
        ask(Scripted([{"text": "Once upon", "error": error}]), 0, heard)
    raised = caught.value
    assert (raised.category, raised.kind) == (Category.RECOVERABLE, "context_overflow")
    assert (raised.retry_after, raised.partial) == (2, "Once upon")
    assert heard == ["Once ", "upon"]


@given(texts=st.lists(st.text(max_size=5), min_size=1, max_size=6), data=st.data())
def test_the_call_s_number_chooses_the_reply(texts: list[str], data: st.DataObject) -> None:
    asked = data.draw(st.lists(st.integers(0, len(texts) - 1)))
    model = Scripted(texts)
    assert [ask(model, number).text for number in asked] == [texts[number] for number in asked]


@pytest.mark.parametrize("number", [2, 3, 99])
def test_too_few_replies_name_the_call(number: int) -> None:
    with pytest.raises(ScriptError) as caught:
        ask(Scripted(["a", "b"]), number)
    assert caught.value.message == (
        f"the script has too few replies: it holds 2, and model call {number + 1} was asked for"
    )


@given(count=st.integers(0, 5), used=st.integers(0, 9))
def test_left_over(count: int, used: int) -> None:
    assert Scripted(["x"] * count).left_over(used) == max(0, count - used)


# Time


def test_a_delay_is_slept_on_the_clock_before_the_first_word() -> None:
    clock = ManualClock(start=0)
    heard: list[float] = []
    model = Scripted([{"text": "a b", "delay": "30s"}, "c"], clock=clock)
    request = ModelRequest(())
    asyncio.run(model.complete(request, lambda _: heard.append(clock.now())))
    asyncio.run(model.complete(request.replace(number=1)))
    assert heard == [30, 30]
    assert clock.now() == 30


def test_a_delay_past_a_deadline_is_a_timeout() -> None:
    clock = ManualClock(start=0)
    model = Scripted([{"text": "late", "delay": "30s"}], clock=clock)
    with clock.deadline(20), pytest.raises(TimeoutError):
        ask(model)
    assert clock.now() == 20


class Wait(NamedTuple):
    """A script and a clock, and whether a call may give the loop away."""

    id: str
    delay: str | float
    clock: Clock | None
    suspends: bool


@pytest.mark.parametrize(
    "case",
    [
        Wait("no-delay", 0, SystemClock(), suspends=False),
        Wait("simulated", "30s", ManualClock(), suspends=False),
        Wait("real", "30s", SystemClock(), suspends=True),
        Wait("no-clock", 0.001, None, suspends=True),
        Wait("no-clock-no-delay", 0, None, suspends=False),
    ],
    ids=lambda case: case.id,
)
def test_suspends(case: Wait) -> None:
    model = Scripted(["a", {"delay": case.delay}], clock=case.clock)
    assert model.suspends == case.suspends


def test_without_a_clock_a_delay_is_a_real_wait() -> None:
    async def both() -> list[str]:
        model = Scripted([{"text": "late", "delay": 0.02}, "soon"])
        order: list[str] = []

        async def call(number: int) -> None:
            order.append((await model.complete(ModelRequest((), number=number))).text)

        await asyncio.gather(call(0), call(1))
        return order

    assert asyncio.run(both()) == ["soon", "late"]


def test_a_model_that_does_not_suspend_can_be_driven_by_hand() -> None:
    call = Scripted(["Hello."]).complete(ModelRequest(()))
    with pytest.raises(StopIteration) as stopped:
        call.send(None)
    assert stopped.value.value.text == "Hello."


# The rest of the port


def test_nothing_can_be_missing() -> None:
    model: Model = Scripted([])
    model.prepare({"name": "scripted"})
    assert model.context_window({}) is None
    assert model.context_window({"context_window": 4096}) == 4096


def test_litellm_is_never_loaded() -> None:
    code = "import sys, chartloop.adapters.model.scripted; print('litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_examples_run() -> None:
    result = doctest.testmod(scripted)
    assert (result.failed, result.attempted > 0) == (0, True)


def test_a_script_may_come_from_json() -> None:
    data = json.loads('[{"text": "a", "delay": "1s"}, "b"]')
    assert [reply.text for reply in Scripted(data).replies] == ["a", "b"]
