"""What a listener hears of a reply while it is written: text, reasoning, tool calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chartloop import Delta, ReasoningDelta, Recorded, ToolCallDelta
from chartloop.actions.declare import tool
from chartloop.api import Machine
from chartloop.run.events import Event
from chartloop.run.ports import ModelReply, ModelRequest, OnText
from chartloop.testing import LoopbackServer
from tests.provider import SECRET
from tests.tool_loop import CLAUDE, WITH_KEYS, http_model, needs_litellm, tool_loop

pytestmark = WITH_KEYS


@tool
def add(x: int, y: str = "") -> str:
    """Add.

    Args:
        x: What.
        y: Why.
    """
    return f"{x}{y}"


TWO = [
    {"name": "add", "arguments": {"x": 1, "y": "because"}},
    {"name": "add", "arguments": {"x": 2}},
]
FIRST: dict[str, Any] = {"text": "Adding.", "reasoning": "I add them both.", "tool_calls": TWO}


def made(model: str = "name: scripted") -> Machine:
    return tool_loop(model, add)


def calls_in(events: list[Event]) -> Iterator[tuple[str, Any]]:
    """Name and arguments of each call, put together from its pieces."""
    pieces = [event for event in events if isinstance(event, ToolCallDelta)]
    for number in sorted({piece.number for piece in pieces}):
        own = [piece for piece in pieces if piece.number == number]
        yield own[-1].name, json.loads("".join(piece.arguments for piece in own))


def check(events: list[Event]) -> None:
    first = next(n for n, e in enumerate(events) if isinstance(e, Recorded) and e.record.seq == 2)
    told = events[:first]
    assert "".join(e.text for e in told if isinstance(e, Delta)) == "Adding."
    assert "".join(e.text for e in told if isinstance(e, ReasoningDelta)) == "I add them both."
    assert list(calls_in(told)) == [(call["name"], call["arguments"]) for call in TWO]
    assert {(e.step, e.state) for e in told if isinstance(e, ToolCallDelta)} == {(2, "a")}


@needs_litellm
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_pieces_of_a_reply_over_http(provider: str) -> None:
    with LoopbackServer([FIRST, "3"], models=["loopback", CLAUDE]) as server:
        at = {"openai": ("loopback", server.url), "anthropic": (CLAUDE, server.messages_url)}
        name, url = at[provider]
        machine = made(http_model(f"{provider}/{name}", url))
        check([*machine.start("a task").stream()])


def test_pieces_of_a_scripted_reply() -> None:
    check([*made().start("a task", script=[FIRST, "3"]).stream()])


def test_plain_data_of_a_piece() -> None:
    piece = ToolCallDelta(2, "a", 0, "c", "add", "{")
    assert piece.to_dict()["event"] == "tool_call"
    assert ReasoningDelta(2, "a", "hm").to_dict() == {
        "event": "reasoning", "step": 2, "state": "a", "text": "hm",
    }  # fmt: skip


@needs_litellm
def test_no_piece_holds_a_secret_that_was_cut_anywhere(tmp_path: Path) -> None:
    call = {"name": "add", "arguments": {"x": 1, "y": f"it is {SECRET}!"}}
    said = {"text": f"t {SECRET}", "reasoning": f"r {SECRET}", "tool_calls": [call]}
    with LoopbackServer([said, "3"]) as server:
        machine = made(http_model("openai/loopback", server.url))
        events = [*machine.start("a task", journal=tmp_path / "j.db").stream()]
    thoughts = "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    assert thoughts == "r «redacted:THE_PASSWORD»"
    text = "".join(e.text for e in events if isinstance(e, Delta))
    assert text.startswith("t «redacted:THE_PASSWORD»")
    arguments = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    assert SECRET not in arguments
    assert "«redacted:THE_PASSWORD»" in arguments


def test_a_model_that_knows_of_text_alone_streams_as_before() -> None:
    class Plain:
        suspends = False

        def prepare(self, settings: Any) -> None: ...

        def context_window(self, settings: Any) -> int | None:
            return None

        async def complete(
            self, request: ModelRequest, on_text: OnText | None = None
        ) -> ModelReply:
            assert on_text is not None
            on_text("Hello.")
            return ModelReply("Hello.", prompt_tokens=1, completion_tokens=1)

    events = [*made("name: x/y").start("a task", model=Plain()).stream()]
    assert [e.text for e in events if isinstance(e, Delta)] == ["Hello."]
