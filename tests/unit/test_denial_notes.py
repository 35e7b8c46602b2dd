"""A denial may say why, at every door: of all calls alike, or of one, with `by` and without.

Doors elsewhere: the command line in `tests/cli/test_answer_calls.py`, as are the terminal and the full
screen, HTTP and links in `tests/server/test_links.py`, the page in `tests/browser/test_calls_page.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from chartloop import Run, load, tool
from chartloop.cli.value_options import answer_data
from chartloop.core.errors import AnswerError
from chartloop.hosting.mcp_server.elicitation_form import form_of, read_form
from chartloop.ui.view_model.orders import Answer
from chartloop.ui.view_model.perform import perform

GATE = """
chartloop: 1
machine: gate
model: {name: scripted}
tools: [buy]
approve: {tools: [buy]BY}
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, {to: done}]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
NO = "error: `buy` was not approved: it was denied"


@tool
def buy(x: int) -> str:
    """Buy."""
    return f"bought {x}"


def asks(by: str, calls: int = 2) -> Run:
    given = [{"id": "ab"[n], "name": "buy", "arguments": {"x": n}} for n in range(calls)]
    machine = load(GATE.replace("BY", f", by: {by}" if by else ""), tools=[buy])
    run = machine.start("x", script=[{"tool_calls": given}, "Well."])
    run.run()
    return run


Data = dict[str, Any]
WHOLE: Data = {"note": "too dear"}
EACH: Data = {"calls": {"a": "deny", "b": {"decision": "deny", "note": "too dear"}}}
MIXED: Data = {"calls": {"a": "accept", "b": {"decision": "deny", "note": "too dear"}}}


def python(run: Run, event: str, data: Data, by: Data) -> None:
    run.send(event, data | by)


def command_line(run: Run, event: str, data: Data, by: Data) -> None:
    """Also the prompt of `step`, and what the full screen sends."""
    assert run.question is not None
    words = {"a": "1", "b": "2"}
    pairs = [(name, value) for name, value in (data | by).items() if name != "calls"]
    for key, one in data.get("calls", {}).items():
        if isinstance(one, str):
            pairs += [(words[key], one)] if event == "accept" else []
        else:
            pairs += [(words[key], one["decision"])] if event == "accept" else []
            pairs.append((f"{words[key]}.note", one["note"]))
    taken = run.question.answers[event]
    run.send(event, answer_data(event, taken, pairs, calls=run.question.calls))


def mcp_form(run: Run, event: str, data: Data, by: Data) -> None:
    assert run.question is not None
    content: Data = {"answer": event, "note": "too dear", **by}
    if "calls" in data:
        content |= {"call_2": "deny", "call_1": "accept" if event == "accept" else "deny"}
    shown = form_of(run.question).schema["properties"]
    assert set(content) <= set(shown)
    run.send(*read_form(run.question, content))


def notebook(run: Run, event: str, data: Data, by: Data) -> None:
    """As the page sends it: all fields as texts, `calls` as JSON."""
    sent = {"note": "", **{n: v if isinstance(v, str) else json.dumps(v) for n, v in data.items()}}
    if event == "accept":
        del sent["note"]
    perform(run, Answer(event, sent | by))


DOORS = [python, command_line, mcp_form, notebook]
PARTS = {"whole": ("deny", WHOLE), "each": ("deny", EACH), "mixed": ("accept", MIXED)}


@pytest.mark.parametrize("by", ["", "the boss"], ids=["without-by", "with-by"])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_the_note_reaches_the_model_and_the_record(
    door: Callable[[Run, str, Data, Data], None], part: str, by: str
) -> None:
    run = asks(by)
    event, data = PARTS[part]
    door(run, event, data, {"by": "eve"} if by else {})
    run.run()
    first = {"whole": f"{NO}: too dear", "each": NO, "mixed": "bought 0"}[part]
    if door is mcp_form and part == "each":  # its one note is for every call that is denied
        first = f"{NO}: too dear"
    told = {m["tool_call_id"]: m["content"] for m in run.messages if m["role"] == "tool"}
    assert told == {"a": first, "b": f"{NO}: too dear"}
    (answer,) = [record for record in run.records if record.kind == "answer"]
    assert "too dear" in json.dumps(dict(answer.input.data))
    assert answer.input.data.get("by") == ("eve" if by else None)
    assert run.facts.approvals.denied == (1 if part == "mixed" else 2)
    assert run.replay().same


@pytest.mark.parametrize("by", ["", "the boss"], ids=["without-by", "with-by"])
@pytest.mark.parametrize("data", [{}, {"note": None}, {"note": ""}], ids=["none", "null", "empty"])
def test_a_denial_needs_no_note(by: str, data: Data) -> None:
    run = asks(by, 1)
    run.send("deny", data | ({"by": "eve"} if by else {}))
    run.run()
    assert [m["content"] for m in run.messages if m["role"] == "tool"] == [NO]


def test_a_note_alone_denies_only_in_a_denial() -> None:
    run = asks("")
    with pytest.raises(AnswerError, match="`b` is neither accepted nor denied"):
        run.send("accept", {"calls": {"a": "accept", "b": {"note": "fine"}}})
    with pytest.raises(AnswerError, match="no field `note`"):
        run.send("accept", {"note": "fine"})
    run.send("deny", {"calls": {"a": "deny", "b": {"note": "too dear"}}})
    run.run()
    told = [m["content"] for m in run.messages if m["role"] == "tool"]
    assert told == [NO, f"{NO}: too dear"]


def test_parts_of_a_decision_are_joined_in_any_order() -> None:
    calls = [{"key": "a", "arguments": "{}"}, {"key": "b", "arguments": "{}"}]
    pairs = [("2.note", "too dear"), ("1", "accept"), ("2", "deny"), ("1.result", "done")]
    for given in (pairs, pairs[::-1]):
        assert answer_data("accept", {}, given, calls=calls)["calls"] == {
            "a": {"decision": "accept", "result": "done"},
            "b": {"decision": "deny", "note": "too dear"},
        }
