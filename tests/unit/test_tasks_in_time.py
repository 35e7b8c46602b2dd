"""The time that tasks take: what is left of one that is cut off, and what counts as progress."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import pytest

from chartloop import ToolResult, load, tool
from chartloop.testing.clock import ManualClock
from tests.talks import call, outcomes

SLOW = """
chartloop: 1
machine: m
model: {name: scripted, context_window: 1000}
tasks: [{id: a, text: a}]
states:
  left: {ask: Left?, when: queue.size > 0, then: work, else: z}
  work: {do: work, with: {attempts: 2}, within: 1m, failed: next, next: left}
  z: {stop: completed}
"""


def test_a_task_that_is_cut_off_has_been_tried_and_its_model_call_was_made() -> None:
    script = [{"text": "late", "delay": "2m"}, {"text": "late", "delay": "61s"}]
    run = load(SLOW).start("x", script=script, clock=ManualClock())
    result = run.run()
    assert result.reason == "completed"
    cut = outcomes(run, "work")
    assert [(o.timed_out, o.unanswered, o.result["given_up"]) for o in cut] == [
        (True, 1, False),
        (True, 1, True),
    ]
    assert [e["message"] for e in result.errors] == ["work took too long: stopped after 1 min"] * 2
    assert (run.facts.queue.failed, run.facts.run.elapsed) == (1, 120)
    assert run.replay().same


def test_a_pause_before_a_task_is_no_part_of_its_time() -> None:
    clock = ManualClock()
    run = load(SLOW).start("x", script=[{"text": "done", "delay": "1s"}], clock=clock)
    run.advance()
    run.pause()
    run.advance()
    clock.advance(3600)
    run.resume()
    assert run.run().facts.errors.total == 0


def test_a_tool_that_is_cut_off_has_asked_no_model() -> None:
    release = threading.Event()

    @tool(effect="local")
    def hang(task: str) -> str:
        """Hang."""
        release.wait(60)
        return task

    made = load(SLOW.replace("within: 1m", "within: 50ms"), tools=[hang])
    run = made.start("x", tasks=[{"text": "a", "by": {"tool": "hang"}}], script=[])
    run.run()
    release.set()
    assert [(o.timed_out, o.unanswered) for o in outcomes(run, "work")] == [(True, 0)] * 2
    assert run.facts.queue.failed == 1


def test_a_reply_to_a_task_says_how_large_the_context_is() -> None:
    script = [{"text": "done", "usage": {"prompt_tokens": 800, "completion_tokens": 100}}]
    run = load(SLOW).start("x", script=script)
    run.run()
    assert (run.facts.usage.context_tokens, run.facts.usage.context_ratio) == (900, 0.9)


# progress -----------------------------------------------------------------------------------

WAYS = {
    "work": "with: {attempts: 1}",
    "tool": "with: {name: do_it, arguments: {task: a}}",
    "call_tools": "",
}
"""The actions that call a tool, with what they need."""
CALLS = """
chartloop: 1
machine: m
model: {name: scripted}
tools: [do_it]
tasks: [{id: a, text: a, by: {tool: do_it}}]
states:
  think: {do: infer, next: go}
  go: {do: ACTION, WITH failed: next, next: z}
  z: {stop: completed}
"""


class Progress(NamedTuple):
    """What a tool returns, and how long the run has stalled after it."""

    id: str
    made: Any
    stalled: float


@pytest.mark.parametrize("action", WAYS)
@pytest.mark.parametrize(
    "case",
    [
        Progress("failed", ToolResult("no", ok=False), 60),
        Progress("failed-with-progress", ToolResult("red", ok=False, progressed=True), 0),
        Progress("done-with-progress", ToolResult("green", progressed=True), 0),
    ],
    ids=lambda case: case.id,
)
def test_what_is_progress(case: Progress, action: str) -> None:
    clock = ManualClock(1000)

    @tool
    def do_it(task: str) -> Any:
        """Do a task."""
        clock.advance(60)
        return case.made

    said = f"{WAYS[action]}," if WAYS[action] else ""
    text = CALLS.replace("ACTION", action).replace("WITH", said)
    run = load(text, tools=[do_it]).start("x", clock=clock, script=[call("do_it", task="a")])
    run.run()
    assert run.facts.progress.stalled_for == case.stalled
    assert run.replay().same
