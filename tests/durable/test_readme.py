"""The README's commands for many runs do what it says, on a file and on a database."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.shell import PROGRAM, ROOT
from tests.cli.working import until
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]
README = (ROOT / "README.md").read_text("utf-8")
PROMISES = (
    "a recorded call is never paid twice; one whose outcome is unknown is named, never hidden, and"
    " not repeated unasked; no acknowledged step is lost by `kill -9`, a database restart or a dead worker."
)
_, SECTION = README.split("\n## Many runs\n")
ON_A_FILE, ON_A_DATABASE = (
    block.splitlines()
    for block in re.findall(
        r"```sh\n(.*?)```", SECTION.split("\n## ")[0].replace(" \\\n  ", " "), re.DOTALL
    )
)


def test_the_promises_are_said_word_for_word_and_the_commands_are_the_same() -> None:
    assert PROMISES in " ".join(README.split())
    assert len(ON_A_FILE) == 2
    assert ON_A_DATABASE[1:] == ON_A_FILE


@pytest.mark.parametrize("database", [False, True], ids=["file", "database"])
def test_two_commands_submit_and_drive_a_run(
    postgres: Cluster, tmp_path: Path, database: bool
) -> None:
    shutil.copytree(ROOT / "examples" / "first", tmp_path / "examples" / "first")
    env = {**os.environ}
    if database:
        installs, exports = ON_A_DATABASE[0].split(" && ")
        assert shlex.split(installs)[:2] == ["pip", "install"]
        (name, url) = exports.removeprefix("export ").split("=")
        assert url.startswith("postgresql://")
        env[name] = postgres.of(tmp_path)
    submit, worker = (shlex.split(line) for line in ON_A_FILE)
    assert submit[0] == worker[0] == "chartloop"

    def call(*words: str) -> str:
        done = subprocess.run(
            [*PROGRAM, *words], cwd=tmp_path, env=env, text=True, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    call(*submit[1:])
    process = subprocess.Popen([*PROGRAM, *worker[1:]], cwd=tmp_path, env=env, stderr=sys.stderr)
    try:
        until(lambda: json.loads(call("runs", "--format", "json"))[0]["status"] == "completed")
        assert "2 + 3 is 5." in call("show", "last")
        assert (tmp_path / ".chartloop" / "journal.db").exists() != database
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
