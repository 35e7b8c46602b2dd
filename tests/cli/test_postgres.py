"""A journal by the URL of a PostgreSQL database: in every command, and what a wrong one gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from chartloop import load, stats
from chartloop.adapters.journal.opening import journal_of
from chartloop.core.errors import (
    JournalError,
    JournalTooNew,
    JournalTooOld,
    JournalUnavailable,
    UnknownRunError,
)
from chartloop.run.journal import RunRow
from chartloop.run.sync import by_hand
from tests.cli.shell import ADD, ASK, Shell
from tests.postgres import NEEDED, Cluster

pytestmark = [*NEEDED]
SECRET = "c0rrect-horse"


@pytest.fixture
def url(postgres: Cluster, tmp_path: Path) -> str:
    return postgres.of(tmp_path)


def test_a_run_on_a_server_is_read_by_its_url(url: str) -> None:
    run = load("agent").start("x", journal=url, script=["Hi."], run_id="r")
    run.run()
    assert load("agent").open("r", journal=url).result.output == run.result.output
    assert "1 run" in str(stats(load("agent"), url))
    assert journal_of(url) is journal_of(url)
    assert journal_of(url, durability="process").durability == "power"


def test_the_commands_work_on_a_server(
    sh: Shell, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = sh("runs", "--journal", url)
    assert missing.code == 2
    assert "there is no journal at" in missing.err
    monkeypatch.setenv("CHARTLOOP_JOURNAL", url)
    assert sh("run", *ADD, "--run-id", "sum").code == 0
    waits = sh("run", *ASK, "--run-id", "guess", "--no-input")
    assert waits.code == 4
    assert {row["run"] for row in sh("runs", "--format", "json").json} == {"sum", "guess"}
    for args in (
        ("show", "sum"), ("replay", "sum"), ("journal", "export", "sum", "--to", "-"), ("stats",), ("doctor",),
        ("fork", "sum", "--at", "1"),
        ("answer", "guess", "abort"), ("runs", "rm", "sum", "--yes"),
    ):  # fmt: skip
        done = sh(*args)
        assert done.code == 0, (args, done)
    assert "postgresql://" in sh("doctor").out


class Wrong(NamedTuple):
    """A URL that opens nothing, and what is said of it."""

    id: str
    url: str
    says: str


WRONG = [
    Wrong("down", "postgresql://postgres:{secret}@127.0.0.1:1/postgres", "cannot be reached"),
    Wrong("role", "postgresql://nobody:{secret}@127.0.0.1:{port}/postgres", "nobody"),
    Wrong("database", "postgresql://postgres:{secret}@127.0.0.1:{port}/nothing", "nothing"),
    Wrong("at", "postgresql://postgres:{secret}@more@127.0.0.1/x", "is not the URL of"),
    Wrong("slash", "postgresql://postgres:/{secret}@127.0.0.1/x", "is not the URL of"),
    Wrong("percent", "postgresql://postgres:%{secret}@127.0.0.1/x", "is not the URL of"),
    Wrong("port", "postgresql://postgres@127.0.0.1:{secret}/x", "is not the URL of"),
    Wrong("option", "postgresql://postgres:{secret}@127.0.0.1/x?nothing=1", "is not the URL of"),
    Wrong("schema", "postgresql://postgres:{secret}@127.0.0.1/x?schema=a-b", "of a schema"),
    Wrong("guest", "postgresql://guest:{secret}@127.0.0.1:{port}/postgres?schema={schema}", "not do this"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.id)
def test_a_wrong_url_is_one_clear_line_without_its_password(
    postgres: Cluster, sh: Shell, url: str, wrong: Wrong
) -> None:
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'guest'"):
        postgres.execute("CREATE ROLE guest LOGIN")
    by_hand(journal_of(url).close())
    url = wrong.url.format(secret=SECRET, port=postgres.port, schema=url.partition("schema=")[2])
    with pytest.raises(JournalUnavailable, match=wrong.says) as caught:
        journal_of(url)
    assert caught.value.hint
    assert SECRET not in str(caught.value)
    done = sh("runs", "--journal", url)
    assert done.code == 2
    assert wrong.says in " ".join(done.err.split())
    assert SECRET not in done.out + done.err
    assert "Traceback" not in done.err


def test_a_server_without_a_connection_left_says_so(postgres: Cluster, url: str) -> None:
    postgres.execute("DROP ROLE IF EXISTS crowded; CREATE ROLE crowded LOGIN CONNECTION LIMIT 0")
    with pytest.raises(JournalUnavailable, match="too many connections") as caught:
        journal_of(url.replace("postgres@", "crowded@"))
    assert "pooler" in caught.value.hint


def test_tables_of_another_version_are_refused(postgres: Cluster, url: str) -> None:
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415
    from chartloop.adapters.journal.postgres_tables import MIGRATIONS, Migration  # noqa: PLC0415

    by_hand(journal_of(url).close())
    schema = url.partition("schema=")[2]
    postgres.execute(f"INSERT INTO {schema}.schema_version VALUES (99, 'later')")  # noqa: S608
    with pytest.raises(JournalTooNew, match="version 99"):
        journal_of(url)
    postgres.execute(f"DELETE FROM {schema}.schema_version WHERE number = 99")  # noqa: S608
    now = MIGRATIONS[-1].number
    newer = (*MIGRATIONS, Migration(now + 1, "another", ("CREATE TABLE more (x INT8)",)))
    with pytest.raises(JournalTooOld, match=rf"have version {now}.* needs {now + 1}") as old:
        PostgresJournal(url, migrations=newer)
    assert "`chartloop journal migrate`" in old.value.hint
    postgres.execute(f"DROP TABLE {schema}.event")
    with pytest.raises(JournalError, match="something else"):
        journal_of(url)


def test_a_reader_makes_no_tables(postgres: Cluster, url: str) -> None:
    with pytest.raises(UnknownRunError, match="there is no journal"):
        journal_of(url, make=False)
    schema = url.partition("schema=")[2]
    assert not postgres.execute(f"SELECT 1 FROM pg_namespace WHERE nspname = '{schema}'")  # noqa: S608


def test_its_password_is_hidden_in_what_is_written(postgres: Cluster, url: str) -> None:
    from chartloop.adapters.journal.postgres import PostgresJournal  # noqa: PLC0415

    journal = PostgresJournal(url.replace("postgres@", f"postgres:{SECRET}@"))
    assert SECRET not in journal.name
    by_hand(journal.create(RunRow("r")))
    by_hand(journal.put_blob(f"I saw {SECRET}"))
    by_hand(journal.close())
    schema = url.partition("schema=")[2]
    ((kept,),) = postgres.execute(f"SELECT data FROM {schema}.blob")  # noqa: S608
    assert SECRET.encode() not in bytes(kept)


def test_without_psycopg_the_door_says_how_to_get_it() -> None:
    code = """import sys
sys.modules["psycopg"] = None
from chartloop.adapters.journal.opening import journal_of
try:
    journal_of("postgresql://ann:s3cret@db/x")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("SetupError a journal in PostgreSQL needs psycopg")
    assert "pip install" in done.stdout
    assert "s3cret" not in done.stdout
