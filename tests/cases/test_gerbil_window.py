"""Document 004, "Context Window Manager", "Performance Considerations", and its memory blocks."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

import pytest

from chartloop import Run, SpecError, load
from chartloop.compat.context_window import (
    ContextUsage,
    ContextWindow,
    Strategy,
    analyze_usage,
    aoptimize,
    count_block_tokens,
    count_message_tokens,
    count_messages_tokens,
    count_system_tokens,
    estimate_tokens,
    fits,
    optimize,
)
from chartloop.core.conversation import assistant, tool_reply, user
from chartloop.core.errors import LimitError, ModelError, SetupError
from chartloop.core.facts import ToolCall
from chartloop.core.outcome import Message
from chartloop.run.ports import ModelReply
from chartloop.testing import LoopbackServer, Scripted
from tests.talks import Listening, call, outcomes, provider_says, talk
from tests.tool_loop import QUIET, needs_litellm

CALL = ToolCall("c1", "send_message", '{"message": "Hello!"}')
EACH = 54
"""Tokens of each message of `said`: 50 of its text, 4 of its frame."""


def said(count: int) -> list[Message]:
    """So many messages, from both sides in turn."""
    return [
        (user if n % 2 == 0 else assistant)(f"message {n:3} " + "x" * 188) for n in range(count)
    ]


def numbers(messages: Any) -> list[int]:
    """Which of them are left."""
    return [int(m["content"][8:11]) for m in messages if m["content"].startswith("message ")]


class TestTheManager:
    def test_by_default(self) -> None:
        window = ContextWindow()
        assert (window.max_tokens, window.room, window.strategy) == (100_000, 100_000, "sliding")

    def test_with_settings_of_its_own(self) -> None:
        window = ContextWindow(
            50_000, system_tokens=1_000, response_tokens=2_048, strategy="sliding"
        )
        assert window.room == 46_952

    @pytest.mark.parametrize(
        ("most", "system", "response"), [(0, 0, 0), (3_048, 1_000, 2_048), (9, -1, 0)]
    )
    def test_one_with_no_room_is_refused(self, most: int, system: int, response: int) -> None:
        with pytest.raises(LimitError, match="no room"):
            ContextWindow(most, system, response)

    def test_a_strategy_that_is_none_is_refused(self) -> None:
        with pytest.raises(
            SetupError, match="truncate, sliding or summarize, not 'slide'"
        ) as caught:
            ContextWindow(strategy="slide")  # pyright: ignore[reportArgumentType]
        assert "did you mean `sliding`?" in str(caught.value)


class TestTokenCounting:
    def test_in_text(self) -> None:
        assert estimate_tokens("Hello, world!") == 4
        assert estimate_tokens("") == 0

    def test_in_a_message(self) -> None:
        assert count_message_tokens(user("Hello, world!")) == 8
        assert count_message_tokens(assistant("", [CALL])) > 8

    def test_in_messages(self) -> None:
        assert count_messages_tokens(said(3)) == 3 * EACH == sum(map(count_message_tokens, said(3)))

    def test_in_messages_as_a_tokenizer_counts_them(self) -> None:
        class Whole:
            def count(self, messages: Any) -> int:
                return 1_000 * len(messages)

        assert count_messages_tokens(said(3), tokenizer=Whole()) == 3_000
        assert not fits(ContextWindow(2_999, tokenizer=Whole()), said(3))

    def test_in_a_memory_block(self) -> None:
        assert count_block_tokens("persona", "I am helpful.") == estimate_tokens(
            "<persona>\nI am helpful.\n</persona>"
        )

    def test_in_the_blocks_of_a_machine(self) -> None:
        blocks = load("agent").spec.memory
        assert count_block_tokens("persona", blocks["persona"]) == estimate_tokens(
            "<Persona>\nI am a helpful assistant.\n</Persona>"
        )
        assert count_block_tokens("notes", blocks["notes"]) < 20

    def test_in_the_system_message(self) -> None:
        told = {"human": "Ann", "task": "Tea"}
        model = Listening(ModelReply("Hi."))
        body = "instructions: I help.\nmodel: {name: none}\nmemory: {human: Ann, task: Tea}\n"
        talk(
            body
            + "states:\n  a: {do: receive, next: b}\n  b: {do: infer, next: z}\n  z: {stop: completed}\n",
            model=model,
        ).run()
        sent = model.asked[0].messages[0]
        assert count_system_tokens("I help.", told) == count_message_tokens(sent)


class Full(NamedTuple):
    """A window, how many messages, and how full it is."""

    id: str
    window: ContextWindow
    messages: int
    usage: ContextUsage


FULL = [
    Full("nothing-said", ContextWindow(1_000), 0, ContextUsage(0, 1_000, 0.0, True)),
    Full("half", ContextWindow(1_080), 10, ContextUsage(540, 540, 50.0, True)),
    Full("to-the-last-token", ContextWindow(540), 10, ContextUsage(540, 0, 100.0, True)),
    Full("one-too-many", ContextWindow(539), 10, ContextUsage(540, 0, 54_000 / 539, False)),
    Full("reserve", ContextWindow(1_000, 100, 300), 10, ContextUsage(640, 60, 64.0, True)),
    Full("into-the-reserve", ContextWindow(1_000, 100, 361), 10, ContextUsage(640, 0, 64.0, False)),
]  # fmt: skip


class TestContextAnalysis:
    @pytest.mark.parametrize("full", FULL, ids=lambda full: full.id)
    def test_how_full_it_is(self, full: Full) -> None:
        usage = analyze_usage(full.window, said(full.messages))
        assert usage == full.usage
        assert fits(full.window, said(full.messages)) is full.usage.fits

    def test_a_run_knows_it_too(self) -> None:
        run = load("agent").start("Hello.", script=["Hi."], settings={"context_window": 10_000})
        run.run()
        assert run.facts.usage.context_window == 10_000
        assert 0 < run.facts.usage.context_ratio == run.facts.usage.context_tokens / 10_000


class Kept(NamedTuple):
    """A strategy, the room for ten messages, and which of them stay."""

    id: str
    strategy: Strategy
    room: int
    kept: list[int]


KEPT = [
    Kept("truncate-removes-the-oldest", "truncate", 4 * EACH, [6, 7, 8, 9]),
    Kept("truncate-until-it-fits", "truncate", 5 * EACH - 1, [6, 7, 8, 9]),
    Kept("truncate-keeps-the-newest", "truncate", 1, [9]),
    Kept("sliding-keeps-the-first-too", "sliding", 5 * EACH, [0, 1, 7, 8, 9]),
    Kept("sliding-with-little-room", "sliding", 2 * EACH, [0, 9]),
    Kept("sliding-keeps-the-newest", "sliding", 1, [9]),
    Kept("summarize-keeps-the-newest", "summarize", 4 * EACH, [8, 9]),
    *(
        Kept(f"{s}-leaves-what-fits", s, 10 * EACH, list(range(10)))
        for s in ("truncate", "sliding", "summarize")
    ),
]  # fmt: skip


class TestOptimization:
    @pytest.mark.parametrize("kept", KEPT, ids=lambda kept: kept.id)
    def test_what_stays(self, kept: Kept) -> None:
        window = ContextWindow(kept.room, strategy=kept.strategy)
        short = optimize(window, said(10), model=Scripted(["Ann wants tea."]))
        assert numbers(short) == kept.kept
        assert fits(window, short) is (kept.room > 1)

    def test_what_is_kept_free_is_not_used(self) -> None:
        window = ContextWindow(
            10 * EACH, system_tokens=EACH, response_tokens=2 * EACH, strategy="truncate"
        )
        assert numbers(optimize(window, said(10))) == list(range(3, 10))

    def test_a_summary_takes_the_place_of_older_messages(self) -> None:
        model = Listening(ModelReply("Ann wants tea."))
        window = ContextWindow(4 * EACH, strategy="summarize")
        short = optimize(window, said(10), model=model, settings={"temperature": 0.0})
        assert short[0]["content"] == "Summary of the conversation so far:\n\nAnn wants tea."
        (asked,) = model.asked
        assert asked.messages[-1]["content"].startswith("Summarize the conversation")
        assert asked.settings == {"temperature": 0.0}
        assert count_messages_tokens(asked.messages) <= window.max_tokens

    def test_inside_a_loop(self) -> None:
        window = ContextWindow(4 * EACH, strategy="summarize")
        short = asyncio.run(aoptimize(window, said(10), model=Scripted(["Tea."])))
        assert numbers(short) == [8, 9]

    @pytest.mark.slow("takes seconds")
    @needs_litellm
    @QUIET
    def test_a_summary_by_a_model_over_the_wire(self) -> None:
        with LoopbackServer(["Ann wants tea."]) as server:
            window = ContextWindow(4 * EACH, strategy="summarize")
            short = optimize(
                window, said(10), model="openai/loopback", settings={"api_base": server.url}
            )
        assert short[0]["content"].endswith("Ann wants tea.")

    def test_a_summary_needs_a_model(self) -> None:
        with pytest.raises(SetupError, match="needs a model"):
            optimize(ContextWindow(9, strategy="summarize"), said(2))

    def test_a_summary_that_fails_is_an_error_and_nothing_is_lost(self) -> None:
        busy = Scripted([{"error": {"category": "TRANSIENT", "message": "busy"}}])
        messages = said(10)
        with pytest.raises(ModelError, match="busy"):
            optimize(ContextWindow(4 * EACH, strategy="summarize"), messages, model=busy)
        assert messages == said(10)

    @pytest.mark.parametrize("strategy", ["truncate", "sliding", "summarize"])
    def test_a_call_and_its_reply_stay_together(self, strategy: Strategy) -> None:
        talked = [*said(6), assistant("", [CALL]), tool_reply(CALL, "x" * 200), *said(2)]
        for room in range(60, 500, 20):
            window = ContextWindow(room, strategy=strategy)
            short = optimize(window, talked, model=Scripted(["Tea."]))
            assert provider_says(short) is None

    def test_before_an_agent_is_run(self) -> None:
        window = ContextWindow(5 * EACH, strategy="sliding")
        model = Listening(ModelReply("Done."))
        result = load("agent").run("Go on.", messages=optimize(window, said(10)), model=model)
        assert result.success
        assert numbers(model.asked[0].messages) == [0, 1, 7, 8, 9]


class TestPerformance:
    def test_the_context_is_kept_below_its_limit_by_the_machine(self) -> None:
        big = {"text": "y" * 40_000, "usage": {"prompt_tokens": 9_000, "completion_tokens": 700}}
        again = [{**big, **call("send_message", message=f"page {n}")} for n in range(6)]
        run = load("agent").start(
            "Read it.", script=[*again, "Read."], settings={"context_window": 16_000},
            limits={"context": "60%", "tokens": 900_000},
        )  # fmt: skip
        assert run.run().success
        assert run.facts.run.visits["prune"] >= 2
        (first, *_) = [o for o in outcomes(run, "prune") if o.ok]
        assert first.result["after"] < first.result["before"]

    @pytest.mark.parametrize(("tokens", "pruned"), [(9_499, 0), (9_500, 1)])
    def test_the_context_is_pruned_at_its_share_not_past_it(self, tokens: int, pruned: int) -> None:
        """The reply of the tool counts as well: how much it is, a first run tells."""

        def asked_again(used: int) -> Run:
            usage = {"prompt_tokens": used - 100, "completion_tokens": 100}
            asks = {**call("send_message", message="Hi."), "usage": usage}
            run = load("agent").start(
                "Hi.", script=[asks, "Done.", "Done."], settings={"context_window": 10_000}
            )
            while run.state != "tool_call":
                run.advance()
            run.advance()
            return run

        reply = asked_again(1_000).facts.usage.context_tokens - 1_000
        run = asked_again(tokens - reply)
        assert run.facts.usage.context_ratio == tokens / 10_000
        run.run()
        assert run.facts.run.visits.get("prune", 0) == pruned

    def test_usage_of_tokens_is_tracked(self) -> None:
        run = load("agent").start(
            "Hi.", script=[{"text": "Hi.", "usage": {"prompt_tokens": 40, "completion_tokens": 2}}]
        )
        run.run()
        usage = run.facts.usage
        assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (40, 2, 42)


BLOCKS = """\
model: {name: none}
tools: [core_memory_read]
memory:
  persona: {label: Persona, value: I am a helpful AI assistant., limit: 1000}
  human: {label: Human, value: The user I am assisting., template: "{{ label }}: {{ value }}", limit: 1000}
  notes: {label: Notes, value: She likes tea., limit: 1000, on_demand: true}
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: look}, {to: z}]}
  look: {do: call_tools, next: think}
  z: {stop: completed}
"""


class TestMemoryBlocks:
    def test_label_and_template(self) -> None:
        model = Listening(ModelReply("Hi."))
        talk(BLOCKS, model=model).run()
        system = model.asked[0].messages[0]["content"]
        assert "<Persona>\nI am a helpful AI assistant.\n</Persona>" in system
        assert "Human: The user I am assisting." in system

    def test_one_that_is_read_on_demand(self) -> None:
        wants = ModelReply("", (ToolCall("c1", "core_memory_read", '{"block_name": "notes"}'),))
        model = Listening(wants, ModelReply("Tea!"))
        run = talk(BLOCKS, model=model)
        assert run.run().output == "Tea!"
        before, after = (asked.messages for asked in model.asked)
        assert "She likes tea." not in str(before)
        assert "Memory block `notes` (Notes): 14 characters, read by core_memory_read." in str(
            before
        )
        assert after[-1]["content"] == "<Notes>\nShe likes tea.\n</Notes>"

    def test_one_that_no_tool_can_read_is_a_mistake(self) -> None:
        with pytest.raises(SpecError, match="read on demand, and the machine has no tool"):
            talk(BLOCKS.replace("tools: [core_memory_read]\n", ""))

    def test_a_limit(self) -> None:
        wanted = call("core_memory_append", block_name="persona", content="x" * 2_000)
        run = load("agent").start("Go.", script=[wanted, "Too long."])
        assert run.run().success
        assert run.facts.memory["persona"] == "I am a helpful assistant."
        assert "may hold 1000 characters" in run.messages[-2]["content"]
