"""`chartloop retry`: what would be kept and made again, and trying it."""

from __future__ import annotations

import pytest

from tests.cli.shell import Shell

CLERK = """\
chartloop: 1
machine: clerk
model: {name: scripted}
limits: {steps: 4}
output: last.text
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  take: {do: receive, next: think}
  think: {do: infer, next: polish}
  polish: {do: infer, next: done}
  done: {stop: completed}
"""
FIRST = "  - {text: One., usage: {prompt_tokens: 9, completion_tokens: 1, cost: 0.5}}\n"
DOWN = f"replies:\n{FIRST}  - {{error: {{category: CRITICAL, message: server down}}}}\n"
UP = f"replies:\n{FIRST}  - Two.\n"
RUN = ("run", "clerk.yaml", "x", "--run-id", "r")


@pytest.fixture
def clerk(sh: Shell) -> Shell:
    sh.write("clerk.yaml", CLERK)
    sh.write("down.yaml", DOWN)
    sh.write("up.yaml", UP)
    return sh


def test_a_failed_run_says_how_it_is_tried_again(clerk: Shell) -> None:
    done = clerk(*RUN, "--script", "down.yaml")
    assert done.code == 1
    assert "try again from there:  chartloop retry r\n" in done.err


def test_a_dry_run_lists_what_is_made_again_and_does_nothing(clerk: Shell) -> None:
    clerk(*RUN, "--script", "down.yaml")
    said = clerk("retry", "r", "--dry-run")
    assert said.code == 0
    assert said.err.splitlines() == [
        "run r",
        "  2 finished steps kept; it starts at `polish`, in a new run",
        "  Again: 1 model call at `polish`, which failed: cost not known",
    ]
    (plan,) = clerk("retry", "r", "--dry-run", "--format", "json").json
    assert (plan["at"], plan["state"], plan["needs_confirmation"]) == (3, "polish", True)
    assert len(clerk("runs", "--format", "json").json) == 1


def test_nothing_is_made_again_unless_somebody_agrees(clerk: Shell) -> None:
    clerk(*RUN, "--script", "down.yaml")
    said = clerk("retry", "r", "--script", "up.yaml")
    assert said.code == 2
    assert "this would make these calls again: agree with --yes" in said.err
    assert len(clerk("runs", "--format", "json").json) == 1


def test_a_retry_keeps_what_was_done_before_the_failure(clerk: Shell) -> None:
    clerk(*RUN, "--script", "down.yaml")
    done = clerk("retry", "last", "--yes", "--script", "up.yaml", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["output"] == "Two."
    assert done.json["usage"]["cost"] == pytest.approx(0.5)
    assert done.json["steps"] == 3
    old, new = (clerk("show", run, "--format", "json").json for run in ("r", done.json["run"]))
    assert old["records"][:3] == new["records"][:3]


def test_a_limit_is_raised_and_no_call_is_made_twice(clerk: Shell) -> None:
    first = clerk(*RUN, "--script", "up.yaml", "--limit", "steps=2")
    assert first.code == 3
    refused = clerk("retry", "r")
    assert refused.code == 1
    assert "a limit stopped the run, and would stop it again" in refused.err
    assert "raise it: steps: 4" in refused.err
    done = clerk("retry", "r", "--raise", "--format", "json")
    assert done.code == 0, done.err
    assert done.json["usage"]["cost"] == pytest.approx(0.5)
    assert done.json["usage"]["llm_calls"] == 2


def test_several_runs_are_listed_before_the_first_is_begun(clerk: Shell) -> None:
    clerk(*RUN, "--script", "down.yaml")
    clerk("run", "clerk.yaml", "y", "--run-id", "s", "--script", "up.yaml")
    refused = clerk("retry", "r", "s", "--yes")
    assert refused.code == 1
    assert "the run is done: nothing failed" in refused.err
    assert len(clerk("runs", "--format", "json").json) == 2
