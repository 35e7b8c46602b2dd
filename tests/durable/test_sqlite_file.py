"""The journal's file: how it is made, what is refused, and what a refusal leaves behind."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from chartloop.adapters.journal.sqlite import SqliteJournal, default_journal_path, journals_above
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS, Connection, Migration
from chartloop.core.errors import (
    JournalCorrupt,
    JournalError,
    JournalLocked,
    RunError,
)
from chartloop.core.outcome import Outcome
from chartloop.core.records import Input, Record
from chartloop.run.journal import Event, RunRow
from chartloop.run.sync import by_hand


def step(seq: int, text: str = "hello") -> Event:
    return Event(
        seq, "record", 1.0 + seq, Record(seq, "s", Input("step", outcome=Outcome(result=text)))
    )


def fill(path: Path, events: int = 3, text: str = "hello") -> None:
    """A closed journal with one run."""
    journal = SqliteJournal(path)
    by_hand(journal.create(RunRow("r", "agent")))
    by_hand(journal.append("r", 0, 0, [step(n, text) for n in range(events)]))
    by_hand(journal.close())


def files(folder: Path) -> dict[str, bytes]:
    """Everything in a folder, byte for byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


# -- where it stands -----------------------------------------------------------------------------


def test_the_journal_of_the_nearest_folder_is_used(tmp_path: Path) -> None:
    inner = tmp_path / "project" / "deep" / "er"
    inner.mkdir(parents=True)
    here = inner / ".chartloop" / "journal.db"
    assert default_journal_path(inner) == here
    assert not here.parent.exists()
    (tmp_path / "project" / ".chartloop").mkdir()
    assert default_journal_path(inner) == tmp_path / "project" / ".chartloop" / "journal.db"
    (tmp_path / "project" / "deep" / ".chartloop").write_text("a file, no folder")
    assert default_journal_path(inner) == tmp_path / "project" / ".chartloop" / "journal.db"


def test_a_project_has_a_journal_of_its_own(tmp_path: Path) -> None:
    inner = tmp_path / "home" / "project" / "deep"
    inner.mkdir(parents=True)
    (tmp_path / "home" / ".chartloop").mkdir()
    above = tmp_path / "home" / ".chartloop" / "journal.db"
    assert default_journal_path(inner) == above
    (tmp_path / "home" / "project" / "pyproject.toml").write_text("")
    own = tmp_path / "home" / "project" / ".chartloop" / "journal.db"
    assert default_journal_path(inner) == own
    assert journals_above(inner) == []
    for path in (above, own):
        fill(path)
    assert journals_above(inner)[:2] == [own, above]
    (inner / ".chartloop").mkdir()
    assert default_journal_path(inner) == inner / ".chartloop" / "journal.db"


def test_a_relative_start_gives_an_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_journal_path(Path()) == tmp_path / ".chartloop" / "journal.db"


def test_missing_folders_are_made_and_ours_is_ignored_by_git(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / ".chartloop" / "journal.db"
    fill(path)
    assert (path.parent / ".gitignore").read_text() == "*\n"
    assert sorted(p.name for p in path.parent.iterdir()) == [".gitignore", "journal.db"]
    assert list((tmp_path / "a" / "b").iterdir()) == [path.parent]


def test_a_gitignore_that_is_there_is_left(tmp_path: Path) -> None:
    folder = tmp_path / ".chartloop"
    folder.mkdir()
    (folder / ".gitignore").write_text("nothing")
    fill(folder / "journal.db")
    assert (folder / ".gitignore").read_text() == "nothing"


# -- what is not a journal --------------------------------------------------------------------------


def other_application(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE run (x)")
        database.execute("CREATE TABLE schema_version (number)")
    database.close()


def shared_by_another_application(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE bookmarks (x)")
    database.close()


def cut_in_half(path: Path) -> None:
    fill(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def damaged_head(path: Path) -> None:
    fill(path)
    content = bytearray(path.read_bytes())
    content[100:300] = b"\xff" * 200
    path.write_bytes(content)


NO_JOURNALS: dict[str, Callable[[Path], Any]] = {
    "text": lambda path: path.write_text("not a database, whatever its name says\n" * 100),
    "a-word": lambda path: path.write_text("hello"),
    "bytes": lambda path: path.write_bytes(bytes(range(256)) * 64),
    "head-and-nothing-sensible": lambda path: path.write_bytes(b"SQLite format 3\0" + b"\xee" * 8000),
    "another-application": other_application,
    "another-application-wal": shared_by_another_application,
    "cut-in-half": cut_in_half,
    "damaged-head": damaged_head,
}  # fmt: skip


@pytest.mark.parametrize("make", NO_JOURNALS.values(), ids=NO_JOURNALS)
def test_what_is_no_journal_is_refused_and_stays_as_it_is(
    tmp_path: Path, make: Callable[[Path], Any]
) -> None:
    path = tmp_path / "journal.db"
    make(path)
    before = files(tmp_path)
    with pytest.raises(JournalCorrupt) as refused:
        SqliteJournal(path)
    assert str(path) in refused.value.message
    assert "left as it is" in refused.value.hint or "left as it was" in refused.value.hint
    assert files(tmp_path) == before


def test_damage_found_later_is_told_and_the_file_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill(path, events=60, text="x" * 1000)
    content = bytearray(path.read_bytes())
    content[-40_000:] = b"\xff" * 40_000
    path.write_bytes(content)
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorrupt, match="damaged"):
        by_hand(journal.events("r"))
    by_hand(journal.close())
    assert path.read_bytes() == content


def test_a_payload_that_is_not_there_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    fill(path, text="x" * 40_000)
    with sqlite3.connect(path) as database:
        database.execute("DELETE FROM blob")
    database.close()
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorrupt, match="refers to payload"):
        by_hand(journal.events("r"))
    by_hand(journal.close())


@pytest.mark.parametrize(
    "data",
    ["{", '{"kind": "step"}', "7", b"\xff\xfe", '{"kind": "step", "at": 1, "outcome": {"x": 1}}'],
)
def test_an_event_that_somebody_changed_is_damage(tmp_path: Path, data: str | bytes) -> None:
    path = tmp_path / "journal.db"
    fill(path)
    with sqlite3.connect(path) as database:
        database.execute("UPDATE event SET data = ? WHERE seq = 1", (data,))
    database.close()
    journal = SqliteJournal(path)
    with pytest.raises(JournalCorrupt, match="cannot be read"):
        by_hand(journal.events("r"))
    assert by_hand(journal.fork("r", 1, RunRow("new"))) == 1
    assert len(by_hand(journal.events("new"))) == 1
    by_hand(journal.close())


def test_an_empty_file_becomes_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    path.touch()
    fill(path)
    assert path.stat().st_size > 0


# -- where it cannot stand -----------------------------------------------------------------------


def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="is a folder") as refused:
        SqliteJournal(tmp_path)
    assert str(tmp_path / "journal.db") in refused.value.hint


def test_a_file_in_the_way_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(JournalError, match="no journal can be made"):
        SqliteJournal(tmp_path / "file" / "journal.db")


def test_a_path_that_no_system_has_is_told() -> None:
    with pytest.raises(JournalError, match="no journal can be made"):
        SqliteJournal("a\0b/journal.db")


READ_ONLY = """
import os, sys
from pathlib import Path
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import JournalError
from chartloop.run.journal import RunRow
from chartloop.run.sync import by_hand
if os.geteuid() == 0:  # root may write anywhere
    os.seteuid(65534)
try:
    by_hand(SqliteJournal(Path(sys.argv[1])).create(RunRow("r")))
except JournalError as error:
    print(type(error).__name__, error.message, error.hint)
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may enter; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("exists", [False, True], ids=["new", "old"])
def test_a_folder_that_may_not_be_written_is_told(open_folder: Path, exists: bool) -> None:
    path = open_folder / "journal.db"
    if exists:
        open_folder.chmod(0o755)
        fill(path)
        open_folder.chmod(0o555)
    before = files(open_folder)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, path], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"JournalError `{path}` cannot be written")
    assert "see who owns" in done.stdout
    assert files(open_folder) == before


# -- when it is full, locked, closed -------------------------------------------------------------


def test_a_full_disk_leaves_the_journal_as_it_was_and_usable(tmp_path: Path) -> None:
    """A bound on the pages of the file is met by the same error as the end of the disk."""
    opened: list[Connection] = []
    small = Migration(len(MIGRATIONS) + 1, "keeps the connection", opened.append)
    journal = SqliteJournal(tmp_path / "journal.db", migrations=(*MIGRATIONS, small))
    by_hand(journal.create(RunRow("r")))
    by_hand(journal.append("r", 0, 0, [step(0)]))
    pages = opened[0].execute("PRAGMA page_count").fetchone()[0]
    opened[0].execute(f"PRAGMA max_page_count = {pages + 1}")
    with pytest.raises(JournalError, match="the disk is full") as refused:
        by_hand(journal.append("r", 1, 0, [step(1, "x" * 30_000)], consumed=["m"]))
    assert "free some space" in refused.value.hint
    assert by_hand(journal.events("r")) == [step(0)]
    opened[0].execute("PRAGMA max_page_count = 1000000")
    by_hand(journal.append("r", 1, 0, [step(1, "x" * 30_000)]))
    assert len(by_hand(journal.events("r"))) == 2
    by_hand(journal.close())


def test_a_file_that_is_held_too_long_is_told(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, wait=0.2)
    by_hand(journal.create(RunRow("r")))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalLocked, match=r"for more than 0\.2 s") as refused:
        by_hand(journal.append("r", 0, 0, [step(0)]))
    assert "longer `wait`" in refused.value.hint
    assert by_hand(journal.events("r")) == []  # who reads waits for nobody
    holder.execute("ROLLBACK")
    assert by_hand(journal.append("r", 0, 0, [step(0)])) == 1
    holder.close()
    by_hand(journal.close())


@pytest.mark.parametrize("lock", ["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_new_file_that_another_process_holds_is_waited_for(tmp_path: Path, lock: str) -> None:
    path = tmp_path / "journal.db"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute(lock)
    holder.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(JournalLocked):
        SqliteJournal(path, wait=0.1)
    release = threading.Timer(0.2, holder.execute, ["ROLLBACK"])
    release.start()
    fill(path)
    release.join()
    holder.close()


def test_a_closed_journal_says_so(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.close())
    by_hand(journal.close())
    with pytest.raises(JournalError, match="is closed"):
        by_hand(journal.rows())


FORK = """
import os, sys
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.core.errors import JournalError
from chartloop.run.sync import by_hand
journal = SqliteJournal(sys.argv[1])
if os.fork() == 0:
    try:
        by_hand(journal.rows())
    except JournalError as error:
        print(error.message, flush=True)
    os._exit(0)
os.wait()
print(by_hand(journal.rows()))
by_hand(journal.close())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_does_not_share_the_open_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK, tmp_path / "journal.db"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "was opened in another process" in done.stdout
    assert done.stdout.endswith("[]\n")


# -- what cannot be kept -------------------------------------------------------------------------


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def in_a_circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


UNFIT: dict[str, Any] = {
    "set": {1, 2}, "object": object(), "circle": in_a_circle(), "deep": nested(300), "deeper": nested(2000),
}  # fmt: skip


@pytest.mark.parametrize("value", UNFIT.values(), ids=UNFIT)
def test_what_is_no_json_is_refused(tmp_path: Path, value: Any) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.create(RunRow("r")))
    with pytest.raises(RunError, match="cannot be kept") as refused:
        by_hand(journal.append("r", 0, 0, [Event(0, "result", 1.0, None, {"x": value})]))
    assert "JSON" in refused.value.hint
    assert by_hand(journal.events("r")) == []
    by_hand(journal.close())


@pytest.mark.parametrize(
    "value", [nested(300), nested(5000), in_a_circle()], ids=["deep", "deeper", "circle"]
)
def test_a_record_that_could_not_be_read_back_is_refused(tmp_path: Path, value: Any) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.create(RunRow("r")))
    record = Record(0, "s", Input("step", outcome=Outcome(result=value)))
    with pytest.raises(RunError, match="cannot be kept"):
        by_hand(journal.append("r", 0, 0, [Event(0, "record", 1.0, record)]))
    assert by_hand(journal.events("r")) == []
    by_hand(journal.close())


@pytest.mark.parametrize(
    ("outcome", "place"),
    [
        (Outcome(partial=cast(Any, (3,))), "`outcome.partial[0]`: expected `str`, got `int`"),
        (Outcome(context_tokens=10**16), "`outcome.context_tokens`: expected `int` <= 10"),
        (Outcome(kept=cast(Any, ["a"])), "`outcome.kept`: expected `object`, got `array`"),
    ],
)
def test_a_record_of_other_types_is_refused_when_it_is_written(
    tmp_path: Path, outcome: Outcome, place: str
) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.create(RunRow("r")))
    record = Record(0, "s", Input("step", outcome=outcome))
    with pytest.raises(RunError, match="cannot be kept") as refused:
        by_hand(journal.append("r", 0, 0, [Event(0, "record", 1.0, record)]))
    assert place in str(refused.value)
    assert by_hand(journal.events("r")) == []
    by_hand(journal.close())


def test_what_is_nested_200_levels_deep_is_read_back(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    by_hand(journal.create(RunRow("r")))
    data = {"x": nested(200), "y": nested(200)}
    by_hand(journal.append("r", 0, 0, [Event(0, "result", 1.0, None, data)]))
    assert by_hand(journal.events("r"))[0].data == data
    by_hand(journal.close())


STRANGE_ROWS = {
    "lone-surrogate": RunRow("r\ud800"),
    "endless-number": RunRow("r", steps=2**70),
    "no-number": RunRow("r", created=float("nan")),
}


@pytest.mark.parametrize("row", STRANGE_ROWS.values(), ids=STRANGE_ROWS)
def test_a_row_that_no_column_holds_is_refused(tmp_path: Path, row: RunRow) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    with pytest.raises(RunError):
        by_hand(journal.create(row))
    assert by_hand(journal.rows()) == []
    by_hand(journal.close())


def test_importing_the_library_does_not_open_sqlite() -> None:
    script = "import sys, chartloop, chartloop.run.journal; print('sqlite3' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
