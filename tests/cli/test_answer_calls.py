"""Decisions on single calls of an approval: `chartloop answer`, and in place at a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chartloop.cli.value_options import answer_data
from tests.cli.shell import Shell, Terminal

GATE = """\
chartloop: 1
machine: gate
model: {name: scripted}
tools: [buy]
approve: {tools: [buy], by: the boss, edit: true, remember: true}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
SHOP = '''\
from chartloop import tool


@tool
def buy(item: str, usd: float) -> str:
    """Buy an item."""
    with open("bought.txt", "a") as file:
        print(item, usd, file=file)
    return f"{item} is bought"
'''
BUYS = """\
replies:
  - tool_calls: [{name: buy, arguments: {item: chair, usd: 490}}, {name: buy, arguments: {item: desk, usd: 200}}]
  - Done.
"""
RUN = ("run", "gate.yaml", "x", "--tools", "shop.py", "--script", "buys.yaml", "--run-id", "g")
TOOLS = ("--tools", "shop.py")


@pytest.fixture
def gate(folder: Path) -> Path:
    for name, text in (("gate.yaml", GATE), ("shop.py", SHOP), ("buys.yaml", BUYS)):
        (folder / name).write_text(text)
    return folder


def bought(folder: Path) -> list[str]:
    file = folder / "bought.txt"
    return sorted(file.read_text().splitlines()) if file.exists() else []


def test_a_gate_with_a_condition_is_read_and_answered_without_its_tools(
    sh: Shell, gate: Path
) -> None:
    conditional = GATE.replace("by: the boss", "by: the boss, when: call.arguments.usd > 300")
    (gate / "gate.yaml").write_text(conditional)
    assert sh(*RUN, "--no-input").code == 4
    assert "call.arguments.usd > 300" in sh("draw", "gate.yaml", "--format", "mermaid").out
    (gate / "other.yaml").write_text(conditional.replace("> 300", "> 400"))
    assert (
        "`call.arguments.usd > 300` → `call.arguments.usd > 400`"
        in sh("diff", "gate.yaml", "other.yaml").out
    )
    assert "buy" in sh("show", "g").out
    assert sh("why", "g", "--record", "3").code == 0
    assert sh("answer", "g", "deny", "by=eve", "note=too dear").code == 0
    assert sh("resume", "g", *TOOLS).code == 0
    assert bought(gate) == ["desk 200.0"]


def test_calls_are_decided_by_their_number(sh: Shell, gate: Path) -> None:
    waits = sh(*RUN, "--no-input")
    assert waits.code == 4
    assert "1.arguments.NAME=VALUE" in waits.err
    assert "`accept 1=accept 2=deny` decides on each call by itself" in waits.err
    refused = sh("answer", "g", "accept", "1=accept", "by=eve", *TOOLS)
    assert refused.code == 2
    assert "nothing is decided for" in refused.err
    wrong = sh("answer", "g", "edit", "1.arguments.usd=dear", "by=eve", *TOOLS)
    assert wrong.code == 2
    assert "usd" in wrong.err
    assert sh("answer", "g", "accept", "1=accept", "2=deny", "by=eve", *TOOLS).code == 0
    assert sh("resume", "g", *TOOLS).code == 0
    assert bought(gate) == ["chair 490.0"]


def test_arguments_are_changed_by_name_and_keep_the_types_of_the_tool(
    sh: Shell, gate: Path
) -> None:
    sh(*RUN, "--no-input")
    fields = ("1.arguments.usd=40", "1.arguments.item=42", "by=eve")
    assert sh("answer", "g", "edit", *fields, *TOOLS).code == 0
    again = sh("resume", "g", "--no-input", *TOOLS)
    assert again.code == 4
    assert "(changed by eve)" in again.err
    fields = ("1=accept", "2.result=We have one.", "by=bob")
    assert sh("answer", "g", "accept", *fields, *TOOLS).code == 0
    assert sh("resume", "g", *TOOLS).code == 0
    assert bought(gate) == ["42 40.0"]


@pytest.mark.parametrize("by", [", by: the boss", ""], ids=["with-by", "without-by"])
@pytest.mark.parametrize(
    ("event", "fields", "told"),
    [
        ("deny", ["note=too dear"], ["it was denied: too dear"] * 2),
        ("deny", ["2.note=too dear"], ["it was denied", "it was denied: too dear"]),
        ("deny", ["note=no", "2.note=too dear"], ["it was denied: no", "it was denied: too dear"]),
        ("deny", ["1=deny", "2.note=too dear"], ["it was denied", "it was denied: too dear"]),
        ("accept", ["2=deny", "2.note=too dear", "1=accept"], ["is bought", "it was denied: too dear"]),
    ],
    ids=["whole", "one", "both", "one-and-the-other", "mixed"],
)  # fmt: skip
def test_a_denial_says_why(
    sh: Shell, gate: Path, by: str, event: str, fields: list[str], told: list[str]
) -> None:
    (gate / "gate.yaml").write_text(GATE.replace(", by: the boss", by))
    waits = sh(*RUN, "--no-input")
    assert '`deny note="why"` tells the model why' in waits.err
    signed = ["by=eve"] if by else []
    assert sh("answer", "g", event, *fields, *signed, *TOOLS).code == 0
    assert sh("resume", "g", *TOOLS).code == 0
    rows = json.loads(sh("show", "g", "--format", "json", *TOOLS).out)
    (made,) = [r["outcome"]["result"] for r in rows["records"] if "act_" in r["state"]]
    read = [one["content"] for one in made]
    assert [text.endswith(end) for text, end in zip(read, told, strict=True)] == [True, True]


def test_a_number_is_the_place_of_a_call_whatever_its_id() -> None:
    calls = [{"key": "2", "arguments": "{}"}, {"key": "1", "arguments": "no object"}]
    pairs = [("1", "accept"), ("2.arguments.usd", "80")]
    data = answer_data("edit", {}, pairs, calls=calls)
    assert data["calls"] == {"2": "accept", "1": {"arguments": {"usd": 80}}}


@pytest.mark.slow("plays at a terminal for seconds")
def test_calls_are_changed_and_decided_in_place(gate: Path) -> None:
    with Terminal(*RUN, cwd=gate) as t:
        t.expect("3  edit   by (str)")
        t.expect("leave it waiting): ")
        t.type("edit\n")
        t.expect("by (str): ")
        t.type("eve\n")
        t.expect("which call: ")
        t.type("3\n")
        t.expect("there is no call `3`")
        t.expect("which call: ")
        t.type("1\n")
        t.expect('item ["chair"]: ')
        t.type("\n")
        t.expect("usd [490]: ")
        t.type("150\n")
        t.expect("changed by eve")
        t.expect("leave it waiting): ")
        t.type("accept\n")
        t.expect("by (str): ")
        t.type("bob\n")
        t.expect("remember (bool, empty to leave it out): ")
        t.type("\n")
        t.expect("which calls (1 3; empty for all): ")
        t.type("1\n")
        t.expect("note on 2 (str, empty to leave it out): ")
        t.type("too dear\n")
        assert t.wait() == 0
    assert bought(gate) == ["chair 150.0"]
