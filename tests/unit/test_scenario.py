"""Scenarios: their form, what they are checked for, how they are played, what a failure says."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import testing
from interlock.actions.declare import tool
from interlock.api import load
from interlock.core.errors import SetupError, SpecError
from interlock.core.facts import FACTS
from interlock.core.plain import plain
from interlock.language.yaml import Document
from interlock.testing import (
    ManualClock,
    MemoryJournal,
    Scenario,
    ScenarioFailed,
    ScenarioReport,
    find_scenarios,
    load_scenario,
    run_scenario,
    scenario,
)
from interlock.testing.beside import WIDEST, beside
from interlock.testing.expecting import same
from interlock.testing.outside import play
from interlock.testing.scenario_file import OutsideEvent, scenario_of

ROOT = Path(__file__).parents[2]
SHIPPED = find_scenarios([ROOT / "tests" / "scenarios"])


def written(folder: Path, text: str, name: str = "it") -> Path:
    path = folder / f"{name}.scenario.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def played(folder: Path, text: str, **options: Any) -> ScenarioReport:
    return run_scenario(written(folder, text), **options)


# the shipped machines ------------------------------------------------------------------------


@cache
def reports() -> dict[str, list[ScenarioReport]]:
    """The reports of all shipped scenarios, by machine."""
    out: dict[str, list[ScenarioReport]] = {}
    for path in SHIPPED:
        out.setdefault(load_scenario(path).machine, []).append(run_scenario(path))
    return out


def test_the_shipped_scenarios_pass() -> None:
    failed = [str(r) for found in reports().values() for r in found if not r.passed]
    assert failed == []
    assert len(SHIPPED) > 20


@pytest.mark.parametrize("machine", ["agent", "executive"])
def test_the_scenarios_reach_every_edge(machine: str) -> None:
    every = {t.origin for t in load(machine).chart.step.transitions()}
    taken = {
        origin
        for report in reports()[machine]
        if report.run is not None
        for record in report.run.records
        for origin in record.taken
    }
    assert taken == every  # edges, retries, rules, detours, returns, and what the engine adds


# faults of the form ----------------------------------------------------------------------------


class Fault(NamedTuple):
    """A scenario with one thing wrong in it, and where that is."""

    id: str
    text: str
    code: str
    line: int
    column: int
    says: str = ""


GOOD = "machine: agent\nexpect: {reason: completed}\n"

FORM = [
    Fault("empty", "", "IL001", 1, 1),
    Fault("a-list", "[a]", "IL203", 1, 1, "mapping"),
    Fault("no-machine", "expect: {reason: x}\n", "IL202", 1, 1, "lacks the key `machine`"),
    Fault("no-expect", "machine: agent\n", "IL202", 1, 1, "lacks the key `expect`"),
    Fault("expects-nothing", "machine: agent\nexpect: {}\n", "IL202", 2, 1, "expects nothing"),
    Fault("unknown-key", GOOD + "replys: []\n", "IL201", 3, 1, "did you mean `replies`?"),
    Fault("unknown-in-expect", "machine: agent\nexpect: {resaon: x}\n", "IL201", 2, 10, "`reason`"),
    Fault("kind-of-task", GOOD + "task: 5\n", "IL203", 3, 7, "text"),
    Fault("kind-of-replies", GOOD + "replies: {}\n", "IL203", 3, 10, "a list"),
    Fault("kind-of-tools", GOOD + "tools: {add: 5}\n", "IL203", 3, 14, "a list"),
    Fault("kind-of-limits", GOOD + "limits: [1]\n", "IL203", 3, 9, "a mapping"),
    Fault("kind-of-path", "machine: agent\nexpect: {path: [1]}\n", "IL203", 2, 17, "text"),
    Fault("another-clock", GOOD + "clock: real\n", "IL208", 3, 8, "`simulated`"),
    Fault("no-such-kind", "machine: agent\nexpect: {kind: nice}\n", "IL208", 2, 16, "`natural`"),
    Fault("reply-field", GOOD + "replies:\n  - {txt: a}\n", "IL606", 4, 5, "did you mean `text`?"),
    Fault("reply-usage", GOOD + "replies: [{usage: {cost: x}}]\n", "IL606", 3, 26, "USD"),
    Fault("event-without-kind", GOOD + "events: [{after: 1}]\n", "IL207", 3, 10, "one of `send`"),
    Fault("event-of-two-kinds", GOOD + "events: [{after: 1, pause: true, resume: true}]\n", "IL207", 3, 10),
    Fault("event-without-after", GOOD + "events: [{send: x}]\n", "IL202", 3, 10, "`after`"),
    Fault("event-before-all", GOOD + "events: [{after: -1, send: x}]\n", "IL203", 3, 18, "0 or more"),
    Fault("event-data", GOOD + "events: [{after: 1, pause: true, data: {}}]\n", "IL207", 3, 34, "`send`"),
    Fault("pause-false", GOOD + "events: [{after: 1, pause: false}]\n", "IL208", 3, 28, "`true`"),
    Fault("duplicate-key", GOOD + "task: a\ntask: b\n", "IL002", 4, 1),
    Fault("a-tag", GOOD + "task: !!python/object:os.system x\n", "IL003", 3, 7),
]  # fmt: skip


@pytest.mark.parametrize("case", FORM, ids=lambda case: case.id)
def test_faults_of_the_form_have_a_place(case: Fault, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(written(tmp_path, case.text))
    finding = next(f for f in caught.value.findings if f.code == case.code)
    assert (finding.place.line, finding.place.column) == (case.line, case.column)
    assert case.says in finding.render()
    assert "it.scenario.yaml" in finding.place.file


def test_all_faults_are_found_at_once(tmp_path: Path) -> None:
    text = "machine: 5\nreplys: []\nreplies: [{txt: a}]\nevents: [{after: x}]\nexpect: {kind: 1}\n"
    with pytest.raises(SpecError) as caught:
        load_scenario(written(tmp_path, text))
    found = [(f.place.line, f.code) for f in caught.value.findings]
    assert found == [(1, "IL203"), (2, "IL201"), (3, "IL606"), (4, "IL203"), (5, "IL208")]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
KEYS = "machine task replies events tools clock limits vars expect".split()


@given(data=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), JSON) | JSON)
def test_no_data_does_more_than_raise_a_spec_error(data: Any) -> None:
    try:
        made = scenario_of(Document(data, "x", ""), name="x", folder=None)
    except SpecError:
        return
    assert isinstance(made, Scenario)


# faults against the machine --------------------------------------------------------------------

AGAINST = [
    Fault("no-machine", "machine: agnt\nexpect: {reason: x}\n", "IL411", 1, 10, "did you mean `agent`?"),
    Fault("reason", "machine: agent\nexpect: {reason: complete}\n", "IL408", 2, 18, "`completed`"),
    Fault("state", "machine: agent\nexpect: {path: [done, don]}\n", "IL301", 2, 23, "`done`"),
    Fault("fact", "machine: agent\nexpect: {facts: {run.stps: 1}}\n", "IL103", 2, 18, "`run.steps`"),
    Fault("fact-in-comparison", 'machine: agent\nexpect: {facts: {run.steps: "< limits.x"}}\n', "IL103", 2, 32),
    Fault("fact-that-is-no-fact", "machine: agent\nexpect: {facts: {run.steps + 1: 3}}\n", "IL103", 2, 18, "no fact"),
    Fault("value-of-another-type", "machine: agent\nexpect: {facts: {run.steps: many}}\n", "IL104", 2, 29, ">= 3"),
    Fault("comparison-of-types", "machine: agent\nexpect: {facts: {run.elapsed: '>= 3'}}\n", "IL104", 2, 35),
    Fault("no-such-word", "machine: agent\nexpect: {facts: {run.status: finished}}\n", "IL104", 2, 30, "completed"),
    Fault("limit", GOOD + "limits: {stps: 1}\n", "IL603", 3, 10, "`steps`"),
    Fault("limit-value", GOOD + "limits: {time: many}\n", "IL603", 3, 16, "duration"),
    Fault("variable", GOOD + "vars: {x: 1}\n", "IL603", 3, 8, "no variable"),
    Fault("tool", GOOD + "tools: {send_mesage: []}\n", "IL405", 3, 9, "`send_message`"),
    Fault("event", GOOD + "events: [{after: 1, send: fix}]\n", "IL410", 3, 27, "no waits"),
    Fault("cancel", GOOD + "events: [{after: 1, cancel: stop}]\n", "IL408", 3, 29),
]  # fmt: skip


@pytest.mark.parametrize("case", AGAINST, ids=lambda case: case.id)
def test_faults_against_the_machine_have_a_place(case: Fault, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        played(tmp_path, case.text)
    finding = next(f for f in caught.value.findings if f.code == case.code)
    assert (finding.place.line, finding.place.column) == (case.line, case.column)
    assert case.says in finding.render()


# expectations ----------------------------------------------------------------------------------

HELLO = """machine: agent
task: Hello.
replies:
  - {text: Hi., usage: {prompt_tokens: 40, completion_tokens: 2}}
expect: %s
"""


class Expected(NamedTuple):
    """An expectation of the shortest run there is, and whether it is met."""

    id: str
    expect: str
    met: bool = True


EXPECTED = [
    Expected("reason", "{reason: completed}"),
    Expected("other-reason", "{reason: steps_limit}", met=False),
    Expected("no-reason", "{reason: null}", met=False),
    Expected("kind", "{kind: natural}"),
    Expected("other-kind", "{kind: limit}", met=False),
    Expected("path", "{path: [user_message, llm_inference, done]}"),
    Expected("shorter-path", "{path: [user_message, llm_inference]}", met=False),
    Expected("longer-path", "{path: [user_message, llm_inference, done, done]}", met=False),
    Expected("output", "{output: Hi.}"),
    Expected("other-output", "{output: Hi}", met=False),
    Expected("output-of-another-kind", "{output: [Hi.]}", met=False),
    Expected("no-output", "{output: null}", met=False),
    Expected("count", "{facts: {run.steps: 2}}"),
    Expected("other-count", "{facts: {run.steps: 3}}", met=False),
    Expected("large-number", "{facts: {limits.tokens: 100_000}}"),
    Expected("comparison", '{facts: {run.steps: ">= 2"}}'),
    Expected("comparison-not-met", '{facts: {run.steps: "> 2"}}', met=False),
    Expected("comparison-with-a-limit", '{facts: {usage.total_tokens: "< limits.tokens"}}'),
    Expected("comparison-of-both-ends", '{facts: {run.steps: ">= 1 and run.steps <= 2"}}'),
    Expected("one-of", """{facts: {last.text: 'in ["Hi.", "Ho."]'}}"""),
    Expected("none", "{facts: {usage.cost: null, errors.last: is None}}"),
    Expected("not-none", "{facts: {usage.cost: is not None}}", met=False),
    Expected("bound-of-none", '{facts: {usage.cost: ">= 0.5"}}', met=False),
    Expected("never-none", "{facts: {run.steps: null}}", met=False),
    Expected("field-of-none", "{facts: {errors.last.message: x}}", met=False),
    Expected("duration", "{facts: {limits.time: 10m, run.elapsed: 0s}}"),
    Expected("fraction", "{facts: {limits.context: 95%}}"),
    Expected("other-fraction", "{facts: {limits.context: 96%}}", met=False),
    Expected("words", "{facts: {run.status: completed, last.finish_reason: stop}}"),
    Expected("bool", "{facts: {last.ok: true}}"),
    Expected("other-bool", "{facts: {last.ok: false}}", met=False),
    Expected("list", "{facts: {signals.reasons: [completed], last.tool_calls: []}}"),
    Expected("other-list", "{facts: {signals.reasons: []}}", met=False),
    Expected("text-like-a-comparison", "{facts: {run.task: '!= \"in doubt\"'}}"),
    Expected("text-that-begins-like-a-word", "{facts: {run.task: is that so}}", met=False),
]


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case.id)
def test_expectations(case: Expected, tmp_path: Path) -> None:
    report = played(tmp_path, HELLO % case.expect)
    assert report.passed is case.met, str(report)
    assert bool(report.problems) is not case.met


def plain_facts(report: ScenarioReport) -> Iterator[tuple[str, Any]]:
    """Every fact that the language can name, at the end of a run."""
    assert report.result is not None
    facts = plain(report.result.facts)
    for name in FACTS:
        root, field = name.split(".")
        value = facts[root][field]
        if not isinstance(value, dict):
            yield name, value


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name.removesuffix(".scenario.yaml"))
def test_what_a_run_came_to_meets_itself_and_nothing_else(path: Path) -> None:
    made, report = load_scenario(path), run_scenario(path)
    assert report.result is not None
    came = {
        "reason": str(report.result.reason),
        "kind": report.result.kind,
        "path": list(report.result.path),
        "output": plain(report.result.output),
    }
    facts = {n: v for n, v in plain_facts(report) if n != "run.id" and not isinstance(v, list)}
    data: Mapping[str, Any] = made.document.data
    same_again = dict(data, expect=dict(came, facts=facts))
    assert run_scenario(scenario_of(_document(same_again), name="s", folder=path.parent)).passed
    for key, other in (("path", [*came["path"], "end-error"]), ("output", {"no": "such"})):
        changed = dict(data, expect=dict(came, **{key: other}))
        report = run_scenario(scenario_of(_document(changed), name="s", folder=path.parent))
        assert len(report.problems) == 1
        assert report.problems[0].startswith(key)


def _document(data: Mapping[str, Any]) -> Document:
    return Document(json.loads(json.dumps(data)), "", "")


def test_a_failure_shows_both_sides_the_places_and_the_last_decision(tmp_path: Path) -> None:
    text = HELLO % "\n  path: [user_message, done]\n  facts: {run.steps: 3}\n  output: Ho."
    assert str(played(tmp_path, text)) == (
        f"""it failed:

path  ({tmp_path}/it.scenario.yaml:6:9)
    expected       got
    user_message   user_message
  ≠                llm_inference
    done           done

run.steps  ({tmp_path}/it.scenario.yaml:7:22)
    expected   got
  ≠ 3          2

output  ({tmp_path}/it.scenario.yaml:8:11)
    expected   got
  ≠ Ho.        Hi.

Stopped for `completed` (natural) at `done` after 2 steps and 0 ms.
Raised by done.

The last decision: record 2, step at `llm_inference` to `done`
    rules.0               no     run.steps >= limits.steps (2 against 50)
    rules.1               no     usage.total_tokens >= limits.tokens (42 against 100,000)
    rules.2               no     run.working >= limits.time (0 ms against 10 min)
    rules.3               no     progress.stalled_steps >= limits.stalled (1 against 5)
    rules.4               no     errors.consecutive >= limits.errors (0 against 3)
    llm_inference.retry   no     retry ≤ 3
    llm_inference.next.0  no     last.wants_memory
    llm_inference.next.1  no     len(last.tool_calls) > 0 (0 against 0)
  → llm_inference.next.2  holds  otherwise → done"""
    )


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


ADDER = """interlock: 1
machine: adder
model: {name: scripted}
tools: [add]
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  ask: {do: receive, next: think}
  think:
    do: infer
    next: [{when: len(last.tool_calls) > 0, to: work}, {to: done}]
  work: {do: call_tools, next: think}
  done: {stop: completed}
"""
ADDS = """machine: adder.yaml
task: Add.
replies:
  - {tool_calls: [{name: add, arguments: {a: 2, b: "3"}}]}
  - done
%s
expect: {facts: {usage.messages: 4}, %s}
"""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def told(report: ScenarioReport) -> Any:
    """What the model was told by its tool."""
    assert report.run is not None
    return next(m["content"] for m in report.run.messages if m["role"] == "tool")


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
    assert [f.code for f in caught.value.findings] == ["IL405"]


def test_a_machine_that_cannot_be_started_is_a_failure(tmp_path: Path) -> None:
    later = ADDER.replace("do: call_tools", "do: measure").replace("tools: [add]\n", "")
    (tmp_path / "adder.yaml").write_text(later)
    report = played(tmp_path, ADDS % ("", "reason: completed"))
    assert not report.passed
    assert report.run is None
    assert "not carry out" in str(report)


# events ----------------------------------------------------------------------------------------

ASKER = """interlock: 1
machine: asker
limits: {patience: 1h}
states:
  ask: {do: ask_user, with: {text: "May I?"}, next: wait}
  wait:
    ask: May I?
    on: {yes: {to: work, data: {note: str}}, no: refused}
    within: limits.patience
    expired: late
  work: {do: nothing, next: more}
  more: {do: nothing, next: done}
  refused: {stop: user_requested}
  late: {stop: user_unresponsive}
  done: {stop: completed}
"""


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
        run.step()
    again = machine.open(run.id, journal=journal, clock=ManualClock())
    assert play(again, [OutsideEvent(0, 1, "send", "no")]) == []
    assert again.state == "refused"


def test_an_answer_that_is_not_taken_fails(tmp_path: Path) -> None:
    (tmp_path / "asker.yaml").write_text(ASKER)
    text = "machine: asker.yaml\nevents: [{after: 1, send: yes}]\nexpect: {reason: completed}\n"
    report = played(tmp_path, text)
    assert "needs `note`" in report.problems[0]
    assert ":2:9" in report.problems[0]


# finding and loading ---------------------------------------------------------------------------


def test_scenarios_are_found_once_and_sorted(tmp_path: Path) -> None:
    (tmp_path / "sub" / ".hidden").mkdir(parents=True)
    b = written(tmp_path / "sub", GOOD, "b")
    a = written(tmp_path, GOOD, "a")
    written(tmp_path / "sub" / ".hidden", GOOD, "c")
    (tmp_path / "a.yaml").write_text(GOOD)
    assert find_scenarios([tmp_path, b, str(a)]) == [a, b]
    with pytest.raises(SetupError, match="no file or folder"):
        find_scenarios([tmp_path / "none"])


def test_a_scenario_has_its_file_s_name_and_compares_by_what_it_says(tmp_path: Path) -> None:
    first = load_scenario(written(tmp_path, GOOD))
    again = load_scenario(written(tmp_path, "# the same\n" + GOOD))
    assert first.name == "it"
    assert first == again


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot read"):
        load_scenario(tmp_path / "none.scenario.yaml")


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


# side by side ----------------------------------------------------------------------------------

lines = st.lists(st.text("ab", max_size=70), max_size=12)


@given(expected=lines, got=lines)
def test_a_table_marks_differences_and_nothing_else(expected: list[str], got: list[str]) -> None:
    table = beside(expected, got)
    assert any(line.startswith("≠") for line in table) is (expected != got)
    assert max(map(len, table)) <= 2 + WIDEST + 3 + WIDEST


@given(st.integers(0, 3000), st.integers(0, 3000), st.sampled_from(["same", "other"]))
def test_a_table_of_long_lists_is_short(left: int, right: int, tail: str) -> None:
    assert len(beside(["same"] * left, [*["same"] * right, tail])) <= 830


def test_long_lines_are_cut_where_they_differ() -> None:
    (_, row) = beside(["x" * 100 + "left"], ["x" * 100 + "right"])
    assert "left" in row
    assert "right" in row


@given(JSON)
def test_data_is_the_same_as_itself(data: Any) -> None:
    text = json.dumps(data)
    if "NaN" not in text:
        assert same(json.loads(text), json.loads(text))


@given(JSON, JSON)
def test_what_is_the_same_is_so_both_ways_and_equal(one: Any, other: Any) -> None:
    assert same(one, other) == same(other, one)
    if isinstance(one, (str, bool, type(None))) or isinstance(other, (str, bool, type(None))):
        assert same(one, other) == (type(one) is type(other) and one == other)


# what is public ---------------------------------------------------------------------------------


def test_public_names_are_there_and_hide_no_module() -> None:
    folder = ROOT / "engine" / "interlock" / "testing"
    assert set(testing.__all__) & {path.stem for path in folder.glob("*.py")} == set()
    assert [n for n in testing.__all__ if isinstance(getattr(testing, n), ModuleType)] == []
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = testing.nothing


def test_pytest_knows_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = import_module(project["entry-points"]["pytest11"]["interlock"])
    assert plugin.pytest_collect_file is not None
