"""What the tests of workers share: a folder whose runs leave a trace of every paid call."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.opening import journal_of
from chartloop.run.journal import Journal, RunRow
from chartloop.run.sync import by_hand
from tests.cli import shell
from tests.cli.shell import PROGRAM

PAYS = """\
chartloop: 1
machine: pays
in_doubt: retry
vars: {rest: "0.1"}
states:
  pay:
    do: pay
    with: {rest: "{{ vars.rest }}"}
    next: [{when: run.steps >= 5, to: done}, {to: pay}]
  done: {stop: completed}
"""
PAY = """\
import asyncio, ctypes, os, signal, time
from chartloop import Context, action

WAYS = {
    "exits": lambda: os._exit(0),
    "aborts": os.abort,
    "is-killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "is-killed-with-its-group": lambda: os.killpg(os.getpgrp(), signal.SIGKILL),
    "reads-null": lambda: ctypes.string_at(0),
    "stops": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "blocks": lambda: time.sleep(3600),
}

def note(line):
    file = os.open("effects", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    os.write(file, (line + "\\n").encode())
    os.fsync(file)
    os.close(file)

@action(effect="paid")
async def pay(ctx: Context, rest: str) -> dict[str, str]:
    \"\"\"Pays, and takes a while.\"\"\"
    note(f"asked {ctx.key} {os.getpid()}")
    if rest == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if rest in WAYS:
        await asyncio.sleep(0.3)  # the others have asked too
        WAYS[rest]()
        time.sleep(9)  # it stops a moment later
    while rest == "waits" and ctx.facts.run.steps >= 2 and not os.path.exists("go"):
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.1 if rest == "waits" else float(rest))
    note(f"replied {ctx.key} {os.getpid()}")
    return {}
"""


class Place:
    """A folder with a machine, its action, a journal, and the effects of its runs."""

    def __init__(self, folder: Path, journal: str = "") -> None:
        self.folder = folder
        self.where = journal or str(folder / "j.db")
        (folder / "pays.yaml").write_text(PAYS)
        (folder / "pay.py").write_text(PAY)
        (folder / "tasks.jsonl").write_text("".join(f'{{"task": "{n}"}}\n' for n in range(12)))

    def call(self, *line: str, code: int = 0) -> str:
        """Call a command that ends, in this process; gives what it printed."""
        done = shell.call(*line, "--journal", self.where, cwd=self.folder)
        assert done.code == code, done.err
        return done.out + done.err

    def submit(self, *more: str) -> list[str]:
        """Submit runs; gives their ids."""
        said = self.call("submit", "pays.yaml", "--tools", "pay.py", "--format", "json", *more)
        return json.loads(said[: said.index("}") + 1])["runs"]

    @contextmanager
    def worker(self, *more: str, tools: bool = True) -> Generator[subprocess.Popen[str]]:
        """A worker, which is killed at the end unless it has ended."""
        own = ("--tools", "pay.py") if tools else ()
        started = subprocess.Popen(
            [*PROGRAM, "worker", "--journal", self.where, *own, *more], cwd=self.folder, text=True,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            yield started
        finally:
            started.kill()
            started.wait()
            assert started.stderr is not None
            started.stderr.close()

    @contextmanager
    def journal(self) -> Generator[Journal]:
        """The journal of the place."""
        journal = journal_of(self.where)
        yield journal
        by_hand(journal.close())

    def effects(self) -> list[list[str]]:
        """What happened: a word, a key and a process in each line."""
        path = self.folder / "effects"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def in_flight(self, pid: int) -> set[str]:
        """The keys of the calls that a process has asked and got no reply to."""
        mine = [(word, key) for word, key, of in self.effects() if of == str(pid)]
        replied = {key for word, key in mine if word == "replied"}
        return {key for word, key in mine if word == "asked"} - replied

    def doubts(self) -> Counter[str]:
        """The calls that the journal reports in doubt, by key."""
        with self.journal() as journal:
            events = by_hand(journal.tail(limit=10_000)).events
        doubts = (one.event for one in events if one.event and one.event.type == "in_doubt")
        return Counter(str(event.data["key"]) for event in doubts)

    def rows(self) -> list[RunRow]:
        """The runs."""
        with self.journal() as journal:
            return by_hand(journal.rows())

    def working(self) -> int:
        """The number of workers that are listed."""
        with self.journal() as journal:
            return len(by_hand(journal.backlog()).workers)

    def ended(self) -> bool:
        """Whether every run has ended."""
        return all(row.ended for row in self.rows())


def until(what: Callable[[], Any], seconds: float = 200.0, *, pause: float = 0.05) -> None:
    """Wait for something that comes in time, and look for it after each pause."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            pytest.fail("it took too long")
        time.sleep(pause)


def stopped(worker: subprocess.Popen[str]) -> str:
    """Stop a worker as systemd does; gives what it said. It ends well."""
    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=60)
    assert worker.returncode == 0, said
    return said


def kill_one_of_two(place: Place) -> None:
    """Two workers drive twelve runs, one is killed: nothing is lost, and nothing paid twice."""
    with place.worker("--concurrency", "6") as victim, place.worker("--concurrency", "6") as other:
        until(lambda: place.working() == 2)  # else the first may end all before the second is there
        runs = place.submit("--inputs", "tasks.jsonl", "--var", "rest=waits")
        until(lambda: place.in_flight(victim.pid) and place.in_flight(other.pid))
        victim.kill()
        victim.wait()
        in_flight = place.in_flight(victim.pid)
        (place.folder / "go").touch()
        until(place.ended)
        said = stopped(other)
    rows = {row.run_id: row for row in place.rows()}
    assert {(rows[run].status, rows[run].steps) for run in runs} == {("completed", 5)}
    asked = Counter(key for word, key, _ in place.effects() if word == "asked")
    assert len(asked) == 5 * len(runs)  # no step is lost
    again = {key: count - 1 for key, count in asked.items() if count > 1}
    doubts = place.doubts()  # one more than was asked where it died before it asked
    assert {key: count for key, count in again.items() if count > doubts[key]} == {}
    assert in_flight <= set(again)
    assert len(doubts) <= 6  # nothing but what it was about
    with place.journal() as journal:
        assert by_hand(journal.backlog()).held == 0
    assert re.search(r"\d+ runs? finished here", said)
