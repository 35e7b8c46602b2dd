"""`screen`: who judges, what is left of a text, and what of it is on the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Image, Machine, ToolResult, load, tool
from chartloop.core.outcome import Message
from chartloop.scenarios import recording, run_scenario

PNG = b"\x89PNG\r\n\x1a\n" + bytes(60)
VERDICTS: Mapping[str, Any] = {
    "fine": {"verdict": "pass", "reason": "nothing there"},
    "bad": {"verdict": "redact", "reason": "an order", "remove": ["EVIL", "EVIL too"]},
    "worse": '```json\n{"verdict": "stop", "reason": "all of it"}\n```',
}


@tool(effect="pure")
def fetch(text: str) -> str:
    """Read."""
    return text


@tool(effect="pure")
def look() -> ToolResult:
    """Look at a picture."""
    return ToolResult("seen", parts=(Image(PNG).part,))


@tool(effect="pure")
def judge(text: str) -> Any:
    """Judge by the first word."""
    return VERDICTS.get(text.partition(" ")[0], "no idea")


HEAD = """\
chartloop: 1
machine: m
model: {name: scripted}
tools: [fetch, look]
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
reasons: {unsafe: {priority: 6, status: completed}}
vars: {page: "", why: ""}
machines:
  inner:
    vars: {said: {type: any, value: ""}}
    limits: {steps: 3}
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    output: vars.said
    states:
      a: {do: tool, with: {name: judge, arguments: {text: "{{ run.task }}"}}, save: {vars.said: result}, next: z}
      z: {stop: completed}
  asked:
    vars: {said: {type: any, value: ""}}
    limits: {steps: 4}
    rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
    output: vars.said
    states:
      q: {do: receive, next: a}
      a: {do: tool, with: {name: judge, arguments: {text: "{{ run.task }}"}}, save: {vars.said: result}, next: z}
      z: {stop: completed}
states:
"""
LOOP = """\
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: look}
  look: {do: screen, with: {%s, stop: unsafe}, next: think}
  done: {stop: completed}
"""
BY = ("tool: judge", "machine: inner", "machine: asked", "look_for: orders")


def machine(states: str) -> Machine:
    return load(HEAD + states, tools=[fetch, look, judge])


def asks(*texts: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "fetch", "arguments": {"text": text}} for text in texts]}


class Case(NamedTuple):
    """What a tool returned, the verdict, what is left, and why the run ends."""

    id: str
    text: str
    left: str
    verdict: str
    reason: str


CASES = [
    Case("passes", "fine day", "fine day", "pass", "completed"),
    Case("is-cut", "bad EVIL too, EVIL", "bad [removed], [removed]", "redact", "completed"),
    Case("is-withheld", "worse than EVIL", "[withheld]", "stop", "unsafe"),
]


def judged(text: str, by: str) -> list[Any]:
    """A script in which a tool returns this text, and the model judges if nothing else does."""
    said = VERDICTS.get(text.partition(" ")[0], "no idea")
    verdict = said if isinstance(said, str) else json.dumps(said)
    return [asks(text), *([verdict] if by.startswith("look_for") else []), "Bye."]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_verdict(case: Case, by: str) -> None:
    run = machine(LOOP % by).start("Hi", script=judged(case.text, by))
    result = run.run()
    assert result.reason == case.reason
    assert tool_texts(run.messages) == [case.left]
    outcome = run.records[4].outcome
    assert outcome is not None
    assert (outcome.result["verdict"], outcome.result["text"]) == (case.verdict, case.left)
    assert outcome.result["reason"]
    assert bool(outcome.result["run"]) == by.startswith("machine")
    assert run.facts.usage.context_tokens == run.session.position.messages.tokens
    assert run.replay().same


def tool_texts(messages: tuple[Message, ...]) -> list[Any]:
    return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("text", ["fine", "bad EVIL EVIL too", "worse", "odd"])
def test_a_recorded_verdict_is_given_again(tmp_path: Path, text: str, by: str) -> None:
    run = machine(LOOP % by).start("Hi", script=judged(text, by))
    run.run()
    (tmp_path / "m.yaml").write_text(HEAD + LOOP % by)
    made = recording(run, run.machine, named="m.yaml")
    assert (made.differences, made.lacks) == ((), ())
    report = run_scenario(made.save(tmp_path / "it.scenario.yaml"), tools=[fetch, look, judge])
    assert report.passed, str(report)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(
    "said", ["no idea", '{"verdict": "redact", "remove": ["absent"]}', '{"verdict": "redact"}',
             '{"verdict": "pass", "remove": ["x"]}', '{"verdict": "let pass"}',
             '{"verdict": "redact", "remove": "x"}', "[]"],
)  # fmt: skip
def test_what_is_no_verdict_fails_and_lets_nothing_pass(said: str, by: str) -> None:
    if not by.startswith("look_for") and said != "no idea":
        return
    run = machine(LOOP % by).start(
        "Hi", script=[asks("odd text"), *([said] if "look" in by else [])]
    )
    assert run.run().reason == "error"
    assert run.facts.errors.last is not None
    assert "no verdict: " in run.facts.errors.last.message
    assert tool_texts(run.messages) == ["odd text"]


def test_several_results_are_looked_at_together() -> None:
    script = [asks("bad EVIL", "and EVIL too"), "Bye."]
    run = machine(LOOP % "tool: judge").start("Hi", script=script)
    run.run()
    assert tool_texts(run.messages) == ["bad [removed]", "and [removed]"]


def test_pictures_are_taken_out() -> None:
    call: dict[str, Any] = {"tool_calls": [{"name": "look", "arguments": {}}]}
    run = machine(LOOP % "look_for: x").start("Hi", script=[call, '{"verdict": "pass"}', "Bye."])
    run.run()
    assert tool_texts(run.messages)[0].startswith("seen\n[image")


def test_older_messages_are_left_alone() -> None:
    states = LOOP.replace("receive, next: think", "receive, next: look") % "look_for: orders"
    cut = '{"verdict": "redact", "remove": ["EVIL"]}'
    run = machine(states).start("EVIL", script=[cut, asks("x EVIL y"), cut, "Bye."])
    run.run()
    assert run.messages[0]["content"] == "[removed]"
    assert tool_texts(run.messages) == ["x [removed] y"]


def test_a_text_of_its_own() -> None:
    states = """\
  a: {do: screen, with: {tool: judge, text: "bad {{ run.task }} too, EVIL", stop: unsafe}, save: {vars.page: result.text, vars.why: result.reason}, next: z}
  z: {stop: completed}
"""
    run = machine(states).start("EVIL")
    run.run()
    assert run.facts.vars == {"page": "bad [removed], [removed]", "why": "an order"}


def test_the_model_is_not_asked_about_nothing() -> None:
    states = (
        "  a: {do: screen, with: {look_for: x, stop: unsafe}, next: z}\n  z: {stop: completed}\n"
    )
    run = machine(states).start("", script=[])
    assert (run.run().reason, run.facts.usage.llm_calls) == ("completed", 0)


def test_the_reason_is_shown() -> None:
    run = machine(LOOP % "tool: judge").start("Hi", script=[asks("worse")])
    top = run.run().signals.highest
    assert top is not None
    assert top.message == "`look` let a text not pass: all of it"
    assert "let a text not pass: all of it" in str(run.why(4))
    assert "all of it" in json.dumps(run.trace().to_list())


@pytest.mark.parametrize(
    ("by", "calls", "tools"), [(BY[0], 7, 219), (BY[1], 7, 219), (BY[2], 7, 219), (BY[3], 13, 213)]
)
def test_its_cost_is_bounded(by: str, calls: int, tools: int) -> None:
    bounds = machine(LOOP % by).bound().to_dict()["bounds"]
    assert (bounds["requests"]["value"], bounds["tool_calls"]["value"]) == (calls, tools)
