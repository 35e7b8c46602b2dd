"""Document 004, "Step Types" and "Execution Step": what goes into each step and what comes out."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from chartloop import Run, Step, load, tool
from chartloop.core.outcome import Outcome
from chartloop.testing import ManualClock
from tests.talks import call, calls, talk

STEPS = """\
agent: agent-123
model: {name: none}
tools: [send_message]
memory: {persona: {value: old text, limit: 60}}
states:
  user: {do: receive, next: think}
  think: {do: infer, next: act}
  act: {do: call_tool, next: append}
  append: {do: update_memory, with: {block: persona, append: Additional information}, next: replace}
  replace: {do: update_memory, with: {block: persona, old: old text, new: new text}, next: system}
  system: {do: nothing, with: {input: {action: system_action, for: "{{ run.task }}"}}, next: z}
  z: {stop: completed}
"""
ASKS = {"tool_name": "send_message", "arguments": {"message": "I can help you with that!"}}
USAGE = {"prompt_tokens": 100, "completion_tokens": 50}


def one_of_each() -> Run:
    reply = {**call("send_message", message="I can help you with that!"), "usage": USAGE}
    return talk(
        STEPS, [reply], task="Hello, how can you help me?", clock=ManualClock(1_705_401_600.0)
    )


class Kind(NamedTuple):
    """A step, what goes in and what comes out, as the document writes them."""

    id: str
    type: str
    input: Any
    output: Any


KINDS = [
    Kind("user", "user-message", {"content": "Hello, how can you help me?"},
         {"message_id": "RUN/user/0", "content": "Hello, how can you help me?", "timestamp": 1_705_401_600.0}),
    Kind("think", "llm-inference", {},
         {"content": "", "tool_calls": [ASKS], "usage": {**USAGE, "total_tokens": 150}, "finish_reason": "tool_calls"}),
    Kind("act", "tool-call", ASKS, {**ASKS, "status": "completed", "result": "The message was sent.", "error": None}),
    Kind("append", "memory-update",
         {"operation": "append", "block_name": "persona", "content": "Additional information"},
         {"operation": "append", "block_name": "persona", "content": "Additional information"}),
    Kind("replace", "memory-update",
         {"operation": "replace", "block_name": "persona", "content": "new text"},
         {"operation": "replace", "block_name": "persona", "content": "new text"}),
    Kind("system", "system", {"action": "system_action", "for": "Hello, how can you help me?"},
         {"action": "system_action", "for": "Hello, how can you help me?"}),
]  # fmt: skip


class TestStepTypes:
    @pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.id)
    def test_one_step_at_a_time(self, kind: Kind) -> None:
        run = one_of_each()
        run.advance()  # the beginning
        while run.state != kind.id:
            run.advance()
        waits = run.history[-1]
        assert (waits.type, waits.status, waits.output) == (kind.type, "pending", None)
        run.advance()
        done = next(step for step in run.history if step.metadata["state"] == kind.id)
        output = json.loads(json.dumps(done.output).replace(run.id, "RUN"))
        assert (done.type, done.input, output, done.status) == (
            kind.type, kind.input, kind.output, "completed",
        )  # fmt: skip

    def test_a_user_message_is_in_the_conversation(self) -> None:
        run = one_of_each()
        for _ in range(2):
            run.advance()
        assert run.messages == ({"role": "user", "content": "Hello, how can you help me?"},)

    def test_memory_is_changed(self) -> None:
        run = one_of_each()
        run.run()
        assert run.facts.memory["persona"] == "new text\nAdditional information"

    @pytest.mark.parametrize(
        ("name", "asked", "came"),
        [
            ("append", {"content": "She is Ann."}, "She is Ann."),
            ("replace", {"old_content": "helpful", "new_content": "kind"}, "kind"),
        ],
    )
    def test_a_memory_update_that_the_model_asks_for(
        self, name: str, asked: dict[str, str], came: str
    ) -> None:
        wanted = call(f"core_memory_{name}", block_name="persona", **asked)
        run = load("agent").start("I am Ann.", script=[wanted, "Hello Ann."])
        run.run()
        step = run.history[2]
        given = {"operation": name, "block_name": "persona"}
        assert (step.type, step.input) == ("memory-update", {**given, **asked})
        assert step.output == {**given, "content": came}

    @pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
    def test_a_memory_update_that_failed_is_a_failed_step(self, machine: str) -> None:
        asked = {"block_name": "persona", "old_content": "NOPE", "new_content": "x"}
        run = load(machine).start("Go.", script=[call("core_memory_replace", **asked), "Done."])
        assert run.run().output == "Done." or machine == "step_choice"
        step = next(step for step in run.history if step.type == "memory-update")
        assert (step.status, step.metadata["category"]) == ("failed", "RECOVERABLE")
        assert step.input == {"operation": "replace", **asked}
        assert step.error is not None
        assert "NOPE" in step.error or "persona" in step.error
        assert step.output == {
            "operation": "replace", "block_name": "persona", "error": step.error,
        }  # fmt: skip

    def test_of_several_memory_updates_one_that_failed_fails_the_step(self) -> None:
        good = call("core_memory_append", block_name="persona", content="I like tea.")
        bad = call("core_memory_append", block_name="nowhere", content="x")
        both = {"tool_calls": [*good["tool_calls"], *bad["tool_calls"]]}
        run = load("agent").start("Go.", script=[both, "Done."])
        assert run.run().success
        assert "tea" in run.facts.memory["persona"]
        step = run.history[2]
        assert (step.type, step.status) == ("memory-update", "failed")
        done, failed = step.output
        assert done == {"operation": "append", "block_name": "persona", "content": "I like tea."}
        assert failed == {"operation": "append", "block_name": "nowhere", "error": step.error}

    def test_a_tool_that_failed_says_so_in_its_output_and_its_step_is_completed(self) -> None:
        run = load("agent").start("Go.", script=[call("conversation_search", nothing=1), "Done."])
        assert run.run().success
        step = run.history[2]
        assert (step.type, step.status, step.error) == ("tool-call", "completed", None)
        assert (step.output["status"], step.output["error"] is None) == ("failed", False)

    def test_several_calls_of_one_step_are_a_list(self) -> None:
        run = load("agent").start("Go.", script=[calls("conversation_search", "nowhere"), "Done."])
        run.run()
        step = run.history[2]
        assert [asked["tool_name"] for asked in step.input] == ["conversation_search", "nowhere"]
        assert [(came["status"], came["error"] is None) for came in step.output] == [
            ("failed", False), ("failed", False)
        ]  # fmt: skip
        assert step.status == "completed"  # the model was told

    def test_the_history_of_step_agent_is_typed(self) -> None:
        note = call("core_memory_append", block_name="human", content="She is Ann.")
        replies = [call("send_message", message="I can help you with that!"), note, "Done."]
        run = load("step_agent").start("Help me.", script=replies, agent="agent-123")
        run.run()
        said = [f"Step {s.number}: {s.type} ({s.status})" for s in run.history]
        assert said == [
            "Step 1: user-message (completed)",
            "Step 2: llm-inference (completed)",
            "Step 3: tool-call (completed)",
            "Step 4: llm-inference (completed)",
            "Step 5: memory-update (completed)",
            "Step 6: llm-inference (completed)",
        ]
        assert {step.agent_id for step in run.history} == {"agent-123"}
        assert run.history[2].input == ASKS
        assert run.history[2].output["result"] == "The message was sent."
        assert run.history[4].input == {
            "operation": "append", "block_name": "human", "content": "She is Ann."
        }  # fmt: skip

    def test_each_step_of_step_agent_is_a_run_of_step_choice(self) -> None:
        run = load("step_agent").start("Help me.", script=["Done."])
        run.run()
        id = run.history[1].metadata["run"]
        inner = load("step_choice").open(id, journal=run.session.journal)
        assert [(s.type, s.status) for s in inner.history] == [("llm-inference", "completed")]

    def test_retries_are_steps_too(self) -> None:
        busy = {"error": {"category": "TRANSIENT", "message": "busy"}}
        run = load("step_agent").start("Hi.", script=[busy, "Hello."], clock=ManualClock())
        run.run()
        assert [(s.number, s.type, s.status) for s in run.history] == [
            (1, "user-message", "completed"), (2, "llm-inference", "failed"),
            (3, "llm-inference", "completed"),
        ]  # fmt: skip

    @pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
    def test_calls_keep_their_arguments(self, machine: str) -> None:
        run = load(machine).start("Help me.", script=[call("send_message", message="x"), "Done."])
        run.run()
        calls = [(c.name, c.arguments) for c in run.trace().calls]
        assert calls == [("send_message", {"message": "x"})]

    @pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
    def test_without_history_it_starts_with_llm_inference(self, machine: str) -> None:
        run = load(machine).start(script=["How can I help?"])
        assert run.run().output is not None
        assert [s.type for s in run.history if s.type != "system"] == ["llm-inference"]

    @pytest.mark.parametrize("limit", [2, 3, 4])
    def test_max_steps_is_reached_at_the_limit_not_past_it(self, limit: int) -> None:
        ask = call("send_message", message="x")
        run = load("step_agent").start("Go.", script=[ask] * 4, limits={"steps": limit})
        assert run.run().reason == "steps_limit"
        assert [s.number for s in run.history] == list(range(1, limit + 1))

    def test_a_call_that_was_left_out_is_said(self) -> None:
        two = calls("send_message", "conversation_search")
        for machine in ("step_agent", "step_choice"):
            result = load(machine).run("Go.", script=[two, "Done."])
            assert any("left out: `conversation_search`" in w for w in result.warnings), machine


STEP_FIELDS: dict[str, Any] = {
    "id": "RUN/think/1",
    "agent_id": "agent-123",
    "number": 2,
    "timestamp": 1_705_401_600.0,
    "type": "llm-inference",
    "input": {},
    "output": {"content": "Hm.", "tool_calls": [], "usage": {**USAGE, "total_tokens": 150}, "finish_reason": "stop"},
    "status": "completed",
    "duration": 3.0,
    "error": None,
    "metadata": {"state": "think", "action": "infer", "record": 2},
}  # fmt: skip


class TestExecutionStep:
    @pytest.mark.parametrize("field", STEP_FIELDS)
    def test_each_field(self, field: str) -> None:
        reply = {"text": "Hm.", "usage": USAGE, "delay": "3s"}
        run = talk(STEPS, [reply], task="Go.", clock=ManualClock(1_705_401_600.0))
        run.run()
        made = json.loads(json.dumps(run.history[1].to_dict()).replace(run.id, "RUN"))
        assert list(made) == list(STEP_FIELDS)
        assert made[field] == STEP_FIELDS[field]

    def test_a_step_that_failed_says_why(self) -> None:
        failing = {"error": {"category": "TRANSIENT", "message": "overloaded"}}
        run = talk(STEPS, [failing], task="Go.")
        run.run()
        step = run.history[-1]
        assert (step.status, step.error, step.output) == ("failed", "overloaded", None)
        assert step.metadata["category"] == "TRANSIENT"

    def test_a_result_that_does_not_fit_where_it_is_saved_fails_the_step(self) -> None:
        body = (
            "model: {name: none}\nvars: {n: 0}\nstates:\n"
            "  a: {do: act, save: {vars.n: result.n}, next: z}\n  z: {stop: completed}\n"
        )
        run = talk(body, said={"a": [Outcome(result={"n": "many"})]})
        run.run()
        (step,) = run.history
        assert step.status == "failed"
        assert step.error is not None
        assert "vars.n" in step.error

    def test_what_was_left_out_is_on_the_step(self) -> None:
        run = talk(STEPS, [calls("send_message", "send_message")], task="Go.")
        run.run()
        assert run.history[2].metadata["dropped"] == ["send_message"]
        assert run.history[2].output["tool_name"] == "send_message"

    def test_running_is_what_a_tool_sees_of_itself(self) -> None:
        seen: list[Step] = []

        @tool
        def look() -> str:
            """Look at the run that calls this."""
            seen.append(run.history[-1])
            return "seen"

        body = "model: {name: none}\ntools: [look]\nstates:\n  a: {do: tool, with: {name: look}, next: z}\n  z: {stop: completed}\n"
        run = talk(body, tools=[look])
        assert run.run().success
        assert [(s.type, s.status, s.input) for s in seen] == [
            ("tool-call", "running", {"tool_name": "look"})
        ]
        assert run.history[-1].output["result"] == "seen"
