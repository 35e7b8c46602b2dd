"""Thinking blocks over real HTTP, in the formats of two providers: kept, given back, recorded."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import load
from chartloop.adapters.model.thinking import (
    BROKEN,
    HIDDEN,
    LOST,
    UNKNOWN,
    ReceivedReasoning,
    lost_blocks,
    with_reasoning,
)
from chartloop.adapters.model.wire import Measured, Wire
from chartloop.api import Machine
from chartloop.core.reasoning import reasoning_text, say_reasoning
from chartloop.run.result import Result
from chartloop.testing import LoopbackServer
from tests.provider import SECRET, STREAM, Provider, event, http, reply
from tests.tool_loop import CLAUDE, WITH_KEYS, add, http_model, needs_litellm, tool_loop

pytestmark = [needs_litellm, *WITH_KEYS]


THINKING = "extra: {thinking: {type: enabled, budget_tokens: 1_024}}"


def machine(
    name: str, url: str, *, stream: bool = False, more: str = "", state: str = ""
) -> Machine:
    settings = f"stream: {str(stream).lower()}, max_tokens: 2_000, {more}"
    return tool_loop(http_model(name, url, settings), state=state)


def claude(server: LoopbackServer, **more: Any) -> Machine:
    return machine(f"anthropic/{CLAUDE}", server.messages_url, more=THINKING, **more)


BLOCKS = [
    {"type": "thinking", "thinking": "Add 1 to it.", "signature": "sig-1=="},
    {"type": "redacted_thinking", "data": "EmwKAhgBEgy3va3pzix/LafPsn4aDFIT"},
    {"type": "thinking", "thinking": "", "signature": "sig-2=="},
]
CALL: dict[str, Any] = {"text": "Adding.", "tool_calls": [{"name": "add", "arguments": {"x": 1}}]}
USED = {
    "prompt_tokens": 100,
    "completion_tokens": 40,
    "cached_tokens": 20,
    "cache_write_tokens": 30,
}
THOUGHT: dict[str, Any] = {**CALL, "reasoning": BLOCKS, "usage": USED}


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param


def assistant(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return next(m for m in body["messages"] if m["role"] == "assistant")


class TestAnthropic:
    def test_blocks_are_given_back_unchanged_with_the_tool_results(self, stream: bool) -> None:
        with LoopbackServer([THOUGHT, "1"], models=[CLAUDE]) as server:
            result = claude(server, stream=stream).run("a task")
        assert (str(result.reason), result.output) == ("completed", "1")
        sent = server.requests[1].body
        content = assistant(sent)["content"]
        assert content[:3] == BLOCKS
        assert [block["type"] for block in content[3:]] == ["text", "tool_use"]

    def test_they_are_neither_text_nor_result_nor_fact(self, stream: bool) -> None:
        with LoopbackServer([THOUGHT, "1"], models=[CLAUDE]) as server:
            run = claude(server, stream=stream).start("a task")
            run.run()
        outcome = run.records[2].outcome
        assert outcome is not None
        assert outcome.reply is not None
        sender = {"provider": "anthropic", "model": f"anthropic/{CLAUDE}"}
        assert outcome.reply.reasoning == {**sender, "thinking_blocks": BLOCKS}
        assert "reasoning" not in outcome.result
        assert "Add 1 to it." not in json.dumps(run.result.to_dict())

    def test_a_whole_and_a_streamed_reply_are_the_same_message(self) -> None:
        messages: list[Any] = []
        for stream in (False, True):
            with LoopbackServer([THOUGHT, "1"], models=[CLAUDE]) as server:
                run = claude(server, stream=stream).start("a task")
                run.run()
                messages.append(run.records[2].outcome)
        assert messages[0].reply == messages[1].reply
        assert messages[0].spent == messages[1].spent

    def test_a_resumed_run_gives_them_back_from_the_journal(self, tmp_path: Path) -> None:
        large = [{**BLOCKS[0], "thinking": "long " * 10_000}]
        with LoopbackServer([{**THOUGHT, "reasoning": large}, "1"], models=[CLAUDE]) as server:
            made, journal = claude(server), tmp_path / "j.db"
            run = made.start("a task", journal=journal)
            while run.state != "u":
                run.step()
            result = made.open(run.id, journal=journal, take_over=True).run()
        assert result.output == "1"
        assert assistant(server.requests[1].body)["content"][0] == large[0]
        with contextlib.closing(sqlite3.connect(journal)) as db:
            large_events = db.execute("SELECT 1 FROM event WHERE length(data) > 20000").fetchall()
            blobs = db.execute("SELECT count(*) FROM blob WHERE length(data) > 20000").fetchone()
        assert (large_events, blobs) == ([], (1,)), "it is in the journal once, as a blob"

    def test_a_block_in_which_the_journal_hid_a_secret_is_not_sent(self, tmp_path: Path) -> None:
        blocks = [{**BLOCKS[0], "thinking": f"It is {SECRET}, so I add."}]
        with LoopbackServer([{**THOUGHT, "reasoning": blocks}, "1"], models=[CLAUDE]) as server:
            made, journal = claude(server), tmp_path / "j.db"
            run = made.start("a task", journal=journal)
            while run.state != "u":
                run.step()
            result = made.open(run.id, journal=journal, take_over=True).run()
        assert SECRET.encode() not in b"".join(p.read_bytes() for p in tmp_path.iterdir())
        assert HIDDEN in result.warnings or "thinking block" in str(result.errors)
        assert [b["type"] for b in assistant(server.requests[1].body)["content"]] == [
            "text", "tool_use",
        ]  # fmt: skip

    def test_a_refused_block_is_named_with_its_cure(self, stream: bool) -> None:
        made: list[str] = []
        with LoopbackServer([THOUGHT, "1"], models=[CLAUDE]) as server:
            machine = claude(server, stream=stream)
            run = machine.start("a task")
            while run.state != "u":
                run.step()
            server.forget_signatures()
            result = run.run()
            made += [str(error["message"]) for error in result.errors]
        assert str(result.reason) == "error"
        assert "Invalid `signature` in `thinking` block" in made[0]
        assert result.errors[0]["category"] == "RECOVERABLE"

    def test_usage_of_cache_is_in_the_facts(self, stream: bool) -> None:
        with LoopbackServer([THOUGHT, "1"], models=[CLAUDE]) as server:
            run = claude(server, stream=stream).start("a task")
            while run.state != "u":
                run.step()
        usage = run.facts.usage
        assert (usage.prompt_tokens, usage.cached_tokens, usage.cache_write_tokens) == (100, 20, 30)

    def test_a_block_that_litellm_leaves_out_is_named(self, stream: bool) -> None:
        odd = {"type": "dream", "about": "sheep"}
        replies = [{**THOUGHT, "reasoning": [*BLOCKS[:1], odd]}, "1"]
        with LoopbackServer(replies, models=[CLAUDE]) as server:
            result = claude(server, stream=stream).run("a task")
        assert result.output == "1"
        assert [w for w in result.warnings if "dream" in w] == [LOST.format("dream")]


RC = "I add one to it."


class TestOpenAI:
    def test_a_text_of_reasoning_is_given_back_with_the_tool_results(self, stream: bool) -> None:
        used = {**USED, "reasoning_tokens": 12}
        del used["cache_write_tokens"]
        replies = [{**CALL, "reasoning": RC, "usage": used}, "1"]
        with LoopbackServer(replies) as server:
            run = machine("openai/loopback", server.url, stream=stream).start("a task")
            result = run.run()
        assert result.output == "1"
        assert assistant(server.requests[1].body)["reasoning_content"] == RC
        assert assistant(server.requests[1].body)["content"] == "Adding."
        usage = result.facts.usage
        assert (usage.cached_tokens, usage.reasoning_tokens) == (20, 12)

    def test_it_is_not_sent_once_the_turn_is_over(self) -> None:
        state = "with: {output: {type: integer}, repair: 1}, "
        with LoopbackServer([{"text": "no", "reasoning": RC}, "1"]) as server:
            result = machine("openai/loopback", server.url, state=state).run("a task")
        assert str(result.reason) == "completed"
        assert "reasoning_content" not in assistant(server.requests[1].body)

    def test_details_are_given_back_as_they_came(self, stream: bool) -> None:
        details = [{"type": "reasoning.encrypted", "data": "ENC", "id": "r1", "index": 0}]
        with LoopbackServer([{**CALL, "reasoning": details}, "1"]) as server:
            result = machine("openai/loopback", server.url, stream=stream).run("a task")
        assert result.output == "1"
        assert assistant(server.requests[1].body)["reasoning_details"] == details

    def test_an_unknown_kind_is_kept_and_said_once(self, stream: bool) -> None:
        details = [{"type": "reasoning.dream", "data": [1, {"x": None}]}]
        with LoopbackServer([{**CALL, "reasoning": details}] * 2 + ["1"]) as server:
            result = machine("openai/loopback", server.url, stream=stream).run("a task")
        assert assistant(server.requests[1].body)["reasoning_details"] == details
        assert result.warnings.count(UNKNOWN.format("reasoning.dream")) == 1


def test_blocks_of_another_provider_are_not_sent(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claude thinks and asks for a tool; then it is overloaded, and its fallback replies."""
    overloaded = {"fault": "unavailable"}
    with LoopbackServer(["1"]) as other:
        monkeypatch.setenv("OPENAI_API_BASE", other.url)
        with LoopbackServer([THOUGHT, overloaded], models=[CLAUDE]) as server:
            more = "fallbacks: [openai/loopback]"
            made = machine(f"anthropic/{CLAUDE}", server.messages_url, stream=stream, more=more)
            result = made.run("a task")
    assert (str(result.reason), result.output) == ("completed", "1")
    assert result.facts.last.model == "openai/loopback"
    said = f"`anthropic/{CLAUDE}` gave no answer (server): `openai/loopback` answered"
    assert result.warnings.count(said) == 1
    (sent,) = other.requests
    assert assistant(sent.body).keys() == {"role", "content", "tool_calls"}
    assert assistant(server.requests[1].body)["content"][:3] == BLOCKS


OTHER_CLAUDE = "claude-opus-4-5"
TWO_MODELS = """
chartloop: 1
machine: two
model: {model}
tools: [add]
limits: {{steps: 20}}
rules: [{{when: run.steps >= limits.steps, stop: steps_limit}}]
states:
  q: {{do: receive, next: one}}
  one: {{do: infer, next: work}}
  work: {{do: call_tools, next: {after}}}
  done: {{stop: completed}}
"""
SECOND = f'  two: {{do: infer, with: {{model: "anthropic/{OTHER_CLAUDE}"}}, next: done}}\n'


@pytest.mark.parametrize("after", ["two", "done"], ids=["in-the-tool-loop", "in-the-next-turn"])
def test_blocks_of_another_model_are_not_sent(stream: bool, after: str) -> None:
    """A signature holds for the model that made it, and calls want thinking before them."""
    with LoopbackServer([THOUGHT, "1", "2"], models=[CLAUDE, OTHER_CLAUDE]) as server:
        more = f"stream: {str(stream).lower()}, max_tokens: 2_000, {THINKING}"
        model = f"{{{http_model(f'anthropic/{CLAUDE}', server.messages_url, more)}}}"
        text = TWO_MODELS.format(model=model, after=after) + (SECOND if after == "two" else "")
        result = load(text, tools=[add]).run("a task")
        assert result.success
        if after == "done":
            other = load(text.replace(CLAUDE, OTHER_CLAUDE), tools=[add])
            assert other.run("and more", messages=result.messages).success
    one, two = (request.body for request in server.requests)
    assert (one["model"], two["model"]) == (CLAUDE, OTHER_CLAUDE)
    assert one["thinking"]["type"] == "enabled"
    assert "thinking" not in two
    assert not [b for b in assistant(two)["content"] if "thinking" in b["type"]]


class TestHostile:
    def played(self, message: Mapping[str, Any], more: str = "") -> Result:
        def answer(n: int, body: Mapping[str, Any]) -> Iterator[bytes]:
            said = reply("1")
            said["choices"][0]["message"] |= message
            if body.get("stream"):
                yield STREAM
                yield event(said["choices"][0]["message"])
                yield event({}, "stop")
                yield b"data: [DONE]\n\n"
            else:
                yield from http(said)

        with Provider(answer) as provider:
            return machine("openai/gpt-4o-mini", provider.url, more=more).run("a task")

    @pytest.mark.parametrize(
        "message",
        [
            {"reasoning_content": 7}, {"reasoning_content": ["x"]}, {"reasoning_details": "x"},
            {"reasoning_details": {"x": 1}}, {"reasoning_details": [7, None, ["x"]]},
            {"thinking_blocks": "x"}, {"thinking_blocks": [7]}, {"reasoning_items": 3},
            {"reasoning_details": [{"type": 7}]}, {"reasoning_content": "\ud800"},
        ],
        ids=str,
    )  # fmt: skip
    def test_what_is_no_block_does_not_end_a_run(self, message: Mapping[str, Any]) -> None:
        result = self.played(message)
        assert (str(result.reason), result.output) == ("completed", "1")

    def test_what_is_nested_too_deep_is_not_kept(self) -> None:
        deep: Any = "x"
        for _ in range(400):
            deep = [deep]
        result = self.played({"reasoning_details": [{"type": "reasoning.text", "text": deep}]})
        assert result.output == "1"
        assert BROKEN in result.warnings

    def test_reasoning_counts_against_the_limit_of_a_reply(self) -> None:
        result = self.played({"reasoning_content": "long " * 100}, more="reply_limit: 300")
        assert str(result.reason) == "error"
        assert "more than 300 characters" in str(result.errors)


texts = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=8)


def _thinking(text: str, signature: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": text, "signature": signature}


def _redacted(data: str) -> dict[str, Any]:
    return {"type": "redacted_thinking", "data": data}


thinking = st.builds(_thinking, st.text(max_size=8), texts)
redacted = texts.map(_redacted)


def cut(block: Mapping[str, Any], at: Sequence[int]) -> Iterator[dict[str, Any]]:
    """A block as pieces of a stream, as litellm hands them on."""
    if block["type"] != "thinking":
        yield dict(block)
        return
    text, start = block["thinking"], 0
    for end in sorted({min(n, len(text)) for n in at} | {len(text)}):
        if end > start:
            yield {"type": "thinking", "thinking": text[start:end]}
        start = max(start, end)
    yield {"type": "thinking", "thinking": "", "signature": block["signature"]}


@given(st.lists(st.one_of(thinking, redacted), max_size=5), st.lists(st.integers(1, 7)))
def test_pieces_make_the_blocks_that_came_whole(
    blocks: list[dict[str, Any]], at: list[int]
) -> None:
    whole, streamed = ReceivedReasoning(), ReceivedReasoning()
    whole.add({"thinking_blocks": blocks})
    for block in blocks:
        for piece in cut(block, at):
            streamed.add({"thinking_blocks": [piece]})
    kept = {"provider": "p", "model": "m", "thinking_blocks": blocks} if blocks else {}
    assert whole.whole("p", "m", 0) == kept
    assert streamed.whole("p", "m", 0) == kept


@given(st.lists(st.integers(0, 400), max_size=8))
def test_the_kind_of_a_block_is_found_wherever_a_stream_is_cut(at: list[int]) -> None:
    odd = {"type": "dream", "about": "x" * 30}
    events = [
        {"type": "content_block_start", "index": n, "content_block": block}
        for n, block in enumerate([{"type": "text", "text": ""}, odd])
    ]
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()
    ends = [0, *sorted(min(n, len(data)) for n in at), len(data)]

    async def body() -> AsyncIterator[bytes]:
        for start, end in pairwise(ends):
            yield data[start:end]

    async def read() -> Wire:
        wire = Wire(1_000, streamed=True)
        measured = Measured(body(), 10_000, None)
        measured.on_line = wire.line
        async for _ in measured:
            pass
        return wire

    assert lost_blocks(asyncio.run(read())) == (LOST.format("dream"),)


def test_a_signature_of_a_call_goes_back_with_its_call() -> None:
    """Gemini's, which litellm also writes into the id."""
    held = ReceivedReasoning()
    held.call(1, {"provider_specific_fields": {"thought_signature": "SIG"}})
    assert held.id_of(1, "call_1__thought__SIG") == "call_1"
    kept = held.whole("gemini", "gemini/a", 2)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    said = {"role": "assistant", "content": "", "tool_calls": [call, call], "reasoning": kept}
    (back,) = with_reasoning([said], "gemini", "gemini/a").messages
    assert back["tool_calls"][1]["provider_specific_fields"] == {"thought_signature": "SIG"}
    assert back["tool_calls"][0] == call
    (other,) = with_reasoning([said], "openai", "openai/a").messages
    assert other["tool_calls"] == [call, call]
    assert "reasoning" not in other


def test_what_a_person_reads_of_it() -> None:
    blocks = {"provider": "anthropic", "thinking_blocks": BLOCKS}
    assert reasoning_text(blocks) == "Add 1 to it."
    assert say_reasoning(blocks) == "reasoning of 12 characters"
    assert say_reasoning({"thinking_blocks": BLOCKS[1:2]}) == "reasoning, hidden by the provider"
    assert say_reasoning({}) == ""
