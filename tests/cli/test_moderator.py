"""`chartloop run moderator --script ... --clock simulated` reaches every ending of document 003."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chartloop.core.phase import PHASES
from chartloop.scenarios import load_scenario
from tests.cases.test_moderator import ENDINGS, SCENARIOS, Ending
from tests.cli.shell import Shell

CODES = {"natural": 0, "error": 1, "limit": 3, "human": 5}


def arguments(sh: Shell, ending: Ending) -> list[str]:
    """What a scenario says, as files and options of the command line."""
    made = load_scenario(SCENARIOS / f"moderator_{ending.scenario}.scenario.yaml")
    said: Any = made.document.data
    script = {"replies": said.get("replies", []), "events": said.get("events", [])}
    sh.write("script.yaml", json.dumps(script))
    more = [part for name, value in made.limits.items() for part in ("--limit", f"{name}={value}")]
    if made.tasks is not None:
        sh.write("tasks.yaml", json.dumps(list(made.tasks)))
        more += ["--tasks", "tasks.yaml"]
    return ["run", "moderator", made.task, "--script", "script.yaml", *more]


@pytest.mark.slow("takes seconds")
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.scenario)
def test_an_ending_and_its_report(sh: Shell, ending: Ending) -> None:
    done = sh(*arguments(sh, ending), "--clock", "simulated")
    told = sh("show", "last", "--format", "json").json
    result = told.get("result", told)
    assert done.code == CODES[result["kind"]], done.err
    assert {s["reason"]: s["message"] for s in result["signals"]} == dict(ending.signals)
    reason = next(iter(ending.signals))
    why = "" if reason == "completed" else f" (`{reason}`)"
    assert f"{PHASES[result['phase']].word.capitalize()}{why} at `end`" in done.err
    assert done.out.startswith("# Report: moderator\n")
    assert f"| Stopped for | {reason} |" in done.out.replace("\\_", "_")
    assert f"- `{reason}`" in done.out
    assert "## Timeline" in done.out
    assert "```mermaid\nflowchart TD" in done.out


def test_the_way_is_drawn_with_counts(sh: Shell) -> None:
    done = sh(*arguments(sh, ENDINGS[-2]), "--clock", "simulated")
    assert ENDINGS[-2].scenario == "completes"
    assert "Monitor Agent<br/>Continuous Checks ×2" in done.out
    assert "STOP:" not in done.out  # what was not entered is not in it
