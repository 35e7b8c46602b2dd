"""`Run.trace`: what a run did, read from its records."""

from __future__ import annotations

import json
from typing import Any

from chartloop import load, tool
from chartloop.hosting.reading import trace_page
from chartloop.run.journal import MemoryJournal
from chartloop.testing.clock import ManualClock

TALK = """
chartloop: 1
machine: talk
model: {name: scripted}
tools: [look_up, ring]
limits: {steps: 30}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  task: {do: receive, next: think}
  think:
    do: infer
    next:
      - {when: len(last.tool_calls) > 0, to: act}
      - {to: bell}
  act: {do: call_tools, next: think}
  bell: {do: tool, with: {name: ring, arguments: {times: "2"}}, failed: next, next: done}
  done: {stop: completed}
"""


@tool
def look_up(word: str) -> dict[str, str]:
    """Looks a word up."""
    if word == "nothing":
        raise LookupError("no such word")
    return {"word": word, "means": word.upper()}


@tool
def ring(times: int) -> None:
    """Rings."""
    raise OSError(f"broken after {times}")


def asks(*calls: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"text": "", "tool_calls": [{"name": n, "arguments": a} for n, a in calls], **more}


SPENT = {"prompt_tokens": 10, "completion_tokens": 2}


def started() -> Any:
    return load(TALK, tools=[look_up, ring]).start(
        "Look it up.",
        script=[
            asks(("look_up", {"word": "a"}), ("look_up", {"word": "nothing"}), usage=SPENT),
            {"text": "", "tool_calls": [{"name": "look_up", "arguments": "{oops"}]},
            {"text": "Done.", "usage": SPENT, "delay": "3s"},
        ],
        journal=MemoryJournal(),
        clock=ManualClock(),
        run_id="r",
    )


def test_every_call_of_a_tool_is_there_with_what_it_was_given_and_what_came_of_it() -> None:
    run = started()
    run.run()
    calls = run.trace().calls
    assert [(c.step, c.state, c.name, c.arguments, c.ok) for c in calls] == [
        (3, "act", "look_up", {"word": "a"}, True),
        (3, "act", "look_up", {"word": "nothing"}, False),
        (5, "act", "look_up", "{oops", False),
        (7, "bell", "ring", None, False),
    ]
    assert calls[0].result == {"word": "a", "means": "A"}
    assert "no such word" in calls[1].result
    assert "broken after 2" in calls[3].result


def test_every_step_is_there_with_its_times_and_tokens() -> None:
    run = started()
    result = run.run()
    steps = run.trace()
    assert [s.number for s in steps] == [*range(1, result.steps + 1)]
    assert [(s.at, s.state, s.tokens) for s in result.timeline] == [
        (s.ended, s.state, s.total_tokens) for s in steps
    ]
    assert steps[1].tokens == 12
    assert steps[-1].total_tokens == result.tokens == result.usage["total_tokens"]
    assert steps[5].ended - steps[5].started == 3
    assert [s.ok for s in steps] == [True] * 6 + [False]
    assert steps[-1].error is not None
    assert "broken" in steps[-1].error["message"]
    assert steps[5].result["text"] == "Done."


def test_it_is_plain_data() -> None:
    run = started()
    run.run()
    data = run.trace().to_list()
    assert json.loads(json.dumps(data)) == data
    assert data[2]["calls"][0]["arguments"] == {"word": "a"}


def test_a_run_that_has_not_begun_has_none() -> None:
    assert started().trace() == ()


def test_what_a_child_did_stands_inside_the_step_that_ran_it() -> None:
    lists = [{"text": '{"items": ["a"]}', "usage": SPENT}] * 2
    run = load("geist_tick", tools=[look_up]).start(
        "Look it up.",
        script=[*lists, asks(("look_up", {"word": "a"}), usage=SPENT)],
        clock=ManualClock(),
        run_id="r",
    )
    run.run()
    steps = run.trace()
    assert [step.calls for step in steps] == [()] * 3
    (inside,) = steps[2].inside
    assert [(s.state, s.tokens) for s in inside] == [
        ("ask_model", 0),
        ("act", 12),
        ("call_adapters", 0),
    ]
    assert [(c.run, c.name, c.arguments) for c in steps.calls] == [
        (steps[2].result["run"], "look_up", {"word": "a"})
    ]
    data = steps.to_list()
    assert data[2]["inside"][0][2]["calls"][0]["name"] == "look_up"
    assert json.loads(json.dumps(data)) == data


def test_the_pages_of_a_trace_are_the_trace() -> None:
    """However small they are: calls may be answered on another page than they were asked on."""
    run = started()
    run.run()
    whole = run.trace()
    assert any(step.calls and step.calls[0].arguments for step in whole)
    for limit in range(1, 12):
        found: list[Any] = []
        after: str | None = "0.0"
        while after is not None:
            page, after = trace_page(run, after, limit)
            found += page
        assert found == [*whole]
