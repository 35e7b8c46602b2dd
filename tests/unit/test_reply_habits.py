"""What providers send, each habit in a file of `tests/replies`, through litellm from a real server.

Each habit is played whole and streamed, in each wire format that its file has. What it comes to is
in the file. Then the run goes on, and the server refuses a history that breaks the rules of its
format (`chartloop.testing.chat_rules`, `messages_rules`), as the provider would.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
import yaml

from chartloop import Result, load, tool
from chartloop.core.facts import CUT_SHORT
from chartloop.core.reasoning import reasoning_text
from chartloop.core.records import Record
from chartloop.testing import LoopbackServer
from tests.tool_loop import WITH_KEYS, http_model, needs_litellm
from tests.wires import FORMS, NAMES, WireServer, answer, good

FOLDER = Path(__file__).parent.parent / "replies"
MACHINE = """
chartloop: 1
machine: habit
model: {{{model}}}
tools: [add, ping]
limits: {{steps: 20}}
rules:
  - {{when: run.steps >= limits.steps, stop: steps_limit}}
states:
  q: {{do: receive, next: a}}
  a: {{do: infer, {state}next: w}}
  w: {{ask: 'Tools?', when: len(last.tool_calls) > 0, then: u, else: d}}
  u: {{do: call_tools, next: b}}
  b: {{do: infer, next: d}}
  d: {{stop: completed}}
"""
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
DATA = '{"n": 1}'
"""The replies after the first: a text, and the data that some files ask for."""
USED = {"input_tokens": 100, "output_tokens": 20}


@tool
def add(a: int, b: int) -> str:
    """Add."""
    return f"{a + b}"


@tool
def ping() -> str:
    """Answer."""
    return "pong"


class Habit(NamedTuple):
    """One way to play a file: a wire format, whole or streamed, or one of its errors."""

    id: str
    wire: str
    sent: Mapping[str, Any]
    streamed: bool
    file: Mapping[str, Any]


def habits() -> Iterator[Habit]:
    """Every way to play every file."""
    for path in sorted(FOLDER.glob("*.yaml")):
        file = yaml.safe_load(path.read_text("utf-8"))
        for number, text in enumerate(file.get("errors", ())):
            for wire, kind in (("chat", {}), ("messages", {"type": "error"})):
                error = {"type": "invalid_request_error", "message": text}
                sent = {"whole": {**kind, "error": error}, "status": 400}
                yield Habit(f"{path.stem}-{number}-{wire}", wire, sent, False, file)
        for wire, finish in (("chat", _chat), ("messages", _messages)):
            given = file.get(wire, {})
            sent = {name: finish(given, name) for name in ("whole", "stream") if given.get(name)}
            for name in ("whole", "stream"):
                if name in given:
                    yield Habit(f"{path.stem}-{wire}-{name}", wire, sent, name == "stream", file)
        for form in FORMS:
            for name, short in file.get(form, {}).items():
                yield Habit(f"{path.stem}-{form}-{name}", form, short, name == "stream", file)


def _chat(given: Mapping[str, Any], name: str) -> Any:
    """The body or the events of a file with what it leaves out: the same in every reply."""
    head: dict[str, Any] = {
        "id": "x",
        "created": 1,
        "model": "loopback",
        "object": "chat.completion",
    }
    if name == "whole":
        whole = {"usage": USAGE, **given["whole"]}
        if "choices" in whole:
            return head | whole
        message = {"role": "assistant", **whole.pop("message")}
        choice = {"message": message, "finish_reason": whole.pop("finish_reason", "stop")}
        choice["index"] = 0
        return {**head, "choices": [choice], **whole}
    head["object"] += ".chunk"
    events: list[Any] = []
    for event in given["stream"]:
        if isinstance(event, str) or event.keys() & {"choices", "error"}:
            events.append(event if isinstance(event, str) or "error" in event else head | event)
            continue
        fields = {"delta": event.get("delta"), "finish_reason": event.get("finish_reason")}
        choices = [{"index": 0, **fields}] if "delta" in event else []
        usage = {"usage": event["usage"]} if "usage" in event else {}
        events.append({**head, "choices": choices, **usage})
    return events


def _messages(given: Mapping[str, Any], name: str) -> Any:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "loopback"}
    if name == "whole":
        return {**head, "stop_sequence": None, "usage": USED, **given["whole"]}
    start: dict[str, Any] = {
        **head,
        "content": [],
        "stop_reason": None,
        "usage": {**USED, "output_tokens": 1},
    }
    more: dict[str, Any] = {
        "message_start": {"message": start},
        "message_delta": {"usage": {"output_tokens": 20}},
    }
    return [{**more.get(event["type"], {}), **event} for event in given["stream"]]


ALL = list(habits())
SERVED = [habit for habit in ALL if habit.wire not in NAMES]
OTHERS = [habit for habit in ALL if habit.wire in NAMES]
pytestmark = WITH_KEYS


@needs_litellm
@pytest.mark.parametrize("habit", SERVED, ids=[habit.id for habit in SERVED])
def test_a_habit_comes_to_what_its_file_says(habit: Habit) -> None:
    with LoopbackServer([{"sent": habit.sent}, *[DATA] * 4]) as server:
        name, url = "openai/loopback", server.url
        if habit.wire == "messages":
            name, url = "anthropic/loopback", server.messages_url
            server.trust_signatures("s1")
        model = http_model(name, url, f"stream: {json.dumps(habit.streamed)}")
        text = MACHINE.format(model=model, state=habit.file.get("state", ""))
        run = load(text, tools=[add, ping]).start("Add 1 and 2.")
        result = run.run()
        first = next(record for record in run.records if record.state == "a")
        came = _came(first, result.messages)
        came["requests"] = len(server.requests)
        if came["kind"] == "empty":
            came["text"] = result.output
        again = run.next("And once more?").run()
    _compare(habit, came, result)
    # the server has accepted every request, so the history keeps to the rules of its format
    assert again.success, again.errors
    for request in server.requests:
        for message in request.body["messages"]:
            assert message.get("content") != "" or not message.get("tool_calls")


@needs_litellm
@pytest.mark.parametrize("habit", OTHERS, ids=[habit.id for habit in OTHERS])
def test_a_habit_in_another_form(habit: Habit) -> None:
    first = answer(habit.wire, habit.sent, streamed=habit.streamed)
    with WireServer([first, good(habit.wire, DATA, streamed=habit.streamed)]) as server:
        model = http_model(NAMES[habit.wire], server.url, f"stream: {json.dumps(habit.streamed)}")
        text = MACHINE.format(model=model, state=habit.file.get("state", ""))
        run = load(text, tools=[add, ping]).start("Add 1 and 2.")
        result = run.run()
        first_record = next(record for record in run.records if record.state == "a")
        came = _came(first_record, result.messages)
        if came["kind"] == "empty":
            came["text"] = result.output
        assert run.next("And once more?").run().success
    _compare(habit, came, result)


def _compare(habit: Habit, came: Mapping[str, Any], result: Result) -> None:
    expected = habit.file["expect"]
    assert {name: came.get(name) for name in expected if name not in WITHIN} == {
        name: value for name, value in expected.items() if name not in WITHIN
    }
    for name in WITHIN & expected.keys():
        for given in [expected[name]] if isinstance(expected[name], str) else expected[name]:
            assert any(given in text for text in came[name]), came[name]
    cut = came["finish_reason"] in CUT_SHORT and not came["calls"]  # else a later reply is the last
    assert result.success == ("category" not in expected and not cut)


WITHIN = frozenset({"warning", "message", "results"})
"""Fields that name a part of a text."""


def _came(record: Record, messages: Any) -> dict[str, Any]:
    """What a call came to, by the names that a file may use."""
    outcome = record.outcome
    assert outcome is not None
    reply, error, spent = outcome.reply, outcome.error, outcome.spent
    calls = reply.tool_calls if reply is not None else ()
    result: Any = outcome.result or {}
    return {
        "text": reply.text if reply is not None else "",
        "calls": [[call.name, _data(call.arguments)] for call in calls],
        "number": len(calls),
        "finish_reason": reply.finish_reason if reply is not None else None,
        "reasoning": reasoning_text(reply.reasoning) if reply is not None else "",
        "data": result.get("data"),
        "usage": [spent.prompt_tokens, spent.completion_tokens],
        "cached": spent.cached_tokens,
        "category": error.category if error is not None else None,
        "kind": error.kind if error is not None else None,
        "message": [error.message] if error is not None else [],
        "warning": outcome.warnings,
        "results": [str(m["content"]) for m in messages if m["role"] == "tool"],
    }


def _data(text: str) -> Any:
    try:
        data: Any = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    is_object = isinstance(data, dict) and "NaN" not in text
    return cast("Any", data) if is_object else text


KEYS = {"habit", "seen", "state", "chat", "messages", *NAMES, "errors", "expect"}


def test_each_file_says_what_it_is_and_where_it_was_seen() -> None:
    habits_of_files: set[str] = set()
    for path in sorted(FOLDER.glob("*.yaml")):
        file = yaml.safe_load(path.read_text("utf-8"))
        assert file.keys() <= KEYS, path
        assert file["habit"].endswith("."), path
        assert file["seen"], path
        assert file["expect"], path
        habits_of_files.add(file["habit"])
    assert len(habits_of_files) == len(list(FOLDER.glob("*.yaml")))
