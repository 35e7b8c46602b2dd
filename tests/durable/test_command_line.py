"""The command line over one journal file: killed, started twice at once, on a full disk.

What a tool really did stands in a ledger, a file that no crash takes back.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.sync import wait

pytestmark = pytest.mark.slow("kills processes")

TURNS = 5
KILLS = 4
ROOM = 100_000
"""Bytes that a file may have on the full disk: the journal is made, the run does not fit."""

MACHINE = """
chartloop: 1
machine: slow
model: {name: scripted}
tools: [pay]
limits: {steps: 100}
rules:
  - {when: run.steps >= limits.steps, stop: steps_limit}
  - {when: usage.messages >= 12, to: tidy, before: [think]}
states:
  hello: {do: receive, next: think}
  think:
    do: infer
    retry: {times: 1, base: 20ms}
    next: [{when: len(last.tool_calls) > 0, to: act}, done]
  act: {do: call_tools, next: think}
  tidy: {do: prune_context, with: {strategy: truncate}, next: return}
  done: {stop: completed}
output: {text: last.text, calls: usage.tool_calls}
"""

TOOLS = """
import os
import time

from chartloop import tool


@tool
def pay(what: str) -> str:
    '''Pay for something.'''
    time.sleep(0.01)
    with open(os.environ["LEDGER"], "a") as ledger:
        ledger.write(what + "\\n")
    time.sleep(0.01)
    return "paid " + what
"""


FULL_DISK = f"""
import resource
import runpy

resource.setrlimit(resource.RLIMIT_FSIZE, ({ROOM}, {ROOM}))
runpy.run_module("chartloop", run_name="__main__")
"""


def replies() -> list[dict[str, Any]]:
    """What the model says: calls of the tool, one failure, and the end."""
    told: list[dict[str, Any]] = []
    for turn in range(TURNS):
        named = [f"{turn}-{n}" for n in range(1 + turn % 2)]
        calls = [{"name": "pay", "arguments": {"what": w}, "id": w} for w in named]
        told.append({"text": f"turn {turn}", "tool_calls": calls, "delay": "20ms"})
    told.insert(3, {"error": {"category": "TRANSIENT", "message": "busy"}})
    return [*told, {"text": "That was all.", "usage": {"prompt_tokens": "1_000"}}]


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class House(NamedTuple):
    """A folder in which a run is driven from the command line."""

    folder: Path

    @property
    def journal(self) -> Path:
        return self.folder / "journal.db"

    @property
    def ledger(self) -> Counter[str]:
        return Counter((self.folder / "ledger").read_text().split())

    def start(self, *, program: Sequence[str] = ("-m", "chartloop")) -> subprocess.Popen[str]:
        """A process that begins the run, or goes on with it when it has a record."""
        script = ["--script", "replies.json"]
        words = ["resume", "r"] if self.begun else ["run", "slow.yaml", "Go.", "--run-id", "r"]
        more = ["--tools", "tools.py", "--journal", "journal.db", "--format", "json"]
        return subprocess.Popen(
            [sys.executable, *program, *words, *script, *more],
            cwd=self.folder, text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, "LEDGER": str(self.folder / "ledger")},
        )  # fmt: skip

    @property
    def begun(self) -> bool:
        if not self.journal.exists():
            return False
        row = self._read(lambda journal: journal.row("r"))
        return row is not None and row.head > 0

    @property
    def over(self) -> bool:
        row = self._read(lambda journal: journal.row("r"))
        return row is not None and row.status == "completed"

    def doubts(self) -> int:
        """How many calls were found in doubt."""
        events = self._read(lambda journal: journal.events("r"))
        return sum(event.type == "in_doubt" for event in events)

    def _read(self, ask: Callable[[SqliteJournal], Any]) -> Any:
        journal = SqliteJournal(self.journal)
        try:
            return wait(ask(journal), suspends=journal.suspends)
        finally:
            wait(journal.close(), suspends=journal.suspends)

    def told(self) -> Any:
        """What `show` tells of the run, but for times and what is said of interruptions."""
        command = [sys.executable, "-m", "chartloop", "show", "r", "--tools", "tools.py"]
        shown = subprocess.run(
            [*command, "--journal", "journal.db", "--format", "json"],
            cwd=self.folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        data = json.loads(shown)
        names = ("path", "output", "reason", "status", "steps", "usage", "signals", "errors")
        return {name: data[name] for name in names}


def end(process: subprocess.Popen[str]) -> Ended:
    """Let a process come to its end."""
    out, err = process.communicate(timeout=60)
    return Ended(process.returncode, out, err)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return made(tmp_path / "house")


def made(folder: Path) -> House:
    folder.mkdir()
    (folder / "slow.yaml").write_text(MACHINE)
    (folder / "tools.py").write_text(TOOLS)
    (folder / "replies.json").write_text(json.dumps({"replies": replies()}))
    return House(folder)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> House:
    """A run that nobody disturbed."""
    house = made(tmp_path_factory.mktemp("calm") / "house")
    ended = end(house.start())
    assert ended.code == 0, ended.err
    assert set(house.ledger.values()) == {1}
    return house


def paid_no_more_than_was_in_doubt(house: House, calm: House) -> None:
    paid = house.ledger
    assert paid.keys() == calm.ledger.keys()
    assert sum(count - 1 for count in paid.values()) <= house.doubts()


def test_killed_at_any_moment_and_resumed(house: House, calm: House) -> None:
    chance = random.Random(5)  # noqa: S311  moments, not secrets
    for _ in range(KILLS):
        process = house.start()
        try:
            process.wait(timeout=chance.uniform(0.3, 0.9))
        except subprocess.TimeoutExpired:
            process.kill()
        process.communicate(timeout=60)
        if house.begun and house.over:
            break
    if not house.begun or not house.over:
        ended = end(house.start())
        assert ended.code == 0, ended.err
    assert house.told() == calm.told()
    paid_no_more_than_was_in_doubt(house, calm)


def test_of_several_that_resume_at_once_one_goes_on(house: House, calm: House) -> None:
    first = house.start()
    while not house.begun:
        assert first.poll() is None
        time.sleep(0.02)
    first.kill()
    first.communicate(timeout=60)
    ended = [end(process) for process in [house.start() for _ in range(2)]]
    # one drives it; the other is refused, or comes when it is over and prints its result
    assert 0 in [e.code for e in ended], ended
    told = ("CL601", "CL609", "CL613")  # it is over, it went on meanwhile, it is driven
    assert all(any(code in e.err for code in told) for e in ended if e.code), ended
    assert house.told() == calm.told()
    paid_no_more_than_was_in_doubt(house, calm)


def test_a_full_disk_is_told_and_the_run_goes_on_when_there_is_room(
    house: House, calm: House
) -> None:
    ended = end(house.start(program=("-c", FULL_DISK)))
    assert ended.code == 2
    assert "CL608" in ended.err
    assert "Traceback" not in ended.err
    again = end(house.start())
    assert again.code == 0, again.err
    assert house.told() == calm.told()
    paid_no_more_than_was_in_doubt(house, calm)
