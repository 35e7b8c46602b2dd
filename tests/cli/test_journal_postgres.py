"""Journals that move from a file to PostgreSQL and back, and the migration of its tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from chartloop import load
from chartloop.adapters.journal.opening import journal_of, migrate_tables
from chartloop.adapters.journal.sqlite import SqliteJournal
from chartloop.adapters.journal.sqlite_migrations import MIGRATIONS as OF_FILES
from chartloop.core.errors import JournalTooOld, JournalUnavailable, UnknownRunError
from chartloop.run.journal import Journal
from chartloop.run.recorded import check_chain
from chartloop.run.sync import by_hand
from tests.cli.shell import ASK, Shell
from tests.cli.test_journal import contents, move_house
from tests.copying import exported, full_journal, move_all
from tests.postgres import NEEDED, Cluster

VERSION = OF_FILES[-1].number
"""The version of the tables, the same in both databases."""
pytestmark = [*NEEDED]


@pytest.fixture
def url(postgres: Cluster, tmp_path: Path) -> str:
    return postgres.of(tmp_path)


@pytest.fixture
def server(url: str) -> Journal:
    return journal_of(url)


def test_a_journal_is_the_same_on_a_server_and_back(tmp_path: Path, server: Journal) -> None:
    first = SqliteJournal(full_journal(tmp_path / "full.db"))
    last = SqliteJournal(tmp_path / "last.db")
    assert move_all(first, server) == move_all(server, last) == 48
    assert exported(first) == exported(server) == exported(last)
    for row in by_hand(server.rows()):
        checked = by_hand(check_chain(server, row.run_id))
        assert checked is not None
        assert checked.fault == ""
    assert move_all(first, server) == move_all(server, last) == 0
    for journal in (first, last):
        by_hand(journal.close())
    assert contents(tmp_path / "full.db") == contents(tmp_path / "last.db")


def test_a_moved_journal_goes_on_on_a_server(sh: Shell, url: str) -> None:
    move_house(sh, url)


def test_the_commands_move_runs_to_a_server_and_from_it(sh: Shell, url: str) -> None:
    full_journal(sh.folder / "full.db")
    assert sh("run", *ASK, "--run-id", "guess", "--no-input", "--journal", "full.db").code == 4
    assert sh("journal", "export", "--journal", "full.db", "--to", "a.jsonl").code == 0
    assert sh("journal", "import", "a.jsonl", "--go-on", "--journal", url).code == 0
    assert sh("journal", "export", "--journal", url, "--to", "b.jsonl").code == 0
    assert (sh.folder / "a.jsonl").read_bytes() == (sh.folder / "b.jsonl").read_bytes()
    assert sh("answer", "guess", "ok", "--journal", url).code == 0
    resumed = sh("resume", "guess", "--journal", url, "--no-input")
    assert "Traceback" not in resumed.err
    assert sh("journal", "export", "--journal", url, "--to", "c.jsonl").code == 0
    back = sh(
        "journal", "import", "c.jsonl", "--go-on", "--journal", "full.db"
    )  # it went on over there
    assert (back.code, "run `guess` is in" in " ".join(back.err.split())) == (1, True)
    pruned = sh("journal", "prune", "--older", "0s", "--journal", url, "--format", "json")
    assert pruned.json["removed"]
    assert (
        sh("journal", "import", "a.jsonl", "--go-on", "--journal", url).code == 0
    )  # they are back
    assert sh("replay", "full", "--journal", url).code == 0


def test_the_tables_are_made_by_one_role_and_used_by_another(
    postgres: Cluster, sh: Shell, url: str
) -> None:
    schema = url.partition("schema=")[2]
    postgres.execute("DROP ROLE IF EXISTS hand; CREATE ROLE hand LOGIN")
    worker = url.replace("postgres@", "hand@")
    denied = sh("journal", "migrate", "--journal", worker)
    assert (denied.code, len(denied.err.splitlines())) == (2, 2)
    assert "the role may not do this" in denied.err
    assert f"tables of version {VERSION} made" in sh("journal", "migrate", "--journal", url).err
    postgres.execute(
        f"GRANT USAGE ON SCHEMA {schema} TO hand; "
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO hand"
    )
    for role in (worker, url):
        again = sh("journal", "migrate", "--journal", role)
        assert (again.code, f"tables of version {VERSION} up to date" in again.err) == (0, True)
    load("agent").start("x", journal=worker, script=["Hi."], run_id="r").run()
    by_hand(journal_of(worker).close())


def test_older_tables_are_updated_by_migrate_only(postgres: Cluster, url: str) -> None:
    from chartloop.adapters.journal.postgres import (  # noqa: PLC0415
        PostgresJournal,
        migrate_database,
    )
    from chartloop.adapters.journal.postgres_tables import MIGRATIONS, Migration  # noqa: PLC0415

    now = MIGRATIONS[-1].number
    assert migrate_database(url)[1:] == (0, now)
    newer = (*MIGRATIONS, Migration(now + 1, "another", ("CREATE TABLE more (x INT8)",)))
    with pytest.raises(JournalTooOld, match=f"have version {now}"):
        PostgresJournal(url, migrations=newer)
    assert migrate_database(url, newer)[1:] == (now, now + 1)
    assert migrate_database(url, newer)[1:] == (now + 1, now + 1)
    by_hand(PostgresJournal(url, migrations=newer).close())
    with pytest.raises(JournalUnavailable):
        migrate_tables("postgresql://postgres:c0rrect-horse@127.0.0.1:1/postgres")
    empty = url + "_empty"
    with pytest.raises(UnknownRunError, match="there is no journal"):
        journal_of(empty, make=False)
