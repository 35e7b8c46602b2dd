"""Journals to move, and what two of them must have in common."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from chartloop.run.copies import lines_of, put_tree, read_tree, read_trees
from chartloop.run.journal import CHILD_MARK, InboxMessage, Journal, RunRow, Snapshot
from chartloop.run.requests import StoredRequest
from chartloop.run.sync import by_hand

GOLDEN = Path(__file__).parent / "golden" / "journals" / "chartloop-0.1.0.db"
LARGE = "\u2028 \u00e9 " + "long " * 5_000


def full_journal(path: Path) -> Path:
    """A file with a run of each machine, and one with something in every table."""
    from chartloop.adapters.journal.sqlite import SqliteJournal  # noqa: PLC0415
    from chartloop.api import load  # noqa: PLC0415

    shutil.copy(GOLDEN, path)
    journal = SqliteJournal(path)
    run = load("agent").start(LARGE, journal=journal, script=[LARGE], run_id="full")
    run.run()
    head = run.session.row.head
    by_hand(journal.send("full", InboxMessage("open", 1.5, {"kind": "answer", "text": "\x85"})))
    by_hand(journal.put_snapshot("full", Snapshot(head, 1, {"a": 1.0})))
    by_hand(journal.place_request(StoredRequest("old", "full", "run", "d", 1.0, {}, {"ok": 1})))
    by_hand(journal.place_request(StoredRequest("new", "full", "run", "d", 2.0, {"a": LARGE})))
    by_hand(journal.close())
    return path


def tops(journal: Journal) -> list[str]:
    """The runs without their children, the oldest first."""
    rows = by_hand(journal.rows(children=False))
    rows.sort(key=lambda row: (row.created, row.run_id))
    return [row.run_id for row in rows]


def move_all(source: Journal, target: Journal) -> int:
    """Move every run by its lines; gives how many are new."""
    trees = (by_hand(read_tree(source, run_id)) for run_id in tops(source))
    lines = (line.encode() for tree in trees for run in tree for line in lines_of(run))
    read = [*read_trees(lines, "all.jsonl")]
    assert all(isinstance(tree, list) for tree in read), read
    return sum(
        by_hand(put_tree(target, tree, go_on=True)).new for tree in read if isinstance(tree, list)
    )


def exported(journal: Journal) -> list[str]:
    """All runs as lines."""
    rows = sorted(by_hand(journal.rows()), key=lambda row: row.run_id)
    lines: list[str] = []
    for row in rows:
        raw = by_hand(journal.raw(row.run_id))
        assert raw is not None
        lines += lines_of(raw)
    return lines


def ended(run_id: str, age: float, now: float, **more: Any) -> RunRow:
    """The row of a run that ended so many seconds ago."""
    at = now - age
    more.setdefault("status", "completed")
    return RunRow(run_id, "desk", created=at, updated=at, **more)


def below(run_id: str) -> str:
    """The id of a child."""
    return f"{run_id}{CHILD_MARK}work/1"
