"""Scenarios, played: replies and tools that must fit, events that come in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop.api import load
from chartloop.core.errors import SpecError
from chartloop.scenarios import ScenarioFailed, scenario
from chartloop.scenarios.file import OutsideEvent
from chartloop.scenarios.outside_events import play
from chartloop.testing import ManualClock, MemoryJournal
from tests.playing import ADDER, ASKER, add, played, told

# replies and tools -----------------------------------------------------------------------------

ASKS = """machine: agent
task: Ask.
replies:
  - {tool_calls: [{name: send_message, arguments: {message: one}}]}
%sexpect: {reason: completed}
"""


class Unfit(NamedTuple):
    """A script that does not fit, and what the report says."""

    id: str
    rest: str
    says: tuple[str, ...]


UNFIT = [
    Unfit("too-few-replies", "", ("step 4 at `llm_inference`", ":4:3)", "model call 2")),
    Unfit(
        "replies-left", "  - a\n  - b\n  - c\n", ("2 of 4 replies were never asked for", ":6:5)")
    ),
    Unfit(
        "too-few-results",
        "  - a\ntools: {send_message: []}\n",
        ("step 3 at `tool_call`", ":6:23)", "0 scripted results, and call 1", '"message": "one"'),
    ),
    Unfit(
        "results-left",
        "  - a\ntools: {send_message: [x, y]}\n",
        ("tool `send_message`: 1 of 2 results were never asked for", ":6:27)"),
    ),
    Unfit(
        "event-too-late",
        "  - a\nevents: [{after: 9, cancel: custom}]\n",
        ("`cancel custom` never came", ":6:10)", "ended at `done` after 4 steps", "after 9"),
    ),
    Unfit(
        "resume-without-pause",
        "  - a\nevents: [{after: 1, resume: true}]\n",
        ("`resume` never came", "was not paused"),
    ),
]


@pytest.mark.parametrize("case", UNFIT, ids=lambda case: case.id)
def test_what_does_not_fit_fails_and_says_where(case: Unfit, tmp_path: Path) -> None:
    report = played(tmp_path, ASKS % case.rest)
    assert not report.passed
    for text in case.says:
        assert text in report.problems[0]


def test_failed_model_calls_use_up_replies(tmp_path: Path) -> None:
    replies = "  - {error: {category: TRANSIENT, message: busy}}\n  - a\n"
    report = played(tmp_path, ASKS % replies)
    assert report.passed, str(report)


def test_model_calls_that_took_too_long_use_up_replies() -> None:
    machine = ADDER.replace("do: infer", "do: infer\n    within: 1m\n    retry: {times: 1}")
    replies = [{"text": "late", "delay": "2m"}, "in time"]
    report = scenario(machine, "Add.", own=[add], replies=replies, expect={"output": "in time"})
    assert report.result is not None
    assert report.result.elapsed == 61.0


ADDS = """machine: adder.yaml
task: Add.
replies:
  - {tool_calls: [{name: add, arguments: {a: 2, b: "3"}}]}
  - done
%s
expect: {facts: {usage.messages: 4}, %s}
"""


@pytest.fixture
def adder(tmp_path: Path) -> Path:
    (tmp_path / "adder.yaml").write_text(ADDER)
    return tmp_path


def test_own_tools_are_called(adder: Path) -> None:
    report = played(adder, ADDS % ("", "reason: completed"), tools=[add])
    assert report.passed, str(report)
    assert told(report) == "5"


def test_scripted_results_stand_in_for_a_tool_that_is_not_there(adder: Path) -> None:
    report = played(adder, ADDS % ("tools: {add: [{sum: 7}]}", "reason: completed"))
    assert report.passed, str(report)
    assert json.loads(told(report)) == {"sum": 7}


def test_scripted_results_stand_in_for_a_tool_that_is_there(adder: Path) -> None:
    report = played(adder, ADDS % ("tools: {add: [nine]}", "reason: completed"), tools=[add])
    assert report.passed, str(report)
    assert told(report) == "nine"


def test_arguments_of_a_tool_that_is_there_are_checked(adder: Path) -> None:
    text = (ADDS % ("tools: {add: []}", "reason: completed")).replace("{a: 2,", "{c: 2,")
    report = played(adder, text, tools=[add])
    assert report.passed, str(report)
    assert told(report).startswith("error: ")


def test_an_error_may_have_a_category_and_be_progress() -> None:
    machine = """
chartloop: 1
machine: m
tools: [ship]
states:
  ship: {do: tool, with: {name: ship}, failed: next, next: over}
  over: {stop: completed}
"""
    results = [{"error": "the checks fail", "category": "TRANSIENT", "progressed": True}]
    report = scenario(machine, tools={"ship": results}, expect={"reason": "completed"})
    assert report.run is not None
    outcome = report.run.records[1].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert (outcome.error.category, outcome.progressed) == ("TRANSIENT", True)


def test_a_result_may_be_an_error(adder: Path) -> None:
    report = played(adder, ADDS % ("tools: {add: [{error: no}]}", "reason: completed"))
    assert report.passed, str(report)
    assert told(report) == "error: no"


def test_a_result_may_ask_the_run_to_stop(adder: Path) -> None:
    text = (ADDS % ("tools: {add: [{stop: enough}]}", "reason: stop_requested")).replace(
        "  - done\n", ""
    )
    report = played(adder, text.replace("usage.messages: 4", "usage.messages: 3"))
    assert report.passed, str(report)
    assert report.result is not None
    assert report.result.signals[0].message == "enough"


def test_a_machine_with_a_missing_tool_is_a_fault(adder: Path) -> None:
    with pytest.raises(SpecError) as caught:
        played(adder, ADDS % ("", "reason: completed"))
    assert [f.code for f in caught.value.findings] == ["CL405"]


def test_a_run_that_never_ends_is_a_failure(tmp_path: Path) -> None:
    endless = "chartloop: 1\nmachine: adder\nstates:\n  a: {do: nothing, next: a}\n"
    (tmp_path / "adder.yaml").write_text(endless)
    report = played(tmp_path, "machine: adder.yaml\nexpect: {reason: completed}\n")
    assert "the run does not end: it has taken 10,000 records" in report.problems[0]


# events ----------------------------------------------------------------------------------------


class Heard(NamedTuple):
    """Events, and what the run comes to."""

    id: str
    events: str
    expect: str


HEARD = [
    Heard("answer", "[{after: 1, send: yes, data: {note: ok}}]", "{reason: completed, facts: {run.steps: 3}}"),
    Heard("early-answer", "[{after: 0, send: no}]", "{path: [ask, wait, refused], facts: {run.elapsed: 0s}}"),
    Heard("no-answer", "[]", "{path: [ask, wait, late], kind: human, facts: {run.elapsed: 1h, run.idle: 1h}}"),
    Heard(
        "pause-and-resume",
        "[{after: 1, send: yes, data: {note: ok}}, {after: 2, pause: true}, {after: 5, resume: true}]",
        "{path: [ask, wait, work, more, done]}",
    ),
    Heard(
        "paused",
        "[{after: 1, send: yes, data: {note: ok}}, {after: 2, pause: true}]",
        "{reason: null, kind: waiting, path: [ask, wait, work, more], facts: {run.status: paused}}",
    ),
    Heard("cancel", "[{after: 1, cancel: custom}]", "{reason: custom, path: [ask, wait, end-completed]}"),
    Heard("cancel-at-once", "[{after: 0, cancel: user_requested}]", "{kind: human, facts: {run.steps: 0}}"),
    Heard(
        "by-step-not-by-place",
        "[{after: 2, cancel: custom}, {after: 1, send: yes, data: {note: a}}]",
        "{path: [ask, wait, work, more, end-completed]}",
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", HEARD, ids=lambda case: case.id)
def test_events_come_after_their_step(case: Heard, tmp_path: Path) -> None:
    (tmp_path / "asker.yaml").write_text(ASKER)
    report = played(
        tmp_path, f"machine: asker.yaml\nevents: {case.events}\nexpect: {case.expect}\n"
    )
    assert report.passed, str(report)


def test_an_answer_that_comes_too_late_is_not_given(tmp_path: Path) -> None:
    (tmp_path / "asker.yaml").write_text(ASKER)
    text = (
        "machine: asker.yaml\nevents: [{after: 2, send: no}]\nexpect: {path: [ask, wait, late]}\n"
    )
    report = played(tmp_path, text)
    assert len(report.problems) == 1
    assert "ended at `late` after 1 step; it was to come after 2" in report.problems[0]


def test_a_resume_does_not_cut_a_back_off_short() -> None:
    machine = ADDER.replace("do: infer", "do: infer\n    retry: {times: 1, base: 10s}")
    replies = [{"error": {"category": "TRANSIENT", "message": "busy"}}, "done"]
    events = [{"after": 3, "pause": True}, {"after": 5, "resume": True}]
    with pytest.raises(ScenarioFailed, match="`resume` never came\n") as caught:
        scenario(
            machine, "Add.", own=[add], replies=replies, events=events, expect={"output": "done"}
        )
    assert caught.value.report.result is not None
    assert caught.value.report.result.elapsed == 10.0


def test_events_of_a_run_that_is_resumed() -> None:
    machine, journal = load(ASKER), MemoryJournal()
    run = machine.start(journal=journal, clock=ManualClock())
    while run.state != "wait":
        run.advance()
    again = machine.open(run.id, journal=journal, clock=ManualClock())
    assert play(again, [OutsideEvent(0, 1, "send", "no")]) == []
    assert again.state == "refused"


def test_an_answer_that_is_not_taken_fails(tmp_path: Path) -> None:
    (tmp_path / "asker.yaml").write_text(ASKER)
    text = "machine: asker.yaml\nevents: [{after: 1, send: yes}]\nexpect: {reason: completed}\n"
    report = played(tmp_path, text)
    assert "needs `note`" in report.problems[0]
    assert ":2:9" in report.problems[0]


# in Python -------------------------------------------------------------------------------------


def test_a_scenario_in_python() -> None:
    report = scenario("agent", "Hello.", replies=("Hi.",), expect={"reason": "completed"})
    assert report.result is not None
    assert report.result.output == "Hi."
    with pytest.raises(ScenarioFailed, match="steps_limit") as caught:
        scenario("agent", "Hello.", replies=["Hi."], expect={"reason": "steps_limit"})
    assert not caught.value.report.passed
    assert isinstance(caught.value, AssertionError)


def test_a_scenario_in_python_of_a_text_and_own_tools() -> None:
    replies = [{"tool_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}, "done"]
    report = scenario(ADDER, "Add.", own=[add], replies=replies, expect={"reason": "completed"})
    assert told(report) == "5"
