"""`chartloop coverage`, and `chartloop test --coverage`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.shell import Shell

SCENARIO = "machine: agent\ntask: Hello.\nreplies: [Hi.]\nexpect: {reason: completed}\n"
TEAM = "machine: team\ntask: x\nlimits: {steps: 1}\nexpect: {reason: steps_limit}\n"


@pytest.fixture
def ran(sh: Shell) -> Shell:
    """A journal with two runs of `agent`."""
    Path("replies.yaml").write_text("- Hi.\n")
    for number in ("1", "2"):
        done = sh("run", "agent", "Hello.", "--script", "replies.yaml", "--run-id", f"r{number}")
        assert done.code == 0, done.err
    return sh


def test_all_runs_of_the_machine_in_the_journal(ran: Shell) -> None:
    done = ran("coverage", "agent")
    assert done.code == 0, done.err
    assert "agent (" in done.out
    assert "2 runs, 6 records" in done.out
    assert "edges" in done.out
    assert "2/8" in done.out
    assert "not seen" in done.out
    assert "run.steps >= limits.steps → stop: steps_limit" in done.out
    assert "end-completed" not in done.out


def test_only_the_runs_that_are_named(ran: Shell) -> None:
    assert "1 run, 3 records" in ran("coverage", "agent", "r1").out
    ran("journal", "export", "r1", "--to", "-")
    Path("r1.jsonl").write_text(ran("journal", "export", "r1", "--to", "-").out)
    assert "1 run, 3 records" in ran("coverage", "agent", "r1.jsonl").out


def test_json(ran: Shell) -> None:
    data = json.loads(ran("coverage", "agent", "--format", "json").out)
    assert data["figures"]["edges"] == {"seen": 2, "all": 8, "percent": 25.0}
    assert data["runs"] == 2
    (edge,) = (i for i in data["items"] if i["id"] == "user_message.next.0")
    assert (edge["kind"], edge["times"], edge["to"]) == ("edge", 2, "llm_inference")
    assert edge["line"] > 0


def test_a_threshold_and_its_exit_code(ran: Shell) -> None:
    done = ran("coverage", "agent", "--fail-under", "100")
    assert done.code == 1
    assert "`agent`: 2/8 edges are 25 %, below 100 %" in done.err
    assert ran("coverage", "agent", "--fail-under", "25", "--fail-under", "states=50").code == 0
    wrong = ran("coverage", "agent", "--fail-under", "edgs=2")
    assert wrong.code == 2
    assert "did you mean `edges`?" in wrong.err


def test_saved_and_added(ran: Shell) -> None:
    assert ran("coverage", "agent", "r1", "--save", "one.json").code == 0
    assert ran("coverage", "agent", "r2", "--save", "two.json").code == 0
    done = ran("coverage", "agent", "--with", "one.json", "--with", "two.json")
    assert "2 runs, 6 records" in done.out, "the files, and not the journal once more"
    done = ran("coverage", "agent", "r1", "--with", "two.json")
    assert "2 runs, 6 records" in done.out
    other = ran("coverage", "team", "--with", "one.json")
    assert other.code == 2
    assert "`one.json` holds no coverage of `team`" in other.err


def test_a_broken_run_is_said_and_passed_over(ran: Shell) -> None:
    text = ran("journal", "export", "r1", "--to", "-").out
    Path("broken.jsonl").write_text(
        text + re.sub(r'"seq": ?1\b', '"seq": 7', ran("journal", "export", "r2", "--to", "-").out)
    )
    done = ran("coverage", "agent", "broken.jsonl")
    assert done.code == 0
    assert "1 run, 3 records" in done.out
    assert "`r2` is" in done.err + done.out


def test_the_heat_map(ran: Shell) -> None:
    done = ran("coverage", "agent", "--draw", "heat.mmd")
    assert done.code == 0, done.err
    assert "(never)" in Path("heat.mmd").read_text()
    assert "heat.mmd" in done.err


def test_scenarios_of_one_machine(sh: Shell) -> None:
    Path("a.scenario.yaml").write_text(SCENARIO)
    done = sh("test", "--coverage", "--save", "c.json")
    assert done.code == 0, done.err
    assert "1 passed" in done.out
    assert "not seen" in done.out
    assert "1 run, 3 records" in sh("coverage", "agent", "--with", "c.json").out


def test_scenarios_of_several_machines_are_a_table(sh: Shell) -> None:
    Path("a.scenario.yaml").write_text(SCENARIO)
    Path("t.scenario.yaml").write_text(TEAM)
    done = sh("test", "--coverage")
    rows = [line.split() for line in done.out.splitlines()]
    assert ["machine", "runs", "states", "edges", "rules", "atoms", "reasons", "children"] in rows
    assert any(row[:2] == ["agent", "1"] and "2/8" in row for row in rows), done.out
    assert any(row[:2] == ["team", "1"] for row in rows)


def test_scenarios_below_a_threshold(sh: Shell) -> None:
    Path("a.scenario.yaml").write_text(SCENARIO)
    done = sh("test", "--fail-under", "100")
    assert done.code == 1
    assert "below 100 %" in done.err
    data = json.loads(sh("test", "--fail-under", "100", "--format", "json").out)
    assert data["scenarios"][0]["passed"] is True
    assert data["coverage"][0]["machine"] == "agent"
    assert data["below"]


def test_without_coverage_the_json_is_as_before(sh: Shell) -> None:
    Path("a.scenario.yaml").write_text(SCENARIO)
    data = json.loads(sh("test", "--format", "json").out)
    assert data[0]["file"] == "a.scenario.yaml"


def test_saved_coverages_are_added_to_the_runs_of_the_journal_where_it_is_said(ran: Shell) -> None:
    ran("coverage", "agent", "r1", "--save", "one.json")
    alone = ran("coverage", "agent", "--with", "one.json")
    assert "1 run, 3 records" in alone.out
    assert "only saved coverage is counted; `all` adds" in alone.err
    both = ran("coverage", "agent", "all", "--with", "one.json")
    assert "3 runs, 9 records" in both.out
    assert "only what" not in both.err
