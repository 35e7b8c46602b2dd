"""`kill -9` at any moment, for real: processes over one SQLite file, killed until one ends.

A process starts the run or goes on with it, whichever is due. What is paid is written into a
ledger, a file that no crash takes back: it tells what really happened.
"""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.run.sync import wait
from tests.durable.crashing import RUN, doubts

pytestmark = pytest.mark.slow("kills processes")

ROOT = Path(__file__).parents[2]
KILLS = 8
TRIES = 12

PROCESS = """
import json, os, sys, time
from pathlib import Path
from tests.durable.crashing import ERRANDS, MENDED, STORES, World, story

folder = Path(sys.argv[1])
ledger = os.open(folder / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def pay(key):
    time.sleep(0.004)
    os.write(ledger, (key + "\\n").encode())
    time.sleep(0.004)

case = {c.id: c for c in (ERRANDS, MENDED)}[sys.argv[3]]
# imports take far longer than the run, and a kill during them says nothing
warm = World(case, STORES["memory"](folder), lambda key: None)
warm.drive(warm.resume(warm.store.open()))
world = World(case, STORES[sys.argv[2]](folder), pay)
journal = world.store.open()
print("ready", flush=True)
run = world.resume(journal)
world.clock.set(max([world.clock.now(), *(r.input.at for r in run.records)]))
world.drive(run)
print(json.dumps(story(run)), flush=True)
world.store.close()
"""


def process(folder: Path, store: str, case: str) -> subprocess.Popen[str]:
    """A process that has its journal open and is about to drive the run."""
    command = [sys.executable, "-c", PROCESS, str(folder), store, case]
    started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


def finish(folder: Path, store: str, case: str) -> tuple[Any, float]:
    """The story that a process tells which is left in peace, and the seconds that it drove."""
    last = process(folder, store, case)
    assert last.stdout is not None
    began = time.monotonic()
    told = last.stdout.readline()
    took = time.monotonic() - began
    last.communicate(timeout=60)
    assert last.returncode == 0
    return json.loads(told), took


def kill(folder: Path, store: str, case: str, after: float) -> float:
    """Kill a process so many seconds after it began; the longest that the next may be left.

    One that ended by itself tells that: the calm process may have met a busier machine.
    """
    victim = process(folder, store, case)
    began, longest = time.monotonic(), math.inf
    try:
        victim.wait(timeout=after)
        longest = time.monotonic() - began
    except subprocess.TimeoutExpired:
        victim.kill()
    victim.communicate(timeout=60)
    return longest


def drivers(folder: Path) -> int:
    """How many processes have driven the run."""
    journal = SqliteJournal(folder / "journal.db")
    row = wait(journal.row(RUN), suspends=journal.suspends)
    wait(journal.close(), suspends=journal.suspends)
    return row.epoch if row is not None else 0


KILLED = [
    (0, "sqlite", "errands"), (1, "sqlite", "errands"), (0, "sqlite-power", "errands"),
    (1, "grouped", "errands"), (0, "grouped-power", "errands"), (2, "sqlite", "mended"),
]  # fmt: skip


@pytest.mark.parametrize(("seed", "store", "case"), KILLED)
def test_kill_at_any_moment_and_go_on(seed: int, store: str, case: str, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311  moments, not secrets
    calm = tmp_path / "calm"
    calm.mkdir()
    expected, took = finish(calm, store, case)
    for tried in range(TRIES):
        rough = tmp_path / f"rough-{tried}"
        rough.mkdir()
        for _ in range(KILLS):
            took = min(took, kill(rough, store, case, after=chance.uniform(0.0, took)))
        if drivers(rough) > 1:
            break  # else none was killed between its first write and its last
    else:
        pytest.fail("nobody was killed in the middle of it")
    assert finish(rough, store, case)[0] == expected

    journal = SqliteJournal(rough / "journal.db")
    doubted = doubts(journal)
    wait(journal.close(), suspends=journal.suspends)
    paid = Counter((rough / "ledger").read_text().split())
    assert set(paid) == set((calm / "ledger").read_text().split())
    assert {key: count for key, count in paid.items() if count > 1 + doubted[key]} == {}
    assert expected["reason"] == "completed"
