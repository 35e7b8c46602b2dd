"""`chartloop record`: a run of a journal as a scenario, named, written, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.sync import wait
from tests.cli.shell import ADD, ASK, Shell


@pytest.fixture
def ran(sh: Shell) -> Shell:
    """A journal with a run of a machine that calls a tool."""
    sh("run", *ADD, "--run-id", "abc1")
    return sh


def tools(sh: Shell) -> list[str]:
    return [word for word in ADD if word == "--tools" or word.endswith("tools.py")]


def test_it_goes_to_stdout_and_what_was_seen_to_stderr(ran: Shell) -> None:
    done = ran("record", "abc1")
    assert done.code == 0
    assert done.out.startswith(
        "# Recorded from run abc1 of adder, which stopped for `completed`.\n"
    )
    assert "played as it was recorded: 2 model calls, 1 tool call" in done.err


def test_a_file_is_played_by_test(ran: Shell) -> None:
    written = ran("record", "last", "-o", "deep/er/adds.scenario.yaml", *tools(ran))
    assert written.code == 0
    assert "chartloop test deep/er/adds.scenario.yaml" in written.err
    played = ran("test", "deep/er/adds.scenario.yaml", *tools(ran))
    assert played.code == 0, played.out


def test_json_holds_the_scenario(ran: Shell) -> None:
    told = ran("record", "abc1", "--format", "json").json
    assert told["run"] == "abc1"
    assert told["same"] is True
    assert told["scenario"]["expect"]["reason"] == "completed"
    assert (told["differences"], told["lacks"], told["file"]) == ([], [], None)


def test_a_run_that_was_cancelled_in_free_text(sh: Shell) -> None:
    asked = sh("run", *ASK, "--run-id", "asks", "--no-input")
    assert asked.code == 4
    assert sh("cancel", "asks", "--reason", "no longer wanted").code == 0
    assert sh("resume", "asks", "--no-input").code != 4
    written = sh("record", "asks", "-o", "gone.scenario.yaml")
    assert written.code == 0, written.err
    assert "reason: no longer wanted" in (sh.folder / "gone.scenario.yaml").read_text()
    assert sh("test", "gone.scenario.yaml").code == 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["nobody"], 2, "there is no run `nobody`"),
        (["abc1", "-o", "adds.yaml"], 2, "end its name with .scenario.yaml"),
        (["abc1", "-o", "there.scenario.yaml"], 2, "--force overwrites it"),
        (["abc1", "--redact", "("], 2, "`(` is not a pattern"),
        (["abc1", "--machine", "nothing.yaml"], 2, "nothing.yaml"),
        (["abc1", "--machine", "agent"], 1, "is not the machine that run `abc1` was started with"),
        (["other"], 1, "and not for ever"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    ran: Shell, given: list[str], code: int, said: str
) -> None:
    Path(ran.folder / "there.scenario.yaml").write_text("mine")
    ran("run", *ASK, "--run-id", "other")
    done = ran("record", *given)
    assert (said in done.err, done.code) == (True, code), done.err
    assert Path(ran.folder / "there.scenario.yaml").read_text() == "mine"


def test_force_writes_over_a_file(ran: Shell) -> None:
    Path(ran.folder / "there.scenario.yaml").write_text("mine")
    assert ran("record", "abc1", "-o", "there.scenario.yaml", "--force").code == 0
    assert "mine" not in Path(ran.folder / "there.scenario.yaml").read_text()


SAY = """chartloop: 1
machine: say
model: {name: scripted}
states: {ask: {do: receive, next: think}, think: {do: infer, next: done}, done: {stop: completed}}
"""


def test_a_run_whose_file_is_not_known_needs_it_named(sh: Shell) -> None:
    """A run that Python started: the journal has its machine, not the path of its file."""
    journal = SqliteJournal(".chartloop/journal.db")
    sh.write("say.yaml", SAY)
    run = load("say.yaml").start("x", script=["5"], run_id="py", journal=journal)
    run.run()
    wait(journal.close(), suspends=journal.suspends)
    done = sh("record", "py")
    assert done.code == 2
    assert "does not say from which file run `py` was started" in done.err
    assert "--machine FILE" in done.err
    assert "machine: say.yaml" in sh("record", "py", "--machine", "say.yaml").out
