"""A journal that somebody edited: every column of every table, read by the commands in turn.

With ``pytest --whole`` every command that reads meets every value in every column.

What is a cache is made anew; what cannot be read is reported and stepped over, or refused as
damaged. Nothing ends as a fault of ours, and one run never takes the others away.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS
from chartloop.api import load
from chartloop.run.journal import InboxMessage
from chartloop.run.sync import by_hand
from tests.cli.shell import ASKER, Shell

MACHINE = ASKER.replace("{steps: 10, answer: 5m", "{steps: 9000, answer: 90d").replace(
    "machine: asker", "machine: ask"
)
LONG = "a very long text " * 2000
FIRST = "UPDATE {table} SET {column} = ? WHERE {key} = (SELECT min({key}) FROM {table})"
FILE = Path(".chartloop/journal.db")
KEYS = {"run": "run_id", "blob": "hash", "schema_version": "number"}
"""By what one row of a table is found; elsewhere by the number of its row."""


class Value(NamedTuple):
    """What is written into a column."""

    id: str
    value: Any


VALUES = [
    Value("null", None),
    Value("empty", ""),
    Value("text", "{"),
    Value("json-null", "null"),
    Value("json-list", "[1]"),
    Value("bytes", b"\xff\x00{"),
    Value("negative", -7),
    Value("huge", 2**62),
    Value("infinite", float("inf")),
]


def _columns() -> list[tuple[str, str]]:
    """Every column of every table, as the migrations make them."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE schema_version (number INTEGER PRIMARY KEY, title TEXT NOT NULL)")
        for migration in MIGRATIONS:
            assert not callable(migration.change)
            for statement in migration.change:
                db.execute(statement)
        tables = [t for (t,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return [(t, c[1]) for t in tables for c in db.execute(f"PRAGMA table_info({t})")]


COLUMNS = _columns()


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a journal that has a row in every table; `good` is never edited."""
    folder = tmp_path_factory.mktemp("kept")
    (folder / "ask.yaml").write_text(MACHINE)
    (folder / "replies.yaml").write_text("replies:\n" + "  - hello\n" * 2)
    (folder / ".chartloop").mkdir()
    _fill(folder / FILE)
    return folder


def _fill(path: Path) -> None:
    machine, journal = load(MACHINE), SqliteJournal(path)
    for name in ("bad", "good"):  # the first row of every table is of `bad`
        run = machine.start(LONG, script=["forty-two"] * 3, journal=journal, run_id=name)
        run.run()
        by_hand(run.session.put_snapshot())
        by_hand(journal.send(name, InboxMessage(f"later-{name}", 1.0, {"kind": "pause"})))
    by_hand(journal.close())
    with closing(sqlite3.connect(path)) as db, db:
        of = "('bad', 'token', 'cli', 'elsewhere', 1, 'x', 'y', 1, 1, 2)"
        db.execute(f"INSERT INTO lease VALUES {of}")  # noqa: S608  from above


@pytest.fixture
def edited(kept: Path, sh: Shell) -> Shell:
    """A copy of it, and the command line in there."""
    shutil.copytree(kept, sh.folder, dirs_exist_ok=True)
    return sh


def edit(folder: Path, statement: str, *values: Any) -> bool:
    """Change the file as another program might; whether SQLite let it."""
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        try:
            return db.execute(statement, values).rowcount != 0
        except (sqlite3.IntegrityError, OverflowError):
            return False


READING = (
    ("stats",), ("coverage", "ask.yaml"), ("whatif", "ask.yaml", "--limit", "steps=3"),
    ("show", "bad"), ("why", "bad"), ("replay", "bad"), ("journal", "export", "bad", "--to", "-"),
    ("draw", "--run", "bad"), ("upgrade", "ask.yaml", "ask.yaml", "bad"), ("record", "bad"),
    ("journal", "export", "--to", "x.jsonl"), ("journal", "prune", "--older", "0s", "--dry-run"),
    ("bound", "--run", "bad"), ("stats", "bad"), ("whatif", "ask.yaml", "bad", "--limit", "steps=3"),
)  # fmt: skip
RESUME = ("resume", "bad", "--no-input", "--script", "replies.yaml")
WRITING = (
    RESUME, ("answer", "bad", "ok"), ("pause", "bad"), ("cancel", "bad"), ("enqueue", "bad", "x"),
    ("fork", "bad"), ("runs", "rm", "bad", "--yes"),
)  # fmt: skip
LIST = ("runs", "--children", "--format", "json")
ONCE = (*READING, *WRITING)


def commands(turn: int, whole: bool) -> tuple[tuple[str, ...], ...]:
    """The list of runs, and one other command in turn. With `--whole`: all that reads, and one
    that writes, which comes last.
    """
    if whole:
        return (LIST, *READING, WRITING[turn % len(WRITING)])
    return (LIST, ONCE[turn % len(ONCE)])


def test_each_command_meets_each_value_and_many_columns() -> None:
    met = {
        (commands(c * len(VALUES) + v, whole=False)[1], v, c)
        for c in range(len(COLUMNS)) for v in range(len(VALUES))
    }  # fmt: skip
    assert {(args, v) for args, v, _ in met} == {
        (args, v) for args in ONCE for v in range(len(VALUES))
    }
    assert all(len({c for args, _, c in met if args == one}) >= 20 for one in ONCE)


@pytest.mark.slow("edits every column of a journal")
@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=map(".".join, COLUMNS))
def test_no_edit_ends_as_a_fault_of_ours(
    table: str, column: str, edited: Shell, whole: bool
) -> None:
    intact = (edited.folder / FILE).read_bytes()
    turn = COLUMNS.index((table, column)) * len(VALUES)
    for number, value in enumerate(VALUES):
        (edited.folder / FILE).write_bytes(intact)
        for beside in ("-wal", "-shm"):
            (edited.folder / f"{FILE}{beside}").unlink(missing_ok=True)
        statement = FIRST.format(table=table, column=column, key=KEYS.get(table, "rowid"))
        if table == "event_blob":
            statement = f"UPDATE event_blob SET {column} = ? WHERE run_id = 'bad'"  # noqa: S608
        if not edit(edited.folder, statement, value.value):
            continue
        for args in commands(turn + number, whole):
            done = edited(*args)
            said = (value.id, args, done.code, done.err)
            assert "this is a fault" not in done.err, said
            assert "Traceback" not in done.err, said
            assert done.code in (0, 1, 2, 3, 4, 5, 6), said
            if args == LIST and table != "schema_version":
                assert "good" in [row["run"] for row in done.json], said
            if done.code == 1 and args[0] != "replay":  # which says on stdout what differs
                assert re.search("^error", done.err, re.MULTILINE), said


def resumed(sh: Shell) -> dict[str, Any]:
    """What comes of `bad` when it is answered and goes on."""
    assert sh("answer", "bad", "ok").code == 0
    done = sh(*RESUME, "--format", "json")
    assert done.code == 0, done.err
    return done.json


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value.id)
@pytest.mark.parametrize("column", ["seq", "record_seq", "data"])
def test_a_damaged_snapshot_is_made_anew(column: str, value: Value, edited: Shell) -> None:
    statement = f"UPDATE snapshot SET {column} = ?"  # noqa: S608  a name from above
    edit(edited.folder, statement, value.value)
    shown = edited("show", "bad", "--format", "json").json
    assert shown["state"] == "wait"
    assert shown["usage"]["llm_calls"] == 1
    assert resumed(edited)["reason"] == "completed"


def test_a_snapshot_that_says_something_else_is_not_believed(edited: Shell) -> None:
    change = """UPDATE snapshot SET data = replace(data, '"llm_calls":1', '"llm_calls":0')"""
    assert edit(edited.folder, change)
    shown = edited("show", "bad", "--format", "json").json
    assert shown["usage"]["llm_calls"] == 1


MESSAGES = {
    "no-json": "{", "null": "null", "a-list": "[]", "no-event": '{"kind": "answer"}',
    "event-list": '{"kind": "answer", "event": []}', "data-text": '{"kind": "cancel", "data": "x"}',
    "reason-list": '{"kind": "cancel", "reason": []}', "kind-list": '{"kind": []}',
    "no-tasks": '{"kind": "enqueue"}', "task-text": '{"kind": "enqueue", "tasks": ["x"]}',
    "task-fields": '{"kind": "enqueue", "tasks": [{"id": "1", "text": "x", "colour": 1}]}',
    "bytes": b"\xff\xfe",
}  # fmt: skip


@pytest.mark.parametrize("data", MESSAGES.values(), ids=MESSAGES)
def test_one_bad_message_is_dropped_on_the_record(data: Any, edited: Shell) -> None:
    assert edit(edited.folder, "UPDATE inbox SET data = ? WHERE run_id = 'bad'", data)
    done = resumed(edited)
    assert done["reason"] == "completed"
    assert [w for w in done["warnings"] if w.startswith("a message was dropped: it ")]
    assert edited("replay", "bad").code == 0


def test_a_message_without_a_time_is_dropped(edited: Shell) -> None:
    assert edit(edited.folder, "UPDATE inbox SET at = 'x' WHERE run_id = 'bad'")
    assert "its time is not a number" in " ".join(resumed(edited)["warnings"])


def test_a_damaged_row_is_in_the_list_with_its_reason_and_can_be_removed(edited: Shell) -> None:
    assert edit(edited.folder, "UPDATE run SET created = 9e999 WHERE run_id = 'bad'")
    rows = {row["run"]: row for row in edited("runs", "--format", "json").json}
    assert rows["good"]["status"] == "paused"
    assert (rows["bad"]["status"], rows["bad"]["reason"]) == (
        "damaged", "`created` of its row cannot be inf",
    )  # fmt: skip
    assert "error[CL608]: run `bad` is damaged" in edited("show", "bad").err
    assert "run `bad` is skipped" in edited("stats").err
    assert edited("runs", "rm", "bad", "--yes").code == 0
    assert [row["run"] for row in edited("runs", "--format", "json").json] == ["good"]


def test_a_count_of_events_that_the_log_does_not_have_ends_no_answer_in_a_loop(
    edited: Shell,
) -> None:
    assert edit(edited.folder, "UPDATE run SET head = 1 WHERE run_id = 'bad'")
    done = edited("answer", "bad", "ok")
    assert done.code == 1
    assert "error[CL608]: run `bad` is damaged: its row says 1 events, its log " in done.err


def test_the_text_of_a_machine_is_held_to_its_hash(edited: Shell) -> None:
    change = "UPDATE blob SET data = replace(data, '9000', '9001') WHERE kept"
    assert edit(edited.folder, change)
    for args in (("show", "bad"), ("replay", "bad"), RESUME):
        done = edited(*args)
        assert done.code == 1
        assert "does not have that hash any more" in done.err
    goes_on = edited(*RESUME, "--machine", "ask.yaml")  # as the hint says
    assert goes_on.code == 4, goes_on.err
    again = edited("run", "ask.yaml", "x", "--script", "replies.yaml", "--no-input")
    assert again.code == 4  # and a new run keeps the text again
    assert edited("show", "bad").code == 0


class Newer(NamedTuple):
    """What only a newer version writes, or none."""

    id: str
    change: str
    code: str
    says: str


NEWER = [
    Newer("event", "type = 'hint', record = NULL", "CL622", "does not know: 'hint'"),
    Newer(
        "record", """data = replace(data, '"kind":"step"', '"kind":"leap"')""", "CL622", "'leap'"
    ),
    Newer("swapped", "type = 'result'", "CL608", "it is a result, and its number as a record is 1"),
    Newer("future", "epoch = 99", "CL608", "event 1 is of epoch 99, which the run has not reached"),
]


@pytest.mark.parametrize("case", NEWER, ids=lambda case: case.id)
def test_what_a_newer_version_wrote_is_refused_as_that(case: Newer, edited: Shell) -> None:
    where = "WHERE run_id = 'bad' AND seq = 1"
    assert edit(edited.folder, "DELETE FROM snapshot")  # else the log is read from there on
    assert edit(edited.folder, f"UPDATE event SET {case.change} {where}")  # noqa: S608  from above
    for args in (("show", "bad"), ("why", "bad"), RESUME):
        done = edited(*args)
        assert done.code == (2 if case.code == "CL622" else 1)  # nothing was done, or a fault
        assert f"error[{case.code}]: " in done.err
        assert case.says in done.err


def test_a_file_from_before_the_first_release_is_refused_in_a_line(edited: Shell) -> None:
    assert edit(edited.folder, "UPDATE schema_version SET title = 'the first tables'")
    for args in (*READING, RESUME, ("runs",), ("run", "ask.yaml", "x", "--script", "replies.yaml")):
        done = edited(*args)
        assert done.code == 2, args
        assert "was written before the first release of chartloop" in done.err
        assert "= help: name another file, or move this one away" in done.err
        assert "Traceback" not in done.err


# fields of stored records -------------------------------------------------------------------------


def _places(data: object, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The place of every value in JSON data, itself included."""
    below: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        below = [*cast("dict[str, Any]", data).items()]
    elif isinstance(data, list):
        below = [*enumerate(cast("list[Any]", data))]
    return [at, *(place for name, value in below for place in _places(value, (*at, name)))]


def _with(data: Any, at: tuple[Any, ...], value: Any) -> Any:
    """JSON data with another value at a place."""
    if not at:
        return value
    copy: Any = data.copy()
    copy[at[0]] = _with(copy[at[0]], at[1:], value)
    return copy


FIELD_VALUES: list[Any] = ["x", -7, 2**70, None, [1], {"x": 1}, True]
OF_RECORDS = (
    ("replay", "bad"), ("fork", "bad"), ("show", "bad"), ("why", "bad"), ("journal", "export", "bad", "--to", "-"),
    ("upgrade", "ask.yaml", "ask.yaml", "bad"), ("stats", "bad"), ("draw", "--run", "bad"),
    ("fork", "bad", "--machine", "ask.yaml"), ("answer", "bad", "ok"), RESUME,
)  # fmt: skip


@pytest.mark.slow("edits every field of every record")
@pytest.mark.parametrize("snapshot", [True, False], ids=["snapshot", "no-snapshot"])
@pytest.mark.parametrize("seq", range(4))
def test_no_edited_field_of_a_record_ends_as_a_fault_of_ours(
    seq: int, snapshot: bool, edited: Shell, whole: bool
) -> None:
    """A time that is a text, a list of edges that is a number: the record is damaged, and said so."""
    if not snapshot:
        assert edit(edited.folder, "DELETE FROM snapshot")
    with closing(sqlite3.connect(edited.folder / FILE)) as db:
        (text,) = db.execute(
            "SELECT data FROM event WHERE run_id = 'bad' AND seq = ?", (seq,)
        ).fetchone()
    data, turn = json.loads(text), seq
    for place in _places(data):
        for value in FIELD_VALUES:
            change = "UPDATE event SET data = ? WHERE run_id = 'bad' AND seq = ?"
            assert edit(edited.folder, change, json.dumps(_with(data, place, value)), seq)
            turn += 1
            for args in OF_RECORDS if whole else (OF_RECORDS[turn % len(OF_RECORDS)],):
                done = edited(*args)
                said = (place, value, args, done.code, done.err)
                assert "this is a fault" not in done.err, said
                assert "Traceback" not in done.err, said


def test_a_fork_below_a_damaged_record_still_works(edited: Shell) -> None:
    with closing(sqlite3.connect(edited.folder / FILE)) as db:
        (last,) = db.execute("SELECT max(seq) FROM event WHERE run_id = 'bad'").fetchone()
    change = "UPDATE event SET data = json_set(data, '$.at', 'x') WHERE run_id = 'bad' AND seq = ?"
    assert edit(edited.folder, change, last)
    for args in (("replay", "bad"), ("fork", "bad")):
        done = edited(*args)
        assert done.code == 1
        assert "error[CL608]" in done.err
        assert "`at`: expected `float`, got `str`" in done.err
        assert "a fork below it still works" in done.err
    assert edited("fork", "bad", "--at", "1").code == 0
