"""Scenarios: their form, and what they are checked for before they are played."""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chartloop import testing
from chartloop.core.errors import SetupError, SpecError
from chartloop.language.yaml.reading import Document
from chartloop.scenarios import Scenario, find_scenarios, load_scenario
from chartloop.scenarios.file import scenario_of
from tests.playing import GOOD, JSON, played, written

ROOT = Path(__file__).parents[2]


class Fault(NamedTuple):
    """A scenario with one thing wrong in it, and where that is."""

    id: str
    text: str
    code: str
    line: int
    column: int
    says: str = ""


# faults of the form ----------------------------------------------------------------------------


FORM = [
    Fault("empty", "", "CL001", 1, 1),
    Fault("a-list", "[a]", "CL203", 1, 1, "mapping"),
    Fault("no-machine", "expect: {reason: x}\n", "CL202", 1, 1, "lacks the key `machine`"),
    Fault("no-expect", "machine: agent\n", "CL202", 1, 1, "lacks the key `expect`"),
    Fault("expects-nothing", "machine: agent\nexpect: {}\n", "CL202", 2, 1, "expects nothing"),
    Fault("unknown-key", GOOD + "replys: []\n", "CL201", 3, 1, "did you mean `replies`?"),
    Fault("unknown-in-expect", "machine: agent\nexpect: {resaon: x}\n", "CL201", 2, 10, "`reason`"),
    Fault("kind-of-task", GOOD + "task: 5\n", "CL203", 3, 7, "text"),
    Fault("kind-of-replies", GOOD + "replies: {}\n", "CL203", 3, 10, "a list"),
    Fault("kind-of-tools", GOOD + "tools: {add: 5}\n", "CL203", 3, 14, "a list"),
    Fault("kind-of-tasks", GOOD + "tasks: mend it\n", "CL203", 3, 8, "a list"),
    Fault("kind-of-limits", GOOD + "limits: [1]\n", "CL203", 3, 9, "a mapping"),
    Fault("kind-of-path", "machine: agent\nexpect: {path: [1]}\n", "CL203", 2, 17, "text"),
    Fault("another-clock", GOOD + "clock: real\n", "CL208", 3, 8, "`simulated`"),
    Fault("no-such-kind", "machine: agent\nexpect: {kind: nice}\n", "CL208", 2, 16, "`natural`"),
    Fault("reply-field", GOOD + "replies:\n  - {txt: a}\n", "CL606", 4, 5, "did you mean `text`?"),
    Fault("reply-usage", GOOD + "replies: [{usage: {cost: x}}]\n", "CL606", 3, 26, "USD"),
    Fault("event-without-kind", GOOD + "events: [{after: 1}]\n", "CL207", 3, 10, "one of `send`"),
    Fault("event-of-two-kinds", GOOD + "events: [{after: 1, pause: true, resume: true}]\n", "CL207", 3, 10),
    Fault("event-without-after", GOOD + "events: [{send: x}]\n", "CL202", 3, 10, "`after`"),
    Fault("event-before-all", GOOD + "events: [{after: -1, send: x}]\n", "CL203", 3, 18, "`events.0.after` is at least 0, not -1"),
    Fault("event-data", GOOD + "events: [{after: 1, pause: true, data: {}}]\n", "CL207", 3, 34, "`send`"),
    Fault("pause-false", GOOD + "events: [{after: 1, pause: false}]\n", "CL208", 3, 28, "`true`"),
    Fault("duplicate-key", GOOD + "task: a\ntask: b\n", "CL002", 4, 1),
    Fault("a-tag", GOOD + "task: !!python/object:os.system x\n", "CL003", 3, 7),
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
    assert found == [(1, "CL203"), (2, "CL201"), (3, "CL606"), (4, "CL203"), (5, "CL208")]


def test_an_event_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    text = (
        GOOD + "events: [{after: x, send: a}, {after: 1}, {after: 2, resume: false, delay: soon}]\n"
    )
    with pytest.raises(SpecError) as caught:
        load_scenario(written(tmp_path, text))
    found = [(f.code, f.at) for f in caught.value.findings]
    assert found == [
        ("CL203", "events.0.after"), ("CL207", "events.1"), ("CL208", "events.2.resume"),
        ("CL203", "events.2.delay"),
    ]  # fmt: skip


KEYS = "machine task replies events tools tasks clock limits vars expect".split()


@given(data=st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), JSON) | JSON)
def test_no_data_does_more_than_raise_a_spec_error(data: Any) -> None:
    try:
        made = scenario_of(Document(data, "x", ""), name="x", folder=None)
    except SpecError:
        return
    assert isinstance(made, Scenario)


# faults against the machine --------------------------------------------------------------------

AGAINST = [
    Fault("no-machine", "machine: agnt\nexpect: {reason: x}\n", "CL411", 1, 10, "did you mean `agent`?"),
    Fault("endless-machine", f"machine: {'x' * 5000}\nexpect: {{reason: x}}\n", "CL411", 1, 10),
    Fault("reason", "machine: agent\nexpect: {reason: complete}\n", "CL408", 2, 18, "`completed`"),
    Fault("state", "machine: agent\nexpect: {path: [done, don]}\n", "CL301", 2, 23, "`done`"),
    Fault("fact", "machine: agent\nexpect: {facts: {run.stps: 1}}\n", "CL103", 2, 18, "`run.steps`"),
    Fault("fact-in-comparison", 'machine: agent\nexpect: {facts: {run.steps: "< limits.x"}}\n', "CL103", 2, 32),
    Fault("fact-that-is-no-fact", "machine: agent\nexpect: {facts: {run.steps + 1: 3}}\n", "CL103", 2, 18, "not a fact"),
    Fault("value-of-another-type", "machine: agent\nexpect: {facts: {run.steps: many}}\n", "CL104", 2, 29, ">= 3"),
    Fault("comparison-of-types", "machine: agent\nexpect: {facts: {run.elapsed: '>= 3'}}\n", "CL104", 2, 35),
    Fault("no-such-word", "machine: agent\nexpect: {facts: {run.status: finished}}\n", "CL104", 2, 30, "completed"),
    Fault("limit", GOOD + "limits: {stps: 1}\n", "CL603", 3, 10, "`steps`"),
    Fault("limit-value", GOOD + "limits: {time: many}\n", "CL603", 3, 16, "duration"),
    Fault("variable", GOOD + "vars: {x: 1}\n", "CL603", 3, 8, "no variable"),
    Fault("tool", GOOD + "tools: {send_mesage: []}\n", "CL405", 3, 9, "`send_message`"),
    Fault("task-key", GOOD + "tasks: [a, {text: b, siz: 1}]\n", "CL611", 3, 12, "task 2 has `siz`"),
    Fault("task-without-text", GOOD + "tasks:\n  - {id: x}\n", "CL611", 4, 5, "`text` says what is to be done"),
    Fault("task-of-another-kind", GOOD + "tasks: [{text: a, kind: primry}]\n", "CL611", 3, 9, "did you mean `primary`?"),
    Fault("task-twice", GOOD + "tasks:\n  - {id: x, text: a}\n  - {id: x, text: b}\n", "CL611", 5, 5, "a task `x` already"),
    Fault("task-by-unknown-tool", GOOD + "tasks: [{text: a, by: {tool: send_mesage}}]\n", "CL611", 3, 9, "did you mean `send_message`?"),
    Fault("event", GOOD + "events: [{after: 1, send: fix}]\n", "CL410", 3, 27, "no waits"),
    Fault("cancel", GOOD + "events: [{after: 1, cancel: stop}]\n", "CL408", 3, 29),
]  # fmt: skip


@pytest.mark.parametrize("case", AGAINST, ids=lambda case: case.id)
def test_faults_against_the_machine_have_a_place(case: Fault, tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        played(tmp_path, case.text)
    finding = next(f for f in caught.value.findings if f.code == case.code)
    assert (finding.place.line, finding.place.column) == (case.line, case.column)
    assert case.says in finding.render()


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


# what is public ---------------------------------------------------------------------------------


def test_public_names_are_there_and_hide_no_module() -> None:
    folder = ROOT / "engine" / "chartloop" / "testing"
    assert set(testing.__all__) & {path.stem for path in folder.glob("*.py")} == set()
    assert [n for n in testing.__all__ if isinstance(getattr(testing, n), ModuleType)] == []
    assert set(testing.__all__) <= set(dir(testing))
    with pytest.raises(AttributeError, match="no attribute `nothing`"):
        _ = testing.nothing


def test_pytest_knows_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = import_module(project["entry-points"]["pytest11"]["chartloop"])
    assert plugin.pytest_collect_file is not None
