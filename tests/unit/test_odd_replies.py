"""Replies as models make them, without a provider: what is read, kept, sent back and asked again.

What comes over the wire is in `test_reply_habits`.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load, tool
from chartloop.analysis.proofs.bound import bound
from chartloop.core.conversation import assistant, calls_of, tool_reply, user
from chartloop.core.errors import RETRY_ON, Category
from chartloop.core.facts import ToolCall
from chartloop.core.transcript import Conversation, sent_arguments
from chartloop.run.sanitize import bare_json, read_json
from chartloop.testing.chat_rules import is_object


class Arguments(NamedTuple):
    id: str
    given: str
    sent: str


RAW = [
    Arguments("an-object", '{"a": 1}', '{"a": 1}'),
    Arguments("with-spaces", ' {"a": 1}\n', ' {"a": 1}\n'),
    Arguments("a-long-number", '{"a": 123456789012345678901234567890}', ""),
    Arguments("broken", '{"a": ', '{"raw": "{\\"a\\": "}'),
    Arguments("two-objects", '{"a":1}{"b":2}', '{"raw": "{\\"a\\":1}{\\"b\\":2}"}'),
    Arguments("a-list", "[1]", '{"raw": "[1]"}'),
    Arguments("a-text", '"{}"', '{"raw": "\\"{}\\""}'),
    Arguments("not-a-number", '{"a": NaN}', '{"raw": "{\\"a\\": NaN}"}'),
    Arguments("infinite", '{"a": 1e999}', '{"raw": "{\\"a\\": 1e999}"}'),
    Arguments("half-a-character", '{"a": "\\ud800"}', json.dumps({"raw": '{"a": "\\ud800"}'})),
    Arguments(
        "deep",
        '{"a":' * 5000 + "1" + "}" * 5000,
        json.dumps({"raw": '{"a":' * 5000 + "1" + "}" * 5000}),
    ),
    Arguments("null", "null", "{}"),
    Arguments("nothing", " ", "{}"),
]


@pytest.mark.parametrize("case", RAW, ids=lambda case: case.id)
def test_arguments_go_back_as_an_object_and_stay_as_they_came(case: Arguments) -> None:
    call = ToolCall("c", "add", case.given)
    talk = [user("hi"), assistant("", [call]), tool_reply(call, "3"), user("more")]
    sent = Conversation(talk).sendable()
    assert calls_of(sent[1])[0].arguments == (case.sent or case.given)
    assert [m for n, m in enumerate(sent) if n != 1] == [m for n, m in enumerate(talk) if n != 1]
    assert calls_of(talk[1]) == (call,)


def test_a_conversation_that_nothing_is_wrong_with_is_sent_itself() -> None:
    call = ToolCall("c", "add", '{"a": 1}')
    talk = Conversation([user("hi"), assistant("", [call]), tool_reply(call, "3")])
    assert talk.sendable() is talk


@given(st.text() | st.from_regex(r'\{"a": ?[-0-9eE.NaInfity"\\ud{}\[\]]{0,12}\}?', fullmatch=True))
def test_what_is_sent_is_always_an_object(text: str) -> None:
    sent = sent_arguments(text)
    assert is_object(sent)
    assert sent_arguments(sent) == sent
    json.loads(sent)


class Json(NamedTuple):
    id: str
    text: str
    data: Any
    """Or the text, where it cannot be read."""


HOW = [
    Json("bare", '{"n": 3}', {"n": 3}),
    Json("fence", '```json\n{"n": 3}\n```', {"n": 3}),
    Json("fence-of-tildes", '~~~\n{"n": 3}\n~~~\n', {"n": 3}),
    Json("closed-on-the-line", '```json\n{"n": 3}```', {"n": 3}),
    Json("windows", '```json\r\n{"n": 3}\r\n```\r\n', {"n": 3}),
    Json("thinking", '<think>{"n": 4}</think>{"n": 3}', {"n": 3}),
    Json("thinking-and-fence", '<thinking>\n?</thinking>\n```\n{"n": 3}\n```', {"n": 3}),
    Json("mark", '\ufeff{"n": 3}', {"n": 3}),
    Json("mark-and-fence", '\ufeff```json\n{"n": 3}\n```', {"n": 3}),
    Json("fence-inside", '{"n": "```json\\n3\\n```"}', {"n": "```json\n3\n```"}),
    Json("thinking-inside", '{"n": "<think>3</think>"}', {"n": "<think>3</think>"}),
    Json("whole-as-float", '{"n": 10.0, "m": 1e1, "x": -0.0}', {"n": 10, "m": 10, "x": 0}),
    Json("a-fraction", '{"n": 0.5, "m": 1e300}', {"n": 0.5, "m": 1e300}),
    Json("text-around", 'Here: {"n": 3}', 'Here: {"n": 3}'),
    Json("text-after-the-fence", '```\n{"n": 3}\n```\nDone.', '```\n{"n": 3}\n```\nDone.'),
    Json("two-fences", "```\n1\n```\n```\n2\n```", "1\n```\n```\n2\n"),
    Json("unclosed-fence", '```json\n{"n": 3}', '```json\n{"n": 3}'),
    Json("unclosed-thinking", '<think>{"n": 3}', '<think>{"n": 3}'),
]


@pytest.mark.parametrize("case", HOW, ids=lambda case: case.id)
def test_what_encloses_json_is_removed_and_nothing_else(case: Json) -> None:
    if isinstance(case.data, str):
        assert bare_json(case.text) == case.data
        with pytest.raises(ValueError, match=r"Expecting value|Extra data"):
            read_json(case.text)
        return
    assert read_json(case.text) == case.data
    assert json.dumps(read_json(case.text)) == json.dumps(case.data)


@pytest.mark.parametrize("piece", ["```\n", "<think>", " ", "\n", "`", "```json\n{}```x"])
def test_much_of_what_encloses_json_is_read_at_once(piece: str) -> None:
    assert len(bare_json(piece * 50_000 + "x")) <= len(piece) * 50_000 + 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), st.booleans())
def test_json_is_read_through_a_fence(data: Any, fenced: bool) -> None:
    text = json.dumps(data)
    assert read_json(f"```json\n{text}\n```" if fenced else text) == data


ASKS = """
chartloop: 1
machine: m
model: scripted
limits: {calls: 9}
rules:
  - {when: usage.llm_calls >= limits.calls, stop: token_limit}
vars: {n: {type: int, value: 0}}
states:
  q: {do: receive, next: a}
  a: {do: infer, %snext: d}
  d: {stop: completed}
"""
USED = {"prompt_tokens": 7, "completion_tokens": 3}
NOTHING = {"text": "", "usage": USED}


def test_an_integer_that_a_model_writes_as_a_float_can_be_saved() -> None:
    schema = "with: {output: {type: object, properties: {n: {type: integer}}, required: [n]}}, "
    for text in ('{"n": 10.0}', '{"n": 1e1}'):
        result = load(ASKS % (schema + "save: {vars.n: result.data.n}, ")).run("hi", script=[text])
        assert (result.success, result.facts.vars["n"]) == (True, 10)


class Retried(NamedTuple):
    id: str
    retry: str
    replies: list[Any]
    path: tuple[str, ...]
    ok: bool


RETRIED = [
    Retried("not-named", "", [NOTHING], ("q", "a", "d"), True),
    Retried("transient-is-not-empty", "{times: 2, base: 0s}", [NOTHING], ("q", "a", "d"), True),
    Retried("named", "{times: 2, base: 0s, on: [EMPTY]}", [NOTHING, "hi"], ("q", "a", "a", "d"), True),
    Retried("blank-is-empty", "{times: 1, base: 0s, on: [EMPTY]}", [" \n", "hi"], ("q", "a", "a", "d"), True),
    Retried("used-up", "{times: 1, base: 0s, on: [EMPTY]}", [NOTHING, NOTHING], ("q", "a", "a", "end-error"), False),
    Retried(
        "an-empty-stream-is-empty", "{times: 1, base: 0s, on: [EMPTY]}",
        [{"error": {"category": "TRANSIENT", "message": "x", "kind": "empty_stream"}}, "hi"],
        ("q", "a", "a", "d"), True,
    ),
    Retried(
        "an-empty-stream-is-transient-too", "{times: 1, base: 0s, on: [TRANSIENT]}",
        [{"error": {"category": "TRANSIENT", "message": "x", "kind": "empty_stream"}}, "hi"],
        ("q", "a", "a", "d"), True,
    ),
    Retried(
        "an-empty-stream-is-not-recoverable", "{times: 1, base: 0s, on: [RECOVERABLE]}",
        [{"error": {"category": "TRANSIENT", "message": "x", "kind": "empty_stream"}}, "hi"],
        ("q", "a", "end-error"), False,
    ),
    Retried(
        "another-failure-is-not", "{times: 1, base: 0s, on: [EMPTY]}",
        [{"error": {"category": "TRANSIENT", "message": "x", "kind": "timeout"}}, "hi"],
        ("q", "a", "end-error"), False,
    ),
    Retried(
        "a-filter-is-not", "{times: 1, base: 0s, on: [EMPTY]}",
        [{"text": "", "finish_reason": "content_filter"}], ("q", "a", "d"), False,
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", RETRIED, ids=lambda case: case.id)
def test_an_empty_reply_is_asked_for_again_where_retry_names_it(case: Retried) -> None:
    state = f"retry: {case.retry}, " if case.retry else ""
    result = load(ASKS % state).run("hi", script=case.replies)
    assert (result.path, result.success) == (case.path, case.ok)
    assert result.facts.usage.llm_calls <= bound_of(ASKS % state)


def bound_of(text: str) -> float:
    most = bound(load(text).chart)["requests"].value
    assert most is not None
    return most


def test_an_empty_reply_is_no_message_of_the_conversation() -> None:
    machine = load(ASKS % "retry: {times: 1, base: 0s, on: [EMPTY]}, ")
    run = machine.start("hi", script=[NOTHING, {"text": "hello", "usage": USED}])
    result = run.run()
    assert [m["content"] for m in result.messages] == ["hi", "hello"]
    assert result.facts.usage.prompt_tokens == 14
    (failed,) = [r.outcome.error for r in run.records if r.outcome and r.outcome.error]
    assert (failed.category, failed.kind) == ("TRANSIENT", "empty")


def test_the_categories_stand_in_one_table() -> None:
    assert (*map(str, Category), "EMPTY") == RETRY_ON
    with pytest.raises(Exception, match="EMPTY"):
        load(ASKS % "retry: {times: 1, on: [NOTHING]}, ")


REFUSED = {"refusal": "I will not.", "usage": USED}


@pytest.mark.parametrize("state", ["", "with: {output: {type: object}, repair: 2}, "])
def test_a_refusal_fails_at_once_and_is_counted(state: str) -> None:
    machine = load(ASKS % (state + "retry: {times: 2, base: 0s}, "))
    run = machine.start("hi", script=[REFUSED])
    result = run.run()
    (error,) = result.errors
    assert (error["category"], error["message"]) == ("RECOVERABLE", "I will not.")
    assert (result.facts.usage.llm_calls, result.facts.usage.total_tokens) == (1, 10)
    assert len(result.messages) == 1


@tool
def ping() -> str:
    """Answer."""
    return "pong"


def test_no_more_calls_are_kept_than_a_provider_takes_back() -> None:
    text = ASKS.replace("limits:", "tools: [ping]\nlimits:").replace(
        "next: d}", "next: u}\n  u: {do: call_tools, with: {at_most: 6}, next: d}", 1
    )
    calls = [{"name": "ping"} for _ in range(200)]
    result = load(text % "", tools=[ping]).run("hi", script=[{"tool_calls": calls}])
    (asked,) = (m for m in result.messages if m.get("tool_calls"))
    assert len(asked["tool_calls"]) == 128
    assert sum(m["content"] == "pong" for m in result.messages) == 6
    assert sum(m["role"] == "tool" for m in result.messages) == 128
    assert "a reply asked for 200 tool calls: the first 128 are kept" in result.warnings
