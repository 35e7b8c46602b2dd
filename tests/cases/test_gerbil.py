"""Document 004, section by section: configuration, state, steps, statuses, results, conversions.

What it says of the context window is in `test_gerbil_window.py`, its list of enhancements and what
bad input comes to in `test_gerbil_later.py`; `lines/004_gerbil.txt` names the case of each line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chartloop import Machine, Result, Run, Step, load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import LimitError
from chartloop.run.ports import ModelReply
from chartloop.testing import ManualClock
from tests.talks import Listening, call

CUSTOM = """\
chartloop: 1
machine: custom_agent
title: Custom Agent
agent: agent-456
metadata: {team: docs}
instructions: |
  {{ memory.persona }}
  You are talking to: {{ memory.human }}
model:
  name: anthropic/claude-3-5-sonnet-20241022
  temperature: 0.7
  max_tokens: 4096
  context_window: 100000
  stream: false
tools: [send_message, conversation_search, core_memory_append, core_memory_replace]
memory:
  persona: I am a helpful AI assistant specialized in coding.
  human: The user I am assisting with programming tasks.
limits: {steps: 50}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  user_message: {do: receive, next: llm_inference}
  llm_inference:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: tool_call}, {to: done}]
  tool_call: {do: call_tools, next: llm_inference}
  done: {stop: completed}
"""


@pytest.fixture(scope="module")
def custom() -> Machine:
    """The document's own configuration."""
    return load(CUSTOM)


@dataclass(frozen=True)
class Setting:
    """A field of `agent-config`, and where a machine has it."""

    id: str
    read: Callable[[Machine], Any]
    value: Any


CONFIG = [
    Setting("id", lambda m: m.spec.agent, "agent-456"),
    Setting("name", lambda m: m.spec.title, "Custom Agent"),
    Setting("persona", lambda m: m.spec.memory["persona"].value[:24], "I am a helpful AI assist"),
    Setting("human", lambda m: m.spec.memory["human"].value[:10], "The user I"),
    Setting("llm-provider", lambda m: m.spec.model["name"].split("/")[0], "anthropic"),
    Setting("llm-model", lambda m: m.spec.model["name"].split("/")[1], "claude-3-5-sonnet-20241022"),
    Setting("llm-config", lambda m: (m.spec.model["temperature"], m.spec.model["max_tokens"]), (0.7, 4096)),
    Setting("max-steps", lambda m: m.spec.limits["steps"].value, 50),
    Setting("context-window", lambda m: m.spec.model["context_window"], 100_000),
    Setting("tools-enabled", lambda m: m.spec.tools, ("send_message", "conversation_search", "core_memory_append", "core_memory_replace")),
    Setting("memory-enabled", lambda m: list(m.spec.memory), ["persona", "human"]),
    Setting("streaming-enabled", lambda m: m.spec.model["stream"], False),
    Setting("metadata", lambda m: dict(m.spec.metadata), {"team": "docs"}),
]  # fmt: skip


class TestConfiguration:
    @pytest.mark.parametrize("field", CONFIG, ids=lambda field: field.id)
    def test_each_field(self, custom: Machine, field: Setting) -> None:
        assert field.read(custom) == field.value

    def test_the_default_one_needs_an_id_and_a_task(self) -> None:
        run = load("agent").start("Hello.", agent="agent-123", script=["Hi!"])
        assert run.run().success
        assert run.facts.run.agent == "agent-123"

    def test_it_is_what_the_model_is_asked_with(self, custom: Machine) -> None:
        model = Listening(ModelReply("Hi!"))
        custom.run("Hello.", model=model)
        (asked,) = model.asked
        assert asked.settings["temperature"] == 0.7
        assert asked.settings["max_tokens"] == 4096
        assert asked.settings["stream"] is False
        assert [t["function"]["name"] for t in asked.tools] == list(custom.spec.tools)

    @pytest.mark.parametrize("provider", ["openai", "anthropic", "groq", "ollama"])
    def test_any_provider_by_name(self, custom: Machine, provider: str) -> None:
        model = Listening(ModelReply("Hi!"))
        custom.run("Hello.", model=model, settings={"name": f"{provider}/some-model"})
        assert model.asked[0].settings["name"] == f"{provider}/some-model"

    def test_max_steps_set_for_one_run(self, custom: Machine) -> None:
        again = [call("send_message", message="Hello!") for _ in range(9)]
        result = custom.start("Go on.", limits={"steps": 4}, script=again[:2]).run()
        assert (result.reason, result.steps, result.forced) == ("steps_limit", 4, True)

    def test_persona_and_human_of_one_run(self, custom: Machine) -> None:
        model = Listening(ModelReply("Hi!"))
        custom.run("Hello.", model=model, memory={"human": "Her name is Ann."})
        assert "You are talking to: Her name is Ann." in model.asked[0].messages[0]["content"]
        assert "I am a helpful AI assistant" in model.asked[0].messages[0]["content"]

    @pytest.mark.parametrize(
        ("name", "text", "wrong"),
        [
            ("humann", "Ann", "no memory block `humann`"),
            ("human", 5, "is a text: `5` is not"),
            ("human", "x" * 1_001, "may hold 1000 characters, this has 1001"),
        ],
        ids=["unknown", "no-text", "too-long"],
    )
    def test_a_block_that_cannot_be_so_is_refused(self, name: str, text: Any, wrong: str) -> None:
        with pytest.raises(LimitError, match=wrong):
            load("agent").start("Hello.", memory={name: text}, script=[])

    def test_without_memory(self) -> None:
        lines = CUSTOM.replace(
            "instructions: |\n  {{ memory.persona }}\n", "instructions: |\n  I help.\n"
        )
        plain = lines.replace("  You are talking to: {{ memory.human }}\n", "")
        start, end = plain.index("memory:"), plain.index("limits:")
        plain = plain[:start] + plain[end:].replace(", core_memory_append", "")
        plain = plain.replace(", core_memory_append, core_memory_replace", "")
        model = Listening(ModelReply("Hi!"))
        load(plain).run("Hello.", model=model)
        assert model.asked[0].messages[0] == {"role": "system", "content": "I help."}
        assert len(model.asked[0].tools) == 2


# agent state --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Field:
    """A field of the document's records, and where a run has it."""

    id: str
    read: Callable[[Run], Any]
    before: Any
    after: Any


STATE = [
    Field("agent-id", lambda r: r.facts.run.agent, "", "agent-456"),
    Field("step-count", lambda r: r.facts.run.steps, 0, 4),
    Field("message-count", lambda r: r.facts.usage.messages, 0, 4),
    Field("token-count", lambda r: r.facts.usage.total_tokens, 0, 330),
    Field("last-activity", lambda r: r.last_activity, 0.0, 1_000_007.0),
    Field("status", lambda r: r.status, "idle", "completed"),
    Field("error", lambda r: r.facts.errors.last, None, None),
    Field("metadata", lambda r: dict(r.metadata), {"for": "Ann"}, {"for": "Ann"}),
]  # fmt: skip
TALK = [
    {**call("send_message", message="Hello!"), "usage": {"prompt_tokens": 100, "completion_tokens": 50}},
    {"text": "I told them.", "usage": {"prompt_tokens": 160, "completion_tokens": 20}, "delay": "7s"},
]  # fmt: skip


@pytest.fixture(scope="module")
def shipped() -> Machine:
    """The machine that ships, as it ships."""
    return load("agent")


def talked(machine: Machine, **more: Any) -> Run:
    """A run with one tool call, given an id and metadata of its own."""
    more = {"metadata": {"for": "Ann"}, "agent": "agent-456", **more}
    return machine.start("Tell them.", script=TALK, clock=ManualClock(1_000_000.0), **more)


class TestAgentState:
    @pytest.mark.parametrize("field", STATE, ids=lambda field: field.id)
    def test_each_field(self, shipped: Machine, field: Field) -> None:
        run = talked(shipped)
        assert field.read(run) == field.before
        run.run()
        assert field.read(run) == field.after

    def test_the_predicates(self, shipped: Machine) -> None:
        run = talked(shipped)
        assert run.status == "idle"
        run.advance()
        assert run.status == "running"
        run.run()
        assert run.status not in ("running", "error")

    def test_the_error_of_an_agent_that_failed(self, shipped: Machine) -> None:
        run = shipped.start(
            "Go.", script=[{"error": {"category": "CRITICAL", "message": "no key"}}]
        )
        assert run.run().status == "error"
        assert run.facts.errors.last is not None
        assert run.facts.errors.last.message == "no key"

    def test_metadata_of_a_run_is_over_that_of_its_machine(self, custom: Machine) -> None:
        assert talked(custom).metadata == {"team": "docs", "for": "Ann"}
        assert talked(custom, metadata={"team": "ops"}).metadata == {"team": "ops"}

    def test_metadata_of_a_run_is_on_its_record(self, shipped: Machine, tmp_path: Path) -> None:
        journal = SqliteJournal(tmp_path / "journal.db")
        run = talked(shipped, journal=journal)
        result = run.run()
        again = shipped.open(run.id, journal=journal)
        assert again.metadata == result.metadata == {"for": "Ann"}
        assert (again.last_activity, result.last_activity) == (1_000_007.0, 1_000_007.0)
        assert json.loads(json.dumps(result.to_dict()))["metadata"] == result.metadata

    @pytest.mark.parametrize("given", [{"a": object()}, {"a": float("nan")}, {1: {2, 3}}])
    def test_metadata_that_is_no_json_is_refused(self, shipped: Machine, given: Any) -> None:
        with pytest.raises(LimitError, match="not JSON data"):
            shipped.start("Go.", script=[], metadata=given)

    def test_paused(self, shipped: Machine) -> None:
        run = talked(shipped)
        run.advance()
        run.pause()
        run.advance()
        assert run.status == "paused"
        run.resume()
        assert run.run().status == "completed"


# results ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Came:
    """A field of `execution-result`, and where a `Result` has it."""

    id: str
    read: Callable[[Result], Any]
    well: Any
    badly: Any


RESULT = [
    Came("success", lambda r: r.success, True, False),
    Came("agent-id", lambda r: r.facts.run.agent, "agent-456", "agent-456"),
    Came("steps-executed", lambda r: r.steps, 4, 2),
    Came("final-state", lambda r: (r.status, r.facts.usage.total_tokens), ("completed", 330), ("error", 0)),
    Came("output", lambda r: r.output, "I told them.", None),
    Came("error", lambda r: [e["message"] for e in r.errors], [], ["no key"]),
    Came("duration", lambda r: r.elapsed, 7.0, 0.0),
    Came("metadata", lambda r: dict(r.metadata), {"for": "Ann"}, {}),
]  # fmt: skip


class TestExecution:
    @pytest.mark.parametrize("field", RESULT, ids=lambda field: field.id)
    def test_each_field_of_the_result(self, shipped: Machine, field: Came) -> None:
        assert field.read(talked(shipped).run()) == field.well
        failing = [{"error": {"category": "CRITICAL", "message": "no key"}}]
        assert (
            field.read(shipped.run("Go.", script=failing, clock=ManualClock(), agent="agent-456"))
            == field.badly
        )

    def test_the_history_is_there_afterwards(self, shipped: Machine) -> None:
        run = talked(shipped)
        assert run.history == ()
        run.run()
        said = [f"Step {step.number}: {step.type} ({step.status})" for step in run.history]
        assert said == [
            "Step 1: user-message (completed)",
            "Step 2: llm-inference (completed)",
            "Step 3: tool-call (completed)",
            "Step 4: llm-inference (completed)",
        ]

    def test_a_context_is_a_run_before_its_first_step(self, shipped: Machine) -> None:
        run = talked(shipped)
        assert (run.messages, run.history, run.facts.run.steps) == ((), (), 0)
        assert run.facts.memory.keys() == {"persona", "human", "notes"}
        assert run.machine is shipped
        run.advance()
        assert run.facts.run.started_at == 1_000_000.0

    def test_nothing_that_goes_wrong_in_a_step_is_raised(self, shipped: Machine) -> None:
        run = shipped.start("Go.", script=[{"error": {"category": "CRITICAL", "message": "busy"}}])
        result = run.run()
        assert (result.success, result.reason) == (False, "error")
        assert run.history[-1].error == "busy"

    @pytest.mark.parametrize("failures", [0, 3, 4])
    @pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
    def test_up_to_three_retries(self, machine: str, failures: int) -> None:
        busy = {"error": {"category": "TRANSIENT", "message": "busy"}}
        replies = [busy] * failures + (["Hello."] if failures <= 3 else [])
        run = load(machine).start("Hi.", script=replies, clock=ManualClock())
        result = run.run()
        assert result.success is (failures <= 3)
        failed = "error_threshold" if machine == "agent" else "error"
        assert result.reason == ("completed" if failures <= 3 else failed)
        assert [s.status for s in run.history if s.type == "llm-inference"] == (
            ["failed"] * failures + ["completed"] * (failures <= 3)
        )

    @pytest.mark.parametrize("category", ["RECOVERABLE", "CRITICAL"])
    @pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
    def test_other_failures_are_not_retried(self, machine: str, category: str) -> None:
        failed = {"error": {"category": category, "message": "no"}}
        run = load(machine).start("Hi.", script=[failed], clock=ManualClock())
        assert run.run().reason == "error"
        assert [s.status for s in run.history if s.type == "llm-inference"] == ["failed"]

    def test_the_documents_own_tests(self, shipped: Machine) -> None:
        run = talked(shipped)
        for _ in range(3):
            run.advance()
        assert run.history[1].status == "completed"
        result = run.run()
        assert result.success
        assert result.steps > 0
        assert result.status in ("idle", "completed")


class TestHelpers:
    def test_the_messages_of_an_inference(self, custom: Machine) -> None:
        model = Listening(ModelReply("Hi!"))
        given = [
            {"role": "user", "content": "Hello!"},
            {"role": "assistant", "content": "Hi! How can I help?"},
        ]
        custom.run("And then?", model=model, messages=given)
        system, *said = model.asked[0].messages
        assert said == [*given, {"role": "user", "content": "And then?"}]
        assert system["content"] == (
            "I am a helpful AI assistant specialized in coding.\n"
            "You are talking to: The user I am assisting with programming tasks."
        )

    def test_the_tools_that_a_state_may_use(self) -> None:
        body = CUSTOM.replace("do: infer\n", "do: infer\n    allow: [send_message]\n")
        model = Listening(ModelReply("Hi!"))
        load(body).run("Hello.", model=model)
        assert [t["function"]["name"] for t in model.asked[0].tools] == ["send_message"]

    def test_the_next_step_is_known_before_it_is_done(self, custom: Machine) -> None:
        run = talked(custom)
        for _ in range(2):
            run.advance()
        assert (run.state, run.history[-1].status) == ("llm_inference", "pending")

    def test_a_history_alone_needs_no_task(self, custom: Machine) -> None:
        kept: dict[str, Any] = {"agent-id": "agent-1", "timestamp": 1_705_401_600, "metadata": {}}
        given = [
            {"id": "msg-1", "role": "user", "content": "Hello!", **kept},
            {"id": "msg-2", "role": "assistant", "content": "Hi! How can I help?", **kept},
            {"id": "msg-3", "role": "user", "content": "Count to three.", **kept},
        ]
        model = Listening(ModelReply("One two three."))
        result = custom.run(messages=given, model=model)
        assert result.output == "One two three."
        assert [set(m) for m in model.asked[0].messages] == [{"role", "content"}] * 4  # as sent


class TestConversions:
    def test_a_configuration(self, custom: Machine) -> None:
        data = json.loads(custom.canonical())
        assert (data["agent"], data["title"], data["limits"]) == (
            "agent-456",
            "Custom Agent",
            {"steps": 50},
        )
        assert load(f"{custom.canonical()}\n").hash == custom.hash

    def test_a_state(self, shipped: Machine) -> None:
        run = talked(shipped)
        run.run()
        data = run.facts.to_dict()
        assert json.loads(json.dumps(data)) == data
        assert data["run"]["steps"] == 4
        assert "marks" not in data

    def test_a_step(self, shipped: Machine) -> None:
        run = talked(shipped)
        run.run()
        for step in run.history:
            data = step.to_dict()
            assert json.loads(json.dumps(data)) == data
            assert Step(**data) == step

    def test_a_result(self, shipped: Machine) -> None:
        data = talked(shipped).run().to_dict()
        assert json.loads(json.dumps(data)) == data
        assert data["success"] is True
        assert data["profile"]["llm_inference"]["tokens"] == 330
