"""Recorded runs are read from journals and exports; what is broken or foreign is skipped."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from chartloop import load
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.codec import to_json
from chartloop.core.errors import SetupError
from chartloop.run.journal import MemoryJournal
from chartloop.run.recorded import RecordedRun, Unread, read_export
from chartloop.run.sync import by_hand
from chartloop.studies.recorded_runs import recorded_runs


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    for name in ("one", "two"):
        load("agent").run("Hello.", script=["Hi."], journal=journal, run_id=name)
    by_hand(journal.close())
    return path


def exported(run: RecordedRun) -> str:
    """The lines of `chartloop journal export` that a reader of runs looks at."""
    row = to_json({"run": run.run_id, **run.row.to_mapping()})
    lines = [to_json({"seq": record.seq, **record.to_dict()}) for record in run.records]
    return "\n".join([row, *lines, ""])


def test_a_journal_gives_its_runs_with_records_and_machine(path: Path) -> None:
    found = list(recorded_runs(path))
    assert [run.run_id for run in found] == ["two", "one"]  # the newest first
    for run in found:
        assert isinstance(run, RecordedRun)
        assert [r.kind for r in run.records] == ["start", "step", "step"]
        assert run.machine == load("agent").canonical()
        assert run.pending == ()
    assert list(recorded_runs(path, "agent")) == found
    assert list(recorded_runs(path, "other")) == []


def test_an_export_gives_the_same_records(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "both.jsonl"
    stored = [run for run in recorded_runs(path) if isinstance(run, RecordedRun)]
    file.write_text("".join(exported(run) for run in stored))
    read = [run for run in recorded_runs(file) if isinstance(run, RecordedRun)]
    assert [(r.row, r.records) for r in read] == [(r.row, r.records) for r in stored]


def test_runs_and_lists_of_them_are_read_as_they_stand() -> None:
    run = load("agent").start("Hello.", script=["Hi."], journal=MemoryJournal())
    [before] = recorded_runs(run)
    assert isinstance(before, Unread)
    assert "no run" in before.why
    run.run()
    [after] = recorded_runs([run])
    assert isinstance(after, RecordedRun)
    assert after.records == tuple(run.records)
    assert list(recorded_runs([after, [before]])) == [after, before]


def test_an_action_that_was_begun_is_pending(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM event WHERE run_id = 'one' AND record = 2")
    [run] = [r for r in recorded_runs(path) if r.run_id == "one"]
    assert isinstance(run, RecordedRun)
    assert [record.seq for record in run.records] == [0, 1]
    assert all(event.record is None for event in run.pending)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("UPDATE event SET data = '{' WHERE record = 1", "cannot be read"),
        ("UPDATE event SET data = '{\"kind\": 1}' WHERE record = 1", "cannot be read"),
        ("DELETE FROM event WHERE record = 1", "record 1 is missing"),
        ("DELETE FROM event WHERE record = 0", "record 0 is missing"),
        ("DELETE FROM event", "no record yet"),
    ],
)
def test_a_broken_run_is_passed_over_and_the_other_is_read(path: Path, sql: str, why: str) -> None:
    where = " AND" if "WHERE" in sql else " WHERE"
    with sqlite3.connect(path) as db:
        db.execute(f"{sql}{where} run_id = 'one'")
    two, one = recorded_runs(path)
    assert isinstance(two, RecordedRun)
    assert isinstance(one, Unread)
    assert why in one.why
    assert "run `one` is skipped" in str(one)


ROW = json.dumps({"run": "a", "run_id": "a"})
START = {"seq": 0, "kind": "start", "state": "idle", "at": 0.0, "status": "idle"}


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([json.dumps(START)], "not a run's row"),
        (["nonsense"], "not a run's row"),
        (["[1]"], "not a run's row"),
        ([json.dumps({"run": "a", "run_id": "a", "created": "now"})], "not a run's row"),
        ([json.dumps({"run": "a", "run_id": 3})], "not a run's row"),
        ([ROW], "no record yet"),
        ([ROW, "nonsense"], "file.jsonl:2 is not a record"),
        ([ROW, "[" * 100_000], "file.jsonl:2 is not a record"),
        ([ROW, json.dumps({**START, "seq": 1})], "record 0 is missing"),
        ([ROW, json.dumps({**START, "kind": "step"})], "starts with a record of `step`"),
        ([ROW, json.dumps(START), json.dumps({**START, "seq": 1})], "starts twice"),
    ],
)
def test_what_is_no_export_is_passed_over_with_its_place(lines: list[str], why: str) -> None:
    good = [ROW.replace('"a"', '"b"'), json.dumps(START)]
    first, *rest = read_export("\n".join([*lines, "", *good]) + "\n", "file.jsonl")
    assert isinstance(first, Unread)
    assert why in first.why
    assert [run.run_id for run in rest] == ["b"]


@pytest.mark.parametrize("given", [7, "missing.db", "missing.jsonl"])
def test_what_holds_no_runs_is_refused(given: object) -> None:
    with pytest.raises(SetupError):
        list(recorded_runs(given))  # pyright: ignore[reportArgumentType]


Damage = tuple[int, tuple[str | int, ...], object]
DAMAGES: list[Damage] = [
    (1, ("at",), "soon"), (2, ("started",), None), (1, ("at",), 1e308), (1, ("at",), float("nan")),
    (2, ("state",), -1), (1, ("taken", 0), {}), (2, ("status",), True), (1, ("wake_at",), "x"),
    (2, ("outcome", "spent", "prompt_tokens"), []), (2, ("outcome", "spent", "llm_calls"), -1),
    (2, ("outcome", "spent", "cost"), float("inf")), (2, ("outcome", "spent", "tools"), "add"),
    (2, ("outcome", "spent", "tools"), {"add": float("inf")}),
    (2, ("outcome", "context_tokens"), 10**29), (2, ("outcome", "reply", "text"), ["a"]),
    (2, ("outcome", "reply", "tool_calls"), [{"id": "a", "name": {}, "arguments": "{}"}]),
    (1, ("outcome", "messages", 0), "hello"), (1, ("outcome", "messages", 0, "content"), 7),
    (2, ("outcome", "tool_errors"), [None]), (2, ("seq",), float("inf")),
    (2, ("outcome", "error"), {"category": 1, "message": "", "state": ""}),
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_a_record_with_values_that_no_engine_writes_is_damaged(path: Path, damage: Damage) -> None:
    number, (*way, last), value = damage
    run = next(r for r in recorded_runs(path) if isinstance(r, RecordedRun))
    lines = [json.loads(line) for line in exported(run).splitlines()]
    at = lines[1 + number]
    for key in way:
        at = at[key]
    at[last] = value
    [found] = read_export("\n".join(map(json.dumps, lines)), "it")
    assert isinstance(found, Unread)
    assert "damaged" in found.why or "is not a record" in found.why
