"""What goes wrong from outside, once each, in a shipped machine: the run says so and goes on or ends.

Each has a category or a reason, a message on the record, nothing lost, and always a `Result`.
More of each kind stands with the document or the part that it belongs to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import Machine, Result, Run, SpecError, load
from chartloop.run.journal import InboxMessage
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock


class Bad(NamedTuple):
    """A machine, what it meets, and what comes of it."""

    id: str
    machine: str
    script: Sequence[Any]
    reason: str
    kind: str
    category: str = ""
    """Of the first error of the run; empty: it is not an error."""
    says: str = ""
    """In a message of the result: an error's, a warning's or a signal's."""
    options: Mapping[str, Any] = {}


def call(name: str, arguments: Any) -> dict[str, Any]:
    """A reply that asks for one tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


BAD = [
    Bad("a-model-that-answers-nonsense", "team", ["%&/(", "!!"], "retry_limit", "error", "RECOVERABLE", "research"),
    Bad("malformed-tool-arguments", "agent", [call("send_message", "{oops"), "Sorry."], "completed", "natural", "RECOVERABLE", "send_message"),
    Bad("tool-arguments-of-another-type", "agent", [call("send_message", {"message": 5}), "Sorry."], "completed", "natural", "RECOVERABLE", "message"),
    Bad("an-unknown-tool", "agent", [call("launch", {}), "Sorry."], "completed", "natural", "RECOVERABLE", "there is no tool `launch`"),
    Bad("empty-content", "agent", [""], "completed", "natural", "", "empty"),
    Bad("a-missing-tag", "executive", ["no tags at all"] * 10, "steps_limit", "limit"),
    Bad("two-stops-at-once", "agent", [{"text": "x", "usage": {"prompt_tokens": 99, "completion_tokens": 1}}], "steps_limit", "limit", "", "token_limit", {"limits": {"steps": 2, "tokens": 100}}),
    Bad("a-limit-of-zero", "agent", [], "steps_limit", "limit", "", "0", {"limits": {"steps": 0}}),
    Bad("a-child-that-never-ends", "team", ['{"research": "r", "writing": "w", "critique": "c"}', {"text": "", "delay": "9h"}], "time_limit", "limit", "TRANSIENT", "took too long"),
    Bad("a-model-that-fails-for-good", "agent", [{"error": {"category": "CRITICAL", "message": "no such model"}}], "error", "error", "CRITICAL", "no such model"),
]  # fmt: skip


def said(result: Result) -> str:
    """Every message of a result."""
    errors = [f"{error['message']}" for error in result.errors]
    return "\n".join([*errors, *result.warnings, *map(str, result.signals), result.explain()])


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_it_is_on_the_record_and_there_is_a_result(case: Bad) -> None:
    machine = load(case.machine)
    run = machine.start("Go on.", script=case.script, clock=ManualClock(), **case.options)
    result = run.run()
    assert (result.reason, result.kind) == (case.reason, case.kind)
    assert [error["category"] for error in result.errors][:1] == (
        [case.category] * bool(case.category)
    )
    assert case.says in said(result)
    sound(machine, run, result)


def sound(machine: Machine, run: Run, result: Result) -> None:
    """Nothing is lost: the run is opened again as it was, and its records say the same again."""
    opened = machine.open(run.id, journal=run.session.journal)
    assert opened.result.to_dict() == result.to_dict()
    assert opened.replay().same


def test_an_answer_after_the_deadline_is_none() -> None:
    failing = {"error": {"category": "RECOVERABLE", "message": "no"}}
    clock = ManualClock()
    machine = load("moderator")
    run = machine.start("Mend it.", script=[failing] * 3, clock=clock)
    while run.status != "paused":
        assert run.advance() is not None
    late = InboxMessage(
        "late", clock.now() + 301, {"kind": "answer", "event": "fix", "data": {"note": "x"}}
    )
    assert by_hand(run.session.journal.send(run.id, late))
    result = run.run()
    assert (result.reason, result.kind) == ("user_unresponsive", "human")
    sound(machine, run, result)


def test_a_limit_below_what_is_used_stops_a_run_that_goes_on() -> None:
    machine = load("agent")
    run = machine.start("Go on.", script=[call("send_message", {"message": "a"}), "never"])
    for _ in range(3):
        run.advance()
    run.pause()
    run.advance()
    run.set("limits.steps", 1)
    run.resume()
    result = run.run()
    assert (result.reason, result.kind) == ("steps_limit", "limit")
    assert result.facts.usage.llm_calls == 1
    sound(machine, run, result)


def test_a_tasks_file_that_is_not_valid_is_said_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "tasks.yaml").write_text("- {id: one}\n- {text: two, kind: urgent}\n")
    (tmp_path / "m.yaml").write_text(
        "chartloop: 1\nmachine: m\ntasks: {file: tasks.yaml}\nmodel: {name: scripted}\n"
        "states:\n  go: {do: work, next: done}\n  done: {stop: completed}\n"
    )
    with pytest.raises(SpecError) as caught:
        load(tmp_path / "m.yaml").start(script=[])
    found = [(Path(f.place.file).name, f.place.line) for f in caught.value.findings]
    assert found == [("tasks.yaml", 1), ("tasks.yaml", 2)]
