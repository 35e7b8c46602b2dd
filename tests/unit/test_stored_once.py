"""What a model and a tool said stands once in a record, in memory and on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chartloop import load, tool
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.outcome import CallResult, Outcome, Reply
from chartloop.core.records import Input, Record
from chartloop.run.sync import by_hand

MACHINE = """\
chartloop: 1
machine: once
tools: [look_up]
states:
  ask: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: use}, {to: done}]}
  use: {do: call_tools, next: think}
  done: {stop: completed}
"""
ASKED, FOUND, SAID = "of the hidden lake", "it lies behind the third hill", "Behind the third hill."
CALL = {"tool_calls": [{"name": "look_up", "arguments": {"what": ASKED}}]}


@tool
def look_up(what: str) -> str:
    """Look something up.

    Args:
        what: What is looked for.
    """
    return FOUND


@pytest.fixture
def records(tmp_path: Path) -> list[Record]:
    journal = SqliteJournal(tmp_path / "journal.db")
    run = load(MACHINE, tools=[look_up]).start("Where?", script=[CALL, SAID], journal=journal)
    assert run.run().reason == "completed"
    found = list(run.records)
    by_hand(journal.close())
    return found


def test_each_text_stands_once_in_what_is_stored(records: list[Record]) -> None:
    stored = "".join(record.to_json() for record in records)
    assert [stored.count(text) for text in (ASKED, FOUND, SAID)] == [1, 1, 1]


def test_a_reader_gets_messages_and_results(records: list[Record]) -> None:
    asked, used, said = (r.outcome for r in records if r.state in ("think", "use"))
    assert asked is not None
    assert used is not None
    assert said is not None
    [call] = asked.result["tool_calls"]
    assert call["name"] == "look_up"
    [message] = asked.messages
    assert message["tool_calls"][0]["id"] == call["id"]
    given = {"id": call["id"], "name": "look_up", "ok": True, "content": FOUND, "result": FOUND}
    assert used.result == [given]
    told = {"role": "tool", "tool_call_id": call["id"], "name": "look_up", "content": FOUND}
    assert used.messages == (told,)
    assert said.result["text"] == SAID
    assert said.messages == ({"role": "assistant", "content": SAID},)
    data = next(r for r in records if r.state == "use").to_dict()["outcome"]
    assert (data["result"], data["messages"]) == ([given], [told])


CALLED = (CallResult("a", "one", content="1"), CallResult("b", "two", ok=False, content="error: x"))
TALK: tuple[dict[str, Any], ...] = ({"role": "user", "content": "Go on."},)
REPLY = Reply("Hi.", model="m")


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(result=CALLED, messages=CALLED),
        Outcome(result=(CallResult("a", "one", content="1", result={"n": 1}),)),
        Outcome(result=CALLED[0].data, messages=TALK),
        Outcome(result=REPLY, reply=REPLY, messages=(*TALK, REPLY)),
        Outcome(result=REPLY, reply=REPLY),
        Outcome(result={**REPLY.result, "data": 1}, reply=REPLY, messages=(REPLY,)),
        Outcome(result=None, reply=REPLY, messages=(REPLY.message, *TALK)),
        Outcome(result=CALLED, messages=(*CALLED, *TALK)),
        Outcome(result=CALLED, reply=REPLY, messages=(REPLY, *CALLED)),
    ],
    ids=range(9),
)
def test_what_is_read_back_reads_the_same(outcome: Outcome) -> None:
    record = Record(3, "s", Input("step", "", outcome, 1.0, 2.0), next="s", status="running")
    for again in (Record.from_json(3, record.to_json()), Record.from_dict(3, record.to_dict())):
        assert again.outcome is not None
        assert again.outcome.result == outcome.result
        assert again.outcome.messages == outcome.messages
        assert again.to_dict() == record.to_dict()
        assert Record.from_dict(3, again.to_dict()) == again


@pytest.mark.parametrize("result", [None, 1, [1], [{"id": "a"}], {"id": "a"}])
def test_results_that_no_call_has_are_damage(result: Any) -> None:
    record = {"kind": "step", "state": "s", "at": 1.0, "status": "running", "said": True}
    with pytest.raises(ValueError, match="record 3: "):
        Record.from_dict(3, {**record, "outcome": {"result": result}})
