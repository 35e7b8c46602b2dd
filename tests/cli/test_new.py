"""`chartloop new`: what a newcomer gets, tried as one would."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from chartloop.actions import builtin
from chartloop.cli.starter import COMMANDS
from chartloop.language.file.schema import schema
from tests.cli.shell import ADD, Shell, program


@pytest.mark.slow("starts processes for seconds")
def test_the_three_commands_work_as_printed(tmp_path: Path) -> None:
    made = program("new", "hello", cwd=tmp_path)
    assert made.code == 0
    printed = [line.strip() for line in made.out.splitlines() if line.startswith("  ")]
    assert printed == ["cd hello", *COMMANDS]
    folder = tmp_path / "hello"
    done = [program(*shlex.split(line)[1:], cwd=folder) for line in printed[1:]]
    assert [d.code for d in done] == [0, 0, 0]
    assert done[0].out == "It has 4 words.\n"
    assert "✓ done" in done[1].out
    assert done[2].out == "✓ hello.scenario.yaml\n1 passed\n"
    assert not (tmp_path / ".chartloop").exists()


def test_what_is_written(sh: Shell) -> None:
    told = sh("new", "agents/my-agent", "--format", "json").json
    folder = sh.folder / "agents" / "my-agent"
    assert told["machine"] == "my_agent"
    assert sorted(told["files"]) == sorted(p.name for p in folder.iterdir())
    text = (folder / "machine.yaml").read_text()
    assert text.startswith(
        "# yaml-language-server: $schema=machine.schema.json\nchartloop: 1\nmachine: my_agent\n"
    )
    assert (folder / "my_agent.scenario.yaml").is_file()
    assert ".chartloop/" in (folder / ".gitignore").read_text()
    checked = sh(
        "check",
        "agents/my-agent/machine.yaml",
        "--tools",
        "agents/my-agent/tools.py",
        "--format",
        "json",
    )
    assert checked.json["findings"] == []  # no warnings either
    assert (
        sh("run", str(folder / "machine.yaml"), "x", "--script", str(folder / "replies.yaml")).code
        == 1
    )
    assert schema(builtin().actions.values()) == json.loads(
        (folder / "machine.schema.json").read_text()
    )


@pytest.mark.parametrize("name", ["9lives", "a b", "naïve", "-", "a.b"])
def test_a_name_that_is_none(sh: Shell, name: str) -> None:
    assert sh("new", "--", name).code == 2
    assert not (sh.folder / name).exists()


def test_nothing_is_overwritten(sh: Shell) -> None:
    (sh.folder / "mine").mkdir()
    (sh.folder / "mine" / "machine.yaml").write_text("precious")
    assert sh("new", "mine").code == 2
    assert (sh.folder / "mine" / "machine.yaml").read_text() == "precious"
    (sh.folder / "empty").mkdir()
    assert sh("new", "empty").code == 0
    assert sh("new", "adder.yaml").code == 2


# a project's runs ----------------------------------------------------------------------------


def test_a_new_project_keeps_its_runs_to_itself(sh: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    sh("run", *ADD, "--run-id", "outside")
    assert sh("new", "hello").code == 0
    assert (sh.folder / "hello/.chartloop/.gitignore").read_text() == "*\n"
    monkeypatch.chdir(sh.folder / "hello")
    assert "no runs" in sh("runs").err
    run = ("machine.yaml", "x", "--tools", "tools.py", "--script", "replies.yaml")
    assert sh("run", *run, "--run-id", "inside").code == 0
    (sh.folder / "hello/deep").mkdir()
    monkeypatch.chdir(sh.folder / "hello/deep")
    assert [row["run"] for row in sh("runs", "--format", "json").json] == ["inside"]
    above = f"there is one further up: --journal {sh.folder}/.chartloop/journal.db"
    assert above in sh("show", "other").err
    assert sh("show", "outside", "--journal", f"{sh.folder}/.chartloop/journal.db").code == 0


def test_a_project_without_runs_names_the_journal_above(
    sh: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    sh("run", *ADD, "--run-id", "outside")
    (sh.folder / "project").mkdir()
    (sh.folder / "project/pyproject.toml").write_text("[project]\n")
    monkeypatch.chdir(sh.folder / "project")
    missing = sh("show", "outside")
    assert missing.code == 2
    assert "there is no journal at `.chartloop/journal.db`" in missing.err
    assert f"further up: --journal {sh.folder}/.chartloop/journal.db" in missing.err
