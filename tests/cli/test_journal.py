"""`chartloop journal`: migrate, export, import and prune, on files."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS as OF_FILES
from chartloop.run.fleet import FleetLimit
from chartloop.run.journal import Event, Move, RunRow, WholeRun
from chartloop.run.lease import Driver
from chartloop.run.processes import Process
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand
from tests.cli.shell import ADD, ASK, PROGRAM, Shell
from tests.copying import below, ended, full_journal

DESK = """\
chartloop: 1
machine: desk
states:
  draft: {do: nothing, next: done}
  done: {stop: completed}
"""
BOSS = """\
chartloop: 1
machine: boss
states:
  go: {do: run_machine, with: {machine: child}, next: done}
  done: {stop: completed}
machines:
  child:
    states:
      question: {do: ask_user, with: {text: "Right?"}, next: wait}
      wait: {on: {ok: done}}
      done: {stop: completed}
"""
VERSION = OF_FILES[-1].number
"""The version of the tables, the same in both databases."""
TABLES = {
    "run": "*", "event": "run_id, seq, epoch, type, record, at, digest, data",
    "inbox": "run_id, msg_id, at, data, seq", "blob": "*", "event_blob": "*", "snapshot": "*",
    "request": "key, run_id, kind, digest, at, data, outcome, needs, due",
}  # fmt: skip
"""The columns that two journals of the same runs have in common: all but the order of commits."""


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of a file, in the order of their values."""
    with closing(sqlite3.connect(path)) as database:
        return {
            table: sorted(database.execute(f"SELECT {columns} FROM {table}").fetchall(), key=repr)  # noqa: S608
            for table, columns in TABLES.items()
        }


@pytest.fixture
def full(sh: Shell) -> Path:
    """A journal with something of everything."""
    return full_journal(sh.folder / "full.db")


def test_an_import_has_the_same_rows_and_lines(sh: Shell, full: Path) -> None:
    assert sh("journal", "export", "--journal", "full.db", "--to", "full.jsonl").code == 0
    into = ("--go-on", "--journal", "new.db", "--format", "json")
    done = sh("journal", "import", "full.jsonl", *into)
    assert done.code == 0, done
    nothing: dict[str, list[str]] = {"schedules": [], "limits": [], "resting_schedules": []}
    assert done.json == {"imported": 48, "known": 0, "refused": [], "resting": [], **nothing}
    assert contents(sh.folder / "new.db") == contents(full)
    assert sh("journal", "export", "--journal", "new.db", "--to", "new.jsonl").code == 0
    assert (sh.folder / "full.jsonl").read_bytes() == (sh.folder / "new.jsonl").read_bytes()
    again = sh("journal", "import", "full.jsonl", "--journal", "new.db")
    assert (again.code, "0 runs imported, 48 were there" in again.err) == (0, True)
    assert sh("replay", "full", "--journal", "new.db").code == 0
    studied = sh("stats", "full.jsonl")  # one format, with its machines
    assert (studied.code, "cannot be read" in studied.err) == (0, False)


def test_a_moved_journal_goes_on_in_a_file(sh: Shell) -> None:
    move_house(sh, "new.db")


def move_house(sh: Shell, target: str) -> None:
    """Export a journal with something of everything, import it, and let each run go on there."""
    old, new = ("--journal", "old.db"), ("--journal", target)
    full_journal(sh.folder / "old.db")
    sh.write("boss.yaml", BOSS)
    sh.write("desk.yaml", DESK)
    run = ("--no-input", *old)
    assert sh("run", *ASK, "--run-id", "waits", *run).code == 4
    assert sh("run", "boss.yaml", "--run-id", "boss", *run).code == 4  # its child waits
    assert sh("submit", *ADD[:4], "--run-id", "due", *old).code == 0
    assert sh("schedule", "add", "noon", "desk.yaml", "news", "--every", "2d", *old).code == 0
    journal = SqliteJournal(sh.folder / "old.db")
    begun = load(sh.folder / "looper.yaml").start(
        "x", journal=journal, script=["a", "b", "enough"], run_id="begun"
    )
    for _ in range(3):
        begun.step()
    by_hand(journal.set_limit(FleetLimit("session:s", "cost", "all", 9.0, 1.25)))
    by_hand(journal.close())
    assert sh("journal", "export", *old, "--to", "house.jsonl").code == 0
    moved = sh("journal", "import", "house.jsonl", "--go-on", *new, "--format", "json")
    assert moved.code == 0, moved
    assert (moved.json["imported"], moved.json["schedules"]) == (53, ["noon"])
    assert len(moved.json["limits"]) == 1
    assert sh("journal", "export", *new, "--to", "moved.jsonl").code == 0
    assert (sh.folder / "moved.jsonl").read_bytes() == (sh.folder / "house.jsonl").read_bytes()
    for run_id in ("waits", "boss"):  # what a person is asked
        assert sh("answer", run_id, "ok", *new).code == 0
        assert sh("resume", run_id, "--no-input", *new).code == 0
    sh.write("looped.yaml", "replies: [a, b, enough]")
    resumed = sh("resume", "begun", "--no-input", "--script", "looped.yaml", *new)
    assert resumed.code == 0, resumed
    assert sh("worker", "--until-idle", *ADD[2:], *new).code == 0  # what is due
    for run_id in ("waits", "boss", "begun", "due"):
        [row] = [one for one in sh("runs", "--format", "json", *new).json if one["run"] == run_id]
        assert row["status"] == "completed", row
        assert sh("replay", run_id, "--tools", "tools.py", *new).code == 0


def test_an_import_rests_until_it_is_told_to_go_on(sh: Shell) -> None:
    """A due run, a question with an unread answer, and a schedule: no worker takes any of them."""
    old, new = ("--journal", "old.db"), ("--journal", "new.db")
    sh.write("desk.yaml", DESK)
    assert sh("submit", *ADD[:4], "--run-id", "due", *old).code == 0
    assert sh("submit", *ASK[:2], "--run-id", "asks", *old).code == 0
    worker = ("worker", "--until-idle", *ASK[2:])
    assert sh("schedule", "add", "noon", "desk.yaml", "news", "--every", "1s", *old).code == 0
    assert sh("schedule", "add", "idle", "desk.yaml", "--every", "1s", *old).code == 0
    assert sh("schedule", "pause", "idle", *old).code == 0
    assert sh("journal", "export", *old, "--to", "house.jsonl").code == 0
    rests = sh("journal", "import", "house.jsonl", *new)
    last = "2 runs and 1 schedule rest: `chartloop journal import house.jsonl --go-on`"
    assert last in " ".join(rests.err.split())
    again = sh("journal", "import", "house.jsonl", *new, "--format", "json")
    assert (again.json["imported"], again.json["resting"]) == (0, [])

    time.sleep(1.1)
    assert sh(*worker, *new).code == 0
    statuses = {one["run"]: one["steps"] for one in sh("runs", "--format", "json", *new).json}
    assert statuses == {"due": 0, "asks": 0}  # not driven, and no tick
    assert "2 runs rest since they were imported" in sh("runs", *new).err
    noon, idle = sorted(sh("schedule", "list", "--format", "json", *new).json, key=_name)[::-1]
    assert (noon["paused"], noon["note"]) == (True, "it rests since it was imported")
    assert (idle["paused"], idle["note"]) == (True, "")

    released = sh("journal", "import", "house.jsonl", "--go-on", *new)
    assert (released.code, "0 runs imported, 2 were there" in released.err) == (0, True)
    noon, idle = sorted(sh("schedule", "list", "--format", "json", *new).json, key=_name)[::-1]
    assert (noon["paused"], noon["note"], idle["paused"]) == (False, "", True)
    assert sh("schedule", "pause", "noon", *new).code == 0
    assert sh("worker", "--until-idle", *ADD[2:], *new).code == 0
    [due] = [one for one in sh("runs", "--format", "json", *new).json if one["run"] == "due"]
    assert due["status"] == "completed"


def test_an_answer_moves_no_run_of_an_import_at_rest(sh: Shell) -> None:
    old, new = ("--journal", "old.db"), ("--journal", "new.db")
    worker = ("worker", "--until-idle", *ASK[2:])

    def status() -> str:
        [row] = sh("runs", "--format", "json", *new).json
        return row["status"]

    assert sh("submit", *ASK[:2], "--run-id", "asks", *old).code == 0
    assert sh(*worker, *old).code == 0
    assert sh("journal", "export", *old, "--to", "a").code == 0
    assert "1 run rests:" in sh("journal", "import", "a", *new).err
    assert sh("answer", "asks", "ok", *new).code == 0
    assert (sh(*worker, *new).code, status()) == (0, "paused")
    assert sh("journal", "import", "a", "--go-on", *new).code == 0
    assert (sh(*worker, *new).code, status()) == (0, "completed")


def test_a_run_at_rest_is_resumed_by_name(sh: Shell) -> None:
    assert sh("submit", *ADD[:4], "--run-id", "due", "--journal", "old.db").code == 0
    assert sh("journal", "export", "--journal", "old.db", "--to", "a").code == 0
    assert "1 run rests:" in sh("journal", "import", "a").err
    assert sh("resume", "due", *ADD[2:]).code == 0


def _name(schedule: dict[str, str]) -> str:
    return schedule["name"]


def test_schedules_and_limits_go_with_the_whole_journal_in_both_directions(sh: Shell) -> None:
    sh.write("desk.yaml", DESK)
    for line in (
        "schedule add morning desk.yaml news --every 1d --priority 7 --missed skip",
        "schedule add noon desk.yaml news --every 2d", "schedule pause noon",
        "limits set fleet --cost 5 --per day", "limits set model:m --requests 60",
        "limits set tenant:acme --tokens 900",
    ):  # fmt: skip
        assert sh(*line.split(), "--journal", "a.db").code == 0
    journal = SqliteJournal(sh.folder / "a.db")
    by_hand(journal.set_limit(FleetLimit("session:s", "cost", "all", 9.0, 1.25)))
    by_hand(journal.close())
    for here, there in (("a", "b"), ("b", "c"), ("c", "a")):
        assert sh("journal", "export", "--journal", f"{here}.db", "--to", here).code == 0
        into = ("--journal", f"{there}.db", "--format", "json")
        done = sh("journal", "import", here, "--go-on", *into)
        assert done.json["schedules"] == ([] if there == "a" else ["morning", "noon"])
        assert len(done.json["limits"]) == (0 if there == "a" else 4)
        sh("stats", here)
    assert len({(sh.folder / name).read_bytes() for name in "abc"}) == 1
    assert "1.25" in sh("limits", "--journal", "c.db").out
    listed = sh("schedule", "list", "--journal", "c.db", "--format", "json").json
    assert listed == sh("schedule", "list", "--journal", "a.db", "--format", "json").json
    assert sh("journal", "prune", "--older", "0s", "--journal", "c.db").code == 0
    assert len(sh("limits", "--journal", "c.db", "--format", "json").json["limits"]) == 4
    assert "pause them in one" in sh("journal", "import", "a", "--go-on", "--journal", "d.db").err
    sh("journal", "export", "--journal", "a.db", "--machine", "desk", "--to", "desk")
    assert sh("journal", "import", "desk", "--journal", "e.db").code == 0
    assert sh("schedule", "list", "--journal", "e.db", "--format", "json").json == []


def test_a_changed_line_of_a_schedule_or_limit_is_named(sh: Shell) -> None:
    sh("limits", "set", "fleet", "--cost", "5", "--journal", "a.db")
    assert sh("journal", "export", "--journal", "a.db", "--to", "a").code == 0
    sh.write("a", (sh.folder / "a").read_text().replace("5.0", "6.0"))
    done = sh("journal", "import", "a", "--journal", "b.db")
    assert (done.code, "a:1: the schedule or limit cannot be imported" in done.err) == (1, True)


def test_some_runs_are_exported_with_their_children(sh: Shell, full: Path) -> None:
    def imported(*which: str) -> int:
        assert sh("journal", "export", *which, "--journal", "full.db", "--to", "some").code == 0
        (sh.folder / "some.db").unlink(missing_ok=True)
        done = sh("journal", "import", "some", "--journal", "some.db", "--format", "json")
        return done.json["imported"]

    parent = next(run for run in contents(full)["run"] if "/" in str(run[0]))[0]
    top = str(parent).partition("/")[0]
    expected = [row for row in contents(full)["run"] if (str(row[0]) + "/").startswith(top + "/")]
    assert imported(top) == len(expected) > 1
    assert contents(sh.folder / "some.db")["run"] == expected
    assert 0 < imported("--machine", "agent") < 48
    assert imported("--older", "36500d") == 0


def test_what_cannot_be_moved_is_named_and_left_out(sh: Shell, full: Path) -> None:
    assert sh("journal", "export", "full", "--journal", "full.db", "--to", "full.jsonl").code == 0
    assert sh("journal", "import", "full.jsonl", "--journal", "new.db").code == 0
    journal = SqliteJournal(full)
    row = by_hand(journal.acquire("full"))[0]
    note = Event(row.head, "intent", 1.0, None, {"key": "k", "state": "s"})
    by_hand(journal.append("full", row.head, row.epoch, [note]))
    ids = [row.run_id for row in by_hand(journal.rows(children=False)) if row.run_id != "full"]
    driver = Driver("t", "python", Process("another-host", 1))
    by_hand(journal.acquire(ids[0], driver))
    by_hand(journal.close())
    with closing(sqlite3.connect(full)) as database, database:
        sql = "UPDATE event SET at = at + 1 WHERE run_id = ? AND seq = 2"
        database.execute(sql, (ids[1],))
    done = sh("journal", "export", "--journal", "full.db", "--to", "all.jsonl")
    said = " ".join(done.err.split())
    assert done.code == 1
    assert f"run `{ids[0]}` is driven by another process" in said
    assert f"run `{ids[1]}` was changed since it was written: record" in said
    done = sh("journal", "import", "all.jsonl", "--journal", "new.db")
    said = " ".join(done.err.split())
    assert done.code == 1
    assert "run `full` is in" in said
    assert "with other records" in said
    names = {row[0] for row in contents(sh.folder / "new.db")["run"]}
    assert names.isdisjoint(ids[:2])
    assert len(names) > 30


def test_a_damaged_line_keeps_its_run_out_and_is_named(sh: Shell, full: Path) -> None:
    sh("journal", "export", "--journal", "full.db", "--to", "all.jsonl")
    path = sh.folder / "all.jsonl"
    lines = path.read_text("utf-8").splitlines()
    at = next(n for n, line in enumerate(lines) if '"run":"full"' in line) + 1
    for bad in (lines[at].replace("long", "lang", 1), "{", lines[at] + lines[at]):
        path.write_text("\n".join([*lines[:at], bad, *lines[at + 1 :]]) + "\n", "utf-8")
        done = sh("journal", "import", "all.jsonl", "--journal", "new.db", "--format", "json")
        assert done.code == 1
        [refused] = done.json["refused"]
        assert f"all.jsonl:{at + 1}: run `full`" in refused["why"]
        with closing(sqlite3.connect(sh.folder / "new.db")) as database:
            for table in ("run", "event", "inbox", "request"):
                sql = f"SELECT count(*) FROM {table} WHERE run_id = 'full'"  # noqa: S608
                assert database.execute(sql).fetchone() == (0,)
    path.write_text("\n".join(lines[:-1]) + "\n", "utf-8")
    cut = sh("journal", "import", "all.jsonl", "--journal", "cut.db")
    assert (cut.code, "its end is missing" in " ".join(cut.err.split())) == (1, True)
    records = [line for line in lines if "part" not in json.loads(line)]
    path.write_text("\n".join(records) + "\n", "utf-8")
    bare = sh("journal", "import", "all.jsonl", "--journal", "bare.db")
    assert (bare.code, "journal export` writes whole runs" in " ".join(bare.err.split())) == (
        1,
        True,
    )


def test_a_journal_that_is_not_there_is_not_exported(sh: Shell) -> None:
    missing = sh("journal", "export", "--journal", "nothing.db", "--to", "all.jsonl")
    assert (missing.code, "there is no journal at" in missing.err) == (2, True)


def test_an_interrupted_import_is_repeated(sh: Shell, full: Path) -> None:
    assert sh("journal", "export", "--journal", "full.db", "--to", "all.jsonl").code == 0
    into = ("journal", "import", "all.jsonl", "--go-on", "--journal", "new.db")
    importing = subprocess.Popen([*PROGRAM, *into], cwd=sh.folder)
    while importing.poll() is None and not (sh.folder / "new.db").exists():
        time.sleep(0.001)
    importing.kill()
    importing.wait()
    assert sh(*into).code == 0
    assert contents(sh.folder / "new.db") == contents(full)


def test_migrate_says_what_it_did(sh: Shell) -> None:
    assert f"tables of version {VERSION} made" in sh("journal", "migrate").err
    again = sh("journal", "migrate")
    assert (again.code, f"tables of version {VERSION} up to date" in again.err) == (0, True)
    found = sh("journal", "migrate", "--format", "json").json
    assert found == {"before": VERSION, "after": VERSION, "schedule": "table", "restored": None}
    (sh.folder / "text.db").write_text("no database, but a text of some length" * 20)
    wrong = sh("journal", "migrate", "--journal", "text.db")
    assert (wrong.code, "is not a journal" in wrong.err) == (2, True)
    shutil.copy(sh.folder / ".chartloop" / "journal.db", sh.folder / "later.db")
    with closing(sqlite3.connect(sh.folder / "later.db")) as database, database:
        database.execute("INSERT INTO schema_version VALUES (99, 'later')")
    later = sh("journal", "migrate", "--journal", "later.db")
    assert (later.code, "newer version" in later.err) == (2, True)


class Kept(NamedTuple):
    """A run of 100 days, and whether `prune --older 90d` leaves it."""

    id: str
    stays: bool


KEPT = [
    Kept("plain", stays=False), Kept("failed", stays=False), Kept("parent", stays=False),
    Kept(below("parent"), stays=False), Kept("fresh", stays=True), Kept("waits", stays=True),
    Kept(below("waits"), stays=True), Kept("asked", stays=True), Kept("driven", stays=True),
    Kept("moved", stays=True), Kept("successor", stays=True), Kept("left", stays=False),
    Kept("gone", stays=False), Kept("origin", stays=False), Kept("fork", stays=True),
]  # fmt: skip


def test_prune_takes_only_what_nothing_needs(sh: Shell) -> None:
    path, now, old = sh.folder / "old.db", time.time(), 100 * 86_400.0
    journal = SqliteJournal(path)
    paused: dict[str, Any] = {"status": "paused"}
    for row in (
        ended("plain", old, now), ended("failed", old, now, status="error"),
        ended("parent", old, now), ended(below("parent"), old, now, parent="parent", **paused),
        ended("fresh", 60, now), ended("waits", old, now, **paused),
        ended(below("waits"), old, now, parent="waits"), ended("asked", old, now),
        ended("driven", old, now), ended("moved", old, now), ended("left", old, now),
        ended("origin", old, now),
    ):  # fmt: skip
        by_hand(journal.create(row))
    by_hand(journal.place_request(StoredRequest("k", "asked", "run", "d", 1.0, {})))
    by_hand(journal.acquire("driven", Driver("t", "python", Process("another-host", 1))))
    by_hand(journal.fork("origin", 0, ended("fork", old, now, **paused)))
    for run_id, to, row in (
        ("moved", "successor", ended("successor", old, now, **paused)),
        ("left", "gone", ended("gone", old, now)),
    ):
        read = by_hand(journal.row(run_id))
        assert read is not None
        new = WholeRun(row.replace(parent=run_id))
        by_hand(journal.create_whole([new], moves=[Move(read, to)]))
    by_hand(journal.close())
    before = {row.run_id for row in rows_of(path)}
    assert before == {kept.id for kept in KEPT}
    at = ("--older", "90d", "--journal", "old.db")
    listed = sh("journal", "prune", *at, "--dry-run")
    assert {row.run_id for row in rows_of(path)} == before
    goes = {kept.id for kept in KEPT if not kept.stays}
    assert set(listed.out.split()) == goes - {below("parent")}
    assert "6 runs would be removed" in listed.err
    only = sh("journal", "prune", *at, "--status", "error", "--format", "json")
    assert only.json == {"removed": ["failed"], "chosen": ["failed"]}
    assert sh("journal", "prune", *at).code == 0
    assert {row.run_id for row in rows_of(path)} == before - goes
    assert "nothing to remove" in sh("journal", "prune", *at).err
    wrong = sh("journal", "prune", *at, "--status", "paused")
    assert (wrong.code, "`paused` is none of" in wrong.err) == (2, True)


def rows_of(path: Path) -> list[RunRow]:
    """The rows of all runs of a file."""
    journal = SqliteJournal(path)
    try:
        return by_hand(journal.rows())
    finally:
        by_hand(journal.close())


def test_payloads_that_nothing_refers_to_go_with_their_runs(sh: Shell, full: Path) -> None:
    def payloads() -> int:
        with closing(sqlite3.connect(full)) as database:
            return database.execute("SELECT count(*) FROM blob WHERE NOT kept").fetchone()[0]

    assert payloads() == 1
    journal = SqliteJournal(full)
    by_hand(journal.withdraw_request("new"))
    by_hand(journal.close())
    assert sh("journal", "prune", "--older", "0s", "--journal", "full.db").code == 0
    assert payloads() == 0
    left = {row.status for row in rows_of(full)}
    assert not left & {"completed", "error"}
    for run in rows_of(full):  # a fork whose origin went stands on its own
        assert sh("replay", run.run_id, "--journal", "full.db").code == 0, run.run_id


# a journal that was restored from a backup ------------------------------------------------------

TICKS = ("schedule", "add", "poll", "desk.yaml", "--every", "1m")
RESTORED = "the journal was restored from a backup, 20"


def test_the_mark_of_a_backup_stands_until_it_is_lifted(sh: Shell) -> None:
    sh.write("desk.yaml", DESK)
    for name in ("poll", "own"):
        assert sh(*TICKS[:2], name, *TICKS[3:]).code == 0
    assert sh("schedule", "pause", "own").code == 0
    for _ in range(2):  # a second mark is as the first
        marked = sh("journal", "migrate", "--restored", "--format", "json")
        assert marked.code == 0
        assert marked.json["restored"] > 0
    rests = {
        one["name"]: (one["paused"], one["note"])
        for one in sh("schedule", "list", "--format", "json").json
    }
    assert rests == {
        "poll": (True, "it rests since the journal was restored from a backup"), "own": (True, ""),
    }  # fmt: skip
    for command in (("doctor",), ("journal", "migrate")):
        said = sh(*command)
        assert said.code == 0
        shown = " ".join(f"{said.out} {said.err}".split())
        assert RESTORED in shown
        assert "`chartloop journal migrate --go-on`" in shown

    first = sh("submit", "desk.yaml", "t", "--key", "k")
    assert first.code == 0
    assert RESTORED in first.err
    assert "it may have been submitted before" in first.err
    assert RESTORED not in sh("submit", "desk.yaml", "t", "--key", "k").err
    (warning,) = sh("submit", "desk.yaml", "t", "--key", "l", "--format", "json").json["warnings"]
    assert warning.startswith(RESTORED)

    both = sh("journal", "migrate", "--restored", "--go-on")
    assert (both.code, "give one of them" in both.err) == (2, True)
    for _ in range(2):
        lifted = sh("journal", "migrate", "--go-on")
        assert lifted.code == 0
        assert "its runs and schedules go on" in lifted.err
    rests = {
        one["name"]: (one["paused"], one["note"])
        for one in sh("schedule", "list", "--format", "json").json
    }
    assert rests == {"poll": (False, ""), "own": (True, "")}
    assert RESTORED not in sh("doctor").out
    assert sh("submit", "desk.yaml", "t", "--key", "m", "--format", "json").json.keys() == {
        "submitted", "runs",
    }  # fmt: skip


def test_a_schedule_that_was_killed_before_the_mark_rests_all_the_same(sh: Shell) -> None:
    """The schedules are paused first: killed in between, the order is given once more."""
    sh.write("desk.yaml", DESK)
    assert sh(*TICKS).code == 0
    assert sh("journal", "migrate", "--restored").code == 0
    journal = SqliteJournal(sh.folder / ".chartloop" / "journal.db")
    by_hand(journal.mark_restored(lift=True))  # as if it had not come to the mark
    by_hand(journal.close())
    assert sh("journal", "migrate", "--restored").code == 0
    assert sh("journal", "migrate", "--go-on").code == 0
    (poll,) = sh("schedule", "list", "--format", "json").json
    assert (poll["paused"], poll["note"]) == (False, "")
