"""`allow` against a model that calls what it was not shown."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from chartloop import load, tool
from chartloop.adapters.model.scripted import Scripted
from chartloop.core.conversation import assistant
from chartloop.core.facts import ToolCall
from chartloop.run.journal import MemoryJournal

BOUGHT: list[int] = []


@tool
def buy(x: int) -> int:
    """Buy."""
    BOUGHT.append(x)
    return x


@tool(effect="pure")
def look(x: int) -> int:
    """Look."""
    return x


HEAD = """chartloop: 1
machine: m
model: {name: scripted}
tools: [buy, look]
states:
  q: {do: receive, next: t}
"""
SHOWS_LOOK = (
    HEAD
    + """  t: {do: infer, allow: [look], next: c}
  c: {do: call_tools, next: d}
  d: {stop: completed}
"""
)


def calls(*names: str) -> dict[str, Any]:
    """A reply that calls these."""
    return {"text": "", "tool_calls": [{"name": n, "arguments": {"x": 1}} for n in names]}


@pytest.fixture(autouse=True)
def _nothing_bought() -> None:
    BOUGHT.clear()


def test_a_call_of_a_tool_that_was_not_shown_is_refused_and_on_the_record() -> None:
    run = load(SHOWS_LOOK, tools=[buy, look]).start("x", script=[calls("buy", "look")])
    result = run.run()
    assert BOUGHT == []
    said = "error: tool `buy` was not offered here; you may call: `look`"
    told = {m["name"]: m["content"] for m in result.messages if m["role"] == "tool"}
    assert told == {"buy": said, "look": "1"}
    assert [e["message"] for e in result.errors] == [f"buy: {said}"]
    assert run.facts.errors.total == 1
    assert run.facts.usage.calls == {"buy": 0, "look": 1}
    assert run.replay().same


def test_each_call_is_answered_once() -> None:
    run = load(SHOWS_LOOK.replace("call_tools", "call_tool"), tools=[buy, look]).start(
        "x", script=[calls("buy", "look", "look")]
    )
    run.run()
    asked = [c["id"] for m in run.messages for c in m.get("tool_calls", ())]
    answered = [m["tool_call_id"] for m in run.messages if m["role"] == "tool"]
    assert sorted(asked) == sorted(answered)
    assert len(asked) == 2  # the third was dropped
    assert run.facts.usage.calls == {"buy": 0, "look": 1}


def test_a_tool_that_nobody_registered_is_left_to_the_state_that_carries_out() -> None:
    run = load(SHOWS_LOOK, tools=[buy, look]).start("x", script=[calls("fly")])
    assert "there is no tool `fly`" in run.run().messages[-1]["content"]
    assert run.records[2].outcome is not None
    assert run.records[2].outcome.tool_errors == ()


def test_what_was_refused_stays_refused_after_a_resume_and_in_a_later_run() -> None:
    journal = MemoryJournal()
    machine = load(SHOWS_LOOK, tools=[buy, look])
    run = machine.start("x", script=[calls("buy")], journal=journal, run_id="one")
    run.advance()
    run.advance()
    later = machine.open("one", journal=journal, model=Scripted(["unused"]))
    later.run()
    text = (
        HEAD.replace("next: t", "next: c")
        + "  c: {do: call_tools, next: d}\n  d: {stop: completed}\n"
    )
    load(text, tools=[buy, look]).start("y", continues=later).run()
    assert BOUGHT == []


def test_calls_that_the_caller_gives_are_carried_out_as_the_carrying_state_allows() -> None:
    text = (
        HEAD.replace("next: t", "next: c")
        + "  c: {do: call_tools%s, next: d}\n  d: {stop: completed}\n"
    )
    given = [assistant("", [ToolCall("g", "buy", '{"x": 7}')])]
    load(text % ", allow: [look]", tools=[buy, look]).start("x", messages=given).run()
    assert BOUGHT == []
    load(text % "", tools=[buy, look]).start("x", messages=given).run()
    assert BOUGHT == [7]


class Ask(NamedTuple):
    """States, and whether `buy` can be carried out there."""

    id: str
    states: str
    can: bool


ASKS = [
    Ask("asked-without", "t: {do: infer, allow: [look], next: c}\n  c: {do: call_tools, next: d}", False),
    Ask("carried-out-without", "t: {do: infer, next: c}\n  c: {do: call_tools, allow: [look], next: d}", False),
    Ask("both", "t: {do: infer, next: c}\n  c: {do: call_tools, next: d}", True),
    Ask("judged-in-between", "t: {do: infer, next: j}\n  j: {do: infer, allow: [], with: {keep: false}, next: c}\n  c: {do: call_tools, next: d}", True),
    Ask("judged-and-kept", "t: {do: infer, next: j}\n  j: {do: infer, allow: [], next: c}\n  c: {do: call_tools, next: d}", False),
    Ask("a-judge-that-fails", "t: {do: infer, next: j}\n  j: {do: infer, allow: [], failed: next, next: c}\n  c: {do: call_tools, next: d}", True),
    Ask("judged-by-a-prompt", "t: {do: infer, next: p}\n  p: {do: prompt, with: {user: Safe}, next: j}\n  j: {do: infer, allow: [], next: c}\n  c: {do: call_tools, next: d}", True),
    Ask("nobody-asked", "t: {do: call_tools, next: d}", True),
    Ask("carried-out-before", "t: {do: infer, next: c}\n  c: {do: call_tools, next: e, allow: [look]}\n  e: {do: call_tools, next: d}", False),
    Ask("only-memory", "t: {do: infer, next: c}\n  c: {do: update_memory, next: d}", False),
    Ask("by-the-file", "t: {do: infer, allow: [], next: c}\n  c: {do: tool, with: {name: buy, arguments: {x: '1'}}, next: d}", True),
]  # fmt: skip


@pytest.mark.parametrize("ask", ASKS, ids=lambda ask: ask.id)
def test_a_query_follows_what_was_shown_and_what_is_carried_out(ask: Ask) -> None:
    machine = load(f"{HEAD}  {ask.states}\n  d: {{stop: completed}}\n", tools=[buy, look])
    assert machine.query("reach tool:buy").holds is ask.can


def test_a_state_that_carries_out_nothing_makes_no_call() -> None:
    text = SHOWS_LOOK.replace("do: call_tools", "do: call_tools, allow: []")
    assert load(text, tools=[buy, look]).bound()["tool_calls"].value == 0


INNER = """machines:
  inner:
    model: {name: scripted}
    tools: [buy]
    states:
      t: {do: infer, next: over}
      over: {stop: completed}
states:
"""


@pytest.mark.parametrize(("share", "can"), [("[messages]", True), ("[memory]", False)])
def test_a_child_that_shares_the_conversation_may_leave_calls_of_its_own(
    share: str, can: bool
) -> None:
    given = f"{{machine: inner, task: x, share: {share}}}"
    text = HEAD.replace("states:\n", INNER) + (
        "  t: {do: infer, allow: [look], next: r}\n"
        f"  r: {{do: run_machine, with: {given}, next: c}}\n"
        "  c: {do: call_tools, next: d}\n  d: {stop: completed}\n"
    )
    machine = load(text, tools=[buy, look])
    assert machine.query("reach tool:buy").holds is can
    machine.run("x", script=["hi", calls("buy")])
    assert bool(BOUGHT) is can
