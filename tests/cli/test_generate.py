"""`chartloop test MACHINE --generate`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import Shell, Terminal


def test_what_is_missing_is_written_and_then_passes(sh: Shell) -> None:
    done = sh("test", "adder.yaml", "--generate", "found", "--tools", "tools.py")
    assert done.code == 0, done.err
    assert "+ found/stops-for-steps_limit.scenario.yaml" in done.out
    assert done.out.splitlines()[-1].startswith("adder: of ")
    assert done.err == "", "no line for a person where nobody looks"
    again = sh("test", "adder.yaml", "--generate", "found", "--tools", "tools.py")
    assert again.out.endswith("edges, rules and stop reasons are shown already\n")
    assert sh("test", "found", "--tools", "tools.py").code == 0


def test_a_list_and_nothing_written(sh: Shell) -> None:
    done = sh("test", "looper.yaml", "--generate", "--dry-run", "--for", "steps_limit")
    assert done.out.startswith("· stops-for-steps_limit.scenario.yaml\n    steps_limit\n")
    assert list(sh.folder.glob("*.scenario.yaml")) == []


def test_as_data(sh: Shell) -> None:
    told = sh("test", "looper.yaml", "--generate", "--format", "json").json
    assert told["machine"] == "looper"
    assert told["written"] is True
    assert told["unreached"] == []
    for one in told["scenarios"]:
        assert (sh.folder / one["file"]).read_text() == one["text"]


def test_a_file_that_a_person_changed_is_kept_without_force(sh: Shell) -> None:
    sh("test", "looper.yaml", "--generate", "--for", "steps_limit")
    mine = sh.folder / "stops-for-steps_limit.scenario.yaml"
    mine.write_text("# mine\n" + mine.read_text())
    done = sh("test", "looper.yaml", "--generate", "--for", "steps_limit")
    assert done.code == 1
    assert "a person wrote or changed it: stops-for-steps_limit" in done.err
    assert mine.read_text().startswith("# mine\n")
    assert sh("test", "looper.yaml", "--generate", "--for", "steps_limit", "--force").code == 0
    assert not mine.read_text().startswith("# mine\n")


def test_what_is_left_is_said_and_fails(sh: Shell) -> None:
    done = sh("test", "agent", "--generate", "--work", "2", "--dry-run")
    assert done.code == 1
    assert "✗ rule rules.1: not found with " in done.out


def test_a_command_line_that_says_nothing_sensible(sh: Shell) -> None:
    assert "--dry-run goes with --generate" in sh("test", "--dry-run").err
    assert "takes one MACHINE" in sh("test", "--generate").err
    done = sh("test", "--generate", "looper.yaml")
    assert "write `chartloop test looper.yaml --generate`" in done.err
    assert "there is no machine file `nobody`" in sh("test", "nobody", "--generate").err
    assert "there is no file or folder `nobody`" in sh("test", "nobody").err
    found = sh("test", "agent", "--generate", "--for", "stepslimit")
    assert "no edge, rule or stop reason is called `stepslimit`" in found.err
    assert "did you mean" in found.err


def test_tools_that_are_not_given_are_scripted_and_actions_are_asked_for(sh: Shell) -> None:
    done = sh("test", "adder.yaml", "--generate", "found")
    assert done.code == 0, done.err
    states = "states: {a: {do: file_it, next: b}, b: {end: completed}}"
    sh.write("own.yaml", f"chartloop: 1\nmachine: own\n{states}\n")
    assert "--tools FILE" in sh("test", "own.yaml", "--generate").err


def test_at_a_terminal_a_line_says_how_far_it_is(folder: Path) -> None:
    with Terminal("test", "looper.yaml", "--generate", cwd=folder) as t:
        t.expect("moves tried")
        t.expect("stops-for-steps_limit.scenario.yaml")
        assert t.wait() == 0


@pytest.mark.slow("starts processes for seconds")
def test_ctrl_c_keeps_what_was_found(folder: Path) -> None:
    with Terminal(
        "test", "moderator_full", "--generate", "found", "--work", "5000000", cwd=folder
    ) as t:
        t.expect("of 5,000,000 moves tried; Ctrl-C keeps what is found")
        t.ctrl_c()
        t.expect("when the search was stopped")
        t.expect("moderator_full: of 93")
        assert t.wait() == 130
    found = list((folder / "found").glob("*.scenario.yaml"))
    assert found, "each of them has been played"
