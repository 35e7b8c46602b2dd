"""A run moves to a changed file: killed at every statement for real, and by two at once.

The law: what a process that dies leaves is the old run alone, or the new one whole, with its
children and its messages. Of several that move one run, one does.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.api import Machine, Run, load
from chartloop.core.errors import Fenced, MovedError
from chartloop.run.journal import Journal, MemoryJournal
from chartloop.run.recorded import check_chain
from chartloop.run.sync import by_hand
from chartloop.testing import ManualClock

ROOT = Path(__file__).parents[2]

OLD = """\
chartloop: 1
machine: desk
machines:
  first: {states: {a: {ask: First?, on: {yes: z}}, z: {stop: completed}}}
  second: {states: {b: {do: nothing, next: c}, c: {ask: Second?, on: {yes: z}}, z: {stop: completed}}}
states:
  begin: {do: nothing, next: go}
  go: {do: run_machines, with: {children: {x: {machine: first}, y: {machine: second}}}, next: done}
  done: {stop: completed}
"""
NEW = OLD.replace("go", "went") + "renamed: {go: went}\n"
HERE = {"r", "r/go/1/x", "r/go/1/y"}


def machine(text: str) -> Machine:
    return load(text)


def begun(journal: Journal) -> None:
    """The run `r`: its two children wait, and the first has its answer in the post."""
    run = machine(OLD).start("t", clock=ManualClock(), journal=journal, run_id="r")
    run.run()
    run.send("yes")


def opened(journal: Journal, text: str = NEW) -> Run:
    return machine(text).open("r", journal=journal, clock=ManualClock(ManualClock().now() + 500))


# killed ---------------------------------------------------------------------------------------

LIVES = """
import os, shutil, signal, sys
from pathlib import Path
from chartloop.adapters.journal.sqlite import SqliteJournal
from tests.durable.test_move import opened

folder = Path(sys.argv[1])

def life(path, last):
    journal, left = SqliteJournal(path), [last]
    run = opened(journal)
    def said(statement):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
    journal._database.set_trace_callback(said)
    run._wait(run._ready())  # it moves, and nothing more
    os._exit(0)

for last in range(1, 500):
    path = folder / f"{last}.db"
    shutil.copy(folder / "journal.db", path)
    child = os.fork()
    if not child:
        life(path, last)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(path.name, killed, flush=True)
    if not killed:
        break
"""


def whole(journal: SqliteJournal) -> str:
    """The id of the run that goes on; empty while there is only the old one."""
    rows = {row.run_id: row for row in by_hand(journal.rows())}
    checked = [by_hand(check_chain(journal, run_id)) for run_id in rows]
    assert [one and one.fault for one in checked] == [""] * len(rows)
    new = next((id for id in rows if "/" not in id and id != "r"), "")
    if not new:
        assert set(rows) == HERE
        return ""
    assert set(rows) == HERE | {f"{new}/went/1/x", f"{new}/went/1/y", new}
    for row in rows.values():
        assert row.head == len(by_hand(journal.events(row.run_id))) > 0
    (message,) = by_hand(journal.inbox(f"{new}/went/1/x"))
    assert message.data["event"] == "yes"
    return new


@pytest.mark.slow("kills and waits for processes")
def test_killed_at_every_statement_the_old_run_is_left_or_the_new_one(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    begun(journal)
    by_hand(journal.close())
    command = [sys.executable, "-c", LIVES, str(tmp_path)]
    told = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert told.returncode == 0, told.stderr
    lives = [line.split() for line in told.stdout.splitlines()]
    assert [killed for _, killed in lives[-2:]] == ["True", "False"]
    ends: list[bool] = []
    for name, _ in lives:
        journal = SqliteJournal(tmp_path / name)
        new = whole(journal)
        ends.append(bool(new))
        # whichever is left goes on to the end, with the answer that was in the post
        run = opened(journal) if not new else machine(NEW).open(new, journal=journal)
        run.run()
        run.send("yes")
        assert run.run().reason == "completed"
        assert run.replay().same
        by_hand(journal.close())
        with sqlite3.connect(tmp_path / name) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert ends == sorted(ends), "once it is there it stays"
    assert ends[0] is False
    assert ends[-1] is True
    assert len(ends) > 20, "the transaction was not looked into"


# by two at once -------------------------------------------------------------------------------

MOVER = """
import sys
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import Driven, Fenced, MovedError
from tests.durable.test_move import NEW, OLD, opened

journal = SqliteJournal(sys.argv[1])
run = opened(journal, OLD if sys.argv[2] == "old" else NEW)
print("ready", flush=True)
sys.stdin.readline()
try:
    run.run()
    print(run.id)
except (Driven, Fenced, MovedError) as error:
    print("fenced:", error.message)
"""


def mover(path: Path, side: str) -> subprocess.Popen[str]:
    """A process that has the run open and waits for its sign."""
    command = [sys.executable, "-c", MOVER, str(path), side]
    pipe = subprocess.PIPE
    made = subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert made.stdout is not None
    assert made.stdout.readline() == "ready\n"
    return made


@pytest.mark.slow("kills and waits for processes")
@pytest.mark.parametrize("sides", [("new", "new", "new"), ("new", "old", "new")], ids="-".join)
def test_of_processes_that_take_one_run_up_at_once_one_does(
    tmp_path: Path, sides: tuple[str, ...]
) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    begun(journal)
    movers = [mover(path, side) for side in sides]
    for process in movers:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    said: list[str] = []
    for process in movers:
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        said.append(out.strip())
    fenced = [line for line in said if line.startswith("fenced:")]
    assert all("another process" in line or "continues as run" in line for line in fenced)
    new = [row.run_id for row in by_hand(journal.rows()) if "/" not in row.run_id]
    (won,) = set(said) - set(fenced)  # who moves it too late gets the run that the first one made
    assert set(new) == {"r", won}
    by_hand(journal.close())


def test_a_run_that_is_driven_meanwhile_is_not_moved() -> None:
    journal = MemoryJournal()
    begun(journal)
    late, here = opened(journal), opened(journal, OLD)
    here.run()
    before = by_hand(journal.rows())
    with pytest.raises(Fenced, match="`r` was driven or moved by another process"):
        late.run()
    assert by_hand(journal.rows()) == before
    assert opened(journal).run().status == "paused"  # opened anew, it moves


def test_who_drives_a_run_that_is_moved_is_fenced() -> None:
    journal = MemoryJournal()
    here = machine(OLD).start("t", clock=ManualClock(), journal=journal, run_id="r")
    here.advance()
    assert here.session.owned
    new = opened(journal)
    new.run()
    with pytest.raises(Fenced):  # in the middle of its work
        here.run()
    with pytest.raises(MovedError, match=f"run `r` continues as run `{new.id}`"):
        opened(journal, OLD).run()


def test_a_moved_run_is_driven_by_nobody_and_takes_nothing() -> None:
    journal = MemoryJournal()
    begun(journal)
    here, new = opened(journal, OLD), opened(journal)
    new.run()
    again = opened(journal, OLD)
    assert (again.moved_to, again.question, again.result.status) == (new.id, None, "moved")
    assert again.replay().same
    assert again.result.explain().startswith(f"The run continues as run `{new.id}`")
    orders: list[Callable[[Run], object]] = [
        Run.run, Run.step, Run.advance, Run.pause, Run.cancel, lambda run: run.send("yes"),
        lambda run: run.enqueue(["x"]),
        lambda _: machine(OLD).open("r", journal=journal, take_over=True).run(),
    ]  # fmt: skip
    for run in (here, again):
        for order in orders:
            with pytest.raises(MovedError, match="continues as run") as refused:
                order(run)
            assert refused.value.successor.startswith(new.id)
    with pytest.raises(MovedError):
        by_hand(journal.acquire("r/go/1/x"))


def test_a_run_that_was_moved_before_is_opened_as_its_last_successor() -> None:
    journal = MemoryJournal()
    begun(journal)
    first = opened(journal)
    first.run()
    assert opened(journal).id == first.id
    third = NEW.replace("Second?", "Third?") + "title: anew\n"
    other = OLD.replace("machine: desk", "machine: desk2")
    with pytest.raises(MovedError, match=f"`{first.id}`, under another file") as refused:
        machine(other).open("r", journal=journal, changed=True)
    assert f"resume {first.id}" in refused.value.hint
    titled = NEW + "title: anew\n"
    second = machine(titled).open(first.id, journal=journal, changed=True)
    second.run()
    assert opened(journal, titled).id == second.id != first.id
    with pytest.raises(MovedError, match=f"`{second.id}`, under another file"):
        opened(journal, third)
    by_hand(journal.remove([second.id]))
    with pytest.raises(MovedError, match=f"continues as run `{second.id}`"):
        opened(journal, titled)


def test_of_two_that_move_a_run_the_second_gets_the_first_ones() -> None:
    journal = MemoryJournal()
    begun(journal)
    one, two = opened(journal), opened(journal)
    one.run()
    two.run()
    assert two.id == one.id
    other = NEW + "title: anew\n"
    begun_again = machine(OLD).start("t", clock=ManualClock(), journal=journal, run_id="s")
    begun_again.run()
    here = machine(NEW).open("s", journal=journal)
    there = machine(other).open("s", journal=journal)
    here.run()
    with pytest.raises(MovedError, match=f"`{here.id}`, under another file"):
        there.run()


def test_a_fork_of_a_moved_run_is_no_move_of_it() -> None:
    journal = MemoryJournal()
    begun(journal)
    for _ in range(5):  # so that the epoch of its origin is high
        by_hand(journal.acquire("r"))
    run = opened(journal)
    run.advance()
    again = machine(NEW).open(run.id, journal=journal, clock=ManualClock(ManualClock().now() + 900))
    run.fork()
    by_hand(journal.acquire(run.id))  # somebody else, since it was opened
    assert again.run().status == "paused"


def test_a_fork_leaves_the_old_run_to_who_drives_it() -> None:
    journal = MemoryJournal()
    machine(OLD).start("t", clock=ManualClock(), journal=journal, run_id="r").run()
    here = opened(journal, OLD)
    here.advance()
    fork = opened(journal).fork()
    assert fork.id != "r"
    here.send("yes")
    assert here.run().status == "paused"


def test_a_moved_run_says_whose_machine_it_is() -> None:
    journal = MemoryJournal()
    begun(journal)
    run = opened(journal, NEW.replace("machine: desk", "machine: counter"))
    run.run()
    row: Any = by_hand(journal.row(run.id))
    assert (row.machine, row.machine_hash) == ("counter", run.machine.hash)
    origin = json.loads(json.dumps(dict(run.records[0].input.data["upgraded"])))
    assert (origin["run"], "epoch" in origin) == ("r", False)
