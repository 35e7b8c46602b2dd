"""Whoever read stdout has gone, as `head` after its lines: a command ends quietly, with 141."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.shell import ADD, ASK, PROGRAM, environment, program, slowly, write_files

COMMANDS = [
    ("show", "r"), ("show", "r", "--format", "json"), ("why", "r"), ("runs",), ("stats",),
    ("journal", "export", "r", "--to", "-"), ("replay", "r"), ("draw", "adder.yaml", "--tools", "tools.py"),
    ("check", "adder.yaml", "--tools", "tools.py"), ("info", "machines"), ("info", "facts"), ("info", "schema"),
    ("doctor",), ("query", "agent", "reach done"), ("bound", "agent"), ("--help",), ("--version",),
    ("coverage", "adder.yaml", "--tools", "tools.py"), ("resume", "r"),
    ("draw", "agent", "--format", "svg"), ("diff", "agent", "adder.yaml"),
    ("run", *ADD), ("run", *ADD, "--format", "json"), ("run", *ADD, "--format", "jsonl"),
    ("run", *ADD, "--format", "jsonl", "-v"),
    ("run", "looper.yaml", "--script", "slow.yaml", "--inputs", "in.txt", "--format", "jsonl"),
]  # fmt: skip


def unheard(*args: str, cwd: Path) -> tuple[int, str]:
    """The program with a stdout that no process reads: its exit code, and what is on stderr."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stdout:
        done = subprocess.run(
            [*PROGRAM, *args], cwd=cwd, stdout=stdout, stderr=subprocess.PIPE, check=False,
            stdin=subprocess.DEVNULL, env=environment(), text=True, timeout=60,
        )  # fmt: skip
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has ended."""
    folder = tmp_path_factory.mktemp("read")
    write_files(folder)
    (folder / "in.txt").write_text('{"task": "one"}\n{"task": "two"}\n')
    (folder / "slow.yaml").write_text(slowly("10ms", 2) + "  - enough\n")
    assert program("run", *ADD, "--run-id", "r", cwd=folder).code == 0
    return folder


@pytest.mark.slow("starts processes for seconds")
@pytest.mark.parametrize("args", COMMANDS, ids=" ".join)
def test_a_command_without_a_reader_ends_quietly(args: tuple[str, ...], recorded: Path) -> None:
    code, said = unheard(*args, cwd=recorded)
    assert code == 141, said
    for word in ("Traceback", "Exception", "listener", "BrokenPipe", "fault", "Errno"):
        assert word not in said


@pytest.mark.slow("starts processes for seconds")
def test_a_run_is_paused_once_its_reader_has_gone(folder: Path) -> None:
    (folder / "slow.yaml").write_text(slowly("300ms", 40) + "  - enough\n")
    run = ("run", "looper.yaml", "x", "--script", "slow.yaml", "--run-id", "r")
    code, said = unheard(*run, "--format", "jsonl", cwd=folder)
    assert (code, said.strip()) == (141, "")
    shown = program("show", "r", "--format", "json", cwd=folder).json
    assert shown["status"] == "paused"
    assert shown["steps"] < 20
    (folder / "slow.yaml").write_text("replies: [" + "hm, " * 10 + "enough, enough]\n")
    assert program("resume", "r", cwd=folder).code == 0


def test_a_question_is_not_asked_of_nobody(folder: Path) -> None:
    code, said = unheard("run", *ASK, "--format", "jsonl", cwd=folder)
    assert code == 141
    assert "Traceback" not in said
