"""Gates that are written by hand and let a purchase through: the query sees each of them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from chartloop import tool
from chartloop.api import examine, load

QUERY = "never tool:buy before state:approve"
ANSWERED = "never tool:buy before event:yes"
"""A wait that expires into the purchase was come to, and nobody said yes."""


@tool
def buy(x: int) -> str:
    """Buy."""
    return str(x)


@tool(effect="pure")
def look(x: int) -> str:
    """Look."""
    return str(x)


TOOLS = [buy, look]
RIGHT = """chartloop: 1
machine: gate
model: {name: scripted}
tools: [look, buy]
limits: {steps: 40, patience: 10m}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
states:
  ask: {do: receive, next: think}
  think:
    do: infer
    next:
      - {when: 'any(c.name == "buy" for c in last.tool_calls)', to: show}
      - {when: len(last.tool_calls) > 0, to: act}
      - {to: done}
  act: {do: call_tools, allow: [look], next: think}
  show: {do: ask_user, with: {text: "{{ last.tool_calls }}"}, next: approve}
  approve:
    ask: "Buy?"
    on: {yes: purchase, no: denied}
    within: limits.patience
    expired: denied
  purchase: {do: call_tools, next: think}
  denied: {do: prompt, with: {user: "No.", keep: true}, next: think}
  done: {stop: completed}
"""


class Wrong(NamedTuple):
    """A gate with one mistake."""

    id: str
    old: str
    new: str


ACT = "act: {do: call_tools, allow: [look], next: think}"
WRONG = [
    Wrong("misspelt-tool-in-the-guard-and-no-allow", ACT + "|" + 'c.name == "buy"', "act: {do: call_tools, next: think}|" + 'c.name == "bui"'),
    Wrong("a-second-call-in-the-reply", ACT + "|any(c.name", "act: {do: call_tools, next: think}|all(c.name"),
    Wrong("allow-on-the-side-of-the-model-only", ACT, "act: {do: call_tools, next: think}"),
    Wrong("allow-with-one-tool-too-many", "allow: [look]", "allow: [look, buy]"),
    Wrong("expiry-leads-to-the-act", "expired: denied", "expired: purchase"),
    Wrong("an-early-way-past-the-wait", "next: approve}", "next: [{when: last.ok, to: purchase}, {to: approve}]}"),
    Wrong("asked-and-not-waited", "next: approve}", "next: purchase}"),
    Wrong("a-case-that-nobody-asks", "to: show}", "to: kind}"),
    Wrong("a-case-that-cannot-be", "to: show}", "to: kind}"),
    Wrong("the-first-call-of-the-reply", ACT, "act: {do: call_tool, next: think}"),
    Wrong("a-detour-that-carries-out", "stop: steps_limit}", "stop: steps_limit}\n  - {when: run.steps == 3, to: hurry}"),
    Wrong("a-way-out-that-carries-out", "done: {stop: completed}", "done: {stop: completed, next: last}"),
    Wrong("the-file-buys-itself", "next: approve}", "next: first}"),
    Wrong("a-failure-goes-on-to-the-act", "next: approve}", "failed: purchase, next: approve}"),
    Wrong("a-run-that-starts-behind-the-gate", "machine: gate", "machine: gate\nstart: purchase"),
    Wrong("a-task-that-buys", "next: approve}", "next: tasks}"),
]  # fmt: skip
KIND = """  kind:
    of: '"dear" if len(last.tool_calls) > 1 else "cheap"'
    cases: {cheap: purchase, dear: show}
"""
MORE = {
    "a-case-that-nobody-asks": KIND,
    "a-case-that-cannot-be": KIND.replace("dear:", "deer:"),
    "a-detour-that-carries-out": "  hurry: {do: call_tools, next: return}\n",
    "a-way-out-that-carries-out": "  last: {do: call_tools, next: over}\n  over: {end: by_reason}\n",
    "the-file-buys-itself": "  first: {do: tool, with: {name: buy, arguments: {x: '1'}}, next: approve}\n",
    "a-task-that-buys": "  tasks: {do: work, failed: next, next: approve}\n",
}


REFUSED = {
    "misspelt-tool-in-the-guard-and-no-allow": "CL111",
    "a-case-that-cannot-be": "CL111",
    "asked-and-not-waited": "CL304",
    "a-run-that-starts-behind-the-gate": "CL304",
}
"""Mistakes with which a file is not run at all."""


def test_the_gate_is_proven() -> None:
    found = examine(RIGHT, tools=TOOLS)
    assert not [f for f in found.findings if f.is_error]
    assert load(RIGHT, tools=TOOLS).query(QUERY).holds is True
    assert load(RIGHT, tools=TOOLS).query(ANSWERED).holds is True


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_a_gate_with_a_mistake_is_not_proven(wrong: Wrong) -> None:
    text = RIGHT
    for old, new in zip(wrong.old.split("|"), wrong.new.split("|"), strict=True):
        assert old in text
        text = text.replace(old, new)
    text += MORE.get(wrong.id, "")
    if wrong.id in REFUSED:
        assert REFUSED[wrong.id] in {f.code for f in examine(text, tools=TOOLS).findings}
        return
    expires = wrong.id == "expiry-leads-to-the-act"
    answer = load(text, tools=TOOLS).query(ANSWERED if expires else QUERY)
    assert answer.holds is False
    assert answer.witness


SHORT = """chartloop: 1
machine: gate
model: {name: scripted}
tools: [look, buy]
limits: {steps: 40}
approve: {tools: [buy], within: 10m}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""


def test_the_short_gate_is_proven_and_stays_so_with_whatever_is_added() -> None:
    more = SHORT.replace(
        "stop: steps_limit}]", "stop: steps_limit}, {when: run.steps == 3, to: hurry}]"
    )
    more += "  hurry: {do: call_tools, next: return}\n"
    assert load(SHORT, tools=TOOLS).query(QUERY).holds is True
    both = load(more, tools=TOOLS)
    assert both.query("never tool:buy before event:accept").holds is True
    assert {"approve_act", "approve_hurry"} <= both.spec.states.keys()
