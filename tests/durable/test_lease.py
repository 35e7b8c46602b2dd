"""Two processes and one run: one drives it, the other is told who does.

What a tool really did stands in a file that no crash takes back. Processes wait for each other by
files, never by the clock.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.sync import by_hand
from tests.cli.shell import program, started, until

MACHINE = """
chartloop: 1
machine: loop
in_doubt: retry
model: {name: scripted}
tools: [pay]
limits: {steps: 20}
rules: [{when: run.steps >= limits.steps, stop: steps_limit}]
states:
  hear: {do: receive, next: think}
  think: {do: infer, next: [{when: len(last.tool_calls) > 0, to: act}, done]}
  act: {do: call_tools, next: think}
  done: {stop: completed}
"""
TOOLS = '''
import os
import time

from chartloop import tool


def note(word):
    with open("effects", "a") as file:
        file.write(f"{word}\\n")


@tool(effect="paid")
def pay(what: str) -> str:
    """Pay, once somebody says so."""
    note("begin")
    while not os.path.exists("go"):
        time.sleep(0.02)
    note("end")
    return "paid"
'''
REPLIES = """
replies:
  - {tool_calls: [{name: pay, arguments: {what: tea}}], usage: {prompt_tokens: 5, completion_tokens: 1}}
  - {text: Done., usage: {prompt_tokens: 5, completion_tokens: 1}}
"""
RUN = ("run", "loop.yaml", "Go", "--tools", "tools.py", "--script", "replies.yaml")
MORE = ("--run-id", "r", "--journal", "j.db")
RESUME = ("resume", "r", "--tools", "tools.py", "--journal", "j.db")


@pytest.fixture
def driving(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of a paid call."""
    (tmp_path / "loop.yaml").write_text(MACHINE)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "replies.yaml").write_text(REPLIES)
    process = started(*RUN, *MORE, cwd=tmp_path)
    until(lambda: effects(tmp_path) == ["begin"], patience=90)
    yield process
    if process.poll() is None:
        process.kill()
    process.communicate()


def effects(folder: Path) -> list[str]:
    return (folder / "effects").read_text().split()


def lease_is_free(folder: Path) -> bool:
    journal = SqliteJournal(folder / "j.db")
    found = by_hand(journal.lease("r"))
    by_hand(journal.close())
    return found is None


@pytest.mark.slow("kills and waits for processes")
def test_the_second_is_told_who_drives_and_pays_nothing(
    tmp_path: Path, driving: subprocess.Popen[str]
) -> None:
    second = program(*RESUME, cwd=tmp_path)
    assert (second.code, second.out) == (6, "")
    assert (
        f"error[CL613]: run `r` is driven by another process: `chartloop run`, pid {driving.pid} on"
        in second.err
    )
    assert "--take-over" in second.err
    assert "can go on" not in second.err
    (tmp_path / "go").touch()
    out, errors = driving.communicate(timeout=60)
    assert (driving.returncode, out) == (0, "Done.\n"), errors
    assert "interruption" not in errors
    assert effects(tmp_path) == ["begin", "end"]
    assert lease_is_free(tmp_path)


@pytest.mark.slow("kills and waits for processes")
def test_who_takes_it_over_says_from_whom_and_the_first_stops(
    tmp_path: Path, driving: subprocess.Popen[str]
) -> None:
    second = started(*RESUME, "--take-over", cwd=tmp_path)
    until(lambda: effects(tmp_path) == ["begin", "begin"], patience=60)
    (tmp_path / "go").touch()
    out, errors = second.communicate(timeout=60)
    assert (second.returncode, out) == (0, "Done.\n"), errors
    assert (
        f"was in flight when this run was taken over from `chartloop run`, pid {driving.pid}"
        in errors
    )
    assert "interruption" not in errors
    _, errors = driving.communicate(timeout=60)
    assert driving.returncode == 1
    assert "error[CL609]" in errors
    assert "can go on" not in errors  # it would be taken back
    assert effects(tmp_path).count("begin") == 2
    assert lease_is_free(tmp_path)


def test_after_a_kill_the_next_one_goes_on_at_once(
    tmp_path: Path, driving: subprocess.Popen[str]
) -> None:
    driving.kill()  # and not collected: its pid is still there
    (tmp_path / "go").touch()
    second = program(*RESUME, cwd=tmp_path)
    assert (second.code, second.out) == (0, "Done.\n"), second.err
    assert "was started before an interruption" in second.err
    assert effects(tmp_path) == ["begin", "begin", "end"]


@pytest.mark.slow("kills and waits for processes")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_ends_after_the_action_at_hand(
    tmp_path: Path, driving: subprocess.Popen[str], name: str
) -> None:
    os.kill(driving.pid, getattr(signal, name))
    (tmp_path / "go").touch()
    _, errors = driving.communicate(timeout=60)
    assert driving.returncode == 130
    assert "stopping before the next action" in errors
    assert effects(tmp_path) == ["begin", "end"]
    assert lease_is_free(tmp_path)
