"""`journal=` takes the path of a file wherever Python takes a journal."""

from __future__ import annotations

import gc
import inspect
import pickle
import re
import sqlite3
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import chartloop
from chartloop import Machine, load, stats
from chartloop.adapters.journal.opening import journal_of
from chartloop.api import Run
from chartloop.compat import geist
from chartloop.core.errors import ChartloopError, JournalError, SetupError, UnknownRunError
from chartloop.run.journal import MemoryJournal
from chartloop.scenarios import recording

GIVEN: dict[str, Callable[[Path], str | Path]] = {
    "str": str, "Path": Path, "url": lambda path: f"sqlite:///{path}",
}  # fmt: skip


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_run_is_started_opened_followed_and_attached_by_a_path(
    tmp_path: Path, given: Callable[[Path], str | Path]
) -> None:
    path, agent = tmp_path / "runs.db", load("agent")
    run = agent.start("Hello.", journal=given(path), run_id="first", script=["Hi."])
    run.advance()
    opened = agent.open("first", journal=given(path), script=["Hi."])
    assert opened.run().output == "Hi."
    after = agent.start("More.", continues="first", journal=given(path), script=["Yes."])
    assert after.run().output == "Yes."
    kept = pickle.loads(pickle.dumps(after))  # noqa: S301 - our own
    assert agent.attach(kept, journal=given(path)).result.output == "Yes."
    assert "Hello." in recording(opened, agent, journal=given(path)).text
    assert sum(row.runs for row in stats(agent, given(path)).states) > 0


def test_everything_public_that_takes_a_journal_takes_a_path() -> None:
    taking = [*_taking_journals()]
    assert len(taking) >= 9
    assert [name for name, kind in taking if "JournalOrPath" not in kind] == []


def _taking_journals() -> Iterator[tuple[str, str]]:
    from chartloop.api.run import StartOptions  # noqa: PLC0415

    yield "StartOptions", str(StartOptions.__annotations__["journal"])
    owners = (Machine, Run, geist.AgentExecutor, geist.BaseAgent)
    methods = [m for owner in owners for _, m in inspect.getmembers(owner, inspect.isfunction)]
    for function in (*methods, recording):
        if function.__name__.startswith("_") and function.__name__ != "__init__":
            continue
        for name, one in inspect.signature(function).parameters.items():
            if name == "journal":
                yield function.__qualname__, str(one.annotation)


def test_who_names_one_file_shares_one_connection(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    first = journal_of(path)
    (tmp_path / "link.db").symlink_to(path)
    assert journal_of(str(path)) is first
    assert journal_of(tmp_path / "." / "link.db") is first
    held = weakref.ref(first)
    del first
    gc.collect()
    assert held() is None


def test_a_file_that_was_replaced_is_opened_anew(tmp_path: Path) -> None:
    path, agent = tmp_path / "runs.db", load("agent")
    first = agent.start("x", journal=path, run_id="r", script=["Hi."])
    first.advance()
    for part in tmp_path.iterdir():
        part.unlink()
    agent.run("x", journal=path, run_id="r", script=["Hi."])
    assert agent.open("r", journal=path).ended


def test_an_open_journal_is_taken_as_it_is() -> None:
    kept = MemoryJournal()
    assert journal_of(kept) is kept


class Wrong(NamedTuple):
    """What is not a journal, and what is said."""

    id: str
    given: Any
    error: type[ChartloopError]
    says: str
    hint: str


WRONG = [
    Wrong("memory", ":memory:", SetupError, "`:memory:` is not the path", "leave `journal` out"),
    Wrong("empty", "", SetupError, "`` is not the path", "the path of a SQLite file"),
    Wrong("url", "mysql://db/runs", SetupError, "is not the path of a journal", "runs.db"),
    Wrong("url-of-memory", "sqlite:///:memory:", SetupError, "is not the path of a journal", "MemoryJournal"),
    Wrong("export", "runs.jsonl", SetupError, "named like an export", "read exports"),
    Wrong("number", 3, SetupError, "`journal` is a int, not a journal", "SqliteJournal"),
    Wrong("missing", "none.db", UnknownRunError, "there is no journal at `none.db`", "started with"),
    Wrong("folder", ".", JournalError, "is a folder, not a journal", "journal.db"),
    Wrong("text", "text.db", JournalError, "is damaged or is not a journal", "name another file"),
    Wrong("other", "other.db", JournalError, "a database of something else", "name another file"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_what_is_no_journal_is_refused_and_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: Wrong
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.db").write_text("this is not a journal\n" * 99)
    other = sqlite3.connect("other.db")
    other.execute("CREATE TABLE mine (x)")
    other.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(wrong.error) as caught:
        load("agent").open("r", journal=wrong.given)
    assert wrong.says in caught.value.message
    assert wrong.hint in caught.value.hint
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


WAYS: dict[str, Callable[[Any], Any]] = {
    "start": lambda url: load("agent").start("x", journal=url, script=["Hi."]),
    "open": lambda url: load("agent").open("r", journal=url),
    "stats": lambda url: stats(load("agent"), url),
}
"""Where a journal is named. A server names one too: `tests/server/test_safety.py`."""


@pytest.mark.parametrize("url", ["mysql://ann:s3cret@db/runs", "postgresql:/ann:s3cret@db/r"])
@pytest.mark.parametrize("kind", [str, Path])
def test_a_url_of_an_unknown_kind_is_refused_alike_and_its_password_stays_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, kind: type[str] | type[Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    texts: set[tuple[str, str]] = set()
    for way in WAYS.values():
        with pytest.raises(SetupError) as caught:
            way(kind(url))
        texts.add((caught.value.message, caught.value.hint))
    ((message, hint),) = texts
    assert message.startswith(f"`{url.partition(':')[0]}:/")
    assert "nothing here opens such URLs" in message
    assert "`--plugin NAME`" in hint
    assert "s3cret" not in message + hint
    assert [*tmp_path.iterdir()] == []


def test_only_the_door_opens_files() -> None:
    engine = Path(chartloop.__file__).parent
    opening = re.compile(r"\b(SqliteJournal|shared_journal)\(")
    sources = [
        path for path in engine.rglob("*.py") if path.parent.parts[-2:] != ("adapters", "journal")
    ]
    lines = [line for path in sources for line in path.read_text("utf-8").splitlines()]
    assert [line for line in lines if opening.search(line) and "`" not in line] == []
    assert [
        line for line in lines if "journal.name ==" in line or "Path(journal.name" in line
    ] == []


SHARED = """
from chartloop import load
run = load("agent").start("x", journal="runs.db", run_id="r", script=["Hi."])
run.advance()
"""


@pytest.mark.slow("starts processes for seconds")
def test_another_process_goes_on_with_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SHARED],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    run = load("agent").open("r", journal=tmp_path / "runs.db", script=["Hi."])
    assert run.run().output == "Hi."
