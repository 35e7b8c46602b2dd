"""What a step returns shows itself with guards, labels, calls and their results."""

from __future__ import annotations

import pickle
from typing import Any

from chartloop import load, tool
from chartloop.api import Run
from chartloop.core.records import Record

MACHINE = """\
chartloop: 1
machine: clerk
model: {name: scripted}
tools: [search]
rules: [{when: run.steps >= 9, stop: steps_limit}]
states:
  take: {label: Take the order, do: receive, next: think}
  think:
    label: Think about it
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]
  use: {label: Use the tools, do: call_tools, next: think}
  done: {stop: completed}
"""


@tool
def search(query: str) -> str:
    """Search."""
    if query == "bad":
        raise ValueError("no such thing")
    return f"three papers about {query} " + "and more " * 100


def run_of(query: str) -> Run:
    calls = [{"name": "search", "arguments": {"query": query}}]
    script: list[Any] = [{"text": "I look.", "tool_calls": calls}, "Found."]
    return load(MACHINE, tools=[search]).start("x", script=script)


def card(run: Run) -> dict[str, str]:
    record = run.step()
    assert record is not None
    return {name: text for name, text in record.card().items() if text and name != "took"}


def test_a_card_says_guard_label_call_and_result() -> None:
    run = run_of("lithium")
    assert card(run) == {
        "record 1": "step", "at": "take: Take the order", "next": "think: Think about it",
        "status": "running",
    }  # fmt: skip
    asked = card(run)
    assert asked["calls"] == 'search(query="lithium")'
    assert asked["taken"] == "len(last.tool_calls) > 0"
    assert asked["next"] == "use: Use the tools"
    made = card(run)
    assert made["calls"].startswith('search(query="lithium") → three papers about lithium and more')
    assert made["calls"].endswith("…")
    assert len(made["calls"]) < 200
    assert card(run)["next"] == "done"


def test_a_call_that_failed_says_so() -> None:
    run = run_of("bad")
    card(run)
    card(run)
    assert 'search(query="bad") → failed: ' in card(run)["calls"]


def test_it_is_the_record_that_is_stored() -> None:
    run = run_of("lithium")
    while (made := run.step()) is not None:
        stored = run.records[-1]
        assert made == stored
        assert stored == made
        assert made.to_dict() == stored.to_dict()
        assert type(pickle.loads(pickle.dumps(made))) is Record  # noqa: S301  what was just written
        assert "text/html" in made._repr_mimebundle_()  # pyright: ignore[reportPrivateUsage]  what a notebook calls
