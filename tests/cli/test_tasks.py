"""The task queue from the command line: `--tasks`, and `enqueue` to a run that has begun."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.shell import PROGRAM, Shell, environment

WORKER = """\
chartloop: 1
machine: worker
model: {name: scripted}
tasks: [its own]
states:
  left: {ask: Left?, when: queue.size > 0, then: work, else: more}
  work: {do: work, failed: next, next: left}
  more: {ask: More?, on: {look: left, no: done}}
  done: {stop: completed}
"""
TOOL = """\
from chartloop import tool


@tool
def mend(task: str) -> str:
    \"\"\"Mend it.\"\"\"
    return f"mended {task}"
"""
RUN = ("run", "worker.yaml", "--script", "many.yaml", "--run-id", "r", "--no-input")


@pytest.fixture
def at(sh: Shell) -> Shell:
    """A folder with a worker, its tool and more replies than it needs."""
    sh.write("worker.yaml", WORKER)
    sh.write("mend.py", TOOL)
    sh.write("many.yaml", "replies: [a, b, c, d, e]\n")
    sh.write("tasks.yaml", "- one\n- {text: two, acceptance: it is there}\n")
    return sh


def did(sh: Shell, run: str = "r") -> list[str]:
    """The tasks that the run has done, in order."""
    records = sh("show", run, "--format", "json").json["records"]
    return [r["outcome"]["result"]["task"] for r in records if r["kind"] == "step"]


# at the start -------------------------------------------------------------------------------


def test_a_file_of_tasks_takes_the_place_of_the_machine_s(at: Shell) -> None:
    done = at(*RUN, "--tasks", "tasks.yaml")
    assert done.code == 4
    assert did(at) == ["task_1", "task_2"]


def test_it_is_taken_from_where_one_is(at: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    (at.folder / "here").mkdir()
    (at.folder / "here" / "tasks.yaml").write_text("- {id: here, text: this}\n")
    at.write("named.yaml", WORKER.replace("[its own]", "{file: tasks.yaml}"))
    monkeypatch.chdir(at.folder / "here")
    run = ("run", "../named.yaml", "--script", "../many.yaml", "--no-input", "--run-id")
    assert at(*run, "r", "--tasks", "tasks.yaml").code == 4
    assert did(at) == ["here"]
    assert at(*run, "s").code == 4  # the machine's own stands beside the machine
    assert did(at, "s") == ["task_1", "task_2"]


class Bad(NamedTuple):
    """A file of tasks, and what is said of it."""

    id: str
    text: str | None
    code: int
    says: str


@pytest.mark.parametrize(
    "case",
    [
        Bad("missing", None, 2, "'tasks.yaml' does not exist"),
        Bad("bad-task", "- {text: a, siz: 1}\n", 1, "tasks.yaml:1:13"),
        Bad("tool", "- {text: a, by: {tool: mend}}\n", 1, "give it with --tools FILE"),
        Bad("not-yaml", "- [a\n", 1, "error[CL001]"),
        Bad("no-list", "tasks: [a]\n", 1, "a file of tasks is a list"),
    ],
    ids=lambda case: case.id,
)
def test_a_bad_file_of_tasks_is_said_before_anything_runs(at: Shell, case: Bad) -> None:
    (at.folder / "tasks.yaml").unlink()
    if case.text is not None:
        at.write("tasks.yaml", case.text)
    try:
        done = at(*RUN, "--tasks", "tasks.yaml")
        code, err = done.code, done.err
    except Exception as error:  # noqa: BLE001  click's own, which the program prints
        code, err = getattr(error, "exit_code", 1), str(error)
    assert (code, case.says in err) == (case.code, True), err
    assert not (at.folder / ".chartloop").exists()


def test_a_file_of_the_machine_that_is_missing(at: Shell) -> None:
    at.write("worker.yaml", WORKER.replace("[its own]", "{file: more.yaml}"))
    done = at(*RUN)
    assert done.code == 1
    assert "error[CL411]: `more.yaml` is not a file" in done.err
    assert "worker.yaml:4:15" in done.err


def test_a_file_outside_the_folder_needs_trust(at: Shell) -> None:
    at.write("worker.yaml", WORKER.replace("[its own]", "{file: ../tasks.yaml}"))
    done = at(*RUN)
    assert done.code == 2
    assert "reads `../tasks.yaml`, outside its folder" in done.err


# while it runs ------------------------------------------------------------------------------


def test_tasks_are_added_to_a_run_that_waits(at: Shell) -> None:
    at(*RUN)
    done = at("enqueue", "r", "Write the tests.", "And the docs.", "--format", "json")
    assert done.code == 0
    told = done.json
    assert [t["text"] for t in told["sent"]["tasks"]] == ["Write the tests.", "And the docs."]
    assert (told["new"], told["taken"]) == (True, False)
    assert "the tasks are kept for run r, which takes them when it continues" in done.err
    at("answer", "r", "look")
    assert at("resume", "r", "--no-input").code == 4
    assert did(at) == ["task_1", "task_2", "task_3"]
    shown = at("show", "r").out
    assert "enqueue" in shown
    assert "Write the tests., And the docs." in shown


def test_a_file_and_a_tool_of_one_s_own(at: Shell) -> None:
    at(*RUN)
    at.write("more.yaml", "- {text: the roof, by: {tool: mend}}\n")
    refused = at("enqueue", "r", "--tasks", "more.yaml")
    assert refused.code == 1
    assert "unknown tool `mend`" in refused.err
    assert "give it with --tools FILE" in refused.err
    assert at("enqueue", "r", "and this", "--tasks", "more.yaml", "--tools", "mend.py").code == 0
    at("answer", "r", "look")
    at("resume", "r", "--no-input", "--tools", "mend.py")
    assert did(at) == ["task_1", "task_2", "task_3"]


def test_what_cannot_be_added(at: Shell) -> None:
    at(*RUN)
    assert "task 1 has no text" in at("enqueue", "r", " ").err
    at.write("twice.yaml", "- {id: x, text: a}\n")
    first, again = (at("enqueue", "r", "--tasks", "twice.yaml", "--key", "m") for _ in range(2))
    assert (first.code, again.code) == (0, 0)
    assert "delivered before: it is ignored" in again.err
    at("answer", "r", "no")
    at("resume", "r")
    ended = at("enqueue", "r", "too late")
    assert ended.code == 1
    assert "error[CL601]: run `r` has ended (done)" in ended.err


@pytest.mark.slow("starts processes for seconds")
def test_a_run_that_another_process_drives_takes_them(at: Shell) -> None:
    at.write("slow.yaml", "replies: [{text: a, delay: 1s}, {text: b, delay: 1s}, c, d]\n")
    run = [*PROGRAM, "run", "worker.yaml", "--script", "slow.yaml", "--run-id", "r", "--no-input"]
    run += ["--tasks", "tasks.yaml"]
    going = subprocess.Popen(
        run, cwd=at.folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    _until_it_works(at.folder, at)
    sent = at("enqueue", "r", "more of it")
    assert sent.code == 0, sent.err
    going.communicate(timeout=30)
    assert going.returncode == 4
    records = at("show", "r", "--format", "json").json["records"]
    assert [r["kind"] for r in records][:3] == ["start", "step", "enqueue"]
    assert did(at) == ["task_1", "task_2", "task_3"]


def _until_it_works(folder: Path, sh: Shell) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if (folder / ".chartloop" / "journal.db").exists():
            rows = json.loads(sh("runs", "--format", "json").out or "[]")
            if rows and rows[0]["state"] == "work":
                return
        time.sleep(0.05)
    raise AssertionError("the run did not begin")
