"""`receive`, `prompt`, `infer`: what a model is sent, and what its reply changes."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop.actions.declare import tool_spec
from chartloop.core.errors import SetupError
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message
from chartloop.core.transcript import NO_REPLY, Conversation
from chartloop.run.ports import ModelReply
from tests.support import start
from tests.talks import Listening, call, outcomes, provider_says, talk, written

END = "  z: {stop: completed}\n"


def said(run_messages: Any) -> list[tuple[str, Any]]:
    return [(m["role"], m["content"]) for m in run_messages]


class Priced(NamedTuple):
    id: str
    model: str
    reply: ModelReply
    cost: float | None


PRICES = "name: scripted, input_cost_per_token: 0.5, output_cost_per_token: 2"


@pytest.mark.parametrize(
    "case",
    [
        Priced("by-the-file", PRICES, ModelReply("a", prompt_tokens=4, completion_tokens=3), 8.0),
        Priced("by-the-port", PRICES, ModelReply("a", prompt_tokens=4, cost=0.25), 0.25),
        Priced("for-nothing", PRICES, ModelReply("a", prompt_tokens=4, cost=0.0), 0.0),
        Priced(
            "one-price",
            "name: x, input_cost_per_token: 0.5",
            ModelReply("a", prompt_tokens=4),
            None,
        ),
        Priced("no-price", "name: scripted", ModelReply("a", prompt_tokens=4), None),
        Priced("fallbacks", f"{PRICES}, fallbacks: [b]", ModelReply("a", prompt_tokens=4), None),
    ],
    ids=lambda case: case.id,
)
def test_what_a_call_cost(case: Priced) -> None:
    run = talk(
        f"model: {{{case.model}}}\nstates:\n  a: {{do: infer, next: z}}\n{END}",
        model=Listening(case.reply),
    )
    run.run()
    assert run.facts.usage.cost == case.cost


def test_estimated_tokens_have_their_price_too() -> None:
    run = talk(
        f"model: {{{PRICES}}}\nstates:\n  a: {{do: infer, next: z}}\n{END}",
        model=Listening(ModelReply("some words")),
    )
    run.run()
    usage = run.facts.usage
    assert usage.completion_tokens > 0
    assert usage.cost == usage.prompt_tokens * 0.5 + usage.completion_tokens * 2


class TestReceive:
    BODY = "states:\n  a: {do: receive, next: z}\n" + END

    def test_the_task_is_the_first_message(self) -> None:
        run = start(self.BODY)
        run.run()
        assert said(run.messages) == [("user", "task")]
        assert outcomes(run, "a")[0].result == {"text": "task"}

    def test_a_conversation_goes_on_without_a_task(self) -> None:
        run = talk(self.BODY, task="", messages=[{"role": "user", "content": "hi"}])
        assert run.run().reason == "completed"
        assert said(run.messages) == [("user", "hi")]

    def test_nothing_to_receive_is_a_failure(self) -> None:
        run = talk(self.BODY, task="")
        assert run.run().reason == "error"
        assert run.result.errors[0]["category"] == "RECOVERABLE"

    def test_it_is_upkeep(self) -> None:
        run = start(self.BODY)
        run.run()
        assert (run.facts.run.steps, run.facts.progress.recent) == (1, ())


CHAT = """
instructions: "Be {{ vars.tone }}."
vars: {tone: kind}
memory: {persona: "I am it.", secret: {value: "s", label: "hidden"}}
states:
  a: {do: receive, next: b}
  b: {do: infer, next: z}
  z: {stop: completed}
"""


class TestInfer:
    def test_it_sends_instructions_memory_and_conversation(self) -> None:
        model = Listening(ModelReply("hello", (), "stop", 12, 3, 0.5, "named"))
        run = talk(CHAT, model=model)
        run.run()
        (asked,) = model.asked
        head = "Be kind.\n\n<persona>\nI am it.\n</persona>\n\n<hidden>\ns\n</hidden>"
        assert said(asked.messages) == [("system", head), ("user", "task")]
        assert said(run.messages) == [("user", "task"), ("assistant", "hello")]
        assert (asked.tools, asked.tool_choice, asked.output, asked.number) == ((), None, None, 0)

    def test_memory_that_the_instructions_show_is_not_sent_twice(self) -> None:
        model = Listening(ModelReply("hello"))
        talk(CHAT.replace("{{ vars.tone }}", "{{ memory.persona }}"), model=model).run()
        assert model.asked[0].messages[0]["content"] == "Be I am it..\n\n<hidden>\ns\n</hidden>"

    def test_a_block_with_a_template_is_shown_by_it(self) -> None:
        model = Listening(ModelReply("hello"))
        body = CHAT.replace(
            'label: "hidden"', 'label: "hidden", template: "{{ label }}={{ value }}"'
        )
        talk(body, model=model).run()
        assert model.asked[0].messages[0]["content"].endswith("hidden=s")

    def test_what_it_came_to(self) -> None:
        run = talk(CHAT, model=Listening(ModelReply("hello", (), "length", 12, 3, 0.5, "named")))
        run.run()
        (outcome,) = outcomes(run, "b")
        assert outcome.result == {
            "text": "hello",
            "finish_reason": "length",
            "model": "named",
            "tool_calls": [],
        }
        assert (
            outcome.spent.llm_calls,
            outcome.spent.prompt_tokens,
            outcome.spent.completion_tokens,
        ) == (1, 12, 3)
        assert (outcome.spent.cost, outcome.spent.estimated) == (0.5, False)
        assert (run.facts.last.text, run.facts.last.finish_reason) == ("hello", "length")
        assert run.facts.usage.context_tokens == 15

    def test_a_reply_without_usage_is_estimated_and_marked(self) -> None:
        run = talk(CHAT, model=Listening(ModelReply("hello")))
        result = run.run()
        (outcome,) = outcomes(run, "b")
        assert outcome.spent.estimated
        assert outcome.spent.prompt_tokens > 0
        assert outcome.spent.completion_tokens > 0
        assert any("estimated" in w for w in result.warnings)

    def test_the_call_has_a_key_and_a_number(self) -> None:
        model = Listening(ModelReply("one"), ModelReply("two"))
        run = talk(
            "states:\n  a: {do: infer, next: [{when: usage.llm_calls >= 2, to: z}, {to: a}]}\n"
            + END,
            model=model,
        )
        run.run()
        assert [m.number for m in model.asked] == [0, 1]
        assert len({m.key for m in model.asked}) == 2

    def test_settings_come_from_the_file_the_caller_and_the_state(self) -> None:
        model = Listening(ModelReply("one"))
        body = (
            "model: {name: filed, temperature: 0.1, seed: 4}\nstates:\n  a: {do: infer, with: {temperature: 0.7, model: 'st-{{ run.steps }}'}, next: z}\n"
            + END
        )
        talk(body, model=model).run()
        assert model.asked[0].settings == {"name": "st-0", "temperature": 0.7, "seed": 4}

    def test_only_the_tools_that_the_state_allows_are_sent(self) -> None:
        tools = [tool_spec(lambda: 1, name="one"), tool_spec(lambda: 1, name="two")]
        body = (
            "tools: [two, one]\nstates:\n  a: {do: infer, with: {tool_choice: auto}, next: b}\n  b: {do: infer, allow: [one], next: c}\n  c: {do: infer, allow: [], with: {tool_choice: auto}, next: z}\n"
            + END
        )
        model = Listening(*[ModelReply("x")] * 3)
        talk(body, (), tools, model=model).run()
        assert [[t["function"]["name"] for t in m.tools] for m in model.asked] == [
            ["two", "one"],
            ["one"],
            [],
        ]
        assert [m.tool_choice for m in model.asked] == ["auto", None, None]

    def test_keep_false_leaves_the_reply_out_of_the_conversation(self) -> None:
        run = talk(
            "states:\n  a: {do: receive, next: b}\n  b: {do: infer, with: {keep: false}, next: z}\n"
            + END,
            ["hello"],
        )
        result = run.run()
        assert said(run.messages) == [("user", "task")]
        assert result.output == "hello"

    def test_a_failed_call_is_on_the_record(self) -> None:
        error = {
            "error": {"category": "RECOVERABLE", "message": "too long", "kind": "context_overflow"}
        }
        run = talk(
            "states:\n  a: {do: infer, failed: b, next: z}\n  b: {do: infer, next: z}\n" + END,
            [error, "yes"],
        )
        result = run.run()
        failed = outcomes(run, "a")[0]
        assert failed.error is not None
        assert (failed.error.category, failed.error.kind, failed.unanswered) == (
            "RECOVERABLE",
            "context_overflow",
            1,
        )
        assert result.output == "yes"
        assert run.facts.usage.llm_calls == 1

    def test_without_a_model_the_run_does_not_begin(self) -> None:
        with pytest.raises(SetupError, match="names no model"):
            talk(CHAT, model=None)


class Schema(NamedTuple):
    """A reply to a question for JSON."""

    id: str
    text: str
    problem: str


SCHEMAS = [
    Schema("fits", '{"n": 1}', ""),
    Schema("not JSON", "n is 1", "the reply is not JSON"),
    Schema("lacks a field", "{}", '"n" is a required property (`required`)'),
    Schema("another type", '{"n": "1"}', 'n: "1" is not of type "integer" (`type`)'),
    Schema("true is not a number", '{"n": true}', 'n: true is not of type "integer" (`type`)'),
    Schema("too much", '{"n": 1, "m": 2}', "'m' was unexpected"),
    Schema("no object", "[1]", 'the reply: [1] is not of type "object"'),
    Schema("too deep", "[" * 100_000, "the reply is not JSON"),
    Schema("no number", '{"n": NaN}', "the reply is not JSON"),
]


@pytest.mark.parametrize("case", SCHEMAS, ids=lambda case: case.id)
def test_output_of_a_schema(case: Schema) -> None:
    schema = "{type: object, required: [n], properties: {n: {type: integer}}, additionalProperties: false}"
    run = talk(
        f"states:\n  a: {{do: infer, with: {{output: {schema}}}, failed: next, next: z}}\n" + END,
        [case.text],
    )
    run.run()
    (outcome,) = outcomes(run, "a")
    assert outcome.ok == (not case.problem)
    if outcome.error is None:
        assert outcome.result["data"] == {"n": 1}
    else:
        assert case.problem in outcome.error.message
        assert outcome.error.category == "RECOVERABLE"
    assert run.facts.usage.llm_calls == 1
    written(run)


PROMPT = (
    "vars: {x: one}\nstates:\n  a: {do: receive, next: b}\n  b: {do: prompt, with: {user: 'Say {{ vars.x }}'%s}, next: c}\n  c: {do: infer, next: d}\n  d: {do: infer, next: z}\n"
    + END
)


class TestPrompt:
    def test_it_is_for_the_next_call_only_and_leaves_no_trace(self) -> None:
        model = Listening(ModelReply("one", (), "stop", 5, 5), ModelReply("two", (), "stop", 7, 1))
        run = talk(PROMPT % ", system: Brief.", model=model)
        run.run()
        assert said(model.asked[0].messages) == [("system", "Brief."), ("user", "Say one")]
        assert said(model.asked[1].messages) == [("user", "task")]
        assert said(run.messages) == [("user", "task"), ("assistant", "two")]
        assert outcomes(run, "b")[0].result == {
            "messages": [
                {"role": "system", "content": "Brief."},
                {"role": "user", "content": "Say one"},
            ]
        }
        assert outcomes(run, "c")[0].reply is not None  # on the record
        assert (
            run.facts.usage.context_tokens == 8
        )  # the prompt's own size is not the conversation's

    def test_the_instructions_are_its_system_message_by_default(self) -> None:
        model = Listening(ModelReply("one"), ModelReply("two"))
        talk("instructions: Be.\n" + PROMPT % "", model=model).run()
        assert said(model.asked[0].messages) == [("system", "Be."), ("user", "Say one")]

    def test_keep_puts_text_and_reply_into_the_conversation(self) -> None:
        model = Listening(ModelReply("one"), ModelReply("two"))
        run = talk(PROMPT % ", keep: true", model=model)
        run.run()
        assert said(model.asked[0].messages) == [("user", "task"), ("user", "Say one")]
        assert said(run.messages)[1:3] == [("user", "Say one"), ("assistant", "one")]

    def test_keep_with_a_system_message_of_its_own(self) -> None:
        model = Listening(ModelReply("one"), ModelReply("two"))
        run = talk(PROMPT % ", system: Brief., keep: true", model=model)
        run.run()
        assert said(model.asked[0].messages) == [
            ("system", "Brief."),
            ("user", "task"),
            ("user", "Say one"),
        ]
        assert [r for r, _ in said(run.messages)] == ["user", "user", "assistant", "assistant"]

    def test_tool_calls_bring_the_question_into_the_conversation(self) -> None:
        body = (
            "tools: [one]\nstates:\n  b: {do: prompt, with: {user: Say}, next: c}\n  c: {do: infer, next: d}\n  d: {do: call_tools, next: e}\n  e: {do: infer, next: z}\n"
            + END
        )
        run = talk(body, [call("one"), "done"], [tool_spec(lambda: 1, name="one")])
        run.run()
        assert [m["role"] for m in run.messages] == ["user", "assistant", "tool", "assistant"]
        assert provider_says(run.messages) is None


def asks(*ids: str) -> Message:
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": i, "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in ids
    ]}  # fmt: skip


def reply(id_: str, text: str = "r") -> Message:
    return {"role": "tool", "tool_call_id": id_, "name": "f", "content": text}


USER: Message = {"role": "user", "content": "u"}


class Mess(NamedTuple):
    """A conversation, and the roles and contents of what is sent."""

    id: str
    messages: tuple[Message, ...]
    sent: list[str]


MESSES = [
    Mess("in order", (USER, asks("1", "2"), reply("1"), reply("2"), USER), ["u", "", "r", "r", "u"]),
    Mess("no reply at all", (USER, asks("1"), USER), ["u", "", NO_REPLY, "u"]),
    Mess("one reply of two", (USER, asks("1", "2"), reply("2")), ["u", "", NO_REPLY, "r"]),
    Mess("at the end", (USER, asks("1")), ["u", "", NO_REPLY]),
    Mess("something between", (USER, asks("1"), USER, reply("1")), ["u", "", "r", "u"]),
    Mess("a reply to nothing", (reply("9"), USER), ["u"]),
    Mess("a reply to something else", (USER, asks("1"), reply("9"), reply("1")), ["u", "", "r"]),
    Mess("a reply twice", (asks("1"), reply("1"), reply("1", "again"), USER), ["", "r", "u"]),
    Mess("the same id twice", (asks("1", "1"), reply("1", "a"), reply("1", "b"), USER), ["", "a", "b", "u"]),
    Mess("out of order", (asks("1", "2"), reply("2", "b"), reply("1", "a"), USER), ["", "a", "b", "u"]),
]  # fmt: skip


@pytest.mark.parametrize("case", MESSES, ids=lambda case: case.id)
def test_what_is_sent_is_what_providers_take(case: Mess) -> None:
    sent = Conversation(case.messages).sendable()
    assert [m["content"] for m in sent] == case.sent
    assert provider_says(sent) is None


def test_calls_that_nobody_carries_out_do_not_end_the_conversation() -> None:
    model = Listening(
        ModelReply("", (ToolCall("1", "one", "{}"),), "tool_calls"), ModelReply("done")
    )
    body = "tools: [one]\nstates:\n  a: {do: infer, next: b}\n  b: {do: infer, next: z}\n" + END
    run = talk(body, (), [tool_spec(lambda: 1, name="one")], model=model)
    assert run.run().output == "done"
    assert model.asked[1].messages[-1]["content"] == NO_REPLY


def test_wants_memory_is_for_replies_that_ask_for_nothing_else() -> None:
    tools = [tool_spec(lambda: 1, name="one")]
    memory = {"name": "core_memory_append", "arguments": {"block_name": "b", "content": "x"}}
    body = (
        "tools: [core_memory_append, one]\nmemory: {b: ''}\nstates:\n  a: {do: infer, next: z}\n"
        + END
    )
    seen: list[bool] = []
    for asked in ([memory], [memory, {"name": "one"}], [{"name": "one"}], []):
        run = talk(body, [{"text": "t", "tool_calls": asked}], tools)
        run.run()
        seen.append(run.facts.last.wants_memory)
    assert seen == [True, False, False, False]
