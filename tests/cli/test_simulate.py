"""`chartloop simulate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.shell import Shell

OPAQUE = """chartloop: 1
machine: opaque
limits: {steps: 10}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  look: {do: nothing, next: [{when: is_sound(run.steps), to: done}, {to: look}]}
  done: {stop: completed}
"""
TOOLS = """from chartloop import guard


@guard
def is_sound(steps: int) -> bool:
    "Whether it is."
    return steps > 0
"""


def test_a_shipped_machine_at_once(sh: Shell) -> None:
    done = sh("simulate", "agent", "--runs", "500")
    assert done.code == 0
    text = " ".join(done.out.split())
    assert text.startswith("agent, 500 simulated runs, seed")
    assert "stops with share 95% confidence completed █" in text
    assert "mean median p95 max proven bound actions" in text
    assert "in a world where llm_inference: the action fails: 2% TRANSIENT" in text
    assert done.out == sh("simulate", "agent", "--runs", "500").out
    assert done.out != sh("simulate", "agent", "--runs", "500", "--seed", "1").out


def test_as_json(sh: Shell) -> None:
    done = sh("simulate", "agent", "--runs", "200", "--limit", "steps=5", "--format", "json")
    told = json.loads(done.out)
    assert told["runs"] == 200
    assert told["figures"]["actions"]["bound"] == 5
    assert told["figures"]["actions"]["max"] <= 5
    assert told["reasons"]["completed"]["share"] > 0.5
    assert told["exceeded"] == []


def test_a_world_is_given(sh: Shell, tmp_path: Path) -> None:
    world = tmp_path / "world.yaml"
    world.write_text(
        "world: 1\nstates: {llm_inference: {tool_calls: 1, repeats: 100%, fails: {}}}\n"
    )
    done = sh("simulate", "agent", "--world", str(world), "--runs", "50", "--format", "json")
    assert [*json.loads(done.out)["reasons"]] == ["no_progress"]


def test_a_mistake_in_a_world_is_shown_where_it_stands(sh: Shell, tmp_path: Path) -> None:
    world = tmp_path / "world.yaml"
    world.write_text("world: 1\nstates:\n  llm_inferense: {fails: 1%}\n")
    done = sh("simulate", "agent", "--world", str(world))
    assert done.code == 1
    assert "error[CL301]: the machine has no state `llm_inferense`" in done.err
    assert "world.yaml:3:3" in done.err
    assert "did you mean `llm_inference`?" in done.err


def test_a_python_guard_needs_a_share(sh: Shell, tmp_path: Path) -> None:
    machine, tools = tmp_path / "opaque.yaml", tmp_path / "own.py"
    machine.write_text(OPAQUE)
    tools.write_text(TOOLS)
    command = ("simulate", str(machine), "--tools", str(tools), "--runs", "100")
    refused = sh(*command)
    assert refused.code == 2
    assert "guard `is_sound` is Python: how often it holds is unknown" in refused.err
    assert "--guard is_sound=50%" in refused.err
    assert sh(*command, "--guard", "is_sound=100%").code == 0
    apart = sh(*command, "--guard", "is_sound=50%", "--runs", "2000", "--jobs", "2")
    assert apart.code == 2
    assert "cannot go to another process" in apart.err
    assert "use one process" in apart.err
    assert "is not a share" in sh(*command, "--guard", "is_sound=often").err


@pytest.mark.slow("takes seconds")
def test_limits_are_suggested(sh: Shell) -> None:
    done = sh("simulate", "agent", "--runs", "200", "--at-most", "1%")
    assert "what would be enough, in this world" in done.out
    assert "actions ≤ 15" in done.out


def test_one_run_is_shown_and_kept(sh: Shell) -> None:
    done = sh("simulate", "agent", "--run", "3")
    assert done.code == 0
    assert "user_message" in done.out
    assert "Done at" in done.out
    kept = sh("simulate", "agent", "--run", "3", "--keep")
    assert "kept as sim-0-3" in kept.err
    assert sh("why", "sim-0-3", "--record", "1").code == 0
    assert sh("replay", "sim-0-3").code == 0


def test_a_world_is_learnt_written_and_read(sh: Shell, tmp_path: Path) -> None:
    for number in range(6):
        sh("simulate", "agent", "--run", str(number), "--keep")
    path = tmp_path / "learnt.yaml"
    done = sh("simulate", "agent", "--from", "all", "--write-world", str(path))
    assert done.code == 0
    assert "Learnt from 6 recorded runs of agent." in done.err
    text = path.read_text("utf-8")
    assert "samples" in text
    assert "tool_calls" in text
    assert sh("simulate", "agent", "--world", str(path), "--runs", "100").code == 0
    thin = sh("simulate", "agent", "--from", "sim-0-1", "--runs", "50")
    assert "samples only" in thin.out


def test_nothing_to_learn_from(sh: Shell) -> None:
    sh("simulate", "agent", "--run", "1", "--keep")
    done = sh("simulate", "moderator", "--from", "all")
    assert done.code == 2
    assert "no recorded run of `moderator`" in done.err


def test_the_picture_shows_how_often(sh: Shell, tmp_path: Path) -> None:
    done = sh("simulate", "agent", "--runs", "50", "-o", str(tmp_path / "heat.mmd"))
    assert done.code == 0, done.err
    assert "×50" in (tmp_path / "heat.mmd").read_text("utf-8")


@pytest.mark.slow("takes seconds")
@pytest.mark.extra("matplotlib", install='pip install -e ".[plots]"')  # noqa: S610 - no Django
def test_the_spread_is_drawn(sh: Shell, tmp_path: Path) -> None:
    page = tmp_path / "spread.svg"
    done = sh("simulate", "agent", "--runs", "200", "--plot", str(page))
    assert done.code == 0
    assert f"wrote {page}" in done.err.replace("\n", "")
    assert "agent, 200 simulated runs, seed 0" in page.read_text("utf-8")
    wrong = sh("simulate", "agent", "--runs", "5", "--plot", "a.pdf")
    assert "name a .svg, a .png or a folder" in wrong.err
