"""Document 004, "Future Enhancements", all of which are there; and what bad input comes to."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from chartloop import StateProfile, load, tool
from chartloop.core.errors import SetupError
from chartloop.core.facts import ToolCall
from chartloop.interchange.mermaid.read import read_mermaid
from chartloop.run.events import Delta, Event, Recorded, Started
from chartloop.run.ports import ModelReply
from chartloop.run.tally import Tally
from chartloop.testing import CrashAt, Crashed, LoopbackServer, ManualClock, MemoryJournal
from tests.talks import Listening, call, calls, talk
from tests.tool_loop import QUIET, needs_litellm

BUSY = {"error": {"category": "TRANSIENT", "message": "busy"}}
DONE = "  z: {stop: completed}\n"


class TestFutureEnhancements:
    def test_several_tool_calls_are_made_at_once(self) -> None:
        meeting = threading.Barrier(3, timeout=20)

        @tool
        def meet() -> int:
            """Come back when all three are here."""
            return meeting.wait() * 0

        body = "model: {name: none}\ntools: [meet]\nstates:\n  a: {do: infer, next: b}\n  b: {do: call_tools, next: z}\n"
        run = talk(body + DONE, [calls("meet", "meet", "meet")], [meet])
        assert run.run().success
        assert [made["status"] for made in run.history[1].output] == ["completed"] * 3

    @pytest.mark.parametrize("write", range(5, 10))
    def test_a_step_that_was_recorded_is_never_made_again(self, write: int) -> None:
        machine, replies = load("agent"), [call("send_message", message="Hello!"), "Done."]
        journal = MemoryJournal()
        with pytest.raises(Crashed):
            machine.run("Go.", script=replies, journal=CrashAt(journal, write), run_id="it")
        run = machine.open("it", journal=journal, script=replies)
        before = [step for step in run.history if step.status == "completed"]
        assert run.run().success
        assert list(run.history[: len(before)]) == before
        assert [step.type for step in run.history] == [
            "user-message", "llm-inference", "tool-call", "llm-inference"
        ]  # fmt: skip

    def test_callbacks_hear_what_happens_and_the_text_as_it_comes(self) -> None:
        heard: list[Event] = []
        run = load("agent").start("Hi.", script=["Hello to you."])
        run.listen(heard.append)
        run.run()
        assert "".join(e.text for e in heard if isinstance(e, Delta)) == "Hello to you."
        assert [e.state for e in heard if isinstance(e, Started)] == [
            "user_message",
            "llm_inference",
        ]
        assert len([e for e in heard if isinstance(e, Recorded)]) == 3

    def test_a_file_determines_the_next_step_its_own_way(self) -> None:
        body = (
            "model: {name: none}\nvars: {drafts: 0}\nstates:\n  a: {do: receive, next: write}\n"
            "  write: {do: infer, set: {vars.drafts: vars.drafts + 1}, next: [\n"
            '    {when: vars.drafts < 2 or "?" in last.text, to: again}, {to: z}]}\n'
            '  again: {do: prompt, with: {user: "Shorter.", keep: true}, next: write}\n' + DONE
        )
        run = talk(body, ["long", "why?", "short"])
        assert run.run().output == "short"
        assert run.facts.run.visits["write"] == 3

    def test_a_profile_of_each_state(self) -> None:
        clock = ManualClock()
        replies = [
            {**call("send_message", message="Hello!"), "delay": "3s", "usage": {"prompt_tokens": 90, "completion_tokens": 10}},
            BUSY,
            {"text": "Done.", "delay": "5s", "usage": {"prompt_tokens": 110, "completion_tokens": 15}},
        ]  # fmt: skip
        run = load("agent").start("Go.", script=replies, clock=clock)
        result = run.run()
        assert list(result.profile) == ["user_message", "llm_inference", "tool_call"]
        assert result.profile["llm_inference"] == StateProfile(3, 1, 8.0, 5.0, 225)
        assert result.profile["tool_call"].tokens == 0
        assert result.elapsed == 3 + 1 + 5  # the wait before the retry is not part of it
        assert (
            load("agent").open(run.id, journal=run.session.journal).result.profile == result.profile
        )

    def test_a_profile_is_kept_in_snapshots(self) -> None:
        body = (
            "limits: {steps: 600}\nrules: [{when: run.steps >= limits.steps, stop: steps_limit}]\n"
            "states:\n  a: {do: act, next: a}\n" + DONE
        )
        run = talk(body)
        run.run()
        snapshot = Tally.from_dict(run.session.tally.to_dict())
        assert snapshot.profile == run.result.profile
        assert snapshot.profile["a"].attempts == 600

    def test_the_way_of_a_run_can_be_drawn(self) -> None:
        body = "states:\n  a: {do: nothing, next: b}\n  b: {do: report, next: z}\n"
        run = talk(body + DONE)
        run.run()
        picture = run.history[-1].output["picture"]
        assert [box.id for box in read_mermaid(picture).boxes] == ["a", "b"]

    def test_several_agents_work_for_one(self) -> None:
        body = (
            "model: {name: none}\nvars: {found: {type: any, value: null}}\noutput: vars.found\n"
            "machines:\n  searcher:\n    model: {name: none}\n    states:\n"
            "      ask: {do: receive, next: think}\n      think: {do: infer, next: over}\n"
            "      over: {stop: completed}\n"
            'states:\n  a: {do: run_machines, with: {machine: searcher, each: \'["Tea?", "Cake?"]\'},'
            " save: {vars.found: result.outputs}, next: z}\n"
        )
        used = {"prompt_tokens": 20, "completion_tokens": 5}
        run = talk(
            body + DONE, [{"text": "Green.", "usage": used}, {"text": "None.", "usage": used}]
        )
        result = run.run()
        assert result.output == {"1": "Green.", "2": "None."}
        assert result.facts.usage.total_tokens == 50
        assert result.profile["a"].tokens == 50

    def test_policies_of_a_step(self) -> None:
        body = (
            "model: {name: none}\ntools: [send_message, conversation_search]\nstates:\n"
            "  a: {do: infer, allow: [send_message], within: 10s, retry: {times: 1}, expired: late, next: z}\n"
            "  late: {stop: time_limit}\n" + DONE
        )
        late = {"text": "At last.", "delay": "11s"}
        result = talk(body, [BUSY, "Hi."]).run()
        assert (result.reason, result.steps) == ("completed", 2)
        assert talk(body, [late, late]).run().errors[0]["message"].startswith("infer took too long")
        model = Listening(ModelReply("Hi."))
        talk(body, model=model).run()
        assert [t["function"]["name"] for t in model.asked[0].tools] == ["send_message"]


LITELLM = [needs_litellm, QUIET]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=LITELLM) for n in ("agent", "step_agent", "step_choice")]
)
def test_each_machine_talks_to_a_real_provider(name: str) -> None:
    replies = [call("send_message", message="Hello!"), "I told them."]
    with LoopbackServer(replies) as server:
        settings = {"name": "openai/loopback", "api_base": server.url}
        run = load(name).start("Tell them.", settings=settings)
        result = run.run()
    assert (result.reason, result.facts.usage.llm_calls) == ("completed", 2)
    assert run.messages[-1]["content"] == "I told them."


# bad input ----------------------------------------------------------------------------------


class Bad(NamedTuple):
    """What a model asks for, and what it is told."""

    id: str
    name: str
    arguments: Any
    told: str


BAD = [
    Bad("arguments-that-are-no-json", "send_message", "{message: ", "error: "),
    Bad("arguments-that-are-no-mapping", "send_message", "[1]", "error: "),
    Bad("a-missing-argument", "send_message", "{}", "message"),
    Bad("an-argument-of-another-type", "conversation_search", '{"query": "x", "limit": "many"}', "limit"),
    Bad("an-unknown-argument", "send_message", '{"message": "Hi", "to": "Ann"}', "to"),
    Bad("an-unknown-tool", "send_mesage", "{}", "there is no tool `send_mesage`"),
    Bad("an-unknown-block", "core_memory_append", '{"block_name": "humann", "content": "x"}', "did you mean `human`?"),
    Bad("text-that-is-not-there", "core_memory_replace", '{"block_name": "human", "old_content": "x", "new_content": "y"}', "does not hold that text"),
    Bad("a-block-over-its-limit", "core_memory_append", '{"block_name": "human", "content": "%s"}' % ("x" * 1_001), "may hold 1000 characters"),
    Bad("a-block-that-is-not-there-to-read", "core_memory_read", '{"block_name": "diary"}', "no memory block `diary`"),
]  # fmt: skip


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.id)
def test_a_bad_call_is_told_to_the_model_and_counted(bad: Bad) -> None:
    asks = ModelReply("", (ToolCall("c1", bad.name, bad.arguments),))
    run = load("agent").start("Go.", model=Listening(asks, ModelReply("Sorry.")))
    result = run.run()
    assert (result.success, result.output) == (True, "Sorry.")
    (error,) = result.errors
    assert error["category"] == "RECOVERABLE"
    assert bad.told in error["message"]
    assert bad.told in run.messages[-2]["content"]
    (step,) = [s for s in run.history if s.type in ("tool-call", "memory-update")]
    assert bad.told in str(step.output)


def test_an_empty_reply_is_on_the_record() -> None:
    run = load("agent").start(
        "Go.", script=[{"text": "  ", "usage": {"prompt_tokens": 9, "completion_tokens": 1}}]
    )
    result = run.run()
    assert result.reason == "completed"
    assert result.warnings == ("the model gave an empty reply: neither text nor tool calls",)
    assert run.history[1].metadata["warnings"] == [
        "the model gave an empty reply: neither text nor tool calls"
    ]


@pytest.mark.parametrize("machine", ["agent", "step_agent", "step_choice"])
def test_no_task_and_no_history(machine: str) -> None:
    run = load(machine).start(script=["How can I help?"])
    result = run.run()
    assert (result.reason, result.facts.usage.llm_calls) == ("completed", 1)
    assert [m["role"] for m in run.messages] == ["assistant"]


class NoHistory(NamedTuple):
    """Something that is not a conversation, and what is wrong with it."""

    id: str
    messages: Any
    wrong: str


HELLO = {"role": "user", "content": "Hello."}
NO_HISTORY = [
    NoHistory("one-message", HELLO, "a list of messages"),
    NoHistory("a-text", "Hello.", "a list of messages"),
    NoHistory("texts", ["Hello."], "message 1 of `messages` is a str"),
    NoHistory("no-role", [HELLO, {"content": "Hi."}], "message 2 of `messages` has no role"),
    NoHistory("unknown-role", [{"role": "asistant", "content": "Hi."}], "has the role `asistant`"),
    NoHistory("no-content", [{"role": "user"}], "has no content"),
    NoHistory("content-of-a-kind", [{"role": "user", "content": 5}], "content that is a int"),
    NoHistory("calls-of-a-user", [{**HELLO, "tool_calls": []}], "no calls of the assistant"),
    NoHistory("calls-that-are-none", [{"role": "assistant", "content": "", "tool_calls": [{"name": "x"}]}], "an invalid tool call"),
    NoHistory("a-reply-to-nothing", [{"role": "tool", "content": "42"}], "answers no call"),
]  # fmt: skip


@pytest.mark.parametrize("given", NO_HISTORY, ids=lambda given: given.id)
def test_a_history_that_is_no_conversation_is_refused_before_the_run(given: NoHistory) -> None:
    with pytest.raises(SetupError, match="not a conversation to continue") as caught:
        load("agent").start("Go.", messages=given.messages, script=[])
    assert given.wrong in str(caught.value)


CALL: dict[str, Any] = {
    "id": "c1",
    "type": "function",
    "function": {"name": "x", "arguments": "{}"},
}
ODD: dict[str, Sequence[dict[str, Any]]] = {
    "a-call-without-a-reply": [HELLO, {"role": "assistant", "content": "", "tool_calls": [CALL]}],
    "a-reply-without-a-call": [{"role": "tool", "tool_call_id": "c9", "content": "42"}, HELLO],
    "the-assistant-begins": [{"role": "assistant", "content": "Hi!"}],
    "no-calls-at-all": [{"role": "assistant", "content": None, "tool_calls": []}, HELLO],
}


@pytest.mark.parametrize("name", ODD)
def test_an_odd_history_is_sent_as_providers_take_it(name: str) -> None:
    model = Listening(ModelReply("Hi."))  # refuses what a provider would
    result = load("agent").run("Go on.", messages=ODD[name], model=model)
    assert (result.success, result.output) == (True, "Hi.")
